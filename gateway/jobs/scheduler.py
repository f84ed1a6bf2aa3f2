"""Scheduler of periodic jobs: session resets, ledger cleanup and ledger backups.

APScheduler wakes it; what is due is worked out from the stored instants and the clock at hand each time, so that a machine that
slept, or a clock that was set, makes no difference.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from agent.timing import Clock
from gateway.agents.running_agent import RunningAgent
from gateway.base.errors import StorageFailed
from gateway.sessions.sessions_file import SessionRecord

if TYPE_CHECKING:
    from apscheduler.schedulers.asyncio import AsyncIOScheduler

log = logging.getLogger(__name__)

TICK_SECONDS = 30
SWEEP_EVERY = timedelta(hours=6)
BACKUP_EVERY = timedelta(hours=1)


async def _nothing() -> None:
    return


class Scheduler:
    """Wakes every half minute (``every``, in seconds).

    ``reset`` puts a session that is due into its lane; ``sweep`` clears the ledger of old rows;
    ``backup`` copies the ledger, every hour; ``expire`` closes questions whose time is over, at every wake-up.

    Only sessions whose time may have come are looked at, however many there are. A session that cannot be reset now, because
    it is busy, is looked at again with the next tick.
    """

    def __init__(
        self,
        agents: Mapping[str, RunningAgent],
        clock: Clock,
        *,
        reset: Callable[[str, str], None],
        sweep: Callable[[], Awaitable[object]],
        backup: Callable[[], Awaitable[object]] = _nothing,
        expire: Callable[[], Awaitable[object]] = _nothing,
        every: float = TICK_SECONDS,
    ) -> None:
        self._agents = agents
        self._clock = clock
        self._reset = reset
        self._sweep = sweep
        self._backup = backup
        self._expire = expire
        self._every = every
        self._scheduler: AsyncIOScheduler | None = None
        self._swept: datetime | None = None
        self._backed_up: datetime | None = None
        self._watched: set[str] = set()
        self._waiting: set[tuple[str, str]] = set()
        self._heap: list[tuple[datetime, str, str]] = []

    async def start(self, later: float = 0) -> None:
        """Begin to tick, ``later`` seconds from now."""
        await asyncio.sleep(later)
        self._scheduler = scheduler = await asyncio.to_thread(_scheduler)  # to import it takes a while
        scheduler.add_job(
            self.tick, "interval", seconds=self._every, coalesce=True, max_instances=1, misfire_grace_time=None
        )  # a tick that comes late is due all the same: without the last argument one is dropped after a second
        scheduler.start()

    async def tick(self) -> None:
        """Do what is due now. Also called by tests, which have a clock of their own."""
        now = self._clock.now()
        for agent in self._agents.values():
            if agent.id not in self._watched:
                self._watch(agent, now)
        self._reset_due(now)
        await self._expire()
        if self._backed_up is None or now - self._backed_up >= BACKUP_EVERY:
            self._backed_up = now
            await self._backup()
        if self._swept is None or now - self._swept >= SWEEP_EVERY:
            self._swept = now
            await self._sweep()
            await self._maintain()

    def look_again(self) -> None:
        """Work out anew when sessions are due: the rules were changed."""
        self._watched.clear()
        self._waiting.clear()
        self._heap.clear()

    def _reset_due(self, now: datetime) -> None:
        again: list[tuple[datetime, str, str]] = []
        while self._heap and self._heap[0][0] <= now:
            _, agent_id, key = heapq.heappop(self._heap)
            agent = self._agents[agent_id]
            record = agent.store.get(key)
            at = agent.next_due(record, now) if record else None
            if record is None or at is None:
                self._waiting.discard((agent_id, key))
                continue
            if at <= now and agent.due(record, now):
                self._reset(agent_id, key)
            again.append((at, agent_id, key))
        for item in again:
            heapq.heappush(self._heap, item)

    def _watch(self, agent: RunningAgent, now: datetime) -> None:
        """Look at all of an agent's sessions once, and from then on at those that change."""
        self._watched.add(agent.id)
        for record in agent.store.all():
            self._expect(agent, record, now)
        agent.store.changed = lambda record: self._expect(agent, record, self._clock.now())

    def _expect(self, agent: RunningAgent, record: SessionRecord, now: datetime) -> None:
        if (agent.id, record.key) not in self._waiting and (at := agent.next_due(record, now)) is not None:
            self._waiting.add((agent.id, record.key))
            heapq.heappush(self._heap, (at, agent.id, record.key))

    async def _maintain(self) -> None:
        for agent in self._agents.values():
            try:
                await agent.maintain()
                await agent.store.fold()
            except StorageFailed as error:
                log.warning("the sessions of %s could not be tidied up: %s", agent.id, error)

    def stop(self) -> None:
        """Tick no more."""
        if self._scheduler is not None:
            self._scheduler.shutdown(wait=False)
            self._scheduler = None


def _scheduler() -> AsyncIOScheduler:
    from apscheduler.schedulers.asyncio import AsyncIOScheduler
    from apscheduler.triggers.interval import IntervalTrigger  # noqa: F401  (found by its name when a job is added)

    return AsyncIOScheduler(timezone="UTC")
