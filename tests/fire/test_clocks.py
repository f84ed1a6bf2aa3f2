"""Clocks that change to summer time and back, that are set, and that stand still for a night: what is due happens once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from agent.messages import AssistantMessage, Text
from agent.models.scripted import ScriptedModel
from channels.messages import ChatAddress
from gateway.base.clock import TickingClock
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
