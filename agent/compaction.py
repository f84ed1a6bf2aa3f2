"""Compaction: old history gives way to a summary in what the model sees. On disk nothing is removed.

The cut keeps the newest messages word for word, never parts a call from its result, and falls on the beginning of a turn
where it can. The summary is asked for at the end of the unchanged context, so that the provider's cached prefix is used; when that
context no longer fits, the old part is summarised in pieces. When no summary can be made, history stays as it is and old tool
results are cleared instead: history is never replaced by a fixed sentence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent import tokens
from agent.asking import ask_aside
from agent.entries import Compacted, ResultsCleared, Said
from agent.flush import added
from agent.messages import AssistantMessage, Text, ToolMessage, UserMessage
from agent.models.protocol import Request
from agent.wire import CLEARED, SUMMARY_HEAD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.conversation import Conversation
    from agent.entries import Entry
    from agent.messages import Message, Usage

MUST_SHRINK = 0.8
"""A summary that leaves more than this share of the context is no help."""
SUMMARY_TOKENS = 4000
"""Longest summary."""
SHAPE = """\
Write a summary that lets the work go on without the messages it replaces. Use these headings and leave out empty ones:
## Goal
## Constraints and preferences
## Done
## In progress
## Blocked
## Decisions
## Next steps
## Exact details (names, numbers, dates, amounts, paths, URLs, error texts: word for word)
## Files read and changed
Carry over from an earlier summary what still holds. Do not continue the conversation, call no tools, invent nothing."""


@dataclass(frozen=True, slots=True)
class Shrunk:
    """What a compaction came to. ``summarised`` is False when old tool results were cleared instead; ``problem`` says why."""

    before: int
    after: int
    summarised: bool
    problem: str = ""


async def compact(conversation: Conversation, turn: str, reason: str, *, focus: str = "") -> Shrunk | None:
    """Make room. Returns None when there is nothing to make room with.

    Raises:
        NotKept: the transcript could not be written.
    """
    before = conversation.tokens()
    cut = find_cut(conversation)
    problem = "everything is recent"
    if cut is not None:
        summary, usage, problem = await _summary(conversation, cut, focus)
        if summary:
            after = _size_after(conversation, cut, summary)
            if after <= before * MUST_SHRINK or reason == "compact":
                await conversation.transcript.append(
                    turn,
                    Compacted(
                        summary=summary,
                        first_kept=cut.id,
                        tokens_before=before,
                        tokens_after=after,
                        model=conversation.model.name,
                        reason=reason,
                        usage=usage,
                    ),
                )
                return Shrunk(before, after, summarised=True)
            problem = "the summary was hardly shorter than what it replaces"
    return await _clear_results(conversation, turn, before, problem)


def find_cut(conversation: Conversation) -> Entry | None:
    """Return the first entry to keep, or None when there is nothing worth summarising before it.

    Walks back until ``keepRecentTokens`` and ``keepRecentTurns`` are both reached, but never keeps more than half of the
    room there is, then moves to the nearest legal place at or after: a message of a person, or an answer of the model.
    """
    entries = [entry for entry in conversation.transcript.entries if isinstance(entry.body, Said)]
    settings = conversation.settings.compaction
    most = conversation.window.compact_above // 2
    size = turns = 0
    start = len(entries)
    for index in range(len(entries) - 1, -1, -1):
        if size >= settings.keep_recent_tokens and turns >= settings.keep_recent_turns:
            break
        message = _message(entries[index])
        weight = conversation.calibration.apply(tokens.of_message(message))
        if start < len(entries) and size + weight > most:
            break
        size += weight
        turns += isinstance(message, UserMessage)
        start = index
    while start < len(entries) and isinstance(_message(entries[start]), ToolMessage):
        start += 1
    return entries[start] if 0 < start < len(entries) else None


def _message(entry: Entry) -> Message:
    assert isinstance(entry.body, Said)
    return entry.body.message


async def _summary(conversation: Conversation, cut: Entry, focus: str) -> tuple[str, Usage | None, str]:
    """Return the summary (empty if none could be made), what it used, and what went wrong."""
    wish = f"\nDwell on: {focus}" if focus else ""
    kept = sum(1 for entry in _from(conversation.transcript.entries, cut) if isinstance(entry.body, Said))
    order = f"[Summary request] The newest {kept} messages stay as they are; everything before them is replaced.\n{SHAPE}{wish}"
    request = conversation.request(extra=[_order(conversation, order)])
    if conversation.tokens() + SUMMARY_TOKENS < conversation.window.size:
        answer = await ask_aside(conversation, request)
        if text := _usable(answer):
            return text, answer.usage, ""
    return await _summary_in_pieces(conversation, cut, wish)


async def _summary_in_pieces(conversation: Conversation, cut: Entry, wish: str) -> tuple[str, Usage | None, str]:
    """Summarise the old part as plain text, piece by piece, each piece together with the summary so far."""
    messages = conversation.messages()
    kept = [_message(entry) for entry in _from(conversation.transcript.entries, cut) if isinstance(entry.body, Said)]
    old = messages[: max(0, len(messages) - len(kept))] or messages
    summary, usage, problem = "", None, "there was nothing to summarise"
    for piece in _pieces([as_text(message) for message in old], conversation.window.size * 2 // 5):
        so_far = f"Summary so far:\n{summary}\n\n" if summary else ""
        order = f"[Summary request] {so_far}Conversation to be added:\n<conversation>\n{piece}\n</conversation>\n{SHAPE}{wish}"
        request = Request(system=(), tools=(), messages=(_order(conversation, order),), max_output=SUMMARY_TOKENS)
        answer = await ask_aside(conversation, request)
        usage = answer.usage if usage is None or answer.usage is None else added(usage, answer.usage)
        text = _usable(answer)
        if not text:
            problem = answer.failure.message if answer.failure else "the model wrote no summary"
            return "", usage, problem
        summary = text
    return summary, usage, "" if summary else problem


def _pieces(texts: Sequence[str], limit: int) -> list[str]:
    """Join texts into pieces of at most ``limit`` tokens each; a text that is longer is shortened in its middle."""
    pieces: list[str] = []
    current: list[str] = []
    size = 0
    for text in texts:
        weight = tokens.estimate(text)
        shown = text
        if weight > limit:
            keep = len(text) * limit // weight // 2
            shown = f"{text[:keep]}\n[... {len(text) - 2 * keep:,} characters left out ...]\n{text[-keep:]}"
            weight = limit
        if current and size + weight > limit:
            pieces.append("\n\n".join(current))
            current, size = [], 0
        current.append(shown)
        size += weight
    return [*pieces, "\n\n".join(current)] if current else pieces


def as_text(message: Message) -> str:
    """Return a message as labelled text, so that a model reads it and does not go on with it."""
    if isinstance(message, UserMessage):
        return message.text if message.text.startswith(SUMMARY_HEAD) else f"Person: {message.text}"
    if isinstance(message, ToolMessage):
        return f"Result of {message.name}: {message.text}"
    calls = "\n".join(
        f"Agent calls {call.name}: {call.raw if call.arguments is None else call.arguments}" for call in message.calls
    )
    return "\n".join(filter(None, (f"Agent: {message.text}" if message.text else "", calls)))


def _order(conversation: Conversation, text: str) -> UserMessage:
    return UserMessage(content=(Text(text=text),), at=conversation.clock.now())


def _usable(answer: AssistantMessage) -> str:
    """Return the summary that an answer holds, or an empty string: failures, tool calls and one-liners are none."""
    if answer.failure is not None or answer.stop not in {"end", "length"}:
        return ""
    text = answer.text.strip()
    return text if len(text) >= _LEAST_CHARS else ""


_LEAST_CHARS = 20


def _from(entries: Sequence[Entry], cut: Entry) -> Sequence[Entry]:
    index = next((i for i, entry in enumerate(entries) if entry.id == cut.id), 0)
    return entries[index:]


def _size_after(conversation: Conversation, cut: Entry, summary: str) -> int:
    fixed = sum(tokens.estimate(s.text) for s in conversation.system()) + tokens.of_tools(conversation.toolbox.specs)
    kept = tokens.of_messages(_message(e) for e in _from(conversation.transcript.entries, cut) if isinstance(e.body, Said))
    return conversation.calibration.apply(fixed + tokens.estimate(summary) + kept)


async def _clear_results(conversation: Conversation, turn: str, before: int, problem: str) -> Shrunk | None:
    """Show all tool results but those of the running turn as a placeholder. Returns None when that frees nothing."""
    entries = conversation.transcript.entries
    said = [entry for entry in entries if isinstance(entry.body, Said)]
    until = next((entry for entry in reversed(said) if isinstance(_message(entry), UserMessage)), None)
    if until is None:
        return None
    freed = sum(
        tokens.estimate(message.text) - tokens.estimate(CLEARED)
        for message in conversation.messages()[: -len(_from(said, until))]
        if isinstance(message, ToolMessage) and len(message.text) > len(CLEARED)
    )
    if freed <= 0:
        return None
    await conversation.transcript.append(turn, ResultsCleared(until=until.id))
    return Shrunk(before, max(0, before - conversation.calibration.apply(freed)), summarised=False, problem=problem)
