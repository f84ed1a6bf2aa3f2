"""Stores messages in the order in which they came; those that wait at the same time are stored together."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from channels.messages import Inbound

TOGETHER: Final = 50
"""The most messages that are stored together: the gateway reads all of them in one step of the event loop."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    messages: Sequence[Inbound]
    mark: str
    stored: asyncio.Future[None]


class BatchedStore(ABC):
    """Messages that wait to be stored."""

    def __init__(self) -> None:
        self._waiting: deque[_Waiting] = deque()
        self._task: asyncio.Task[None] | None = None

    @abstractmethod
    async def _store(self, messages: Sequence[Inbound], mark: str) -> None:
        """Store messages, with the mark that came with the last of them. What it raises is raised to all who wait for them."""

    def put(self, messages: Sequence[Inbound], mark: str = "") -> asyncio.Future[None]:
        """Queue messages, and how far was read with them; the future is done when they are stored, also if it is cancelled."""
        waiting = _Waiting(messages, mark, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._run())
        return waiting.stored

    async def empty(self) -> None:
        """Return when nothing waits any more."""
        while self._task is not None and not self._task.done():
            await asyncio.wait([self._task])

    async def close(self) -> None:
        """Stop storing. What still waits is cancelled."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        while self._waiting:
            self._waiting.popleft().stored.cancel()

    async def _run(self) -> None:
        while self._waiting:
            batch: list[_Waiting] = []
            count = 0
            while self._waiting and (not batch or count + len(self._waiting[0].messages) <= TOGETHER):
                batch.append(self._waiting.popleft())
                count += len(batch[-1].messages)
            try:
                await self._store([message for one in batch for message in one.messages], batch[-1].mark)
            except Exception as error:  # noqa: BLE001 - whatever it is, those who wait are told
                for one in batch:
                    if not one.stored.done():
                        one.stored.set_exception(error)
            except BaseException:  # also when cancelled: whoever waits for the batch must not wait for ever
                for one in batch:
                    one.stored.cancel()
                raise
            for one in batch:
                if not one.stored.done():
                    one.stored.set_result(None)
