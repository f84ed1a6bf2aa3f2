"""Times in words, compared with a speaker of our own: what it says of every minute of the clock is read as that minute."""

from __future__ import annotations

from calendar import monthcalendar
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.models.notebook.due_time import When, when_of
from agent.models.notebook.intents import understand
from agent.models.notebook.reminder_calls import Due, due_or_why
from agent.models.notebook.reminders import Remind
from gateway.schedules.parsing import parse_schedule
from gateway.schedules.schedule import next_after
from tests.sampling import parametrize_some

MIDNIGHT = datetime(2026, 11, 25)  # noqa: DTZ001 -- the owner's local time, a Wednesday
ENGLISH = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
GERMAN = ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn", "elf", "zwölf"]
ENGLISH_MINUTES = {5: "five", 10: "ten", 15: "a quarter", 20: "twenty", 25: "twenty-five", 30: "half"}
GERMAN_MINUTES = {5: "fünf", 10: "zehn", 15: "Viertel", 20: "zwanzig", 25: "fünfundzwanzig"}
TENS = {
    10: "ten",
    15: "fifteen",
    20: "twenty",
    25: "twenty-five",
    30: "thirty",
    35: "thirty-five",
    40: "forty",
    45: "forty-five",
}
ZEHNER = {10: "zehn", 15: "fünfzehn", 20: "zwanzig", 30: "dreißig", 40: "vierzig", 45: "fünfundvierzig", 50: "fünfzig"}


def said_in_english(hour: int, minute: int) -> list[str]:
    """Return how people say a time of the morning, 0 to 11 hours, or of noon."""
    this, following = ENGLISH[(hour - 1) % 12], ENGLISH[hour % 12]
    if minute == 0:
        return [f"at {this}", f"at {this} o'clock", f"{this} o'clock", f"at {this} am" if hour % 12 else f"at {this}"]
    said = []
    if minute in ENGLISH_MINUTES:
        said += [f"at {ENGLISH_MINUTES[minute]} past {this}"]
    if 60 - minute in ENGLISH_MINUTES and minute != 30:
        said += [f"at {ENGLISH_MINUTES[60 - minute]} to {following}"]
    if minute == 15:
        said += [f"at quarter past {this}", f"a quarter after {this}"]
    if minute == 45:
        said += [f"quarter to {following}", f"at quarter of {following}", f"at quarter till {following}"]
    if minute == 30:
        said += [f"half past {this}", f"at half {this}"]
    if minute in TENS:
        said += [f"at {this} {TENS[minute]}"]
    if minute < 10:
        said += [f"at {this} oh {ENGLISH[minute - 1]}"]
    return [*said, f"at {minute} minutes past {this}", f"at {60 - minute} minutes to {following}"]


def said_in_german(hour: int, minute: int) -> list[str]:
    this, following = GERMAN[(hour - 1) % 12], GERMAN[hour % 12]
    whole = "ein" if this == "eins" else this
    if minute == 0:
        return [f"um {this}", f"um {whole} Uhr", f"{whole} Uhr"]
    said = [f"um {minute} Minuten nach {this}", f"um {60 - minute} Minuten vor {following}", f"um {whole} Uhr {minute:02}"]
    if minute in GERMAN_MINUTES:
        said += [f"um {GERMAN_MINUTES[minute]} nach {this}"]
    if 60 - minute in GERMAN_MINUTES:
        said += [f"um {GERMAN_MINUTES[60 - minute]} vor {following}"]
    if minute == 30:
        said += [f"um halb {following}", f"halb {following}"]
    if minute == 15:
        said += [f"um viertel {following}"]
    if minute == 45:
        said += [f"um dreiviertel {following}", f"um drei viertel {following}"]
    if minute in {25, 35}:
        said += [f"um fünf {'vor' if minute == 25 else 'nach'} halb {following}"]
    if minute in ZEHNER:
        said += [f"um {whole} Uhr {ZEHNER[minute]}"]
    return said


def due(said: str, now: datetime = MIDNIGHT) -> Due:
    wish = understand(said)
    assert isinstance(wish, Remind), said
    found = due_or_why(wish, now)
    assert isinstance(found, Due), (said, found)
    return found


@parametrize_some(4, "hour", range(1, 13))
def test_every_time_of_the_clock_in_words_is_that_time(hour: int) -> None:
    for minute in range(60):
        for said in said_in_english(hour, minute):
            found = due(f"remind me tomorrow {said} to call mum")
            assert (found.text, found.when.text) == ("Call mum", f"2026-11-26T{hour:02}:{minute:02}"), said
        for said in said_in_german(hour, minute):
            found = due(f"erinnere mich morgen {said} an die Post")
            assert (found.text, found.when.text) == ("Die Post", f"2026-11-26T{hour:02}:{minute:02}"), said


