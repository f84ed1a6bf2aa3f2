"""When events are, compared with a walk over the days that shares nothing with the library."""

from __future__ import annotations

import signal
import time
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.calendar.ical_instances import instances
from gateway.calendar.ical_text import Broken, series_in
from gateway.calendar.ical_worker import TookTooLong, cpu_limit, listed
from tests.calendar.conftest import calendar, event
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from collections.abc import Iterator

BERLIN = ZoneInfo("Europe/Berlin")
DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
CHANGES = (date(2026, 3, 29), date(2026, 10, 25))
"""The days of 2026 on which Berlin's clocks change."""


def utc_of(local: datetime) -> datetime:
    """A local time in Berlin as an instant: the earlier of two; in the gap as if the clock had not been changed yet (RFC 5545, 3.3.5)."""
    candidates = [(local - timedelta(hours=offset)).replace(tzinfo=UTC) for offset in (2, 1)]
    fitting = [one for one in candidates if one.astimezone(BERLIN).replace(tzinfo=None) == local]
    return fitting[0] if fitting else candidates[1]


def found(text: str, start: datetime, end: datetime, zone: ZoneInfo = BERLIN) -> list[tuple[str, str]]:
    (series,) = series_in(text)
    return sorted((one["start"], one["end"]) for one in instances(series.events(), start, end, zone))


def walk(rule: dict[str, Any], first: datetime) -> Iterator[datetime]:
    """The local beginnings of a rule, day by day."""
    number, day = 0, first.date()
    while day.year < 2028:
        monday = first.date() - timedelta(days=first.weekday())
        fits = {
            "DAILY": lambda day=day: (day - first.date()).days % rule["interval"] == 0,
            "WEEKLY": lambda day=day, monday=monday: (
                (day - monday).days // 7 % rule["interval"] == 0 and day.weekday() in (rule["days"] or {first.weekday()})
            ),
            "MONTHLY": lambda day=day: (
                ((day.year - first.year) * 12 + day.month - first.month) % rule["interval"] == 0 and day.day == first.day
            ),
        }[rule["freq"]]
        local = datetime.combine(day, first.time())
        if day >= first.date() and fits():
            if rule["until"] is not None and utc_of(local) > rule["until"]:
                return
            number += 1
            if rule["count"] is not None and number > rule["count"]:
                return
            yield local
        day += timedelta(days=1)


@st.composite
def rules(draw: st.DrawFn) -> tuple[dict[str, Any], datetime, list[int]]:
    first = datetime.combine(
        draw(st.sampled_from(CHANGES)) - timedelta(days=draw(st.integers(0, 40))),
        datetime.min.time().replace(hour=draw(st.sampled_from([0, 1, 2, 3, 9, 23])), minute=draw(st.sampled_from([0, 30]))),
    )
    freq = draw(st.sampled_from(["DAILY", "WEEKLY", "MONTHLY"]))
    bound = draw(st.sampled_from(["", "count", "until"]))
    rule = {
        "freq": freq,
        "interval": draw(st.integers(1, 3)),
        "days": draw(st.sets(st.integers(0, 6), max_size=3)) | {first.weekday()}
        if freq == "WEEKLY" and draw(st.booleans())
        else set(),
        "count": draw(st.integers(1, 60)) if bound == "count" else None,
        "until": utc_of(first + timedelta(days=draw(st.integers(0, 60)))) if bound == "until" else None,
    }
    return rule, first, draw(st.lists(st.integers(0, 20), max_size=3, unique=True))


@given(rules())
def test_instances_over_clock_changes_are_those_of_a_walk_over_the_days(
    case: tuple[dict[str, Any], datetime, list[int]],
) -> None:
    rule, first, left_out = case
    line = f"RRULE:FREQ={rule['freq']};INTERVAL={rule['interval']}"
    line += f";BYDAY={','.join(DAYS[one] for one in sorted(rule['days']))}" if rule["days"] else ""
    line += f";COUNT={rule['count']}" if rule["count"] is not None else ""
    line += f";UNTIL={rule['until']:%Y%m%dT%H%M%SZ}" if rule["until"] is not None else ""
    start, end = first.replace(tzinfo=BERLIN) - timedelta(days=1), first.replace(tzinfo=BERLIN) + timedelta(days=70)
    locals_ = [one for one in walk(rule, first) if utc_of(one) < end]
    gone = {locals_[index] for index in left_out if index < len(locals_)}
    lines = [f"EXDATE;TZID=Europe/Berlin:{one:%Y%m%dT%H%M%S}" for one in sorted(gone)]
    text = calendar(event(f"DTSTART;TZID=Europe/Berlin:{first:%Y%m%dT%H%M%S}", "DURATION:PT45M", line, *lines))
    expected = [(utc_of(one), utc_of(one) + timedelta(minutes=45)) for one in locals_ if one not in gone]
    assert found(text, start, end) == sorted((a.isoformat(), b.isoformat()) for a, b in expected)


