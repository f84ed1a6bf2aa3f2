"""What the house does by the clock: fresh starts of sessions that are due, and the ledger's sweeping.

APScheduler wakes it; what is due is worked out from the stored instants and the clock at hand each time, so that a machine that
slept, or a clock that was set, makes no difference.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from datetime import datetime

    from apscheduler.schedulers.asyncio import AsyncIOScheduler

    from agent.clock import Clock
    from gateway.agents import HousedAgent

log = logging.getLogger(__name__)

TICK_SECONDS = 30
SWEEP_EVERY = timedelta(hours=6)


class Schedule:
    """Wakes every half minute. ``reset`` puts a session that is due into its lane; ``sweep`` clears the ledger of old rows."""

    def __init__(
        self,
        agents: Mapping[str, HousedAgent],
        clock: Clock,
        *,
        reset: Callable[[str, str], None],
        sweep: Callable[[], Awaitable[object]],
    ) -> None:
        self._agents = agents
        self._clock = clock
        self._reset = reset
        self._sweep = sweep
        self._scheduler: AsyncIOScheduler | None = None
        self._swept: datetime | None = None

    def start(self) -> None:
        """Begin to tick."""
        from apscheduler.schedulers.asyncio import AsyncIOScheduler
        from apscheduler.triggers.interval import IntervalTrigger

        self._scheduler = AsyncIOScheduler(timezone="UTC")
        self._scheduler.add_job(self.tick, IntervalTrigger(seconds=TICK_SECONDS), coalesce=True, max_instances=1)
        self._scheduler.start()

    async def tick(self) -> None:
        """Do what is due now. Also called by tests, which have a clock of their own."""
        now = self._clock.now()
        for agent in self._agents.values():
            for record in agent.store.all():
                if agent.due(record, now):
                    self._reset(agent.id, record.key)
        if self._swept is None or now - self._swept >= SWEEP_EVERY:
            self._swept = now
            await self._sweep()

    def stop(self) -> None:
        """Tick no more."""
        if self._scheduler is not None:
            self._scheduler.shutdown(wait=False)
            self._scheduler = None
