"""Handle of an index: opens it on first use, and opens it anew if it is damaged, was deleted, or its connection was lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Protocol, TypeVar

from memory.errors import IndexBroken
from memory.protocol import Clock
from memory.store.index import Index
from memory.store.index_thread import IndexThread

T = TypeVar("T")


class IndexEngine(Protocol):
    """Opens the index of one agent, and knows what the errors of what stores it mean. ``open`` and ``put_away`` run on the index thread."""

    @property
    def patience(self) -> float | None:
        """How many seconds a search may wait for it; None where nothing can keep it waiting."""
        ...

    def open(self, now: datetime) -> tuple[Index, str]:
        """Open the index, or make it, and return it with a sentence for the owner, or "".

        Raises:
            IndexBroken: it cannot be used now.
        """
        ...

    def is_gone(self) -> bool:
        """Whether what was opened is not what would be opened now. It takes no time worth a thread."""
        ...

    def put_away(self, index: Index, error: Exception, now: datetime) -> str:
        """Close an index that cannot be used any more, so that ``open`` can replace it; return a sentence for the owner, or ""."""
        ...

    def failures(self) -> tuple[type[Exception], ...]:
        """Return the errors that it raises."""
        ...

    def can_be_opened_anew(self, error: Exception) -> bool:
        """Whether another attempt on an index that is opened anew may succeed."""
        ...

    def refusal(self, error: Exception) -> IndexBroken | None:
        """Return an error in words for people; None for one that should not happen."""
        ...


class IndexHandle:
    """Opens an index and runs work on its thread.

    ``tell`` takes sentences for the owner; ``on_reopened`` is called after another one was opened, as what it missed has to be indexed.
    """

    def __init__(
        self, engine: IndexEngine, clock: Clock, *, agent: str, tell: Callable[[str], None], on_reopened: Callable[[], None]
    ) -> None:
        self.thread = IndexThread(f"memory of {agent}")
        self._engine = engine
        self._clock = clock
        self._tell = tell
        self._on_reopened = on_reopened
        self._opened: Index | None = None
        self._left: Index | None = None
        """An index that is gone, and that work under way may still use."""
        self._opening = asyncio.Lock()

    async def index(self) -> Index:
        """Return the index, opened if it is not yet."""
        async with self._opening:
            if self._opened is not None and not self._engine.is_gone():
                return self._opened
            gone, self._opened = self._opened, None
            if gone is not None:
                left, self._left = self._left, gone
                await self.thread.run(lambda: left.close() if left else None)
            index, notice = await self.thread.run(lambda: self._engine.open(self._clock.now()))
            self._opened = index
        if notice:
            self._tell(notice)
        if gone is not None:
            self._on_reopened()
        return index

    async def run(self, work: Callable[[Index], T], *, limited: bool = True) -> T:
        """Run ``work`` on the index, ahead of background work; as long as it takes, unless it is ``limited``.

        Raises:
            IndexBroken: the index cannot be used now, or does not answer in time.
        """

        async def on_thread() -> T:
            index = await self.index()
            return await self.thread.run(lambda: work(index))

        working = self.recovering(on_thread)
        return await (self.in_time(working) if limited else working)

    async def in_time(self, work: Awaitable[T]) -> T:
        """Wait for ``work`` that somebody waits for, no longer than the engine's patience."""
        try:
            async with asyncio.timeout(self._engine.patience):
                return await work
        except TimeoutError as error:
            raise self._engine.refusal(error) or error from error

    async def run_until_done(self, step: Callable[[], bool]) -> None:
        """Repeat a background step until it returns False; searches run in between."""
        more = True
        while more:
            more = await self.thread.run(step, urgent=False)

    async def recovering(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run ``work``; if that helps, open the index anew and run ``work`` again.

        Raises:
            IndexBroken: the index cannot be used now.
        """
        failures = self._engine.failures()
        try:
            return await work()
        except failures as error:
            if not self._engine.can_be_opened_anew(error):
                raise self._engine.refusal(error) or error from error
            await self._put_away(error)
        try:
            return await work()
        except failures as error:
            raise self._engine.refusal(error) or error from error

    async def close(self) -> None:
        """Close the index and end the thread."""
        await self.thread.close(self._close)

    def _close(self) -> None:
        for index in filter(None, (self._opened, self._left)):
            index.close()

    async def _put_away(self, error: Exception) -> None:
        async with self._opening:
            broken, self._opened = self._opened, None
            if broken is None:
                return
            notice = await self.thread.run(lambda: self._engine.put_away(broken, error, self._clock.now()))
        if notice:
            self._tell(notice)
        self._on_reopened()
