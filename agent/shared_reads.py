"""Blocking reads on threads, of which those that are asked for at the same time share one."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, TypeVar

Read = TypeVar("Read")


class SharedReads:
    """Runs blocking functions on threads, for each key one at a time.

    Whoever asks while one runs gets the result of the next one, together with all others who do: what is returned was read after it was
    asked for. Use it on one event loop.
    """

    def __init__(self) -> None:
        self._running: set[Hashable] = set()
        self._next: dict[Hashable, tuple[Callable[[], Any], asyncio.Future[Any]]] = {}

    async def get(self, key: Hashable, read: Callable[[], Read]) -> Read:
        """Return what ``read`` returns, or raise what it raises. It is run, or that of another caller with this key."""
        coming = self._next.get(key)
        if coming is None:
            coming = self._next[key] = read, asyncio.get_running_loop().create_future()
            if key not in self._running:
                self._begin(key)
        result: Read = await asyncio.shield(coming[1])
        return result

    def _begin(self, key: Hashable) -> None:
        read, shared = self._next.pop(key)
        try:
            running = shared.get_loop().run_in_executor(None, contextvars.copy_context().run, read)
        except RuntimeError as error:  # the threads are gone: the program ends
            shared.set_exception(error)
            return
        self._running.add(key)
        running.add_done_callback(partial(self._ended, key, shared))

    def _ended(self, key: Hashable, shared: asyncio.Future[Any], done: asyncio.Future[Any]) -> None:
        self._running.discard(key)
        if done.cancelled():
            shared.cancel()
        elif (error := done.exception()) is not None:
            shared.set_exception(error)
            shared.exception()  # those who asked may all have been cancelled: nobody need look at it
        else:
            shared.set_result(done.result())
        if key in self._next:
            self._begin(key)
