"""Tells open pages of changes that none of them made: in a chat, on the command line, by an agent, or in an editor."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Final, Protocol

log = logging.getLogger(__name__)

CHECK_SECONDS: Final = 0.5
"""How often is looked while somebody watches: a question of an agent is to be seen within a second."""
Facts = Callable[[], Awaitable[Hashable]]


class Hub(Protocol):
    """Who watches, and how they are told."""

    @property
    def watched(self) -> bool:
        """Whether anybody listens."""
        ...

    def publish(self, kind: str) -> None:
        """Tell all of them that something of this kind changed."""
        ...


class OutsideChanges:
    """Compares facts while somebody watches. ``facts`` returns, by the kind of event, what differs after a change of that kind.

    While no page is open nothing is looked at; the next one is told at once what changed meanwhile, because it may have asked just before.
    Facts that cannot be read are passed over, and looked at again.
    """

    def __init__(
        self, hub: Hub, facts: Mapping[str, Facts], *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._hub = hub
        self._facts = facts
        self._sleep = sleep
        self._known: dict[str, Hashable] = {}
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Look once, and go on for as long as somebody watches. To be called when a page asks for something, and when its stream begins."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def check(self) -> None:
        """Look once, and tell what changed since the last look; the first one only remembers."""
        for kind, facts in self._facts.items():
            try:
                now = await facts()
            except Exception:  # whatever it is, pages still have their other facts, and ask for these again by themselves
                log.debug("facts of %s cannot be read", kind, exc_info=True)
                continue
            if kind in self._known and self._known[kind] != now:
                self._hub.publish(kind)
            self._known[kind] = now

    def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        await self.check()
        while self._hub.watched:
            await self._sleep(CHECK_SECONDS)
            await self.check()
