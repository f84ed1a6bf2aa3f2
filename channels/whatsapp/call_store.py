"""Stores what calls of Meta's bring, in the order of their arrival; what waits at the same time is stored together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from channels.messages import Cursor, Inbound
    from channels.protocol import InboundSink

TOGETHER: Final = 50
"""The most messages that are stored together: the gateway reads all of them in one step of the event loop."""


@dataclass(slots=True)
class _Waiting:
    messages: Sequence[Inbound]
    stored: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class CallStore:
    """Messages that wait to be stored. Where that fails, each call is told so, and Meta calls again.

    ``cursors`` gives what else has to be stored, as it is at that moment; ``failed`` is called when that was not stored.
    """

    def __init__(self, sink: InboundSink, cursors: Callable[[], Sequence[Cursor]], failed: Callable[[], None]) -> None:
        self._sink = sink
        self._cursors = cursors
        self._failed = failed
        self._waiting: deque[_Waiting] = deque()
        self._task: asyncio.Task[None] | None = None

    async def put(self, messages: Sequence[Inbound]) -> None:
        """Return when the messages are stored. Raises what kept the gateway from storing them."""
        waiting = _Waiting(messages)
        self._waiting.append(waiting)
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._run())
        await waiting.stored

    async def close(self) -> None:
        """Stop storing. What still waits is cancelled."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        while self._waiting:
            self._waiting.popleft().stored.cancel()

    async def _run(self) -> None:
        while self._waiting:
            batch, count = [self._waiting.popleft()], 0
            while self._waiting and (count := count + len(batch[-1].messages)) + len(self._waiting[0].messages) <= TOGETHER:
                batch.append(self._waiting.popleft())
            try:
                await self._store([message for one in batch for message in one.messages])
            except Exception as error:  # noqa: BLE001 - whatever it is, Meta must call again
                self._failed()
                for one in batch:
                    if not one.stored.done():
                        one.stored.set_exception(error)
            except BaseException:
                for one in batch:
                    one.stored.cancel()
                raise
            for one in batch:
                if not one.stored.done():
                    one.stored.set_result(None)

    async def _store(self, messages: Sequence[Inbound]) -> None:
        first, *others = (*self._cursors(), None)
        await self._sink.accept(messages, first)
        for one in others:
            if one is not None:
                await self._sink.accept([], one)
