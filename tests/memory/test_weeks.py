"""Weeks of months and of the calendar, and days of weeks, in questions in five languages."""

from __future__ import annotations

from calendar import monthrange
from datetime import date, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.text.dates import Span, spans, spelt_out, time_words
from tests.memory.dated_notes import MONTHS, TODAY, dated_notes, days_found

if TYPE_CHECKING:
    from pathlib import Path

DAYS = st.dates(date(1990, 1, 1), date(2090, 12, 31))
CALENDAR_WEEKS = {
    "English": ("week {}", "what did we do in week {}?", "calendar week {}"),
    "German": ("KW {}", "KW{}", "Was war in KW {}?", "{}. KW", "in der {}. Kalenderwoche", "Kalenderwoche {}"),
    "French": ("semaine {}", "qu'a-t-on fait la semaine {} ?"),
    "Spanish": ("semana {}", "¿qué hicimos en la semana {}?"),
    "Italian": ("settimana {}", "che cosa abbiamo fatto nella settimana {}?"),
}
WEEKS_OF_MONTHS = {
    "English": (("first", "second", "third", "fourth", "last"), ("{} week of {}", "in the {} week in {}")),
    "German": (
        ("erste", "zweite", "dritte", "vierte", "letzte"),
        ("{} {}woche", "in der {}n {}woche", "{} Woche im {}", "{} Woche des {}s"),
    ),
    "French": (
        ("première", "deuxième", "troisième", "quatrième", "dernière"),
        ("{} semaine de {}", "la {} semaine du mois de {}"),
    ),
    "Spanish": (("primera", "segunda", "tercera", "cuarta", "última"), ("{} semana de {}", "la {} semana del mes de {}")),
    "Italian": (("prima", "seconda", "terza", "quarta", "ultima"), ("{} settimana di {}", "la {} settimana del mese di {}")),
}
WEEKDAYS = {
    "English": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    "German": ("Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag", "Samstag", "Sonntag"),
    "French": ("lundi", "mardi", "mercredi", "jeudi", "vendredi", "samedi", "dimanche"),
    "Spanish": ("lunes", "martes", "miércoles", "jueves", "viernes", "sábado", "domingo"),
    "Italian": ("lunedì", "martedì", "mercoledì", "giovedì", "venerdì", "sabato", "domenica"),
}
LAST_WEEK = {
    "English": ("{} of last week", "what did we do last week on {}?", "{} last week"),
    "German": ("{} letzter Woche", "Was war letzte Woche {}?", "am {} vergangener Woche"),
    "French": ("{} de la semaine dernière", "la semaine dernière, le {}"),
    "Spanish": ("el {} de la semana pasada", "la semana pasada, el {}"),
    "Italian": ("{} della settimana scorsa", "la scorsa settimana, {}"),
}
WEEKS_AGO = {
    "English": ("{0} a week ago", "a week ago on {0}", "{0} 1 week ago"),
    "German": ("Was war am {0} vor einer Woche?", "vor einer Woche am {0}"),
    "French": ("{0} d'il y a une semaine", "il y a une semaine, le {0}"),
    "Spanish": ("el {0} de hace una semana", "hace una semana, el {0}"),
    "Italian": ("{0} di una settimana fa", "una settimana fa, {0}"),
}


@pytest.mark.parametrize("language", list(MONTHS))
@given(DAYS, DAYS)
def test_a_week_of_the_calendar_is_read_back_as_itself(language: str, day: date, today: date) -> None:
    monday = day - timedelta(days=day.weekday())
    year, week, _ = monday.isocalendar()
    meant = [Span(monday, monday + timedelta(days=6))]
    for written in CALENDAR_WEEKS[language]:
        assert spans(written.format(week), today=day) == meant, written
        assert (
            spans(written.replace("{}", f"{week} {year}") if "." not in written else f"{week}. KW {year}", today=today) == meant
        )
    assert spans(f"KW {week}/{year}", today=today) == spans(f"{year}-W{week:02}", today=today) == meant


@pytest.mark.parametrize("language", list(MONTHS))
@given(DAYS, st.integers(1, 12), st.integers(0, 4))
def test_weeks_of_a_month_are_counted_from_its_first_day(language: str, today: date, month: int, nth: int) -> None:
    def week(year: int) -> Span:
        last = date(year, month, monthrange(year, month)[1])
        return (
            Span(last - timedelta(days=6), last)
            if nth == 4
            else Span(date(year, month, 1 + 7 * nth), date(year, month, 7 + 7 * nth))
        )

    words, forms = WEEKS_OF_MONTHS[language]
    for written in forms:
        question = written.format(words[nth], MONTHS[language][month - 1])
        assert spans(question, today=today) == [week(today.year - (week(today.year).first > today))], question
        assert spans(f"{question} 2024", today=today) == [week(2024)], question


