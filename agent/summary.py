"""Asking for a summary: at the end of the unchanged context, or piece by piece where that no longer fits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agent import tokens
from agent.accounting import added
from agent.asking import ask_aside
from agent.cutting import message_of
from agent.entries import Compacted
from agent.messages import AssistantMessage, Text, ToolMessage, UserMessage
from agent.models.protocol import Request
from agent.statements import kept_lines
from agent.wire import SUMMARY_HEAD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.conversation import Conversation
    from agent.cutting import Cut
    from agent.messages import Message, Usage

LONGEST = 4000
"""Longest summary, in tokens."""
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
Where there is an earlier summary, update it: carry over what still holds, move what was finished to Done. Do not continue the \
conversation, call no tools, invent nothing."""
SPLIT = """
The cut falls into the middle of a turn. Add a heading "## The turn under way": what was asked, what was done so far, and what \
the messages that stay build on."""
_LEAST_CHARS = 20
_LEAST_WORDS = 4
_REQUEST_CHARS = 2000
_PARTICULARS_SHARE = 0.4
_KEPT_SHARE = 0.05
"""Most of the window that is given to lines kept word for word behind a summary."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary (empty when none could be made), what it used, and what went wrong."""

    text: str
    usage: Usage | None
    problem: str = ""


async def summarise(conversation: Conversation, cut: Cut, focus: str, most: int) -> Summary:
    """Summarise what lies before the cut in at most about ``most`` tokens; what must not be lost is checked and put back.

    Nothing is raised for a model that fails, answers in another way, or not at all: then the text is empty.
    """
    said = int(most * (1 - _PARTICULARS_SHARE))
    order = SHAPE + (SPLIT if cut.request else "") + (f"\nDwell on: {focus}" if focus else "")
    made = await _in_context(conversation, cut, order, said)
    if not made.text:
        pieces = await _in_pieces(conversation, cut, order, said)
        made = replace(pieces, usage=added(made.usage, pieces.usage), problem=pieces.problem or made.problem)
    return replace(made, text=_completed(conversation, cut, made.text, most)) if made.text else made


def _completed(conversation: Conversation, cut: Cut, text: str, most: int) -> str:
    """Put back what the summary lost: the request of a parted turn, and particulars that are not in memory either."""
    if cut.request is not None and (asked := cut.request.text.strip()) and asked not in text:
        text += f"\n\n## The request being worked on (word for word)\n{asked[:_REQUEST_CHARS]}"
    dropped = [message_of(entry) for entry in cut.dropped]
    room = min(max(0, most - tokens.estimate(text)), int(conversation.window.size * _KEPT_SHARE)) * 4
    extra = kept_lines(dropped, former_summary(conversation), f"{text}\n{conversation.notes_known()}", room)
    return f"{text}\n\n{extra}" if extra else text


def former_summary(conversation: Conversation) -> str:
    """The summary in force, or an empty text."""
    bodies = (entry.body for entry in reversed(conversation.transcript.entries))
    return next((body.summary for body in bodies if isinstance(body, Compacted)), "")


async def _in_context(conversation: Conversation, cut: Cut, order: str, most: int) -> Summary:
    """Ask at the end of the whole conversation, whose beginning the provider has in its cache."""
    if conversation.tokens() + most + tokens.estimate(order) > conversation.readable:
        return Summary("", None, "the conversation does not fit the model's window")
    dropped = {entry.id for entry in cut.dropped}
    kept = sum(entry.body.kind == "said" and entry.id not in dropped for entry in conversation.transcript.entries)
    text = f"[Summary request] The newest {kept} messages stay as they are; everything before them is replaced.\n{order}"
    request = conversation.request(extra=[_order(conversation, text)])
    answer = await ask_aside(conversation, replace(request, max_output=min(request.max_output, most)))
    return Summary(_usable(answer), answer.usage, _problem(answer))


async def _in_pieces(conversation: Conversation, cut: Cut, order: str, most: int) -> Summary:
    """Summarise the old part as labelled text, piece by piece, each piece merged into the summary so far."""
    summary = former_summary(conversation)
    usage: Usage | None = None
    shares = (2 / 5, 1 / 5)
    texts = [as_text(message_of(entry)) for entry in cut.dropped]
    for share in shares:
        pieces = cut_into_pieces(texts, int(conversation.window.size * share))
        made, problem = summary, ""
        for piece in pieces:
            so_far = f"Summary so far:\n{made}\n\n" if made else ""
            text = f"[Summary request] {so_far}Conversation to be added:\n<conversation>\n{piece}\n</conversation>\n{order}"
            order_ = _order(conversation, text)
            request = Request(system=(), tools=(), messages=(order_,), max_output=most, cached=False, thinking="off")
            answer = await ask_aside(conversation, request, learn=False)
            usage = added(usage, answer.usage)
            made, problem = _usable(answer), _problem(answer)
            if not made:
                break
        if made and pieces:
            return Summary(made, usage)
        if answer.stop != "overflow":
            return Summary("", usage, problem)
    return Summary("", usage, problem)


def cut_into_pieces(texts: Sequence[str], limit: int) -> list[str]:
    """Join texts into pieces of at most ``limit`` tokens each; a text that is longer is shortened in its middle."""
    pieces: list[str] = []
    current: list[str] = []
    size = 0
    for text in texts:
        weight = tokens.estimate(text)
        shown = text
        if weight > limit:
            keep = len(text) * limit // weight // 2
            shown = f"{text[:keep]}\n[... {len(text) - 2 * keep:,} characters left out ...]\n{text[len(text) - keep :]}"
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
    """Return the summary that an answer holds, or an empty string: failures, tool calls, one-liners and repeated noise are none."""
    if answer.failure is not None or answer.stop not in {"end", "length"}:
        return ""
    text = answer.text.strip()
    varied = len(set(text.split())) >= _LEAST_WORDS or not text.isascii()
    return text if len(text) >= _LEAST_CHARS and varied else ""


def _problem(answer: AssistantMessage) -> str:
    if answer.failure is not None:
        return answer.failure.message
    return "" if _usable(answer) else "the model wrote no summary"