@given(st.integers(1, 200), st.integers(0, 300), st.integers(1, 10))
def test_all_day_events_are_days_whatever_the_clock_does(interval: int, offset: int, length: int) -> None:
    first = date(2026, 1, 31)
    text = calendar(
        event(
            f"DTSTART;VALUE=DATE:{first:%Y%m%d}",
            f"DTEND;VALUE=DATE:{first + timedelta(days=length):%Y%m%d}",
            f"RRULE:FREQ=DAILY;INTERVAL={interval}",
        )
    )
    day = first + timedelta(days=offset)
    start = datetime(day.year, day.month, day.day, tzinfo=BERLIN)
    begun = [first + timedelta(days=interval * number) for number in range(400)]
    expected = [one for one in begun if one <= day < one + timedelta(days=length)]
    assert [begin for begin, _ in found(text, start, start + timedelta(days=1))] == [one.isoformat() for one in expected]


def test_a_night_keeps_its_exact_length_where_its_end_is_given() -> None:
    text = calendar(
        event(
            "DTSTART;TZID=Europe/Berlin:20260327T220000", "DTEND;TZID=Europe/Berlin:20260328T060000", "RRULE:FREQ=DAILY;COUNT=2"
        )
    )
    assert found(text, datetime(2026, 3, 27, tzinfo=BERLIN), datetime(2026, 3, 31, tzinfo=BERLIN)) == [
        ("2026-03-27T21:00:00+00:00", "2026-03-28T05:00:00+00:00"),
        ("2026-03-28T21:00:00+00:00", "2026-03-29T05:00:00+00:00"),
    ]


def test_an_event_of_another_zone_moves_in_the_weeks_between_the_changes() -> None:
    text = calendar(event("DTSTART;TZID=America/New_York:20260305T090000", "DURATION:PT1H", "RRULE:FREQ=WEEKLY;COUNT=5"))
    starts = [datetime.fromisoformat(begin).astimezone(BERLIN) for begin, _ in found(
        text, datetime(2026, 3, 1, tzinfo=BERLIN), datetime(2026, 4, 30, tzinfo=BERLIN)
    )]  # fmt: skip
    assert [f"{one:%d %H}" for one in starts] == ["05 15", "12 14", "19 14", "26 14", "02 15"]


def test_a_time_without_zone_is_meant_where_the_owner_is() -> None:
    text = calendar(event("DTSTART:20260701T120000", "DTEND:20260701T130000"))
    for zone in ("Europe/Berlin", "Asia/Tokyo"):
        begin = datetime(2026, 7, 1, 12, tzinfo=ZoneInfo(zone)).astimezone(UTC).isoformat()
        assert found(text, datetime(2026, 6, 30, tzinfo=UTC), datetime(2026, 7, 3, tzinfo=UTC), ZoneInfo(zone))[0][0] == begin


def test_moved_added_and_left_out_instances() -> None:
    text = calendar(
        event(
            "SUMMARY:Choir", "DTSTART;TZID=Europe/Berlin:20260316T190000", "DURATION:PT2H", "RRULE:FREQ=WEEKLY",
            "EXDATE;TZID=Europe/Berlin:20260323T190000", "RDATE;TZID=Europe/Berlin:20260326T190000",
        ),
        event("SUMMARY:Choir", "RECURRENCE-ID:20260330T170000Z", "DTSTART;TZID=Europe/Berlin:20260331T200000", "DURATION:PT1H"),
    )  # fmt: skip
    starts = [datetime.fromisoformat(begin).astimezone(BERLIN) for begin, _ in found(
        text, datetime(2026, 3, 1, tzinfo=BERLIN), datetime(2026, 4, 7, tzinfo=BERLIN)
    )]  # fmt: skip
    assert [f"{one:%d.%m. %H}" for one in starts] == ["16.03. 19", "26.03. 19", "31.03. 20", "06.04. 19"]


def test_alarms_before_after_the_end_absolute_and_repeated() -> None:
    def alarm(*lines: str) -> str:
        return "\r\n".join(["BEGIN:VALARM", "ACTION:DISPLAY", "DESCRIPTION:x", *lines, "END:VALARM"])

    text = calendar(event(
        "DTSTART;TZID=Europe/Berlin:20260329T030000", "DURATION:PT1H", alarm("TRIGGER:-PT2H"), alarm("TRIGGER;RELATED=END:PT5M"),
        alarm("TRIGGER;VALUE=DATE-TIME:20260301T120000Z"), alarm("TRIGGER:-PT10M", "REPEAT:2", "DURATION:PT5M"),
    ))  # fmt: skip
    (series,) = series_in(text)
    (one,) = instances(series.events(), datetime(2026, 3, 28, tzinfo=UTC), datetime(2026, 3, 30, tzinfo=UTC), BERLIN)
    assert one["alarms"] == [
        f"2026-03-{rest}:00Z" for rest in ("01T12:00", "28T23:00", "29T00:50", "29T00:55", "29T01:00", "29T02:05")
    ]


