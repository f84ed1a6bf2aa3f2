"""Compaction: old history gives way to a summary in what the model sees. On disk nothing is removed.

The ladder, from the first step that is enough:

    summary, keeping the newest turns as the settings say
    summary, keeping only the newest turn
    old tool results shown as a placeholder (also when no summary can be made: history is never replaced by a fixed sentence)

A step counts only when the context then lies below the flush line and has lost a fifth of its size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agent.accounting import added
from agent.cutting import find_cut, message_of
from agent.entries import Compacted, ResultsCleared, Said
from agent.messages import UserMessage
from agent.summary import LONGEST, summarise

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agent.conversation import Conversation
    from agent.cutting import Cut

MUST_SHRINK = 0.8
"""A summary that leaves more than this share of the context is no help."""
LEAST_SUMMARY = 200
"""A summary with less room than this many tokens is not worth making."""


WORTH_CLEARING = 0.98
"""Clearing results that leaves more than this share of the context is no help, and is not done."""


@dataclass(frozen=True, slots=True)
class Shrunk:
    """What a compaction came to, in tokens. ``summarised`` is False when results were cleared instead; ``problem`` says why."""

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
    most = min(before - 1 if reason == "command" else int(before * MUST_SHRINK), conversation.window.flush_at)
    problem, usage = "everything is recent", None
    for cut in _cuts(conversation):
        draft = Compacted(
            summary="",
            first_kept=cut.first.id,
            tokens_before=before,
            tokens_after=0,
            model=conversation.model.name,
            reason=reason,
            pins=conversation.transcript.pins,
        )
        room = most - conversation.size_if(draft)
        if room < LEAST_SUMMARY:
            problem = "what must stay is too large already"
            continue
        made = await summarise(conversation, cut, focus, min(LONGEST, room))
        usage = added(usage, made.usage)
        if not made.text:
            problem = made.problem
            break
        draft = replace(draft, summary=made.text, usage=usage)
        after = conversation.size_if(draft)
        if after <= most:
            await conversation.transcript.append(turn, replace(draft, tokens_after=after))
            return Shrunk(before, after, summarised=True)
        problem = "the summary was hardly shorter than what it replaces"
    return await _clear_results(conversation, turn, before, problem)


def _cuts(conversation: Conversation) -> Iterator[Cut]:
    """The places to cut, the gentlest first; a second one only where it keeps less."""
    settings = conversation.settings.compaction
    first = find_cut(conversation, settings.keep_recent_tokens, settings.keep_recent_turns)
    if first is not None:
        yield first
    least = find_cut(conversation, 0, 1)
    if least is not None and (first is None or len(least.dropped) > len(first.dropped)):
        yield least


async def _clear_results(conversation: Conversation, turn: str, before: int, problem: str) -> Shrunk | None:
    """Show all tool results but those of the running turn as a placeholder. Returns None when that frees next to nothing."""
    said = [entry for entry in conversation.transcript.entries if isinstance(entry.body, Said)]
    until = next((entry for entry in reversed(said) if isinstance(message_of(entry), UserMessage)), None)
    if until is None:
        return None
    mark = ResultsCleared(until=until.id)
    after = conversation.size_if(mark)
    if after > before * WORTH_CLEARING:
        return None
    await conversation.transcript.append(turn, mark)
    return Shrunk(before, after, summarised=False, problem=problem)
