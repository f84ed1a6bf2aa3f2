"""What the owner is told when nothing can be written: at once where somebody has to act, not of a database that is only away."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from gateway.base.errors import StorageAway, StorageFailed
from gateway.ledger.rows import Turn
from gateway.queue.lanes import Lanes, Ticket
from gateway.queue.pause import Pause
from gateway.turns.storage_retry import StorageRetry
from gateway.turns.worker import InterruptedTurn
from tests.patience import PATIENCE


class Hurry:
    """A clock whose waits take no time."""

    def monotonic(self) -> float:
        return 1_000.0

    async def sleep(self, _seconds: float) -> None:
        await asyncio.sleep(0)


class Stage:
    def __init__(self, ledger: object = None) -> None:
        self.begun: list[Any] = []

        async def work(ticket: Ticket[Any]) -> None:
            self.begun.append(ticket.item)

        self.told: list[str] = []
        self.withdrawn: list[str] = []
        lanes = Lanes[str](work, limit=1, broken=lambda *_: None)
        self.pause = Pause(lanes, self.told.append, self.withdrawn.append)
        self.retry = StorageRetry(
            cast("Any", ledger), lanes, self.pause, cast("Any", Hurry()), self._tell, store_stops=self._tell_nobody
        )

    async def _tell(self, text: str) -> None:
        self.told.append(text)

    async def _tell_nobody(self) -> None: ...

    def met(self, error: StorageFailed, item: Any = "an item") -> None:
        self.retry.met(Ticket("s", item), error)

    async def over(self) -> None:
        async with asyncio.timeout(PATIENCE):
            while self.pause.causes:  # noqa: ASYNC110  (nobody announces it)
                await asyncio.sleep(0)


@pytest.fixture
async def stage() -> Stage:
    return Stage()


async def test_a_restart_of_the_database_is_not_told_though_everything_pauses(stage: Stage) -> None:
    stage.met(StorageAway("the database system is shutting down", where="postgresql://db/house"))
    assert "the database system is shutting down" in stage.pause.causes[0]
    await stage.over()
    assert stage.told == []


async def test_what_somebody_has_to_mend_is_told_at_once_and_its_end_too(stage: Stage) -> None:
    stage.met(StorageAway("the database system is shutting down"))
    stage.met(StorageFailed("its disk is full", hint="Free some space."))
    assert len(stage.told) == 1
    assert "its disk is full" in stage.told[0]
    await stage.over()
    assert stage.told[1:] == ["💾 I can write again, and go on."]
    stage.met(StorageAway("the database system is shutting down"))
    await stage.over()
    assert len(stage.told) == 2


async def test_a_failure_that_comes_back_soon_is_not_told_again_and_its_notice_ends_with_it(stage: Stage) -> None:
    stage.met(StorageFailed("its disk is full", hint="Free some space."))
    assert stage.withdrawn == []
    await stage.over()
    first, *_ = stage.told
    assert stage.withdrawn == [first]
    stage.met(StorageFailed("its disk is full", hint="Free some space."))
    await stage.over()
    assert stage.told.count(first) == 1


class Turns:
    """A ledger with one turn."""

    def __init__(self) -> None:
        self.turns = self
        self.uncounted = 0
        self.turn = Turn(
            id="t", session="s", agent="main", state="running", attempt=1, started_at=datetime.now(UTC), inbox=(1,)
        )

    async def unfinished(self) -> list[Turn]:
        return [self.turn]

    async def interrupted(self, _turn: str) -> None:
        self.uncounted += 1


@pytest.mark.parametrize(("error", "uncounted"), [(StorageAway("away"), 10), (StorageFailed("full"), 3)])
async def test_a_turn_may_meet_more_outages_of_the_database_than_full_disks(error: StorageFailed, uncounted: int) -> None:
    ledger = Turns()
    stage = Stage(ledger)
    for _ in range(12):
        stage.met(error, InterruptedTurn(ledger.turn))
        await stage.over()
    assert ledger.uncounted == uncounted


async def test_a_turn_of_an_agent_that_another_gateway_has_meanwhile_is_left_to_it() -> None:
    ledger = Turns()
    stage = Stage(ledger)
    stage.retry.here = lambda session: session != "s"
    stage.met(StorageFailed("full"), InterruptedTurn(ledger.turn))
    await stage.over()
    assert stage.begun == []
    stage.retry.here = lambda _: True
    stage.met(StorageFailed("full"), InterruptedTurn(ledger.turn))
    await stage.over()
    await asyncio.sleep(0)
    assert stage.begun == [InterruptedTurn(ledger.turn)]
