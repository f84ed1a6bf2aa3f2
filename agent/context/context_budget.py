"""Keeps a session inside the context window: first the memory flush, then compaction, always in this order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent.context import flush
from agent.context.cache_retention import SECONDS
from agent.context.context_report import visible_chars
from agent.context.session_context import SessionContext
from agent.context.window import LEAST_ANSWER, prune
from agent.events import Event, Notice, ReplyNote
from agent.messages import Message
from agent.models.protocol import is_cached_by_time
from agent.transcript.entries import Compacted, FlushBegun, FlushReceipt, Said

if TYPE_CHECKING:
    from agent.context.compaction import CompactionResult

MAX_TRIES = 2
"""The largest number of compactions in one turn: a third one would not free more than two did."""


FORGETTING = (
    "The model's window is full, and no summary of our conversation could be made that fits it: from now on its oldest messages are "
    "not shown to the model. They are kept on disk, and notes of them are found by memory search."
)


@dataclass
class ContextBudget:
    """Frees context during one turn, when it is needed and at most twice.

    ``turn`` is the turn that its entries are recorded with. ``flushes`` is False in turns that no person started: the flush is left to
    the next turn that a person starts.
    """

    context: SessionContext
    turn: str
    emit: Callable[[Event], None]
    flushes: bool = True
    receipts: list[FlushReceipt] = field(default_factory=list, init=False)
    compactions: int = field(default=0, init=False)
    _tries: int = field(default=0, init=False)

    async def before_turn(self, coming: Sequence[Message]) -> None:
        """Judge the context with the message that is about to be added: flush from the soft line on, compact above the hard one.

        What the provider has forgotten anyway is pruned before.

        Raises:
            TranscriptWriteError: the transcript could not be written.
        """
        latest = self.context.transcript.latest(FlushBegun, FlushReceipt)
        if latest is not None and isinstance(latest.body, FlushBegun):
            await flush.make_good(self.context, self.turn, latest.body)
        begins = self.context.transcript.latest(Said, Compacted) is None
        if begins and (too_small := self.context.too_small):
            self.emit(ReplyNote(f"⚠️ {too_small}"))
        await self._after_silence()
        await self.judge(coming)

    async def judge(self, coming: Sequence[Message] = ()) -> None:
        """Flush from the soft line on, compact above the hard one. Between tool rounds, too, a context can grow fast."""
        size, window = self.context.tokens(extra=coming), self.context.window
        if self.flushes and size >= window.flush_at and flush.may_fire(self.context):
            await self._flush("threshold")
        if size <= window.compact_above:
            self.context.summary_ended(failed=False)
        elif self.context.may_summarise(size) or size + LEAST_ANSWER > window.size:
            await self._compact("threshold", size - self.context.tokens())

    async def after_overflow(self) -> bool:
        """Make room after the provider said that the context is too long. Returns whether asking again makes sense."""
        self.context.overflowed()
        if self.flushes and flush.may_fire(self.context):
            await self._flush("overflow")
        return await self._compact("overflow")

    async def _after_silence(self) -> None:
        """When the provider's cache has run out: choose its retention anew, and prune."""
        context, entries = self.context, self.context.transcript.entries
        if (since := context.transcript.last_call) is None:
            return
        silent, settings = (context.clock.now() - since).total_seconds(), context.settings.context_pruning
        ttl, shrinks = SECONDS[context.ttl], 0.0
        if silent >= (settings.ttl or ttl) and settings.is_on(by_time=is_cached_by_time(context.model)):
            shown = visible_chars(context)
            mark = prune(entries, settings, context.window.size, shown)
            if mark is not None:
                await context.transcript.append(self.turn, mark)
                shrinks = 1 - visible_chars(context) / shown
                summary = f"{len(mark.trimmed) + len(mark.aged)} old tool results trimmed, {len(mark.cleared)} cleared"
                self.emit(Notice(f"✂️ {summary}", verbose=True))
        if silent >= ttl:
            context.judge_rhythm(shrinks)

    async def _flush(self, reason: flush.Reason) -> None:
        receipt = await flush.flush(self.context, self.turn, reason)
        self.receipts.append(receipt)
        files = ", ".join(note.path for note in receipt.written) or "nothing to store"
        self.emit(Notice(f"🧠 Memory flush: {files}", verbose=True))

    async def _compact(self, reason: str, coming: int = 0) -> bool:
        """Compact, unless that was tried often enough. Returns whether there is more room."""
        if self._tries >= MAX_TRIES:
            return False
        self._tries += 1
        from agent.context.compaction import compact

        shrunk = await compact(self.context, self.turn, reason, coming=coming)
        if shrunk.helped:
            self.compactions += shrunk.summarised
            self.emit(Notice(f"🧹 {report(shrunk)}", verbose=True))
        if shrunk.first_drop:
            self.emit(ReplyNote(FORGETTING))
        return shrunk.helped


def report(shrunk: CompactionResult, *, automatic: bool = True) -> str:
    """Say in one line what a compaction did."""
    sizes = f"({short(shrunk.before)} → {short(shrunk.after)} tokens)"
    if shrunk.summarised:
        return f"{'Auto-compaction' if automatic else 'Compaction'} complete {sizes}"
    if shrunk.dropped:
        return f"The model is not shown the {shrunk.dropped} oldest messages any more {sizes}; no summary: {shrunk.problem}"
    if shrunk.helped:
        return f"Old tool results cleared {sizes}; no summary: {shrunk.problem}"
    return f"There is nothing to compact ({short(shrunk.before)} tokens): {shrunk.problem}"


def short(count: int) -> str:
    """Write a count of tokens as people do: 950, 4.5k, 180k."""
    if count < 1000:  # noqa: PLR2004  (a thousand)
        return str(count)
    return f"{count / 1000:.1f}k".replace(".0k", "k") if count < 10_000 else f"{round(count / 1000)}k"  # noqa: PLR2004
