"""A cell that cannot be given up begins its gateway anew, and does not end it; one that a gateway cannot hand over stays there."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

import pytest

from gateway.app import cluster_member
from gateway.app.cluster_joining import Joined
from gateway.app.cluster_member import REST_SECONDS, ClusterMember, Work
from gateway.app.dependencies import Dependencies
from gateway.base.errors import StorageFailed
from gateway.base.paths import Paths
from gateway.cluster.leases import Round
from gateway.cluster.memory_leases import MemoryLeases
from gateway.cluster.postgres_leases import Member
from gateway.settings.root import Settings
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


class Leases(MemoryLeases):
    """Those of one gateway, without a database."""

    member = Member("kitchen.1", "kitchen")

    async def retire(self, _wanted: object) -> int:
        return 0

    async def close(self) -> None:
        return


async def test_a_gateway_that_cannot_give_up_an_agent_starts_itself_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    taken: set[str] = set()
    both = asyncio.Event()

    async def connect() -> Any:
        raise StorageFailed("no database in this test")

    async def take(agents: Sequence[str], _accounts: Sequence[str]) -> None:
        taken.update(agents)
        if taken == {"main", "work"}:
            both.set()

    async def leave(_agents: Sequence[str], _accounts: Sequence[str], _within: float | None) -> None:
        raise KeyError("work")

    async def arrived() -> None:
        return

    def settings(*agents: str) -> Settings:
        return Settings.model_validate({"agents": {"list": [{"id": one} for one in agents]}})

    deps = Dependencies(settings=settings("main", "work"), paths=Paths(tmp_path, gateway="kitchen"), env={})
    joined: Any = Joined(None, Leases(time.monotonic), connect)  # type: ignore[arg-type]
    member = ClusterMember(deps, joined, lambda why: None if lost.done() else lost.set_result(why))
    member.work = Work(take, leave, arrived, lambda: None)
    with caplog.at_level(logging.ERROR):
        running = asyncio.ensure_future(member.run())
        try:
            async with asyncio.timeout(PATIENCE):
                await both.wait()
                await member.adopt(settings("main"))
                await asyncio.wait([running, lost], return_when=asyncio.FIRST_COMPLETED)
            assert not running.done(), "the whole gateway would have ended"
            assert "agent:work could not be given up" in await lost
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await member.close()
    assert "KeyError" in caplog.text


class Handing:
    """What a gateway works for, of which some cannot be handed over."""

    def __init__(self, why: str) -> None:
        self.here: set[str] = set()
        self.limits: set[float | None] = set()
        self.why = why
        self.asked = 0

    async def take(self, agents: Sequence[str], _accounts: Sequence[str]) -> None:
        self.here.update(agents)

    async def leave(self, agents: Sequence[str], _accounts: Sequence[str], within: float | None) -> None:
        self.here.difference_update(agents)
        self.limits.add(within)

    async def arrived(self) -> None:
        return

    async def hindrance(self, agents: Sequence[str]) -> str:
        self.asked += "work" in agents
        return self.why if "work" in agents else ""


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110  (nobody announces it)
            await asyncio.sleep(0.01)


async def test_what_a_resting_gateway_cannot_hand_over_stays_and_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_member, "KEPT_SECONDS", 0.0)
    leases, work = Leases(time.monotonic), Handing("its last notes have not arrived")

    async def connect() -> Any:
        raise StorageFailed("no database in this test")

    async def other_works() -> None:
        while True:
            leases.do(Round("cellar.1", 10, 3, renew={}, release={}, staying=0, most=0, leaving=False, cells=()))
            await asyncio.sleep(1)

    given = {"agents": {"list": [{"id": "main"}, {"id": "work"}]}, "cluster": {"leaseSeconds": 4}}
    deps = Dependencies(settings=Settings.model_validate(given), paths=Paths(tmp_path, gateway="kitchen"), env={})
    joined: Any = Joined(None, leases, connect)  # type: ignore[arg-type]
    told: list[tuple[str, str]] = []
    decided: list[bool] = []
    member = ClusterMember(deps, joined, pytest.fail)
    member.work = Work(work.take, work.leave, work.arrived, lambda: None, hindrance=work.hindrance)
    member.kept, member.decided = lambda tokens, why: told.append((tokens, why)), decided.append
    tasks = [asyncio.ensure_future(member.run())]
    try:
        await until(lambda: work.here == {"main", "work"})
        tasks.append(asyncio.ensure_future(other_works()))
        await asyncio.sleep(0)
        member.rest("its disk is full")
        await until(lambda: "main" not in work.here and work.asked >= 3)
        assert (work.here, told, decided) == ({"work"}, [("work", work.why)], [True])
        assert member.keeper.held("agent:work") is not None
        work.why = ""
        await until(lambda: not work.here)
        assert REST_SECONDS in work.limits
        member.rest("")
        tasks.pop().cancel()
        await until(lambda: work.here == {"main", "work"})
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await member.close()


async def test_what_is_to_go_while_something_else_is_given_up_is_given_up_too(tmp_path: Path) -> None:
    left: list[str] = []
    go_on, work = asyncio.Event(), Handing("")

    async def connect() -> Any:
        raise StorageFailed("no database in this test")

    async def leave(agents: Sequence[str], _accounts: Sequence[str], _within: float | None) -> None:
        left.extend(agents)
        if "work" in agents:
            await go_on.wait()

    def settings(*agents: str) -> Settings:
        given = {"agents": {"list": [{"id": one} for one in agents]}, "cluster": {"leaseSeconds": 4}}
        return Settings.model_validate(given)

    deps = Dependencies(settings=settings("main", "work", "home"), paths=Paths(tmp_path, gateway="kitchen"), env={})
    joined: Any = Joined(None, Leases(time.monotonic), connect)  # type: ignore[arg-type]
    member = ClusterMember(deps, joined, pytest.fail)
    member.work = Work(work.take, leave, work.arrived, lambda: None)
    running = asyncio.ensure_future(member.run())
    try:
        await until(lambda: work.here == {"main", "work", "home"})
        await member.adopt(settings("main", "home"))
        await until(lambda: left == ["work"])
        await member.adopt(settings("main"))
        await asyncio.sleep(0.5)  # a round, in which the lease on home is to be left as well
        go_on.set()
        await until(lambda: left == ["work", "home"])
        await until(lambda: member.facts()["holds"] == ["agent:main"])
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await member.close()


async def test_an_account_that_the_settings_have_only_now_is_not_connected_before_there_is_a_lease(tmp_path: Path) -> None:
    async def connect() -> Any:
        raise StorageFailed("no database in this test")

    deps = Dependencies(settings=Settings(), paths=Paths(tmp_path, gateway="kitchen"), env={})
    joined: Any = Joined(None, Leases(time.monotonic), connect)  # type: ignore[arg-type]
    member = ClusterMember(deps, joined, pytest.fail)
    assert not member.runs("telegram:default")
    assert not member.sends("telegram:default")
    assert member.runs("web:default")
    assert member.sends("terminal:default")
    await member.close()
