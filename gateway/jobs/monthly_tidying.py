"""Once a month, where the settings say so, asks a model how the notes could be tidied, and tells the owner that proposals wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from agent.timing import Clock
from gateway.agents.running_agent import RunningAgent
from gateway.base.errors import HomebodyError

if TYPE_CHECKING:
    from gateway.agents.note_tidying import NoteTidying

INTERVAL: Final = timedelta(days=30)
_AFTER_FAILURE: Final = timedelta(days=1)
_HOURS: Final = range(9, 21)
"""Hours of the owner's day in which it happens, so that nobody is told at night."""


class MonthlyTidying:
    """``tidying`` makes what asks the model, on first use; ``tell`` sends the owner a line."""

    def __init__(
        self,
        agents: Mapping[str, RunningAgent],
        tidying: Callable[[], NoteTidying],
        clock: Clock,
        *,
        tell: Callable[[str], object],
    ) -> None:
        self._agents = agents
        self._tidying = tidying
        self._clock = clock
        self._tell = tell
        self._not_before: dict[str, datetime] = {}
        self._running: asyncio.Task[None] | None = None

    async def tick(self) -> None:
        """Begin what is due, in the background: one agent at a time."""
        if self._running is not None and not self._running.done():
            return
        for agent in list(self._agents.values()):
            if agent.profile.memory.enabled and agent.profile.memory.tidy.monthly and await self._is_due(agent):
                self._running = asyncio.create_task(self._ask(agent))
                return

    async def close(self) -> None:
        """Cancel a call that runs."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    async def quiet(self) -> None:
        """Wait until nothing runs."""
        if self._running is not None:
            await asyncio.gather(self._running, return_exceptions=True)

    async def _is_due(self, agent: RunningAgent) -> bool:
        now = self._clock.now()
        if now < self._not_before.get(agent.id, now) or now.astimezone(agent.zone).hour not in _HOURS:
            return False
        last = await asyncio.to_thread(self._tidying().last, agent.id)
        if last is not None and now - last < INTERVAL:
            self._not_before[agent.id] = last + INTERVAL
            return False
        return True

    async def _ask(self, agent: RunningAgent) -> None:
        self._not_before[agent.id] = self._clock.now() + _AFTER_FAILURE
        try:
            limit = agent.profile.memory.tidy.limit_usd
            found = await self._tidying().propose(agent.id, again=True, limit_usd=limit)
        except HomebodyError as error:
            self._tell(f"🧹 The notes of {agent.id} could not be looked through: {error} {error.hint}".strip())
            return
        if count := len(found["proposals"]):
            things = "1 suggestion" if count == 1 else f"{count} suggestions"
            self._tell(
                f"🧹 There are {things} for tidying the notes of {agent.id}. `homebody memory tidy` shows them; "
                "nothing is changed until you say so."
            )
