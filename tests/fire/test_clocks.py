"""Clocks that change to summer time and back, that are set, and that stand still for a night: what is due happens once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from agent.messages import AssistantMessage, Text
from agent.models.scripted import ScriptedModel
from channels.messages import ChatAddress
from gateway.base.clock import TickingClock
from gateway.jobs.scheduler import Scheduler
from gateway.ledger.rows import NewOutbound
from gateway.ledger.sqlite import SqliteLedger
from tests.gateway.conftest import Street
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from pathlib import Path

    from gateway.app.gateway import Gateway

MAIN = "agent:main:main"
DAY = 24 * 3600


class SetClock(TickingClock):
    """A clock that is also set: then the seconds since the start take no part in it."""

    def jump(self, seconds: float) -> None:
        """Set it forward or back."""
        self._now += timedelta(seconds=seconds)


class Night:
    """A house through a night: counts how often its session begins afresh."""

    def __init__(self, root: Path, *, hour: int, zone: str, begin: datetime) -> None:
        agent = {"userTimezone": zone, "memorySearch": {"enabled": False}}
        self.street = Street(root, {"agent": agent, "session": {"reset": {"mode": "daily", "atHour": hour}}})
        self.clock = self.street.clock = SetClock(begin)
        self.street.model = ScriptedModel(
            lambda _: AssistantMessage(content=(Text(text="hm"),), model="scripted/model", stop="end")
        )
        self.resets: list[datetime] = []
        self._session = ""

    async def look(self, house: Gateway) -> None:
        """Do what is due, and note whether the session is another one."""
        await house.schedule.tick()
        await house.lanes.quiet()
        record = house.agents["main"].store.get(MAIN)
        assert record is not None
        if self._session and record.session != self._session:
            self.resets.append(self.clock.now())
        self._session = record.session


@parametrize_some(
    2,
    ("zone", "begin", "hour"),
    [
        ("Europe/Berlin", "2026-03-28T18:05:00+00:00", 2),
        ("Europe/Berlin", "2026-03-28T18:05:00+00:00", 4),
        ("Europe/Berlin", "2026-10-24T18:05:00+00:00", 2),
        ("Europe/Berlin", "2026-10-24T18:05:00+00:00", 4),
        ("America/New_York", "2026-11-01T00:05:00+00:00", 1),
        ("Australia/Lord_Howe", "2026-04-04T08:05:00+00:00", 2),
        ("Asia/Kolkata", "2026-03-28T14:05:00+00:00", 4),
    ],
)
async def test_a_night_has_one_reset_however_often_its_hour_comes(tmp_path: Path, zone: str, begin: str, hour: int) -> None:
    night = Night(tmp_path, hour=hour, zone=zone, begin=datetime.fromisoformat(begin))
    async with night.street.house() as (house, talk):
        for half_hour in range(2 * 20):
            if half_hour % 2 == 0:  # the person lies awake, and speaks every hour
                await talk.ask("and another thing")
            night.clock.move(1800)
            await night.look(house)
    assert len(night.resets) == 1
    local = night.resets[0].astimezone(ZoneInfo(zone))
    assert hour <= local.hour + local.minute / 60 <= hour + 2


@parametrize_some(
    3,
    ("jumps", "resets"),
    [
        ([12 * 3600], 1),
        ([-3600, 3600], 0),
        ([12 * 3600, -12 * 3600, 12 * 3600], 1),
        ([DAY, -DAY, DAY, -3600, 3600], 1),
        ([-20_000 * DAY, 20_000 * DAY], 0),
        ([5000 * DAY], 1),
    ],
)
async def test_a_clock_that_is_set_back_and_forth_resets_once(tmp_path: Path, jumps: list[float], resets: int) -> None:
    night = Night(tmp_path, hour=4, zone="UTC", begin=datetime(2026, 3, 1, 18, tzinfo=UTC))
    async with night.street.house() as (house, talk):
        await talk.ask("good night")
        await night.look(house)
        for seconds in jumps:
            night.clock.jump(seconds)
            for _ in range(3):
                await night.look(house)
        assert len(night.resets) == resets
        await talk.ask("good morning")
        await talk.ask("how are you?")
    assert sum("New conversation" in text for text in talk.replies()) == resets


async def test_what_expired_while_the_machine_slept_is_told_once(tmp_path: Path) -> None:
    clock = SetClock(datetime(2026, 3, 1, 18, tzinfo=UTC))
    ledger = await SqliteLedger.open(tmp_path / "ledger.sqlite", clock)
    place = ChatAddress(channel="telegram", kind="direct", id="1")
    await ledger.outbox.enqueue(
        [NewOutbound(conversation=place, text=f"message {n}", ttl=timedelta(hours=1)) for n in range(3)]
    )
    clock.jump(12 * 3600)
    assert (await ledger.outbox.poll([])).expired == 3
    for seconds in (0, -12 * 3600, 12 * 3600, 60):
        clock.jump(seconds)
        assert (await ledger.outbox.poll([])).expired == 0
    waiting = await ledger.outbox.latest(["ready"])
    assert len(waiting) == 1
    assert "message 0" in waiting[0].text
    await ledger.close()


async def test_a_conversation_that_was_begun_while_the_clock_was_ahead_is_reset_the_next_morning(tmp_path: Path) -> None:
    night = Night(tmp_path, hour=4, zone="UTC", begin=datetime(2026, 3, 1, 18, tzinfo=UTC))
    night.clock.jump(40 * DAY)
    async with night.street.house() as (house, talk):
        await talk.ask("good night")
        await night.look(house)
    night.clock.jump(-40 * DAY)
    async with night.street.house() as (house, talk):
        await night.look(house)
        for _ in range(12):
            night.clock.move(3600)
            await night.look(house)
    assert [f"{at:%d %H}" for at in night.resets] == ["02 04"]


async def test_nothing_is_deleted_for_its_age_soon_after_the_clock_went_far_ahead(tmp_path: Path) -> None:
    clock = SetClock(datetime(2026, 3, 1, 18, tzinfo=UTC))
    swept: list[datetime] = []

    async def sweep() -> None:
        swept.append(clock.now())

    async def last_swept() -> datetime | None:
        return swept[-1] if swept else None

    def start() -> Scheduler:
        return Scheduler({}, clock, reset=lambda *_: None, sweep=sweep, last_swept=last_swept)

    await start().tick()
    assert len(swept) == 1
    for ahead in (40 * DAY, -40 * DAY):
        clock.jump(ahead)
        await start().tick()
    assert [f"{at:%B}" for at in swept] == ["March", "March"], "only at the start with the clock as it was"
    running = start()
    for ahead, hours in ((0, 1), (40 * DAY, 5), (-40 * DAY, 2)):
        clock.jump(ahead)
        for _ in range(hours):
            await running.tick()
            clock.move(3600)
    assert {f"{at:%B}" for at in swept} == {"March"}
    clock.jump(40 * DAY)
    before = len(swept)
    for _ in range(8):
        await running.tick()
        clock.move(3600)
    assert len(swept) == before + 1, "a clock that stays there is believed"


async def test_the_ledger_knows_when_it_was_swept_last(tmp_path: Path) -> None:
    clock = SetClock(datetime(2026, 3, 1, 18, tzinfo=UTC))
    ledger = await SqliteLedger.open(tmp_path / "ledger.sqlite", clock)
    assert await ledger.last_swept() is None
    await ledger.sweep()
    clock.jump(DAY)
    last = await ledger.last_swept()
    assert last is not None
    assert f"{last:%Y-%m-%d %H}" == "2026-03-01 18"
    await ledger.close()


async def test_what_was_queued_before_the_clock_was_set_does_not_expire_when_it_is(tmp_path: Path) -> None:
    clock = SetClock(datetime(1970, 1, 1, tzinfo=UTC))
    ledger = await SqliteLedger.open(tmp_path / "ledger.sqlite", clock)
    place = ChatAddress(channel="telegram", kind="direct", id="1")
    await ledger.outbox.enqueue([NewOutbound(conversation=place, text="good morning", ttl=timedelta(hours=1))])
    clock.jump(20_600 * DAY)
    assert (await ledger.outbox.poll([])).expired == 0
    clock.jump(2 * 3600)
    assert (await ledger.outbox.poll([])).expired == 1
    await ledger.close()