@given(st.integers(1, 11), st.integers(0, 59), st.data())
def test_the_part_of_the_day_counts_for_times_in_words(hour: int, minute: int, data: st.DataObject) -> None:
    english, german = said_in_english(hour, minute), said_in_german(hour, minute)
    late = f"{hour + 12:02}:{minute:02}"
    english = [one for one in english if not one.endswith(" am")]
    evening = due(f"remind me tomorrow evening {data.draw(st.sampled_from(english))} to call mum")
    assert (evening.text, evening.when.text) == ("Call mum", f"2026-11-26T{late}")
    abends = due(f"erinnere mich morgen {data.draw(st.sampled_from(german))} abends an die Post")
    assert (abends.text, abends.when.text) == ("Die Post", f"2026-11-26T{late}")
    at_the_end = due(f"remind me to call mum tomorrow {data.draw(st.sampled_from(english))} pm")
    assert (at_the_end.text, at_the_end.when.text) == ("Call mum", f"2026-11-26T{late}")


ORDINALS = {
    1: ("first", "ersten"),
    2: ("second", "zweiten"),
    3: ("third", "dritten"),
    4: ("fourth", "vierten"),
    -1: ("last", "letzten"),
}
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
TAGE = ("Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag", "Samstag", "Sonntag")
moments = st.datetimes(datetime(2020, 1, 1), datetime(2090, 1, 1)).map(lambda at: at.replace(second=0, microsecond=0))  # noqa: DTZ001


def of_month(year: int, month: int, weekday: int, nth: int) -> date:
    """Return the nth weekday of a month by the calendar's rows."""
    days = [week[weekday] for week in monthcalendar(year, month) if week[weekday]]
    return date(year, month, days[nth - 1 if nth > 0 else nth])


