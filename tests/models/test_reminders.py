"""What the notebook understands of reminders, in English and German."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agent.models.notebook.due_time import UnclearTime, When, when_of
from agent.models.notebook.intents import Ask, File, Talk, understand
from agent.models.notebook.reminder_calls import Due, due_or_why
from agent.models.notebook.reminders import Remind, Reminders
from agent.models.notebook.said_time import NOTHING
from agent.models.notebook.time_words import first_words, last_words
from gateway.base.errors import ScheduleError
from gateway.schedules.parsing import parse_schedule
from gateway.schedules.schedule import At, Cron, Every, next_after

if TYPE_CHECKING:
    from gateway.schedules.schedule import Schedule

NOW = datetime(2026, 11, 23, 14, 5)  # noqa: DTZ001 -- the owner's local time, a Monday
BERLIN = ZoneInfo("Europe/Berlin")
ZONES = (
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Pacific/Auckland",
    "UTC",
    "America/St_Johns",
)


def due(said: str, now: datetime = NOW) -> tuple[str, str]:
    """Return the text of a reminder and when it is due."""
    wish = understand(said)
    assert isinstance(wish, Remind), said
    return wish.text, when_of(wish.said, now).text


SAID = [
    ("remind me tomorrow at 9 to water the plants", "Water the plants", "2026-11-24T09:00"),
    ("Remind me in 20 minutes to take the bread out.", "Take the bread out", "in 20 minutes"),
    ("every weekday at 8 remind me to take the pills", "Take the pills", "0 8 * * 1-5"),
    ("remind me on Friday at 14:30 about the dentist", "The dentist", "2026-11-27T14:30"),
    ("remind me on 24 December to call mum", "Call mum", "2026-12-24T09:00"),
    ("remind me on December 24th at 6pm of dinner", "Dinner", "2026-12-24T18:00"),
    ("remind me on 2026-12-01 at 10:00 to pay", "Pay", "2026-12-01T10:00"),
    ("remind me on May 4 at 10 to renew the passport", "Renew the passport", "2027-05-04T10:00"),
    ("please remind me at noon to eat", "Eat", "2026-11-24T12:00"),
    ("can you remind me tomorrow evening at 8 to call Tom?", "Call Tom", "2026-11-24T20:00"),
    ("remind me tonight at 10 to lock the door", "Lock the door", "2026-11-23T22:00"),
    ("remind me tonight at 1 to look at the moon", "Look at the moon", "2026-11-24T01:00"),
    ("remind me tonight at 12 to look at the moon", "Look at the moon", "2026-11-24T00:00"),
    ("remind me today at 5 to leave", "Leave", "2026-11-23T17:00"),
    ("remind me the day after tomorrow of the party", "The party", "2026-11-25T09:00"),
    ("remind me in half an hour to check the oven", "Check the oven", "in 30 minutes"),
    ("remind me in an hour and a half of the oven", "The oven", "in 90 minutes"),
    ("remind me in 1h30 of the oven", "The oven", "in 90 minutes"),
    ("remind me in two weeks at 10 to call the vet", "Call the vet", "2026-12-07T10:00"),
    ("remind me next Monday to go", "Go", "2026-11-30T09:00"),
    ("remind me to call Bob tomorrow at 15:00", "Call Bob", "2026-11-24T15:00"),
    ("remind me tomorrow to call Bob at 15:00", "Call Bob", "2026-11-24T15:00"),
    ("remind me tomorrow about the meeting at 3", "The meeting at 3", "2026-11-24T09:00"),
    ("remind me at 9 to call the plumber on Friday", "Call the plumber on Friday", "2026-11-24T09:00"),
    ("remind me every 2 hours to drink water", "Drink water", "every 2h"),
    ("remind me every 45 minutes to stand up", "Stand up", "every 45m"),
    ("remind me every day at 7:15 to stretch", "Stretch", "15 7 * * *"),
    ("remind me on weekends at 10 to bake", "Bake", "0 10 * * 0,6"),
    ("remind me every Monday and Thursday at 7pm to put the bins out", "Put the bins out", "0 19 * * 1,4"),
    ("remind me on Tuesdays at 6 pm of choir", "Choir", "0 18 * * 2"),
    ("remind me every month on the 1st to pay the rent", "Pay the rent", "0 9 1 * *"),
    ("remind me on the 1st of every month at 10am to pay the rent", "Pay the rent", "0 10 1 * *"),
    ("remind me every year on 4 May to congratulate Anna", "Congratulate Anna", "0 9 4 5 *"),
    ("set a reminder for tomorrow at 9 to call", "Call", "2026-11-24T09:00"),
    ("remind me at 5", "", "2026-11-24T05:00"),
    ("erinnere mich morgen um 9 an den Zahnarzt", "Den Zahnarzt", "2026-11-24T09:00"),
    ("Erinnere mich morgen früh an die Post.", "Die Post", "2026-11-24T09:00"),
    ("erinnere mich in 20 Minuten an die Pizza", "Die Pizza", "in 20 minutes"),
    ("erinnere mich in einer halben Stunde an die Wäsche", "Die Wäsche", "in 30 minutes"),
    ("erinnere mich in anderthalb Stunden an die Wäsche", "Die Wäsche", "in 90 minutes"),
    ("erinnere mich in einer Viertelstunde an die Wäsche", "Die Wäsche", "in 15 minutes"),
    ("Erinner mich bitte heute Abend um 8 daran, den Müll rauszubringen", "Den Müll rauszubringen", "2026-11-23T20:00"),
    ("erinnere mich jeden Montag um 8 an den Müll", "Den Müll", "0 8 * * 1"),
    ("erinnere mich montags und donnerstags um 19 Uhr an den Müll", "Den Müll", "0 19 * * 1,4"),
    ("erinnere mich werktags um 7:30 an die Tabletten", "Die Tabletten", "30 7 * * 1-5"),
    ("jeden Tag um 8 erinnere mich an die Tabletten", "Die Tabletten", "0 8 * * *"),
    ("erinnere mich am 24. Dezember um 18 Uhr an das Geschenk", "Das Geschenk", "2026-12-24T18:00"),
    ("erinnere mich am 24.12. an das Geschenk", "Das Geschenk", "2026-12-24T09:00"),
    ("erinnere mich am Freitag um halb neun an den Friseur", "Den Friseur", "2026-11-27T08:30"),
    ("erinnere mich nächsten Freitag um 10 Uhr 30 daran, dass Tom kommt", "Tom kommt", "2026-11-27T10:30"),
    ("erinnere mich jeden Monat am 1. an die Miete", "Die Miete", "0 9 1 * *"),
    ("erinnere mich alle 2 Stunden ans Trinken", "Ans Trinken", "every 2h"),
    ("Kannst du mich morgen um 9 an den Zahnarzt erinnern?", "Den Zahnarzt", "2026-11-24T09:00"),
    ("erinnere mich an den Zahnarzt morgen um 9", "Den Zahnarzt", "2026-11-24T09:00"),
    ("vergiss nicht: morgen um 9 Milch kaufen", "Milch kaufen", "2026-11-24T09:00"),
    ("Vergiss bitte nicht, um 18 Uhr den Müll rauszubringen", "Den Müll rauszubringen", "2026-11-23T18:00"),
    ("don't forget to call mum tomorrow at 9", "Call mum", "2026-11-24T09:00"),
    ("remind me in a fortnight to pay the rent", "Pay the rent", "2026-12-07T09:00"),
    ("remind me every fortnight to water the cactus", "Water the cactus", "every 336h"),
    ("remind me on 24/12 to call mum", "Call mum", "2026-12-24T09:00"),
    ("remind me to call mum on 12/24/2026 at 10", "Call mum", "2026-12-24T10:00"),
    ("erinnere mich am 24/12 an das Geschenk", "Das Geschenk", "2026-12-24T09:00"),
    ("remind me tomorrow to buy a 13/16", "Buy a 13/16", "2026-11-24T09:00"),
]


@pytest.mark.parametrize(
    "said",
    [
        "vergiss nicht: Milch",
        "vergiss nicht, dass morgen um 9 der Arzt kommt",
        "vergiss nicht: Mama hat am 3. Mai Geburtstag",
        "vergiss nicht: jeden Montag kommt die Müllabfuhr",
        "don't forget the meeting is at 3 tomorrow",
    ],
)
def test_what_is_not_to_be_forgotten_and_asks_for_nothing_is_noted(said: str) -> None:
    assert isinstance(understand(said), File)


@pytest.mark.parametrize(("said", "text", "when"), SAID)
def test_a_reminder_is_understood(said: str, text: str, when: str) -> None:
    assert due(said) == (text, when)


@pytest.mark.parametrize(("said", "_text", "when"), SAID)
def test_the_tool_reads_every_time_that_the_notebook_writes(said: str, _text: str, when: str) -> None:
    now = NOW.replace(tzinfo=BERLIN)
    schedule = parse_schedule(due(said)[1], zone=BERLIN, now=now)
    if when.startswith(("2026-", "2027-")):
        assert schedule == At(datetime.fromisoformat(when).replace(tzinfo=BERLIN).astimezone(UTC))
    first = next_after(schedule, now)
    assert first is not None
    assert first > now


@pytest.mark.parametrize(
    ("said", "note"),
    [
        ("remind me tomorrow to water the plants", "You named no time, so I took 09:00."),
        ("remind me at 9 to call Anna", "09:00 is past for today, so I took tomorrow. If you meant 21:00 today, say so."),
        ("remind me at 9 am to call Anna", "09:00 is past for today, so I took tomorrow."),
        ("remind me today at 5 to leave", "05:00 is past, so I took 17:00."),
        ("remind me on Monday at 18:00 to leave", "Today is Monday, so I took today; say “next Monday” for the one in a week."),
        ("remind me weekly at 9 to water", "You named no day, so I took Monday."),
        ("remind me on the 31st of every month at 9 to pay", "Months without a day 31 are left out."),
    ],
)
def test_what_was_assumed_is_said(said: str, note: str) -> None:
    wish = understand(said)
    assert isinstance(wish, Remind)
    assert when_of(wish.said, NOW).notes == (note,)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("remind me to buy milk", "^$"),
        ("remind me at 25 to leave", "^$"),
        ("remind me on 31 February to leave", "^$"),
        ("remind me today to leave", "Say at what time today"),
        ("remind me on 3/4 to pay", "Say the month by its name"),
        ("every fortnight on Friday remind me to sweep", "every 2 weeks"),
        ("remind me on 2026-11-20 at 9 to leave", "is past"),
        ("remind me on 1 March 2020 to leave", "1 March 2020 is past"),
        ("remind me every 2 days at 9 to run", "every Monday and Thursday at 9"),
        ("remind me every year to renew it", "on which day of the year"),
    ],
)
def test_a_time_that_cannot_be_is_not_guessed(said: str, why: str) -> None:
    wish = understand(said)
    assert isinstance(wish, Remind)
    with pytest.raises(UnclearTime, match=why):
        when_of(wish.said, NOW)


@pytest.mark.parametrize(
    ("said", "which"),
    [
        ("delete reminder 2", "2"),
        ("cancel the reminder about the dentist", "the dentist"),
        ("remove my reminder to water the plants", "water the plants"),
        ("please delete the reminder abcde", "abcde"),
        ("lösche die Erinnerung an den Zahnarzt", "Zahnarzt"),
        ("Lösch Erinnerung 3", "3"),
    ],
)
def test_a_reminder_to_remove_is_named(said: str, which: str) -> None:
    assert understand(said) == Reminders("remove", which)


@pytest.mark.parametrize(
    "said",
    [
        "what reminders do I have?",
        "my reminders",
        "Show me my reminders",
        "list reminders",
        "welche Erinnerungen habe ich?",
        "Meine Erinnerungen",
    ],
)
def test_reminders_are_listed(said: str) -> None:
    assert understand(said) == Reminders("list")


@pytest.mark.parametrize(
    "said", ["remind me what the code is", "remind me where the key is", "when did you remind me of the key?"]
)
def test_a_question_is_no_reminder(said: str) -> None:
    assert isinstance(understand(said), Ask)


@pytest.mark.parametrize(
    "said",
    [
        "tomorrow my wife will remind me to call",
        "remember that on Friday at 9 is choir",
        "The dentist is on Friday at 14:30",
        "Anna reminds me of you",
    ],
)
def test_a_statement_with_a_time_is_a_note(said: str) -> None:
    assert isinstance(understand(said), File)


def test_a_polite_german_wish_keeps_all_of_its_words() -> None:
    wish = understand("Kannst du mich am Freitag an den Müll erinnern?")
    assert isinstance(wish, Remind)
    assert (wish.text, wish.fact) == ("Den Müll", "am Freitag an den Müll")


moments = st.datetimes(datetime(2020, 1, 1), datetime(2090, 1, 1)).map(lambda at: at.replace(second=0, microsecond=0))  # noqa: DTZ001
days = st.dates(date(2020, 1, 1), date(2090, 1, 1))
times = st.tuples(st.integers(0, 23), st.integers(0, 59))
MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
MONATE = ["Januar", "Februar", "März", "April", "Mai", "Juni", "Juli", "August", "September", "Oktober", "November", "Dezember"]
WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


@given(moments, days, times, st.integers(0, 5))
def test_a_full_date_and_time_is_that_instant_or_past(now: datetime, day: date, time: tuple[int, int], form: int) -> None:
    hour, minute = time
    clock = f"{hour:02}:{minute:02}"
    said = (
        f"remind me on {day.isoformat()} at {clock} to go",
        f"remind me on {day.day} {MONTHS[day.month - 1]} {day.year} at {clock} to go",
        f"remind me at {clock} on {MONTHS[day.month - 1]} {day.day}, {day.year} to go",
        f"remind me to go on {day.day}.{day.month}.{day.year} at {clock}",
        f"erinnere mich am {day.day}. {MONATE[day.month - 1]} {day.year} um {clock} ans Gehen",
        f"erinnere mich am {day:%d.%m.%Y} um {hour} Uhr {minute:02} ans Gehen",
    )[form]
    wanted = datetime(day.year, day.month, day.day, hour, minute)  # noqa: DTZ001 -- the owner's local time
    if wanted > now:
        assert due(said, now) == ("Ans Gehen" if form > 3 else "Go", f"{wanted:%Y-%m-%dT%H:%M}")
    else:
        with pytest.raises(UnclearTime, match="past"):
            due(said, now)


@given(moments, st.integers(0, 6), times)
def test_a_weekday_is_the_next_one_whose_time_is_to_come(now: datetime, weekday: int, time: tuple[int, int]) -> None:
    _, when = due(f"remind me on {WEEKDAYS[weekday]} at {time[0]:02}:{time[1]:02} to go", now)
    at = datetime.fromisoformat(when)
    assert at.weekday() == weekday
    assert (at.hour, at.minute) == time
    assert now < at <= now + timedelta(days=7)


@given(moments, times)
def test_a_time_alone_is_the_next_one_on_the_clock(now: datetime, time: tuple[int, int]) -> None:
    _, when = due(f"remind me at {time[0]:02}:{time[1]:02} to go", now)
    at = datetime.fromisoformat(when)
    assert (at.hour, at.minute) == time
    assert now < at <= now + timedelta(days=1)


@given(moments, st.integers(1, 31), st.integers(1, 12))
def test_a_day_of_the_year_is_the_next_one_that_exists(now: datetime, day: int, month: int) -> None:
    assume(day <= (29 if month == 2 else 30 if month in {4, 6, 9, 11} else 31))
    _, when = due(f"remind me on {day} {MONTHS[month - 1]} to go", now)
    at = datetime.fromisoformat(when)
    assert (at.day, at.month) == (day, month)
    assert now < at < now + timedelta(days=9 * 366)


VOCABULARY = (
    "remind me to at on in every 9 10 14:30 31 tomorrow today tonight friday month the of and an 24. 12. december uhr um am halb\n"
    "morgen jeden monat tag week half hour minutes days 2026-11-24 pm noon a , . ? 0 99 -5 next 1st erinnere mich an montags"
)
WORDS = st.sampled_from(VOCABULARY.split())


@given(st.lists(WORDS, max_size=14).map(" ".join), moments)
def test_no_words_break_it_and_what_it_understands_is_to_come(words: str, now: datetime) -> None:
    wish = understand(f"remind me {words}")
    if not isinstance(wish, Remind):
        assert isinstance(wish, Ask | Talk | File | Reminders)
        return
    try:
        when = when_of(wish.said, now)
    except UnclearTime:
        return
    if not when.repeats and not when.text.startswith("in "):
        assert datetime.fromisoformat(when.text) > now


@given(st.text(max_size=200))
def test_any_text_is_read_without_an_error(text: str) -> None:
    for found in (first_words(text), last_words(text)):
        if found is not None:
            assert found[0] != NOTHING
            assert found[1] in text
    understand(text)
    understand(f"remind me {text}")


@given(moments, st.sampled_from(ZONES), st.sampled_from([said for said, _, _ in SAID]))
def test_in_every_zone_and_at_clock_changes_the_instant_has_the_time_that_was_said(now: datetime, name: str, said: str) -> None:
    """A local time that the clock leaves out is moved behind the gap; every other one is met exactly."""
    zone = ZoneInfo(name)
    here = now.replace(tzinfo=zone)
    assume(here.astimezone(UTC).astimezone(zone).replace(tzinfo=None) == now)  # no clock shows a time in a gap
    wish = understand(said)
    assert isinstance(wish, Remind)
    try:
        when = when_of(wish.said, now)
    except UnclearTime:
        return
    first = _first(when, zone, here)
    if first is None:  # the local time is ahead, but the clock goes back meanwhile and shows it a second time
        assert here.fold == 1 or _near_change(here)
        return
    assert first > here.astimezone(UTC)
    if when.text.startswith("2"):
        wanted = datetime.fromisoformat(when.text)
        local = first.astimezone(zone).replace(tzinfo=None)
        assert local == wanted or (_in_gap(wanted, zone) and timedelta(0) < local - wanted <= timedelta(hours=1))


def _first(when: When, zone: ZoneInfo, now: datetime) -> datetime | None:
    try:
        schedule: Schedule = parse_schedule(when.text, zone=zone, now=now)
    except ScheduleError:
        return None
    assert isinstance(schedule, Cron | Every) == when.repeats
    return next_after(schedule, now.astimezone(UTC))


def _in_gap(wall: datetime, zone: ZoneInfo) -> bool:
    return wall.replace(tzinfo=zone).astimezone(UTC).astimezone(zone).replace(tzinfo=None) != wall


def _near_change(now: datetime) -> bool:
    return now.utcoffset() != (now.astimezone(UTC) + timedelta(days=1)).astimezone(now.tzinfo).utcoffset()


LEFT_OVER = [
    ("remind me every day at 8 and 20 to take pills", "And 20"),
    ("erinnere mich morgen um 9 und um 17 Uhr an die Tabletten", "Und um 17 Uhr"),
    ("erinnere mich morgens um 8 und abends um 20 Uhr an die Tabletten", "Und abends um 20"),
    ("remind me every day at 8 until friday to take pills", "Until friday"),
    ("erinnere mich täglich um 8 an Sport bis Freitag", "bis Freitag"),
    ("remind me tomorrow at 9 Berlin time to call", "Berlin time to"),
    ("remind me tomorrow at 9 UTC+5 to call", "UTC+5"),
    ("remind me at 9:60 to eat", "60"),
    ("remind me every day from 9 to 17 every 2 hours to drink", "From 9 to 17"),
]


@pytest.mark.parametrize(("said", "left"), LEFT_OVER)
def test_a_second_time_an_end_or_a_zone_is_not_dropped_without_a_word(said: str, left: str) -> None:
    wish = understand(said)
    assert isinstance(wish, Remind)
    told = due_or_why(wish, NOW)
    assert isinstance(told, str)
    assert f"“{left}”" in told


@pytest.mark.parametrize(
    "said", ["remind me at 9 to take 20 pills", "remind me tomorrow at 9 to read until Bob calls", "remind me at 9 of tea time"]
)
def test_words_that_only_look_like_a_time_stay_in_the_text(said: str) -> None:
    wish = understand(said)
    assert isinstance(wish, Remind)
    assert isinstance(due_or_why(wish, NOW), Due)


@pytest.mark.parametrize("said", ["erinnere mich am 30. Februar an nichts", "remind me on the 30th of february to eat"])
def test_a_day_that_no_month_has_is_no_other_day(said: str) -> None:
    wish = understand(said)
    assert isinstance(wish, Remind)
    assert isinstance(due_or_why(wish, NOW), str)
