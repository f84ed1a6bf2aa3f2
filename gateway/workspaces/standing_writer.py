"""Tells the other gateways of a cluster when a workspace has changes that have not arrived, and when it has none any more."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from gateway.base.errors import HomebodyError

log = logging.getLogger(__name__)


class StandingWriter:
    """``write`` is given the newest commit that has arrived, and whether something was changed since. Made in the event loop."""

    def __init__(self, write: Callable[[str, bool], Awaitable[None]], commit: str = "") -> None:
        self._write = write
        self._loop = asyncio.get_running_loop()
        self._wanted: tuple[str, bool] = (commit, False)
        self._written: tuple[str, bool] | None = None
        self._task: asyncio.Task[None] | None = None

    def changed(self) -> None:
        """Something was changed. May be called from any thread."""
        self._loop.call_soon_threadsafe(lambda: self._want(unsent=True))

    def arrived(self, commit: str) -> None:
        """All of it has arrived, with this commit. Called in the event loop."""
        self._want(unsent=False, commit=commit)

    async def settled(self) -> None:
        """Wait until what is known now is written, or has failed."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def _want(self, *, unsent: bool, commit: str = "") -> None:
        self._wanted = (commit or self._wanted[0], unsent)
        if self._wanted != self._written and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        while self._wanted != self._written:
            wanted = self._wanted
            try:
                await self._write(*wanted)
            except HomebodyError as error:
                log.warning("the other gateways cannot be told how far the workspace has come: %s", error)
                return
            self._written = wanted
