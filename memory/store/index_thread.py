"""A thread with a priority queue that owns a SQLite connection: searches run before background work."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

_Job = tuple[int, int, "Callable[[], Any]", "asyncio.Future[Any]", asyncio.AbstractEventLoop]


class IndexThread:
    """Runs functions one at a time, urgent ones first. The thread starts with the first call and ends with ``close``."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: list[_Job] = []
        self._order = itertools.count()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closing = False

    async def run(self, work: Callable[[], T], *, urgent: bool = True) -> T:
        """Run ``work`` on the thread and return what it returns. If cancelled before it starts, it does not run.

        Raises:
            RuntimeError: the thread was closed.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        with self._changed:
            if self._closing:
                raise RuntimeError(f"{self._name} is closed")
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, name=self._name, daemon=True)
                self._thread.start()
            heapq.heappush(self._jobs, (0 if urgent else 1, next(self._order), work, future, loop))
            self._changed.notify()
        return await future

    async def close(self, last: Callable[[], object]) -> None:
        """Cancel waiting work, run ``last`` on the thread if it was started, and end it. Calling it again has no effect."""
        with self._changed:
            started, self._closing = self._thread, True
        if started is None or not started.is_alive():
            return
        loop = asyncio.get_running_loop()
        done: asyncio.Future[object] = loop.create_future()
        with self._changed:
            for _, _, _, future, owner in self._jobs:
                owner.call_soon_threadsafe(future.cancel)
            self._jobs = [(2, next(self._order), last, done, loop)]
            self._changed.notify()
        await done
        await asyncio.to_thread(started.join)

    def _loop(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._jobs)
                priority, _, work, future, loop = heapq.heappop(self._jobs)
            if not future.cancelled():
                _run(work, future, loop)
            if priority == 2:  # noqa: PLR2004 - what close() has put there
                return


def _run(work: Callable[[], Any], future: asyncio.Future[Any], loop: asyncio.AbstractEventLoop) -> None:
    """Run ``work``, and have the loop settle the future of its caller."""
    result, failure = None, None
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - passed on to the caller
        failure = error

    def settle() -> None:
        if future.done():
            return
        if failure is not None:
            future.set_exception(failure)
        else:
            future.set_result(result)

    if not loop.is_closed():
        loop.call_soon_threadsafe(settle)
