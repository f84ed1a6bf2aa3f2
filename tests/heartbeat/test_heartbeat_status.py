"""What /status says of heartbeats and of messages that were not sent."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from gateway.jobs.heartbeat_status import status_line
from gateway.ledger.spending_rows import UsageRow
from tests.heartbeat.test_heartbeat import Beating, hello

if TYPE_CHECKING:
    from pathlib import Path

BERLIN = ZoneInfo("Europe/Berlin")
FACTS: dict[str, Any] = {
    "agent": "main",
    "every": 1800,
    "skipped": None,
    "next": datetime(2026, 3, 1, 9, 30, tzinfo=UTC).isoformat(),
    "failures": 0,
    "trouble": "",
}
SPENT = [
    UsageRow(day="2026-03-01", agent=agent, name=name, calls=calls, input=0, output=0, cache_read=9000, cache_write=0, cost=cost, unpriced=0, open=0)  # noqa: E501
    for agent, name, calls, cost in (("main", "heartbeat:main", 12, 0.034), ("work", "heartbeat:work", 9, 9.0), ("main", "owner", 3, 7.0))
]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({}, "- 💓 Heartbeat every 30 min: next at 10:30; today 12 calls, $0.03"),
        ({"every": 7200}, "- 💓 Heartbeat every 2 h: next at 10:30; today 12 calls, $0.03"),
        ({"next": None}, "- 💓 Heartbeat every 30 min: begins in a moment; today 12 calls, $0.03"),
        ({"skipped": "quiet hours"}, "- 💓 Heartbeat every 30 min: paused in quiet hours; today 12 calls, $0.03"),
        ({"failures": 3}, "- 💓 Heartbeat (the last 3 failed, so less often than every 30 min): next at 10:30; today 12 calls, $0.03"),
        ({"skipped": "unreadable", "trouble": "HEARTBEAT.md is a folder"}, "- ⚠️ Heartbeat every 30 min: HEARTBEAT.md is a folder"),
        ({"skipped": "off"}, ""),
        ({"agent": "idle"}, "- 💓 Heartbeat every 30 min: next at 10:30"),
    ],
)  # fmt: skip
def test_the_line_says_when_and_what_it_costs(change: dict[str, Any], line: str) -> None:
    assert status_line(FACTS | change, SPENT, BERLIN) == line


@pytest.mark.parametrize(
    ("calls", "cost", "read", "said"),
    [(4, 0.08, 0, True), (2, 0.04, 0, False), (4, 0.08, 100, False), (4, 0.0, 0, False)],
)
def test_a_prompt_that_the_providers_cache_does_not_keep_is_told_of(calls: int, cost: float, read: int, said: bool) -> None:
    row = replace(SPENT[0], calls=calls, input=4000 * calls, cache_write=35 * calls, cache_read=read, cost=cost)
    line = status_line(FACTS, [row], BERLIN)
    assert (
        ", each at its full price: nothing came from the provider's cache. It may keep no prompt of 4,035 tokens;" in line
    ) == said


async def test_the_owner_sees_it_in_the_chat(tmp_path: Path) -> None:
    town = Beating(tmp_path, {"quietHours": {"start": "10:15", "end": "11:00"}})
    town.tasks()
    wire = town.wire()
    async with town.house(wire) as house:
        await hello(wire)
        await town.pass_by(house)
        town.verdict = "The boiler is out."
        town.clock.move(20 * 60)
        await house.schedule.tick()
        await wire.say("/status")
        await wire.until(lambda: "Heartbeat" in wire.said()[-1])
        assert "- 💓 Heartbeat every 30 min: next at 10:30; today 1 call," in wire.said()[-1]
