"""Fresh starts by the clock, on the system's own clock and through the real scheduler: nothing here stands still."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from gateway.base.clock import SystemClock
from gateway.jobs.scheduler import Scheduler
from gateway.ledger.ledger_backup import copies_of
from gateway.sessions.sessions_file import SessionRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.gateway.conftest import Street

    Make = Callable[..., Street]

MAIN = "agent:main:main"


@pytest.mark.parametrize("reset", [{"mode": "daily"}, {"mode": "idle", "idleMinutes": 1}, {"mode": "daily+idle"}])
async def test_an_overdue_session_starts_afresh_by_the_systems_clock(street: Make, reset: dict[str, Any]) -> None:
    s = street(session={"reset": reset})
    s.clock = SystemClock()
    s.model.reply_with(lambda _: "NO_REPLY")
    async with s.house() as (house, _):
        store = house.agents["main"].store
        past = s.clock.now() - timedelta(days=2)
        await store.put(SessionRecord(session="old", key=MAIN, started=past, spoken=past, turns=1))
        await house.schedule.tick()
        await house.lanes.quiet()
        fresh = store.get(MAIN)
        assert fresh is not None
        assert (fresh.session != "old", fresh.former) == (True, "old")
        assert fresh.spoken == past, "a fresh start is no word of a person"
        await house.schedule.tick()
        await house.lanes.quiet()
        again = store.get(MAIN)
        assert again is not None
        assert (again.session, again.former) == (fresh.session, "old"), "once"


async def test_a_session_that_stood_empty_over_days_begins_with_its_first_message(street: Make) -> None:
    s = street(session={"reset": {"mode": "daily", "atHour": 4, "deferMinutes": 30}})
    s.model.reply_with(lambda _: "Noted.")
    async with s.house() as (house, talk):
        store = house.agents["main"].store
        past = s.clock.now() - timedelta(days=2)
        await store.put(SessionRecord(session="empty", key=MAIN, started=past, spoken=past, turns=0))
        await talk.ask("We go to the lake.")
        for _ in range(4):
            s.clock.move(15 * 60)
            await house.schedule.tick()
            await house.lanes.quiet()
        await talk.ask("Where do we go?")
        (record,) = store.all()
        assert record.session == "empty"
        assert "lake" in str(s.model.requests[-1].messages)
        s.clock.move(24 * 3600)
        await house.schedule.tick()
        await house.lanes.quiet()
        (record,) = store.all()
        assert (record.session != "empty", record.former) == (True, "empty"), "four o'clock came meanwhile"


async def test_the_ledger_is_copied_every_hour_in_which_something_changed_and_at_the_end(street: Make) -> None:
    s = street()
    s.model.then("Hello!", "Good night!")
    async with s.house() as (house, talk):
        await house.schedule.tick()
        path = house.ledger.path
        (first,) = copies_of(path)
        await talk.ask("hello")
        while (await house.ledger.tally()).outbox.keys() - {"sent"}:  # noqa: ASYNC110  (nobody announces it)
            await asyncio.sleep(0.02)
        for minutes, copies in ((59, 1), (1, 2), (60, 2), (60, 2)):
            s.clock.move(60 * minutes)
            await house.schedule.tick()
            assert len(copies_of(path)) == copies, minutes
        await talk.ask("and good night")
    assert len(copies_of(path)) == 3
    assert first in copies_of(path)


async def test_a_loop_that_stood_still_loses_no_tick(street: Make, caplog: Any) -> None:
    s = street()
    async with s.house() as (house, _):
        ticked = asyncio.Event()

        async def sweep() -> None:
            ticked.set()

        schedule = Scheduler(house.agents, SystemClock(), reset=lambda *_: None, sweep=sweep, every=2.2)
        await schedule.start()
        time.sleep(3.6)  # noqa: ASYNC251  (that is the test: the loop stands still over a tick)
        await ticked.wait()
        schedule.stop()
        assert "was missed" not in caplog.text
