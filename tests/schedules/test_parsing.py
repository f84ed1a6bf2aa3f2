"""Schedules as people and models write them: what is understood, and what is refused with an example that works."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.base.errors import ScheduleError
from gateway.schedules.parsing import parse_schedule, zone_named
from gateway.schedules.schedule import Schedule, first_instant
from gateway.schedules.schedule_words import in_words, next_three, span_in_words
from tests.properties import examples

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 23, 2, 5, 30, tzinfo=UTC)  # Monday, 03:05:30 in Berlin


PIECES = [
    *("every", "in", "at", "on", "day", "monday", "hour", "minutes", "tomorrow", "and", ",", "@", "L", "MON"),
    *("0", "2", "9", "13", "31", "9:00", "30m", "*", "*/5", "1-5", "2026-12-01", "T09:00"),
]


def read(text: str) -> Schedule:
    return parse_schedule(text, zone=BERLIN, now=NOW)


@pytest.mark.parametrize(
    ("text", "words", "first"),
    [
        ("in 20 minutes", "Once, on Mon 23 Nov, 03:25:30", "Mon 03:25"),
        ("in 1h30m", "Once, on Mon 23 Nov, 04:35:30", "Mon 04:35"),
        ("In half an hour.", "Once, on Mon 23 Nov, 03:35:30", "Mon 03:35"),
        ("in 2 days and 3 hours", "Once, on Wed 25 Nov, 06:05:30", "Wed 06:05"),
        ("tomorrow at 9", "Once, on Tue 24 Nov, 09:00", "Tue 09:00"),
        ("tomorrow 9:30pm", "Once, on Tue 24 Nov, 21:30", "Tue 21:30"),
        ("monday at 9", "Once, on Mon 23 Nov, 09:00", "Mon 09:00"),
        ("on Friday at 8am", "Once, on Fri 27 Nov, 08:00", "Fri 08:00"),
        ("mon 03:00", "Once, on Mon 30 Nov, 03:00", "Mon 03:00"),
        ("at 9", "Once, on Mon 23 Nov, 09:00", "Mon 09:00"),
        ("at 03:05", "Once, on Tue 24 Nov, 03:05", "Tue 03:05"),
        ("noon", "Once, on Mon 23 Nov, 12:00", "Mon 12:00"),
        ("tonight", "Once, on Mon 23 Nov, 20:00", "Mon 20:00"),
        ("tonight at 8:30", "Once, on Mon 23 Nov, 20:30", "Mon 20:30"),
        ("tonight at 21:15", "Once, on Mon 23 Nov, 21:15", "Mon 21:15"),
        ("tonight at 11pm", "Once, on Mon 23 Nov, 23:00", "Mon 23:00"),
        ("tonight at 12", "Once, on Tue 24 Nov, 00:00", "Tue 00:00"),
        ("tonight at 1", "Once, on Tue 24 Nov, 01:00", "Tue 01:00"),
        ("tomorrow evening", "Once, on Tue 24 Nov, 19:00", "Tue 19:00"),
        ("this afternoon", "Once, on Mon 23 Nov, 15:00", "Mon 15:00"),
        ("friday morning", "Once, on Fri 27 Nov, 09:00", "Fri 09:00"),
        ("2027-03-01 09:00", "Once, on Mon 1 Mar 2027, 09:00", "Mon 09:00"),
        ("2027-03-01T09:00:00Z", "Once, on Mon 1 Mar 2027, 10:00", "Mon 10:00"),
        ("2027-03-01T09:00+05:30", "Once, on Mon 1 Mar 2027, 04:30", "Mon 04:30"),
        ("2027-03-28 02:30", "Once, on Sun 28 Mar 2027, 03:00", "Sun 03:00"),
        ("2027-10-31 02:30", "Once, on Sun 31 Oct 2027, 02:30", "Sun 02:30"),
        ("every 30m", "Every 30 minutes", "Mon 03:35"),
        ("every hour", "Every hour", "Mon 04:05"),
        ("every 90 minutes", "Every 1 hour 30 minutes", "Mon 04:35"),
        ("every 2 weeks", "Every 14 days", "Mon 03:05"),
        ("every 24 hours", "Every 24 hours", "Tue 03:05"),
        ("every day", "At 03:05 every day", "Tue 03:05"),
        ("every day at 9", "At 09:00 every day", "Mon 09:00"),
        ("daily at 8", "At 08:00 every day", "Mon 08:00"),
        ("every weekday at 7:30", "At 07:30 on Monday through Friday", "Mon 07:30"),
        ("every monday and friday at 18:00", "At 18:00 on Monday and Friday", "Mon 18:00"),
        ("every first monday at 9", "At 09:00 on the first Monday of the month", "Mon 09:00"),
        ("every last friday of the month at 17:00", "At 17:00 on the last Friday of the month", "Fri 17:00"),
        ("every second sunday of the month at noon", "At 12:00 on the second Sunday of the month", "Sun 12:00"),
        ("0 9 * * 1-5", "At 09:00 on Monday through Friday", "Mon 09:00"),
        ("cron 0 9 * * 1-5", "At 09:00 on Monday through Friday", "Mon 09:00"),
        ("*/7 * * * *", "Every seventh minute of every hour", "Mon 03:07"),
        ("0 9 * * monday", "At 09:00 on Monday", "Mon 09:00"),
        ("0 9 * * SAT-SUN", "At 09:00 on Saturday and Sunday", "Sat 09:00"),
        ("@daily", "At 00:00 every day", "Tue 00:00"),
        ("on 24 December at 18:00", "Once, on Thu 24 Dec, 18:00", "Thu 18:00"),
        ("24.12.2026 18:00", "Once, on Thu 24 Dec, 18:00", "Thu 18:00"),
        ("next monday at 8", "Once, on Mon 30 Nov, 08:00", "Mon 08:00"),
        ("tomorrow at half past nine", "Once, on Tue 24 Nov, 09:30", "Tue 09:30"),
        ("every month on the 31st at 8", "At 08:00 on the 31st day of every month", "Thu 08:00"),
        ("every year on 24 December at 9", "At 09:00 on December 24", "Thu 09:00"),
        ("weekdays at 7:30", "At 07:30 on Monday through Friday", "Mon 07:30"),
        ("jeden Montag um 8", "At 08:00 on Monday", "Mon 08:00"),
        ("15,45 * * * *", "At minutes 15 and 45 of every hour", "Mon 03:15"),
    ],
)
def test_what_is_understood(text: str, words: str, first: str) -> None:
    schedule = read(text)
    assert in_words(schedule, BERLIN, NOW) == words
    instant = first_instant(schedule, NOW)
    assert instant is not None
    assert f"{instant.astimezone(BERLIN):%a %H:%M}" == first


@pytest.mark.parametrize(
    ("text", "says", "hint"),
    [
        ("0 0 31 2 *", "never due", "0 9 * * 1-5"),
        ("0 0 */31 2 1#5", "never due", "0 9 * * 1-5"),
        ("*/7", "has 1 field; a cron expression has five", "Every 7 minutes is `*/7 * * * *`."),
        ("*/90 * * * *", "step /90 of the minute does not fit", "every 90 minutes"),
        ("* * * * * *", "has 6 fields", "Five fields"),
        ("0 9 * * FRI-MON", "not a cron expression", "Five fields"),
        ("@reboot", "not known", "@daily"),
        ("every 0 seconds", "every 0 seconds is too often", "every 2 hours"),
        ("every 59s", "too often", "every 2 hours"),
        ("every 99999999999 weeks", "too long a time span", "every 2 hours"),
        ("every 2 hours at 9", "both an interval and a time", "every 2 hours"),
        ("every monday", "no time of day", "`every monday at 9:00`"),
        ("every second monday at 9", "one of each month, or every few weeks", "`every second Monday of the month at 9:00`"),
        ("every first monday", "no time of day", "`every first monday at 9:00`"),
        ("every banana", "not a time span", "every 2 hours"),
        ("in", "not a time span", "in 20 minutes"),
        ("in 5 bananas", "not a time span", "in 20 minutes"),
        ("in 0 minutes", "is now, which is no time to come", "in 20 minutes"),
        ("in 0h0m", "is now, which is no time to come", "in 20 minutes"),
        ("60 * * * *", "Bad minute. The minute is 0 to 59", "0 9 * * 1-5"),
        ("0 24 * * *", "Bad hour. The hour is 0 to 23", "0 9 * * 1-5"),
        ("0 9 32 * *", "The day-of-month is 1 to 31", "0 9 * * 1-5"),
        ("0 9 * 13 *", "The month is 1 to 12", "0 9 * * 1-5"),
        ("0 9 * * 8", "The day-of-week is 0 to 7 (0 and 7 are Sunday)", "0 9 * * 1-5"),
        ("tonight at 25", "not a time of day", "tomorrow at 9:00"),
        ("banana", "not a schedule", "tomorrow at 9:00"),
        ("next monday", "not a schedule", "tomorrow at 9:00"),
        ("every year on 24 December", "not a time span", "every 2 hours"),
        ("on 24 December at 18:00 or so", "not a schedule", "tomorrow at 9:00"),
        ("every day at 8 and 20", "not a time of day", "every weekday at 7:30"),
        ("", "empty", "tomorrow at 9:00"),
        ("tomorrow", "no time of day", "`tomorrow at 9:00`"),
        ("at 25:00", "not a time of day", "tomorrow at 9:00"),
        ("2027-01-01", "no time of day", "`2027-01-01 09:00`"),
        ("2026-02-30 09:00", "not a date", "2027-03-01 09:00"),
        ("2026-11-22 09:00", "is in the past; it is 2026-11-23 03:05 now", "The next 09:00 is `2026-11-23 09:00`."),
        ("2026-11-23 03:04", "is in the past", "The next 03:04 is `2026-11-24 03:04`."),
        ("9999-12-31 23:59", "too far away", "2027-03-01 09:00"),
        ("9999-12-31T23:59:59-12:00", "too far away", "2027-03-01 09:00"),
        ("in 999 weeks and 99999 hours and 99999 weeks", "too long", "in 20 minutes"),
        ("w" * 100_000, "100000 characters is too long", "tomorrow at 9:00"),
    ],
)
def test_what_is_refused(text: str, says: str, hint: str) -> None:
    started = time.process_time()
    with pytest.raises(ScheduleError) as refused:
        read(text)
    assert says in str(refused.value)
    assert hint in refused.value.hint
    assert time.process_time() - started < 1


def test_an_instant_that_has_just_passed_is_kept() -> None:
    assert f"{first_instant(read('2026-11-23 03:05'), NOW):%H:%M}" == "02:05"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Europe/Berln", "Europe/Berlin"),
        ("berlin", "Europe/Berlin"),
        ("Mars/Phobos", "Europe/Berlin"),
        ("../../etc/passwd", "Europe/Berlin"),
        ("", "Europe/Berlin"),
        ("Europe", "Europe/"),
        ("z" * 10_000, "Europe/Berlin"),
    ],
)
def test_zones_that_do_not_exist(name: str, hint: str) -> None:
    with pytest.raises(ScheduleError, match="no time zone") as refused:
        zone_named(name)
    assert hint in refused.value.hint
    assert len(str(refused.value)) < 200


def test_a_schedule_in_another_zone_says_so_and_counts_in_the_owners() -> None:
    tokyo = parse_schedule("0 9 * * *", zone=ZoneInfo("Asia/Tokyo"), now=NOW)
    assert in_words(tokyo, BERLIN, NOW) == "At 09:00 every day (Asia/Tokyo)"
    assert [f"{one:%a %H:%M}" for one in next_three(tokyo, BERLIN, NOW)] == ["Tue 01:00", "Wed 01:00", "Thu 01:00"]
    assert [f"{one:%a %H:%M}" for one in next_three(read("in 1 hour"), BERLIN, NOW)] == ["Mon 04:05"]


def test_spans() -> None:
    assert span_in_words(0) == "0 seconds"
    assert span_in_words(3661) == "1 hour 1 minute 1 second"
    assert span_in_words(60, alone=True) == "minute"


@settings(max_examples=examples(300), deadline=None)
@given(
    st.text(max_size=60)
    | st.lists(
        st.sampled_from(PIECES),
        max_size=7,
    ).map(" ".join)
)
def test_any_text_is_read_or_refused_with_a_hint(text: str) -> None:
    try:
        schedule = read(text)
    except ScheduleError as error:
        refused = error
    else:
        first = first_instant(schedule, NOW)
        assert first is not None
        assert in_words(schedule, BERLIN, NOW)
        return
    assert refused.hint
