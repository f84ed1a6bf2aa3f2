"""One turn at a time in a session, many sessions at once, and none while the lanes are paused."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Generic, Literal, TypeVar

from msgspec import Struct, field

Item = TypeVar("Item")
Ending = Literal["stop", "drain", "interrupt"]


class Ticket(Struct, Generic[Item], eq=False):
    """An item that runs. ``ending`` says why it was cancelled: by its owner, by the gateway closing, or for a newer message."""

    session: str
    item: Item
    ending: Ending | None = None


class _Lane(Struct, Generic[Item]):
    waiting: deque[Item] = field(default_factory=deque)
    running: Ticket[Item] | None = None
    task: asyncio.Task[None] | None = None
    next_stopped: bool = False


class Lanes(Generic[Item]):
    """Runs ``work`` for each item: one at a time and in order within a session, at most ``limit`` at once in all.

    ``pools`` has limits of its own for some sessions, so that these and the others do not take each other's places; ``pool_of`` returns
    the name of a session's pool, and another name for those without one.

    Items should be small (ids of inbox rows). Items that have not started when the gateway closes are dropped here; the inbox still has
    them. ``broken`` is called with what ``work`` raised; a failing item never stops its lane. Each item runs in its own task, which
    ``stop`` and ``drain`` cancel. ``hold(session)`` is awaited before an item starts and may delay an idle lane; a delayed lane uses no
    concurrency slot.
    """

    def __init__(
        self,
        work: Callable[[Ticket[Item]], Awaitable[None]],
        *,
        limit: int = 4,
        pools: Mapping[str, int] = MappingProxyType({}),
        pool_of: Callable[[str], str] = lambda _: "",
        broken: Callable[[Ticket[Item], Exception], None],
        hold: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        self.work = work
        self.hold = hold
        self._places = asyncio.Semaphore(limit)
        self._pools = {name: asyncio.Semaphore(most) for name, most in pools.items()}
        self._pool_of = pool_of
        self._broken = broken
        self._lanes: dict[str, _Lane[Item]] = {}
        self._closed = False
        self._paused = False

    def pause(self) -> None:
        """Start no more items; what is submitted waits. Running items go on."""
        self._paused = True

    def resume(self) -> None:
        """End ``pause``."""
        self._paused = False
        for session, lane in list(self._lanes.items()):
            if lane.task is None and lane.waiting and not self._closed:
                self._go_on(session, lane)

    def submit(self, session: str, item: Item) -> int:
        """Put an item at the end of its session's lane; return how many are ahead of it. After ``drain`` it is left alone."""
        if self._closed:
            return 0
        lane = self._lanes.setdefault(session, _Lane())
        ahead = len(lane.waiting) + (lane.running is not None)
        lane.waiting.append(item)
        if lane.task is None and not self._paused:
            self._go_on(session, lane)
        return ahead

    def put_first(self, session: str, item: Item) -> None:
        """Put an item at the front of its session's lane. After ``drain`` it is left alone."""
        if self._closed:
            return
        lane = self._lanes.setdefault(session, _Lane())
        lane.waiting.appendleft(item)
        if lane.task is None and not self._paused:
            self._go_on(session, lane)

    def queued(self, session: str) -> int:
        """Return how many items wait in a session, the running one not counted."""
        lane = self._lanes.get(session)
        return len(lane.waiting) if lane else 0

    def ahead(self, session: str) -> int:
        """Return how many items a new one would have before it in a session, the running one counted."""
        lane = self._lanes.get(session)
        return len(lane.waiting) + (lane.running is not None) if lane else 0

    def busy(self, session: str) -> bool:
        """Return whether something runs in a session."""
        lane = self._lanes.get(session)
        return lane is not None and lane.running is not None

    def running(self) -> list[Ticket[Item]]:
        """Return what runs now."""
        return [lane.running for lane in self._lanes.values() if lane.running is not None]

    def waiting(self, session: str, most: int = 100) -> list[Item]:
        """Return the first items that wait in a session."""
        lane = self._lanes.get(session)
        return list(islice(lane.waiting, most)) if lane else []

    def take(self, session: str, items: Sequence[Item]) -> None:
        """Remove these items from a lane, because something else handles them. Items that are not in it are ignored."""
        lane = self._lanes.get(session)
        if lane is None:
            return
        left = list(items)
        while left and lane.waiting and lane.waiting[0] == left[0]:
            lane.waiting.popleft()
            left.pop(0)
        for item in left:
            if item in lane.waiting:
                lane.waiting.remove(item)

    def give_back(self, session: str, items: Sequence[Item]) -> None:
        """Put items at the front of a lane in which something still runs. Does nothing after ``drain``."""
        lane = self._lanes.get(session)
        if lane is not None and not self._closed:
            lane.waiting.extendleft(reversed(items))

    def stop(self, session: str, ending: Ending = "stop") -> bool:
        """Cancel what runs in a session; return whether anything did. What waits behind it goes on.

        Where nothing runs yet, or what runs is being interrupted, "stop" also applies to the first item that waits (``stops_next``): its
        work starts with that ending, without a hold and without a concurrency slot.
        """
        lane = self._lanes.get(session)
        if lane is None or lane.task is None:
            return False
        also_next = ending == "stop" and self.stops_next(session)
        if lane.running is not None:
            lane.next_stopped = lane.next_stopped or also_next
            if lane.running.ending is None:
                lane.running.ending = ending
                lane.task.cancel()
            elif also_next:
                lane.running.ending = ending
            return True
        if also_next:
            lane.next_stopped = True
            held = lane.task
            self._go_on(session, lane)
            held.cancel()
        return also_next

    def stops_next(self, session: str) -> bool:
        """Return whether ``stop`` would apply to the first item that waits: it is about to start, or what runs is interrupted for it."""
        lane = self._lanes.get(session)
        if lane is None or lane.task is None or not lane.waiting or self._paused or self._closed:
            return False
        return lane.running is None or lane.running.ending == "interrupt"

    def sessions(self) -> list[str]:
        """Return the sessions in which something runs or waits."""
        return list(self._lanes)

    async def quiet(self, of: Callable[[str], bool] = lambda _: True) -> None:
        """Wait until nothing runs, and nothing waits except during a pause. ``of`` selects the sessions."""
        while tasks := [lane.task for session, lane in self._lanes.items() if lane.task is not None and of(session)]:
            await asyncio.wait(tasks)

    async def forget(self, of: Callable[[str], bool], within: float | None = None) -> None:
        """Drop what waits in these sessions, and wait for what runs: the inbox has the rest, and another process goes on with it.

        What still runs after ``within`` seconds is cancelled.
        """
        while True:
            mine = {session: lane for session, lane in self._lanes.items() if of(session)}
            for lane in mine.values():
                lane.waiting.clear()
            tasks = [lane.task for lane in mine.values() if lane.task is not None]
            if not tasks:
                break
            _, late = await asyncio.wait(tasks, timeout=within)
            for lane in mine.values():
                if lane.task in late and (lane.running is None or lane.running.ending is None):
                    if lane.running is not None:
                        lane.running.ending = "drain"
                    lane.task.cancel()
        for session in mine:
            del self._lanes[session]

    async def drain(self, seconds: float, *, grace: float = 2.0) -> int:
        """Start nothing more, wait ``seconds`` for what runs, then cancel it; return how many items were cancelled.

        Cancelled items get ``grace`` seconds to clean up.
        """
        self._closed = True
        for session in [session for session, lane in self._lanes.items() if lane.running is None]:
            self._leave(self._lanes.pop(session))
        for lane in self._lanes.values():
            lane.waiting.clear()
        tasks = [lane.task for lane in self._lanes.values() if lane.task is not None]
        if not tasks:
            return 0
        _, late = await asyncio.wait(tasks, timeout=seconds)
        for lane in list(self._lanes.values()):
            if lane.task in late and lane.running is not None and lane.running.ending is None:
                lane.running.ending = "drain"
                lane.task.cancel()
        if late:
            await asyncio.wait(late, timeout=grace)
        return len(late)

    def _go_on(self, session: str, lane: _Lane[Item]) -> None:
        lane.task = asyncio.create_task(self._run_next(session, lane), name=f"lane {session}")

    async def _run_next(self, session: str, lane: _Lane[Item]) -> None:
        try:
            stopped, lane.next_stopped = lane.next_stopped, False
            if self.hold is not None and lane.waiting and not self._paused and not stopped:
                await self.hold(session)
            places = self._pools.get(self._pool_of(session), self._places)
            async with contextlib.nullcontext() if stopped else places:
                if lane.waiting and not self._paused:
                    lane.running = Ticket(session, lane.waiting.popleft(), "stop" if stopped else None)
                    await self._run(lane.running)
        finally:
            if lane.task is asyncio.current_task():  # another one has taken over where it was stopped before it began
                self._left(session, lane)

    def _left(self, session: str, lane: _Lane[Item]) -> None:
        lane.running = lane.task = None
        if lane.waiting and not self._closed:
            if not self._paused:
                self._go_on(session, lane)
        elif self._lanes.get(session) is lane:
            del self._lanes[session]

    async def _run(self, ticket: Ticket[Item]) -> None:
        try:
            await self.work(ticket)
        except asyncio.CancelledError:
            if ticket.ending is None:  # not our doing: the event loop ends
                self._closed = True
                raise
        except Exception as error:  # noqa: BLE001  (a turn that fails is told, and the session goes on)
            self._broken(ticket, error)

    def _leave(self, lane: _Lane[Item]) -> None:
        lane.waiting.clear()
        if lane.task is not None:
            lane.task.cancel()


class AgentsAtWork:
    """How many items each agent works on, and which agents may not begin another one, because they are being rebuilt."""

    def __init__(self) -> None:
        self.shut: dict[str, asyncio.Event] = {}
        """The agents that may not begin anything now, with what is set once they may."""
        self._items: Counter[str] = Counter()
        self._rest = asyncio.Event()

    @contextlib.contextmanager
    def working(self, agent: str) -> Iterator[bool]:
        """Count an item of an agent while the context is active; yields False where it may not begin any (see ``opened``)."""
        if agent in self.shut:
            yield False
            return
        self._items[agent] += 1
        try:
            yield True
        finally:
            self._items[agent] -= 1
            self._rest.set()

    async def opened(self, agent: str) -> None:
        """Wait while an agent may not begin anything."""
        while (shut := self.shut.get(agent)) is not None:
            await shut.wait()

    @contextlib.asynccontextmanager
    async def shutting(self, agent: str) -> AsyncIterator[None]:
        """Let an agent finish the items that it works on, and begin no others while the context is active."""
        shut = self.shut[agent] = asyncio.Event()
        try:
            while self._items[agent]:
                self._rest.clear()
                await self._rest.wait()
            yield
        finally:
            del self.shut[agent]
            shut.set()
