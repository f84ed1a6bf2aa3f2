"""Splits a streaming answer into blocks that can be sent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from agent.loop.streaming import AnswerStream
from agent.timing import Clock
from agent.transcript.entries import SentPart
from channels.common.stream_splitter import Limits, next_piece, reopening
from gateway.base.shield import finish_despite_cancel
from gateway.base.wait import wait_until_set
from gateway.outbound.reply_tags import LONGEST, may_end, shown
from gateway.settings.block_streaming import Manner


class BlockWriter(AnswerStream):
    """Splits streamed text into blocks. ``keep`` stores and sends a block; it does not raise, and returns whether it did.

    The text comes from ``agent.no_reply.Gate``, so it can no longer become NO_REPLY, except after a tag.
    """

    def __init__(self, manner: Manner, clock: Clock, keep: Callable[[SentPart], Awaitable[bool]]) -> None:
        self._manner = manner
        self._clock = clock
        self._keep = keep
        self._text = ""
        self._sent = 0
        self._opening = ""
        self._refused = False
        self._news = asyncio.Event()
        self._sending = asyncio.Lock()

    def hear(self, text: str) -> None:
        """See ``AnswerStream``."""
        self._text += text
        self._news.set()

    async def stop(self) -> None:
        """See ``AnswerStream``. A block that is being stored is finished first."""
        async with self._sending:
            self._text, self._sent, self._opening, self._refused = "", 0, "", False
            self._news.clear()

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            resting = not await self._heard_in_time()
            async with self._sending:
                while (piece := self._next(resting=resting)) is not None:
                    if not await finish_despite_cancel(self._kept(piece)) or _cancelled():
                        break
            if resting:
                await self._news.wait()

    async def _heard_in_time(self) -> bool:
        """Wait for more text; return whether it came before the idle time-out."""
        if not self._text:
            await self._news.wait()
        try:
            return await wait_until_set(self._news, self._clock, self._manner.idle)
        finally:
            self._news.clear()

    async def _kept(self, piece: SentPart) -> bool:
        if await self._keep(piece):
            self._sent += len(piece.text)
            self._opening = reopening(self._text[: self._sent])
            return True
        self._refused = True  # the rest of this answer comes when it is whole
        return False

    def _next(self, *, resting: bool) -> SentPart | None:
        """Return the next block that can be sent."""
        text = self._text[self._sent :]
        limits = self._manner.limits
        if resting:
            limits = Limits(self._manner.resting, limits.most, limits.prefer)
        if self._refused or len(text) < limits.least:
            return None
        before = min(self._sent, LONGEST)
        may = may_end(self._text[self._sent - before :])
        found = next_piece(
            text,
            limits,
            self._opening,
            resting=resting,
            allowed=lambda place: may(before + place) and self._shows(place),
        )
        return None if found is None else SentPart(text=found.text, opening=found.opening, closing=found.closing)

    def _shows(self, place: int) -> bool:
        """Whether a block has visible text: a tag alone has none, and text after a tag may still become NO_REPLY."""
        return bool(shown(self._text[: self._sent + place]).strip()) if self._sent == 0 else True


def _cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
