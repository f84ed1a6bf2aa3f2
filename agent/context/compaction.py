"""Compaction: the model is shown a summary in place of old history. Nothing is removed from disk.

The steps, of which the first sufficient one is taken:

    summary, keeping the newest turns as the settings say
    summary, keeping only the newest turn, or the newest round of the one that runs
    old tool results shown as a placeholder (also when no summary can be made: history is never replaced by a fixed sentence)
    the oldest turns are no longer shown: only where the next request would not fit into the window otherwise

A summary counts only when the context then lies below the flush line and has lost a fifth of its size.
"""

from __future__ import annotations

import bisect
import logging
from collections.abc import Iterator

from msgspec import Struct, structs
from msgspec.structs import replace

from agent.context.cut_points import Cut, cut_at, find_cut, message_of
from agent.context.flush import keep_unseen
from agent.context.session_context import SessionContext
from agent.context.summary import former_summary, longest, summarise
from agent.context.window import LEAST_ANSWER
from agent.messages import UserMessage, added
from agent.taint import merged
from agent.transcript.entries import Compacted, ResultsCleared, Said

log = logging.getLogger(__name__)

MUST_SHRINK = 0.8
"""A summary that leaves more than this share of the context is no help."""
LEAST_SUMMARY = 200
"""A summary with less room than this many tokens is not worth making."""


WORTH_CLEARING = 0.98
"""Clearing results that leaves more than this share of the context is no help, and is not done."""


ROOM_AFTER_DROPPING = 0.6
"""Share of the space for history that may be filled after dropping the oldest turns, so that they are not dropped one by one."""


class CompactionResult(Struct, frozen=True):
    """The result of a compaction. Sizes are in tokens.

    ``summarised`` is False when results were cleared or ``dropped`` messages left out instead, or nothing could be done at all;
    ``problem`` says why; ``asked`` that a model was asked for a summary. ``first_drop`` says that none had been left out before.
    """

    before: int
    after: int
    summarised: bool
    problem: str = ""
    dropped: int = 0
    first_drop: bool = False
    asked: bool = False

    @property
    def helped(self) -> bool:
        """Whether there is more room than before."""
        return self.after < self.before


async def compact(context: SessionContext, turn: str, reason: str, *, focus: str = "", coming: int = 0) -> CompactionResult:
    """Make room, as far as it can be done. ``coming`` is what is about to be added, in tokens. The log says what came of it.

    Raises:
        TranscriptWriteError: the transcript could not be written.
    """
    made = await _compact(context, turn, reason, focus, coming)
    context.summary_ended(failed=made.asked and not made.summarised)
    sizes = f"{made.before:,} to {made.after:,} tokens"
    if made.summarised:
        log.info("compaction (%s): %s", reason, sizes)
    elif made.asked or made.dropped:
        log.warning("no summary could be made (%s): %s; %d messages left out; %s", reason, made.problem, made.dropped, sizes)
    return made


async def _compact(context: SessionContext, turn: str, reason: str, focus: str, coming: int) -> CompactionResult:
    before = context.tokens()
    most = min(before - 1 if reason == "command" else int(before * MUST_SHRINK), context.window.flush_at)
    problem, usage, asked = "everything is recent", None, False
    for cut in _cuts(context):
        draft = Compacted(
            summary="",
            first_kept=cut.first.id,
            tokens_before=before,
            tokens_after=0,
            model=context.model.name,
            reason=reason,
            pins=context.transcript.pins,
            waiting=tuple(entry.id for entry in cut.waiting),
            dropped=_dropped_before(context),
            taint=merged(context.transcript.taint),
        )
        room = most - context.size_if(draft)
        if room < LEAST_SUMMARY:
            short = reason == "command" and not _is_tight(context, reason, coming)
            problem = "the conversation is still short" if short else "what must stay is too large already"
            continue
        made, asked = await summarise(context, cut, focus, min(longest(context), room)), True
        usage = added(usage, made.usage)
        if not made.text:
            problem = made.problem
            break
        draft = replace(draft, summary=made.text, usage=usage)
        after = context.size_if(draft)
        if after <= most:
            await keep_unseen(context, turn, cut.dropped)
            await context.transcript.append(turn, replace(draft, tokens_after=after))
            return CompactionResult(before, after, summarised=True)
        problem = "the summary was hardly shorter than what it replaces"
    cleared = structs.replace(await _clear_results(context, turn, before, problem), asked=asked)
    if (cleared.helped and reason == "overflow") or not _is_tight(context, reason, coming):
        return cleared
    return await _drop_oldest(context, turn, reason, cleared, coming)


