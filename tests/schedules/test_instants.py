"""The instants of a schedule do not depend on from where one looks, also over changes of the clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.base.errors import ScheduleError
from gateway.schedules.schedule import At, Every, cron, from_text, latest_until, next_after, to_text
from tests.properties import examples

if TYPE_CHECKING:
    from gateway.schedules.schedule import Schedule

ZONES = [
    ZoneInfo(name)
    for name in (
        "UTC",
        "Europe/Berlin",
        "America/New_York",
        "Africa/Cairo",
        "Australia/Lord_Howe",
        "Asia/Kathmandu",
        "America/Sao_Paulo",
    )
]
START = datetime(2026, 1, 1, tzinfo=UTC)
# the hours around both changes of the clock come up more often
CHANGES = [
    datetime(2026, month, day, 1, tzinfo=UTC) for month, day in ((3, 8), (3, 29), (4, 24), (4, 4), (10, 25), (10, 29), (11, 1))
]
MOMENTS = st.integers(0, 366 * 86_400).map(lambda seconds: START + timedelta(seconds=seconds)) | st.builds(
    lambda at, seconds: at + timedelta(seconds=seconds), st.sampled_from(CHANGES), st.integers(-86_400, 86_400)
)


@st.composite
def expressions(draw: st.DrawFn) -> str:
    fields = (
        ("0", "30", "*/15", "0,30", "59", "*", "*/7", "10-20"),
        ("0", "2", "1,2,3", "*/6", "*", "9-17", "3", "23"),
        ("*", "1", "13", "31", "L", "*/2", "LW"),
        ("*", "2", "3,10", "*/3"),
        ("*", "0", "7", "1-5", "MON#1", "5L", "6,0"),
    )
    return " ".join(draw(st.sampled_from(field)) for field in fields)


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    if draw(st.integers(0, 3)) == 0:
        return Every(draw(st.integers(60, 90 * 86_400)), draw(MOMENTS))
    while True:
        try:
            return cron(draw(expressions()), draw(st.sampled_from(ZONES)), START)
        except ScheduleError:
            continue


@settings(max_examples=examples(300), deadline=None)
@given(schedules(), MOMENTS, st.integers(0, 10**6))
def test_the_next_instant_is_the_same_from_wherever_one_looks(schedule: Schedule, moment: datetime, part: int) -> None:
    following = next_after(schedule, moment)
    assert following is not None
    assert following > moment
    between = moment + (following - moment) * (part / 10**6)
    if between < following:
        assert next_after(schedule, between) == following
    assert next_after(schedule, following - timedelta(microseconds=1)) == following
    later = next_after(schedule, following)
    assert later is not None
    assert later > following


@settings(max_examples=examples(200), deadline=None)
@given(schedules(), MOMENTS, st.integers(0, 200 * 86_400))
def test_the_latest_instant_is_the_one_before_the_next(schedule: Schedule, moment: datetime, seconds: int) -> None:
    first = next_after(schedule, moment)
    assert first is not None
    now = first + timedelta(seconds=seconds)
    latest = latest_until(schedule, first, now)
    assert first <= latest <= now
    following = next_after(schedule, latest)
    assert following is None or following > now


@given(schedules())
def test_a_schedule_is_read_as_it_was_written(schedule: Schedule) -> None:
    zone = getattr(schedule, "zone", ZoneInfo("UTC"))
    assert from_text(to_text(schedule), zone) == schedule
    assert from_text(to_text(At(START)), zone) == At(START)