@given(moments, st.integers(0, 6), st.sampled_from(sorted(ORDINALS)), st.integers(0, 23), st.integers(0, 5))
def test_a_weekday_of_every_month_is_the_one_of_the_calendar(
    now: datetime, weekday: int, nth: int, hour: int, form: int
) -> None:
    (english, german), zone = ORDINALS[nth], ZoneInfo("UTC")
    said = (
        f"remind me every {english} {DAYS[weekday]} of the month at {hour:02}:00 to pay",
        f"remind me on the {english} {DAYS[weekday]} of every month at {hour:02}:00 to pay",
        f"remind me to pay every month on the {english} {DAYS[weekday]} at {hour:02}:00",
        f"erinnere mich jeden {german} {TAGE[weekday]} im Monat um {hour:02}:00 ans Zahlen",
        f"erinnere mich am {german} {TAGE[weekday]} jedes Monats um {hour:02}:00 ans Zahlen",
        f"erinnere mich jeden Monat am {german} {TAGE[weekday]} um {hour:02}:00 ans Zahlen",
    )[form]
    found = due(said, now)
    assert found.text in {"Pay", "Ans Zahlen"}
    here = now.replace(tzinfo=zone)
    first = next_after(parse_schedule(found.when.text, zone=zone, now=here), here)
    months = [(now.year + (now.month - 1 + ahead) // 12, (now.month - 1 + ahead) % 12 + 1) for ahead in range(3)]
    wanted = [datetime.combine(of_month(*month, weekday, nth), datetime.min.time(), zone) for month in months]
    assert first == min(at for day in wanted if (at := day + timedelta(hours=hour)) > here)


@pytest.mark.parametrize(
    ("said", "text", "when"),
    [
        ("remind me every first Monday to pay", "Pay", "0 9 * * 1#1"),
        ("remind me to pay every first Monday", "Pay", "0 9 * * 1#1"),
        ("remind me every last friday of the month at 17:00 to pay", "Pay", "0 17 * * 5L"),
        ("remind me every first and third Monday at 9 to pay", "Pay", "0 9 * * 1#1,1#3"),
        ("erinnere mich jeden ersten Montag im Monat an die Miete", "Die Miete", "0 9 * * 1#1"),
        ("erinnere mich jeden 1. Montag um halb neun an die Miete", "Die Miete", "30 8 * * 1#1"),
        ("erinnere mich jeden Monatsersten an die Miete", "Die Miete", "0 9 1 * *"),
        ("remind me on the last day of every month to pay", "Pay", "0 9 L * *"),
        ("erinnere mich am letzten Tag des Monats um 18 Uhr an die Miete", "Die Miete", "0 18 L * *"),
        ("remind me every other day to water", "Water", "every 48h"),
        ("remind me in three quarters of an hour to go", "Go", "in 45 minutes"),
        ("erinnere mich in einer Dreiviertelstunde an die Pizza", "Die Pizza", "in 45 minutes"),
        ("buy milk tomorrow at 9, remind me", "Buy milk", "2026-11-26T09:00"),
        ("morgen um 9 Milch kaufen, erinnere mich bitte daran", "Milch kaufen", "2026-11-26T09:00"),
        ("don't let me forget to call Jo at 6", "Call Jo", "2026-11-25T06:00"),
        ("wake me at 6:30", "Wake up", "2026-11-25T06:30"),
        ("weck mich um sechs Uhr dreißig", "Wake up", "2026-11-25T06:30"),
        ("remind me tomorrow at 9 o'clock sharp to log in", "Log in", "2026-11-26T09:00"),
        ("half past nine remind me to call", "Call", "2026-11-25T09:30"),
        ("remind me at half past midnight to look", "Look", "2026-11-25T00:30"),
        ("remind me at quarter to midnight to look", "Look", "2026-11-25T23:45"),
        ("remind me at quarter past 14 to look", "Look", "2026-11-25T14:15"),
        ("erinnere mich um halb eins ans Essen", "Ans Essen", "2026-11-25T12:30"),
    ],
)
def test_repetitions_and_odd_times_in_words_are_understood(said: str, text: str, when: str) -> None:
    found = due(said)
    assert (found.text, found.when.text) == (text, when)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("remind me every second Tuesday to put the bin out", "every second Tuesday of the month"),
        ("erinnere mich jeden zweiten Dienstag an den Müll", "every second Tuesday of the month"),
        ("remind me every other Tuesday to put the bin out", "I cannot repeat every few weeks"),
        ("remind me every two weeks on Tuesday to put the bin out", "I cannot repeat every few weeks"),
        ("erinnere mich alle zwei Wochen am Dienstag an den Müll", "I cannot repeat every few weeks"),
        ("remind me every other month to pay", "I cannot repeat every second month"),
        ("remind me tomorrow at shortly after nine to call", "do not understand “At shortly after nine”"),
        ("erinnere mich morgen um kurz nach acht an die Post", "do not understand “Um kurz nach acht”"),
        ("remind me every first Monday and Thursday at 9 to pay", "do not understand “And Thursday”"),
        ("erinnere mich Freitag in einer Woche an den Termin", "do not understand “In einer Woche”"),
        ("remind me every weekday at 7:30 except Friday to get up", "do not understand “Except Friday to”"),
        ("remind me every hour between 9 and 17 to stretch", "do not understand “Between 9 and 17”"),
        ("remind me tomorrow at 9 or 10 to hop", "do not understand “Or 10”"),
        ("remind me on Monday and Wednesday at 6 to train", "do not understand “And Wednesday”"),
        ("erinnere mich am Wochenende ans Auto", "Say the day"),
        ("remind me this weekend to wash the car", "Say the day"),
        ("remind me when I get home to feed the dog", "not when something happens"),
        ("erinnere mich an den Müll, wenn ich zuhause bin", "not when something happens"),
        ("remind me next week to call mum", "Say when to remind you of it, too"),
        ("remind me tomorrow to pay on the third", "do not understand “on the third”"),
    ],
)
def test_what_is_not_understood_of_a_time_is_said_and_not_dropped(said: str, why: str) -> None:
    wish = understand(said)
    assert isinstance(wish, Remind)
    told = due_or_why(wish, MIDNIGHT)
    assert isinstance(told, str)
    assert why in told


@pytest.mark.parametrize(
    "said",
    [
        "remind me tomorrow to look at two points",
        "remind me tomorrow at 9 to meet at the office",
        "remind me tomorrow to do it one at a time",
        "erinnere mich morgen um 9 daran, die Sitzung um zwei Stunden zu verschieben",
    ],
)
def test_numbers_that_are_no_times_stay_in_the_text(said: str) -> None:
    found = due(said)
    assert found.when == When("2026-11-26T09:00", found.when.notes)
    wish = understand(said)
    assert isinstance(wish, Remind)
    assert when_of(wish.said, MIDNIGHT) == found.when


def test_an_hour_of_the_night_is_said_to_be_one() -> None:
    assert due("remind me next Friday at 5 to leave").when.notes == ("I took 05:00 in the night; say 17:00 if you meant that.",)
    assert due("remind me next Friday at 05:00 to leave").when.notes == ()
    assert due("remind me next Friday at 7 to leave").when.notes == ()