@pytest.mark.parametrize("language", list(MONTHS))
@given(DAYS, st.integers(0, 6))
def test_a_day_of_last_week_and_a_week_ago(language: str, today: date, weekday: int) -> None:
    name = WEEKDAYS[language][weekday]
    last_week = today - timedelta(days=today.weekday() + 7 - weekday)
    newest = today - timedelta(days=(today.weekday() - weekday) % 7)
    for forms, meant in ((LAST_WEEK, last_week), (WEEKS_AGO, newest - timedelta(days=7))):
        for written in forms[language]:
            question = written.format(name)
            assert spans(question, today=today) == [Span(meant, meant)], question


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        ("first weekend of November", "2026-11-07", "2026-11-08"),
        ("am ersten Novemberwochenende", "2026-11-07", "2026-11-08"),
        ("letztes Wochenende im Oktober", "2026-10-31", "2026-11-01"),
        ("le dernier week-end d'octobre", "2026-10-31", "2026-11-01"),
        ("el primer fin de semana de noviembre", "2026-11-07", "2026-11-08"),
        ("il primo fine settimana di novembre", "2026-11-07", "2026-11-08"),
        ("first Monday in November", "2026-11-02", "2026-11-02"),
        ("letzter Freitag im Oktober letztes Jahr", "2025-10-31", "2025-10-31"),
        ("1. Woche im November", "2026-11-01", "2026-11-07"),
        ("KW 44–45", "2026-10-26", "2026-11-08"),
        ("KW 45 letztes Jahr", "2025-11-03", "2025-11-09"),
        ("weeks 45 and 46", "2026-11-02", "2026-11-15"),
        ("What did we do in weeks 44 to 46?", "2026-10-26", "2026-11-15"),
        ("KW 45 und 46", "2026-11-02", "2026-11-15"),
        ("KW 45 und 48", "2026-11-02", "2026-11-08"),
        ("semaines 45 et 46", "2026-11-02", "2026-11-15"),
        ("semanas 45 y 46", "2026-11-02", "2026-11-15"),
        ("settimane 45 e 46 del 2025", "2025-11-03", "2025-11-16"),
        ("Wednesday of week 45", "2026-11-04", "2026-11-04"),
        ("Was war am Mittwoch in KW 45?", "2026-11-04", "2026-11-04"),
        ("mercredi de la semaine 45", "2026-11-04", "2026-11-04"),
        ("am letzten Oktoberfreitag", "2026-10-30", "2026-10-30"),
        ("week 45 of last year", "2025-11-03", "2025-11-09"),
        ("week 50", "2025-12-08", "2025-12-14"),
        ("week 53", "2020-12-28", "2021-01-03"),
        ("vorletzte Woche Dienstag", "2026-11-10", "2026-11-10"),
        ("Tuesday of this week", "2026-11-24", "2026-11-24"),
    ],
)
def test_weekends_and_days_are_counted_too(question: str, first: str, last: str) -> None:
    assert [(str(span.first), str(span.last)) for span in spans(question, today=TODAY)] == [(first, last)]


@pytest.mark.parametrize(
    "question",
    [
        "week 45 of the plan",
        "Woche 3 der Schwangerschaft",
        "semaine 12 de grossesse",
        "each week 45 minutes",
        "in week 45 minutes were lost",
        "he pays a week 45",
        "week 4.5",
        "week 60",
        "weeks 3 and 4 of the plan",
        "weeks 45",
        "in 2 weeks 3 to 4 kilos",
        "chapter 3–7 of the week",
        "the second march of the penguins",
        "the first week of the holidays",
    ],
)
def test_other_weeks_and_figures_are_none(question: str) -> None:
    assert spans(question, today=TODAY) == []


def test_words_that_count_weeks_may_be_in_notes_of_any_time() -> None:
    assert time_words("Was war in KW 45?", today=TODAY).names == {"kw", "45"}
    words = time_words("zweite Novemberwoche", today=TODAY)
    assert (words.names, words.beside, words.months) == ({"zweite", "novemberwoche"}, frozenset(), ("November",))
    words = time_words("the last week of November two years ago", today=TODAY)
    assert words.names == {"week", "of", "november"}
    assert {"last", "two", "years", "ago"} <= words.beside
    assert spelt_out("Wer kam am Dienstag vor einer Woche?", today=TODAY) == "Wer kam 2026-11-17 (17 November 2026, Tuesday)?"


async def test_a_question_for_a_week_brings_its_notes_alone(tmp_path: Path) -> None:
    memory = dated_notes(tmp_path)
    (tmp_path / "ws/memory/2026-09-20.md").write_text("The windows come in KW 45.\n")
    await memory.sync()
    for question, first, last in (
        ("week 45", "2026-11-02", "2026-11-08"),
        ("Was war in der zweiten Novemberwoche?", "2026-11-08", "2026-11-14"),
        ("première semaine d'octobre", "2026-10-01", "2026-10-07"),
        ("la última semana de octubre del año pasado", "2025-10-25", "2025-10-31"),
    ):
        days = await days_found(memory, question)
        assert len(days) > 3, question
        assert all(first <= day <= last for day in days), question
    assert await days_found(memory, "first weekend of November") == ["2026-11-07", "2026-11-08"]
    assert await days_found(memory, "Was war am Dienstag vor einer Woche?") == ["2026-11-17", "2026-11-18"]
    days = await days_found(memory, "KW 45")
    assert "2026-09-20" in days
    assert all("2026-11-02" <= day <= "2026-11-08" for day in days if day != "2026-09-20")
    await memory.close()


async def test_what_is_told_some_days_after_a_part_of_a_month_is_found_for_what_it_says(tmp_path: Path) -> None:
    memory = dated_notes(tmp_path)
    for day in ("2026-09-02", "2026-10-23", "2026-10-28", "2025-10-20"):
        (tmp_path / f"ws/memory/{day}.md").write_text("The carpenter mended the kitchen window some days ago.\n")
    await memory.sync()
    for question in (
        "When did the carpenter mend the window, mid-October?",
        "Did the carpenter mend a window in the third week of October?",
    ):
        assert (await days_found(memory, question))[0] == "2026-10-23", question
    days = await days_found(memory, "mid-October")
    assert all("2026-10-11" <= day <= "2026-10-20" for day in days)
    await memory.close()