def _is_tight(context: SessionContext, reason: str, coming: int) -> bool:
    """Whether the next request would not fit; a person who asks for room gets it above the compaction line already."""
    size = context.tokens()
    if reason == "command":
        return context.narrowed is None and size > context.window.compact_above
    return reason == "overflow" or size + coming + LEAST_ANSWER > context.window.size


def _cuts(context: SessionContext) -> Iterator[Cut]:
    """The places to cut, the gentlest first; a further one only where it keeps less."""
    settings = context.settings.compaction
    dropped = 0
    for keep_tokens, keep_turns in ((settings.keep_recent_tokens, settings.keep_recent_turns), (0, 1), (1, 0)):
        cut = find_cut(context, keep_tokens, keep_turns)
        if cut is not None and len(cut.dropped) > dropped:
            dropped = len(cut.dropped)
            yield cut


async def _clear_results(context: SessionContext, turn: str, before: int, problem: str) -> CompactionResult:
    """Show all tool results but those of the running turn as a placeholder, unless that frees next to nothing."""
    said = [entry for entry in context.transcript.entries if isinstance(entry.body, Said)]
    until = next((entry for entry in reversed(said) if isinstance(message_of(entry), UserMessage)), None)
    mark = None if until is None else ResultsCleared(until=until.id)
    after = before if mark is None else context.size_if(mark)
    if mark is None or after > before * WORTH_CLEARING:
        return CompactionResult(before, before, summarised=False, problem=problem)
    await context.transcript.append(turn, mark)
    return CompactionResult(before, after, summarised=False, problem=problem)


async def _drop_oldest(
    context: SessionContext, turn: str, reason: str, so_far: CompactionResult, coming: int
) -> CompactionResult:
    """Leave the oldest turns out of what the model sees: no more than needed, and never what waits for an answer."""
    said = [entry for entry in context.transcript.entries if isinstance(entry.body, Said)]
    starts = [n for n, entry in enumerate(said) if n and isinstance(message_of(entry), UserMessage)]
    cuts = [cut for n in starts if (cut := cut_at(context, said, n)) is not None]
    marks = [_dropping(context, cut, reason) for cut in cuts]
    if not marks:
        return so_far
    line = context.window.compact_above
    fixed = context.estimated(())
    target = fixed + int(max(0, line - fixed) * ROOM_AFTER_DROPPING) - coming
    best = min(bisect.bisect_left(marks, -target, key=lambda mark: -context.size_if(mark)), len(marks) - 1)
    mark = marks[best]
    after = context.size_if(mark)
    if after >= context.tokens():
        return so_far
    earlier = _dropped_before(context)
    await keep_unseen(context, turn, cuts[best].dropped)
    await context.transcript.append(turn, replace(mark, tokens_before=so_far.before, tokens_after=after))
    return structs.replace(so_far, after=after, dropped=mark.dropped - earlier, first_drop=earlier == 0)


def _dropping(context: SessionContext, cut: Cut, reason: str) -> Compacted:
    return Compacted(
        summary=former_summary(context),
        first_kept=cut.first.id,
        tokens_before=0,
        tokens_after=0,
        model=context.model.name,
        reason=reason,
        pins=context.transcript.pins,
        waiting=tuple(entry.id for entry in cut.waiting),
        dropped=_dropped_before(context) + len(cut.dropped),
        taint=merged(context.transcript.taint),
    )


def _dropped_before(context: SessionContext) -> int:
    latest = context.transcript.latest(Compacted)
    return latest.body.dropped if latest is not None and isinstance(latest.body, Compacted) else 0
