"""Scheduler: jobs at their instants; session resets, ledger cleanup and ledger backups now and then.

APScheduler wakes it, at the next instant of a job or after half a minute; what is due is worked out from the stored instants and the clock
at hand each time, so that a machine that slept, or a clock that was set, makes no difference.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from agent.timing import Clock
from gateway.agents.running_agent import RunningAgent
from gateway.base import heap
from gateway.base.errors import StorageFailed
from gateway.sessions.sessions_file import SessionRecord

if TYPE_CHECKING:
    from gateway.jobs.waking import Waker

log = logging.getLogger(__name__)

TICK_SECONDS = 30
AGAIN_SECONDS = 10
"""How long to wait after jobs could not be fired, because the disk is full, say."""
SWEEP_EVERY = timedelta(hours=6)
BACKUP_EVERY = timedelta(hours=1)
FAR_AHEAD = timedelta(days=7)
"""How far the clock goes ahead at once before it may be wrong: nothing is deleted for its age then, for ``UNTRUSTED_FOR``."""
UNTRUSTED_FOR = timedelta(hours=6)
_SET_BACK = timedelta(minutes=1)


Result = TypeVar("Result")


async def _nothing() -> None:
    return


async def _never() -> datetime | None:
    return None


class DueJobs(Protocol):
    """The jobs, as far as the scheduler knows them. ``changed`` is called when ``next_due`` may have changed."""

    changed: Callable[[], None]

    @property
    def next_due(self) -> datetime | None:
        """When the next job is due."""
        ...

    async def fire_due(self) -> int:
        """Fire the jobs that are due."""
        ...


class Scheduler:
    """Wakes when a job is due, and at least every half minute (``every``, in seconds).

    ``reset`` puts a session that is due into its lane; ``sweep`` clears the ledger of old rows, which was done
    ``last_swept``; ``backup`` copies the ledger, every hour,
    and ``give_back`` then returns memory to the system.
    At every tick, ``keep_cached`` is told of sessions whose prompt their provider is about to forget, ``archive`` begins a backup of
    everything if one is due, ``expire`` closes questions whose time is over, and ``automation`` does what is due of heartbeats and held
    messages.

    ``automation`` runs at the instant that ``automation_due`` returns, too, and ``release``, which sends held messages, at that of
    ``release_due``.

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
        last_swept: Callable[[], Awaitable[datetime | None]] = _never,
        keep_cached: Callable[[str, str], None] = lambda _agent, _key: None,
        backup: Callable[[], Awaitable[object]] = _nothing,
        archive: Callable[[], Awaitable[object]] = _nothing,
        expire: Callable[[], Awaitable[object]] = _nothing,
        release: Callable[[], Awaitable[object]] = _nothing,
        release_due: Callable[[], datetime | None] = lambda: None,
        automation: Callable[[], Awaitable[object]] = _nothing,
        automation_due: Callable[[], datetime | None] = lambda: None,
        give_back: Callable[[], None] = heap.give_back,
        jobs: DueJobs | None = None,
        every: float = TICK_SECONDS,
    ) -> None:
        self._agents = agents
        self._clock = clock
        self._reset = reset
        self._sweep = sweep
        self._last_swept = last_swept
        self._keep_cached = keep_cached
        self._backup = backup
        self._archive = archive
        self._give_back = give_back
        self._expire = expire
        self._release = release
        self._release_due = release_due
        self._automation = automation
        self._automation_due = automation_due
        self._every = every
        self._jobs = jobs
        if jobs is not None:
            jobs.changed = self._wake_earlier
        self._waker: Waker | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._kept_at: float | None = None
        self._swept: float | None = None
        self._backed_up: float | None = None
        self._ahead: datetime | None = None
        """What the clock says less the seconds that have passed: it stays as it is unless somebody sets the clock."""
        self._trusted_from = 0.0
        self._watched: set[str] = set()
        self._waiting: set[tuple[str, str]] = set()
        self._heap: list[tuple[datetime, str, str]] = []

    async def start(self, later: float = 0) -> None:
        """Begin, ``later`` seconds from now: with the jobs that are due already."""
        await asyncio.sleep(later)
        self._waker = await asyncio.to_thread(self._make_waker)  # to import APScheduler takes a while
        self._waker.start()
        self._kept_at = asyncio.get_running_loop().time()
        self._do(self._serve(self._waker))

    def _make_waker(self) -> Waker:
        from gateway.jobs.waking import Waker

        return Waker(self._next_due, self._clock, self._every)

    async def tick(self) -> None:
        """Do all that is due now. Also called by tests, which have a clock of their own."""
        await self._fire()
        await self._keep_house()

    async def _serve(self, waker: Waker) -> None:
        """Fire jobs at every wake-up. The rest runs beside that, because a copy of the ledger may take longer than a job can wait."""
        loop = asyncio.get_running_loop()
        keeping: asyncio.Task[bool] | None = None
        while True:
            if not await self._safely(self._fire):
                await asyncio.sleep(min(self._every, AGAIN_SECONDS))
            if (
                keeping is None
            ):  # what fell due while the gateway was off need not wait for the first tick; the rest of the work can
                keeping = self._do(self._safely(self._automate))
            waker.plan()
            await waker.woken()
            due = self._kept_at is None or loop.time() - self._kept_at >= self._every * 0.9
            if due and keeping.done():
                self._kept_at = loop.time()
                keeping = self._do(self._safely(self._keep_house))
            elif keeping.done() and (at := self._automation_due()) is not None and at <= self._clock.now():
                keeping = self._do(self._safely(self._automate))

    async def _safely(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Return whether it worked. What fails is tried again at a later wake-up."""
        try:
            await work()
        except StorageFailed as error:
            log.warning("work on a schedule has to wait: %s", error)
        except Exception:  # a defect in one kind of work must not end the others
            log.exception("work on a schedule failed")
        else:
            return True
        return False

    def _do(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _fire(self) -> None:
        """Send what quiet hours held until now, then fire jobs: one that is due at their end comes behind what waited."""
        if (at := self._release_due()) is not None and at <= self._clock.now():
            await self._release()
        if self._jobs is not None:
            await self._jobs.fire_due()

    async def _automate(self) -> None:
        await self._automation()
        self._wake_earlier()

    async def _keep_house(self) -> None:
        now, passed = self._clock.now(), self._clock.monotonic()
        await self._follow_clock(now, passed)
        for agent in self._agents.values():
            if agent.id not in self._watched:
                self._watch(agent, now)
        self._reset_due(now)
        for agent in self._agents.values():
            for key in agent.soon_forgotten(now):
                self._keep_cached(agent.id, key)
        await self._expire()
        await self._automation()
        if self._backed_up is None or passed - self._backed_up >= BACKUP_EVERY.total_seconds():
            self._backed_up = passed
            await self._backup()
            await asyncio.to_thread(self._give_back)
        await self._archive()
        often = self._swept is not None and passed - self._swept < SWEEP_EVERY.total_seconds()
        if not often and passed >= self._trusted_from:
            self._swept = passed
            await self._sweep()
            await self._maintain()

    async def _follow_clock(self, now: datetime, passed: float) -> None:
        """Notice a clock that was set, while the gateway ran or since it last deleted what is old."""
        ahead = now - timedelta(seconds=passed)
        if self._ahead is None:
            last = await self._last_swept()
            far = last is not None and now - last > FAR_AHEAD
        else:
            far = ahead - self._ahead > FAR_AHEAD
            if self._ahead - ahead > _SET_BACK:
                self.look_again()
        if far:
            self._trusted_from = passed + UNTRUSTED_FOR.total_seconds()
        self._ahead = ahead

    def _next_due(self) -> datetime | None:
        dues = (self._jobs.next_due if self._jobs is not None else None, self._automation_due(), self._release_due())
        return min((due for due in dues if due is not None), default=None)

    def _wake_earlier(self) -> None:
        if self._waker is not None:
            self._waker.plan()

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
        for agent in list(self._agents.values()):  # agents come and go meanwhile
            try:
                await agent.maintain()
                await agent.store.fold()
            except StorageFailed as error:
                log.warning("the sessions of %s could not be tidied up: %s", agent.id, error)

    def stop(self) -> None:
        """Begin nothing more."""
        if self._waker is not None:
            self._waker.stop()
            self._waker = None
        for task in self._tasks:
            task.cancel()