def test_an_alarm_that_cannot_be_read_costs_no_event() -> None:
    bad = "BEGIN:VALARM\r\nACTION:DISPLAY\r\nTRIGGER:nonsense\r\nEND:VALARM"
    (series,) = series_in(calendar(event("DTSTART:20260329T030000Z", bad, "SUMMARY:Fine")))
    (one,) = instances(series.events(), datetime(2026, 3, 29, tzinfo=UTC), datetime(2026, 3, 30, tzinfo=UTC), BERLIN)
    assert (one["title"], one["alarms"]) == ("Fine", [])


BAD = [
    (["DTSTART:garbage"], "DTSTART"),
    (["SUMMARY:no time"], "no DTSTART"),
    (["DTSTART:20260301T100000Z", "RRULE:FREQ=BOGUS"], "RRULE"),
    (["DTSTART:20260301T100000Z", "RRULE:FREQ=SECONDLY"], "repeats"),
    (["DTSTART:19700101T000000Z", "RRULE:FREQ=SECONDLY"], "repeats so often"),
    (["DTSTART:20260301T000000Z", "RRULE:FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30"], "repeats so often"),
    (["DTSTART:20260301T100000Z", "RRULE:FREQ=DAILY;INTERVAL=0"], "repeats so often"),
]


@parametrize_some(3, ("lines", "why"), BAD)
def test_an_event_that_cannot_be_worked_out_is_named_and_costs_no_other(lines: list[str], why: str) -> None:
    good = event("SUMMARY:Good", "DTSTART;TZID=Europe/Berlin:20260301T120000", "DURATION:PT1H", uid="good")
    text = calendar(event("SUMMARY:Bad", *lines, uid="bad"), good)
    told = listed(
        {"objects": [text], "zone": "Europe/Berlin", "start": "2026-03-01T00:00:00+01:00", "end": "2026-03-02T00:00:00+01:00"}
    )
    assert [one["title"] for one in told["instances"]] == ["Good"]
    (broken,) = told["broken"]
    assert why in broken["why"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_limit_of_cpu_time_is_none_of_the_errors_that_libraries_turn_into_others() -> None:
    def busy(seconds: float) -> None:
        ends = time.process_time() + seconds
        while time.process_time() < ends:
            sum(range(1000))

    class Finalized:
        def __del__(self) -> None:
            busy(0.2)

    def read_text() -> None:
        try:
            busy(20)
        except Exception as error:
            raise ValueError("Wrong datetime format") from error

    def go_on() -> None:
        Finalized()
        busy(20)

    with pytest.raises(TookTooLong), cpu_limit(0.05):
        read_text()
    with pytest.raises(TookTooLong), cpu_limit(0.05):
        go_on()
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)


def test_an_event_without_an_end_and_text_between_events_cost_no_other() -> None:
    text = f"junk\r\n{calendar(event('SUMMARY:Cut', 'DTSTART:20260301T100000Z', uid='cut').removesuffix('END:VEVENT'))}"
    text = text.replace("END:VCALENDAR", event("SUMMARY:Good", "DTSTART:20260301T110000Z", uid="good") + "\r\nEND:VCALENDAR")
    told = listed({"objects": [text], "zone": "UTC", "start": "2026-03-01T00:00:00+00:00", "end": "2026-03-02T00:00:00+00:00"})
    assert [one["title"] for one in told["instances"]] == ["Good"]
    assert [one["title"] for one in told["broken"]] == ["Cut"]


@given(st.text(alphabet='BEGIN:VEVENTDSTARTRRULE=FQ;2026T0Z\r\n "\\', max_size=300), st.booleans())
def test_no_text_raises_anything_else(text: str, inside: bool) -> None:
    if inside:
        text = calendar(event("DTSTART:20260301T100000Z", text))
    for series in series_in(text):
        try:
            instances(series.events(), datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 2, tzinfo=UTC), BERLIN)
        except Broken:
            continue


def test_a_large_feed_is_read_by_its_period() -> None:
    days = [date(2020, 1, 1) + timedelta(days=number) for number in range(4000)]
    text = calendar(
        *(event(f"SUMMARY:{one}", f"DTSTART:{one:%Y%m%d}T100000Z", f"DTEND:{one:%Y%m%d}T110000Z", uid=str(one)) for one in days)
    )
    told = listed({"objects": [text], "zone": "UTC", "start": "2026-03-01T00:00:00+00:00", "end": "2026-03-03T00:00:00+00:00"})
    assert [one["title"] for one in told["instances"]] == ["2026-03-01", "2026-03-02"]
