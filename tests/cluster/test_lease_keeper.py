from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

from gateway.base.errors import StorageFailed
from gateway.cluster.lease_keeper import LeaseKeeper
from gateway.cluster.memory_leases import MemoryLeases
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from gateway.cluster.leases import Answer, Lease, Round


class Cuttable(MemoryLeases):
    """A store that can be unreachable."""

    away = False

    async def round(self, asked: Round) -> Answer:
        if self.away:
            raise StorageFailed("away")
        return await super().round(asked)


class Worker:
    """What a gateway does with its leases: work for each, and leave at once when it is asked to."""

    def __init__(self, store: MemoryLeases, name: str, seconds: float) -> None:
        self.working: set[str] = set()
        self.lost: list[str] = []
        self.keeper = LeaseKeeper(
            store, name, seconds, taken=self._begin, leave=self._leave, lost=self._stop, clock=time.monotonic
        )

    def _begin(self, lease: Lease) -> None:
        self.working.add(lease.token)

    def _leave(self, token: str) -> None:
        self.working.discard(token)
        self.keeper.left(token)

    def _stop(self, token: str) -> None:
        self.working.discard(token)
        self.lost.append(token)


@contextlib.asynccontextmanager
async def running(*workers: Worker) -> AsyncIterator[list[asyncio.Task[None]]]:
    tasks = [asyncio.ensure_future(worker.keeper.run()) for worker in workers]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110  (nobody announces it)
            await asyncio.sleep(0.01)


async def stored(*tokens: str) -> Cuttable:
    store = Cuttable(time.monotonic)
    await store.add(tokens)
    return store


async def test_two_gateways_share_and_one_takes_over_when_the_other_dies() -> None:
    store = await stored("a", "b", "c", "d")
    one, other = Worker(store, "one", 3.0), Worker(store, "other", 3.0)
    async with running(one, other) as (first, _):
        await until(lambda: len(one.working) == len(other.working) == 2)
        assert one.working | other.working == {"a", "b", "c", "d"}
        first.cancel()
        await until(lambda: len(other.working) == 4)
    assert other.lost == []


async def test_work_stops_when_the_store_is_away_for_longer_than_a_lease() -> None:
    store = await stored("a", "b")
    one = Worker(store, "one", 1.5)
    async with running(one):
        await until(lambda: one.working == {"a", "b"})
        store.away = True
        await until(lambda: not one.working)
        assert sorted(one.lost) == ["a", "b"]
        assert one.keeper.held("a") is None
        store.away = False
        await until(lambda: one.working == {"a", "b"})


async def test_a_gateway_that_is_emptied_leaves_everything_to_the_others_at_once() -> None:
    store = await stored("a", "b", "c")
    one, other = Worker(store, "one", 60.0), Worker(store, "other", 60.0)
    async with running(one):
        await until(lambda: len(one.working) == 3)
        assert await one.keeper.empty(PATIENCE)
        assert not one.working
    async with running(other):
        await until(lambda: len(other.working) == 3)


async def test_who_held_nothing_over_a_long_outage_lets_those_that_did_come_first() -> None:
    store = await stored("a")
    one, standing_by = Worker(store, "one", 2.0), Worker(store, "other", 2.0)
    async with running(one) as (first,):
        await until(lambda: one.working == {"a"})
        async with running(standing_by):
            await asyncio.sleep(1.0)
            store.away = True
            await until(lambda: one.lost == ["a"])
            first.cancel()
            await asyncio.sleep(1.5)
            began = time.monotonic()
            store.away = False
            await until(lambda: standing_by.working == {"a"})
            assert time.monotonic() - began >= 1.0
