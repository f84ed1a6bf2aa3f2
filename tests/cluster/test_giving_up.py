"""A cell that cannot be given up begins its gateway anew, and does not end it."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

from gateway.app.cluster_joining import Joined
from gateway.app.cluster_member import ClusterMember, Work
from gateway.app.dependencies import Dependencies
from gateway.base.errors import StorageFailed
from gateway.base.paths import Paths
from gateway.cluster.memory_leases import MemoryLeases
from gateway.cluster.postgres_leases import Member
from gateway.settings.root import Settings
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pytest


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
