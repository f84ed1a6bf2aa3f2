"""Quiet hours: by the owner's clock on the wall, over midnight, and on the days when clocks are changed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gateway.settings.quiet_hours import DailyHours, UnaskedRule, UnaskedSettings, rule_of

BERLIN = ZoneInfo("Europe/Berlin")
ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia", "UTC")


def hours(start: str, end: str) -> DailyHours:
    return DailyHours(start=start, end=end)


def at(text: str, zone: ZoneInfo = BERLIN, *, fold: int = 0) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=zone, fold=fold).astimezone(UTC)


@pytest.mark.parametrize(
    ("start", "end", "now", "until"),
    [
        ("22:00", "07:00", "2026-11-23 21:59:59", None),
        ("22:00", "07:00", "2026-11-23 22:00", "2026-11-24 07:00"),
        ("22:00", "07:00", "2026-11-24 00:00", "2026-11-24 07:00"),
        ("22:00", "07:00", "2026-11-24 06:59:59", "2026-11-24 07:00"),
        ("22:00", "07:00", "2026-11-24 07:00", None),
        ("13:00", "15:00", "2026-11-23 14:00", "2026-11-23 15:00"),
        ("13:00", "15:00", "2026-11-23 15:00", None),
        ("20:00", "24:00", "2026-11-23 23:59", "2026-11-24 00:00"),
        ("20:00", "24:00", "2026-11-24 00:00", None),
        ("00:00", "06:00", "2026-11-24 00:00", "2026-11-24 06:00"),
    ],
)
def test_hours_hold_from_their_start_to_their_end(start: str, end: str, now: str, until: str | None) -> None:
    rule = UnaskedRule(zone=BERLIN, quiet=hours(start, end))
    assert rule.quiet_until(at(now)) == (None if until is None else at(until))


def test_the_night_in_which_clocks_go_forward_is_an_hour_shorter() -> None:
    rule = UnaskedRule(zone=BERLIN, quiet=hours("22:00", "07:00"))
    assert rule.quiet_until(at("2027-03-27 22:00")) == at("2027-03-27 22:00") + timedelta(hours=8)
    ends_in_the_gap = UnaskedRule(zone=BERLIN, quiet=hours("22:00", "02:30"))
    assert ends_in_the_gap.quiet_until(at("2027-03-28 01:59")) == at("2027-03-28 03:00")
    assert ends_in_the_gap.quiet_until(at("2027-03-28 03:00")) is None


def test_hours_that_are_to_be_no_longer_than_said_end_at_the_first_of_two_times_and_begin_at_the_second() -> None:
    zone = ZoneInfo("Europe/Berlin")
    first, second = (datetime(2026, 10, 25, hour, 30, tzinfo=UTC) for hour in (0, 1))  # 02:30 twice
    minute = timedelta(minutes=1)
    for at, until_half_past, from_half_past, around in (
        (first - minute, True, False, True),
        (first + minute, False, False, True),
        (second - minute, False, False, True),
        (second + minute, False, True, True),
    ):
        for hours, active in (
            (DailyHours(start="20:00", end="02:30"), until_half_past),
            (DailyHours(start="02:30", end="08:00"), from_half_past),
            (DailyHours(start="01:00", end="08:00"), around),
        ):
            assert (hours.current(at, zone, at_least=True) is not None) == active, (at, hours)
    within = DailyHours(start="02:10", end="02:50")
    assert within.current(second, zone, at_least=True) is not None
    assert within.current(first, zone, at_least=True) is None


def test_an_hour_that_occurs_twice_is_quiet_both_times() -> None:
    rule = UnaskedRule(zone=BERLIN, quiet=hours("22:00", "02:30"))
    first, second = at("2027-10-31 02:30"), at("2027-10-31 02:30", fold=1)
    assert second - first == timedelta(hours=1)
    assert rule.quiet_until(first) == second, "the clock will show 02:00 to 02:30 once more"
    assert rule.quiet_until(second) is None
    begins = UnaskedRule(zone=BERLIN, quiet=hours("02:30", "07:00"))
    assert begins.quiet_until(first) == at("2027-10-31 07:00")
    assert begins.quiet_until(at("2027-10-31 02:10", fold=1)) is not None


@given(
    zone=st.sampled_from(ZONES).map(ZoneInfo),
    minutes=st.tuples(st.integers(0, 1439), st.integers(0, 1440)).filter(lambda pair: pair[0] != pair[1] % 1440),
    now=st.datetimes(datetime(2010, 1, 1), datetime(2030, 1, 1)).map(lambda one: one.replace(tzinfo=UTC)),  # noqa: DTZ001
)
def test_whatever_the_zone_the_clock_on_the_wall_and_the_rule_agree(
    zone: ZoneInfo, minutes: tuple[int, int], now: datetime
) -> None:
    """Whoever reads the clock is never disturbed within the hours; they last longer only where times occur twice or not at all."""
    start, end = (f"{minute // 60:02}:{minute % 60:02}" for minute in minutes)
    rule = UnaskedRule(zone=zone, quiet=hours(start, end))
    wall = now.astimezone(zone).hour * 60 + now.astimezone(zone).minute
    inside = minutes[0] <= wall < minutes[1] if minutes[0] < minutes[1] else wall >= minutes[0] or wall < minutes[1]
    until = rule.quiet_until(now)
    if inside:
        assert until is not None
    else:
        day = timedelta(days=1, hours=1)
        changes = {(now + offset).astimezone(zone).utcoffset() for offset in (-day, timedelta(0), day)}
        assert until is None or len(changes) > 1
    following = rule.next_quiet(now)
    assert following is not None
    assert now < following <= now + timedelta(days=3)
    if until is not None:
        assert now < until <= now + timedelta(hours=49)


def test_beyond_the_number_of_a_day_messages_are_kept_and_quiet_hours_come_first() -> None:
    rule = UnaskedRule(zone=BERLIN, quiet=hours("22:00", "07:00"), per_day=2)
    noon, night = at("2026-11-23 12:00"), at("2026-11-23 23:00")
    assert [rule.decide(noon, sent) for sent in (0, 1, 2, 3)] == ["send", "send", "keep", "keep"]
    assert rule.decide(night, 5) == "hold"
    assert (rule.day(night), rule.day(night + timedelta(hours=2))) == ("2026-11-23", "2026-11-24")


@pytest.mark.parametrize(
    ("given_settings", "complaint"),
    [
        ({"quietHours": {"start": "25:00", "end": "07:00"}}, "no time of day"),
        ({"quietHours": {"start": "10 pm", "end": "07:00"}}, "write it like 22:00"),
        ({"quietHours": {"start": "22:00", "end": "22:00"}}, "both 22:00"),
        ({"quietHours": {"start": "24:00", "end": "07:00"}}, "no time of day"),
        ({"quietHours": {"start": "00:00", "end": "24:00"}}, "hold messages for ever"),
        ({"unaskedPerDay": -1}, "greater than or equal to 0"),
    ],
)
def test_hours_that_cannot_be_meant_are_refused_with_what_to_write(given_settings: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        UnaskedSettings.model_validate(given_settings)


def test_times_may_be_written_with_one_figure() -> None:
    settings = UnaskedSettings.model_validate({"quietHours": {"start": "22:00", "end": "7:00"}, "unaskedPerDay": 3})
    assert rule_of(settings, BERLIN) == UnaskedRule(zone=BERLIN, quiet=hours("22:00", "07:00"), per_day=3)
