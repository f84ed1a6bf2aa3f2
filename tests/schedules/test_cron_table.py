"""Cron expressions by the clock of Berlin: weekdays, days, names, and both changes of the clock."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from gateway.base.errors import ScheduleError
from gateway.schedules.parsing import parse_schedule
from gateway.schedules.schedule import next_after

BERLIN = ZoneInfo("Europe/Berlin")


def instants(expression: str, after: str, count: int) -> list[str]:
    now = datetime.fromisoformat(after).replace(tzinfo=BERLIN).astimezone(UTC)
    schedule = parse_schedule(expression, zone=BERLIN, now=now)
    found = []
    instant: datetime | None = now
    while len(found) < count and (instant := next_after(schedule, instant)) is not None:
        found.append(f"{instant.astimezone(BERLIN):%a %Y-%m-%d %H:%M%z}")
    return found


@pytest.mark.parametrize(
    ("expression", "after", "expected"),
    [
        pytest.param("0 9 * * 0", "2026-11-23T10:00", ["Sun 2026-11-29 09:00+0100"], id="weekday 0 is Sunday"),
        pytest.param("0 9 * * 7", "2026-11-23T10:00", ["Sun 2026-11-29 09:00+0100"], id="weekday 7 is Sunday"),
        pytest.param(
            "0 9 * * 1-5",
            "2026-11-27T10:00",
            ["Mon 2026-11-30 09:00+0100", "Tue 2026-12-01 09:00+0100"],
            id="1-5 is Monday to Friday",
        ),
        pytest.param(
            "30 2 * * *",
            "2027-03-27T12:00",
            ["Sun 2027-03-28 03:00+0200", "Mon 2027-03-29 02:30+0200"],
            id="a time that spring leaves out is due after the gap",
        ),
        pytest.param(
            "30 2 * * *",
            "2027-10-30T12:00",
            ["Sun 2027-10-31 02:30+0200", "Mon 2027-11-01 02:30+0100"],
            id="a time that autumn repeats is due once",
        ),
        pytest.param(
            "*/30 2 * * *",
            "2027-10-30T12:00",
            [
                "Sun 2027-10-31 02:00+0200",
                "Sun 2027-10-31 02:30+0200",
                "Sun 2027-10-31 02:00+0100",
                "Sun 2027-10-31 02:30+0100",
                "Mon 2027-11-01 02:00+0100",
            ],
            id="an interval goes on through the repeated hour",
        ),
        pytest.param(
            "0 0 13 * 5",
            "2026-11-11T00:00",
            [
                "Fri 2026-11-13 00:00+0100",
                "Fri 2026-11-20 00:00+0100",
                "Fri 2026-11-27 00:00+0100",
                "Fri 2026-12-04 00:00+0100",
            ],
            id="day of month or weekday",
        ),
        pytest.param("0 0 13 * 5", "2026-12-12T00:00", ["Sun 2026-12-13 00:00+0100"], id="the 13th on any weekday"),
        pytest.param(
            "0 9 L * *",
            "2027-02-01T00:00",
            ["Sun 2027-02-28 09:00+0100", "Wed 2027-03-31 09:00+0200"],
            id="last day of the month",
        ),
        pytest.param(
            "0 9 * * MON#1", "2026-11-23T10:00", ["Mon 2026-12-07 09:00+0100", "Mon 2027-01-04 09:00+0100"], id="first Monday"
        ),
    ],
)
def test_instants(expression: str, after: str, expected: list[str]) -> None:
    assert instants(expression, after, len(expected)) == expected


def test_a_day_that_no_month_has_is_refused_at_once() -> None:
    with pytest.raises(ScheduleError, match="never due") as refused:
        instants("0 0 31 2 *", "2026-11-23T00:00", 1)
    assert "0 9 * * 1-5" in refused.value.hint


@pytest.mark.parametrize("after", ["2026-04-20T12:00", "2026-04-23T23:30"])
def test_where_a_day_begins_with_a_gap_the_hours_that_do_not_exist_are_left_out(after: str) -> None:
    cairo = ZoneInfo("Africa/Cairo")  # on Friday, 24 April 2026, 00:00 to 01:00 do not exist
    now = datetime.fromisoformat(after).replace(tzinfo=cairo).astimezone(UTC)
    found = {}
    for expression in ("0 */6 * * 5", "0 * * * 5", "0 0 * * 5"):
        first = next_after(parse_schedule(expression, zone=cairo, now=now), now)
        assert first is not None
        found[expression] = f"{first.astimezone(cairo):%a %H:%M}"
    assert found == {"0 */6 * * 5": "Fri 06:00", "0 * * * 5": "Fri 01:00", "0 0 * * 5": "Fri 01:00"}
