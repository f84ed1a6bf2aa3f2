"""Days of the week without a word before them, ranges of them, and ranges with one end, in questions in five languages."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.text.dates import Span, spans
from tests.memory.dated_notes import TODAY, dated_notes, days_found

if TYPE_CHECKING:
    from pathlib import Path

DAYS = st.dates(date(1990, 1, 1), date(2090, 12, 31))
WEEK = {
    "English": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    "German": "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag",
    "French": "lundi mardi mercredi jeudi vendredi samedi dimanche",
    "Spanish": "lunes martes miércoles jueves viernes sábado",
    "Italian": "lunedì martedì mercoledì giovedì venerdì sabato",
}
ONE = {
    "English": ("What did I do {}?", "Who called {} morning?", "{}", "{} evening", "Did we meet {} at the office?"),
    "German": ("Was habe ich {} gemacht?", "Was war {}?", "{}abend", "Was war am {}abend?", "Wer ist {} früh gekommen?"),
    "French": ("Qu'ai-je fait {} ?", "Qui est venu {} soir ?", "{}", "Qu’est-ce qu'on a mangé {} ?"),
    "Spanish": ("{}", "{} por la noche"),
    "Italian": ("Cosa ho fatto {}?", "Chi è venuto {} sera?", "{}", "Cosa è successo {}?"),
}
TWO = {
    "English": ("from {} to {}", "What did I do between {} and {}?"),
    "German": ("von {} bis {}", "Was war von {} bis {}?"),
    "French": ("de {} à {}", "Qu'avons-nous fait du {} au {} ?"),
    "Spanish": ("del {} al {}", "¿Qué hicimos desde el {} hasta el {}?"),
    "Italian": ("da {} a {}", "Cosa abbiamo fatto da {} a {}?"),
}


@pytest.mark.parametrize("language", list(WEEK))
@given(st.data(), DAYS)
def test_a_day_of_the_week_is_the_newest_before_today(language: str, data: st.DataObject, today: date) -> None:
    names = WEEK[language].split()
    number = data.draw(st.integers(0, len(names) - 1))
    for way in ONE[language]:
        [span] = spans(way.format(names[number]), today=today)
        assert span.first == span.last, way
        assert span.first.weekday() == number, way
        assert timedelta(days=1) <= today - span.first <= timedelta(days=7), way


@pytest.mark.parametrize("language", list(WEEK))
@given(st.data(), DAYS)
def test_a_range_of_days_of_the_week_is_shorter_than_one_and_before_today(
    language: str, data: st.DataObject, today: date
) -> None:
    names = WEEK[language].split()
    first, last = data.draw(st.permutations(range(len(names))))[:2]
    for way in TWO[language]:
        [span] = spans(way.format(names[first], names[last]), today=today)
        assert (span.first.weekday(), span.last.weekday()) == (first, last), way
        assert 2 <= span.days <= 7, way
        assert timedelta(days=1) <= today - span.last <= timedelta(days=7), way


@pytest.mark.parametrize(
    "question",
    [
        "the Friday novel",
        "To whom did I lend the Friday novel?",
        "Friday Tournier novel",
        "Did Friday come?",
        "Who got Friday?",
        "Who asked about the books that are due by Tuesday?",
        "What did Robinson and Friday do?",
        "is Monday a name?",
        "When does the market open Monday?",
        "Is the shop open from Monday to Friday?",
        "What did we do every Monday?",
        "Was mache ich Montag?",
        "Was hat Frau Sonntag gesagt?",
        "Wann war jeden Montag Chor?",
        "Qui a fêté mardi gras ?",
        "Qu'est-ce que je fais mardi ?",
        "Ouvert le mardi ?",
        "¿Dónde canta Plácido Domingo?",
        "Domenica",
        "Cosa faccio martedì?",
        "until Tuesday",
    ],
)
def test_names_and_days_of_each_week_or_to_come_are_none(question: str) -> None:
    assert spans(question, today=TODAY) == []


def test_several_days_are_each_read() -> None:
    for question in (
        "What did I do Monday and Tuesday?",
        "Was habe ich Montag und Dienstag gemacht?",
        "Qui est venu lundi ou mardi ?",
    ):
        days = [span.first for span in spans(question, today=TODAY)]
        assert days == [date(2026, 11, 23), date(2026, 11, 24)], question


@pytest.mark.parametrize(
    ("question", "day"),
    [
        ("What did I do Tuesday, November 3?", "2026-11-03"),
        ("Was war Dienstag, den 3. November?", "2026-11-03"),
        ("Was war am Dienstag, 3.11.?", "2026-11-03"),
        ("What did I do last Tuesday?", "2026-11-24"),
        ("the day before November 5", "2026-11-05"),
        ("What did Tom tell the Friday before 5 November?", "2026-11-05"),
    ],
)
def test_a_day_beside_its_date_is_one_day(question: str, day: str) -> None:
    assert Span(date.fromisoformat(day), date.fromisoformat(day)) in spans(question, today=TODAY)
    assert all(span.days == 1 for span in spans(question, today=TODAY))


SINCE = {
    "English": ("since {en}", "What did we do since {en}?"),
    "German": ("seit dem {de}", "ab dem {de}"),
    "French": ("depuis le {fr}", "à partir du {fr}"),
    "Spanish": ("desde el {es}", "a partir del {es}"),
    "Italian": ("dal {it}", "a partire dal {it}"),
}
ENDS = {
    "until": ("until {en}", "bis zum {de}", "jusqu'au {fr}", "hasta el {es}", "fino al {it}"),
    "before": ("before {en}", "vor dem {de}", "avant le {fr}", "antes del {es}", "prima del {it}"),
    "after": ("after {en}", "nach dem {de}", "après le {fr}", "después del {es}", "dopo il {it}"),
    "week": ("the week of {en}", "in der Woche vom {de}", "semaine du {fr}", "semana del {es}", "la settimana del {it}"),
}


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        ("from early September to mid November", "2026-09-01", "2026-11-20"),
        ("Was war von Anfang September bis Mitte November?", "2026-09-01", "2026-11-20"),
        ("de début septembre à mi-novembre", "2026-09-01", "2026-11-20"),
        ("da inizio settembre a metà novembre", "2026-09-01", "2026-11-20"),
        ("from last Monday to yesterday", "2026-11-23", "2026-11-26"),
        ("von letztem Dienstag bis gestern", "2026-11-24", "2026-11-26"),
        ("from October 3 until yesterday", "2026-10-03", "2026-11-26"),
        ("What did I do between last Friday and yesterday?", "2026-11-20", "2026-11-26"),
        ("desde el martes pasado hasta ayer", "2026-11-24", "2026-11-26"),
    ],
)
def test_two_times_with_words_for_from_and_to_are_one(question: str, first: str, last: str) -> None:
    assert [(str(span.first), str(span.last)) for span in spans(question, today=TODAY)] == [(first, last)]


def test_two_times_without_these_words_stay_two() -> None:
    for question in ("yesterday and today", "from yesterday: the photos of today", "not from today to yesterday"):
        assert len(spans(question, today=TODAY)) == 2, question


ANY = (
    "and",
    "yesterday",
    "early",
    "KW 45",
    "last week",
    "since",
    "bis",
    "zum",
    "avant",
    "le",
    "before",
    "week",
    "of",
    "from",
    "to",
    "Tuesday",
    "mardi",
    "did",
    "3 November",
    "2025",
    "3.11.",
)
MONTH = {"en": "November", "de": "November", "fr": "novembre", "es": "de noviembre", "it": "novembre"}


@given(st.integers(1, 26), st.integers(1, 3))
def test_a_range_with_one_end_begins_or_ends_with_that_day(number: int, year: int) -> None:
    day = date(2020 + year, 11, number)
    month = timedelta(days=30)
    said = {key: f"{number}{'.' if key == 'de' else ''} {name} {2020 + year}" for key, name in MONTH.items()}
    said["es"] = said["es"].replace(f" {2020 + year}", f" de {2020 + year}")
    meant = {
        "until": Span(day - month, day),
        "before": Span(day - month - timedelta(days=1), day - timedelta(days=1)),
        "after": Span(day + timedelta(days=1), TODAY),
        "week": Span(day - timedelta(days=day.weekday()), day + timedelta(days=6 - day.weekday())),
    }
    for ways in SINCE.values():
        assert [spans(way.format(**said), today=TODAY) for way in ways] == [[Span(day, TODAY)]] * len(ways)
    for word, each in ENDS.items():
        for way in each:
            assert spans(way.format(**said), today=TODAY) == [meant[word]], way


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        ("since Tuesday", "2026-11-24", "2026-11-27"),
        ("seit Dienstag", "2026-11-24", "2026-11-27"),
        ("depuis mardi", "2026-11-24", "2026-11-27"),
        ("What did we do until Tuesday?", "2026-10-25", "2026-11-24"),
        ("since yesterday", "2026-11-26", "2026-11-27"),
        ("seit dem 5.11.", "2026-11-05", "2026-11-27"),
        ("before last Tuesday", "2026-10-24", "2026-11-23"),
        ("What did we do since last week?", "2026-11-16", "2026-11-27"),
        ("seit letzter Woche", "2026-11-16", "2026-11-27"),
        ("depuis le mois dernier", "2026-10-01", "2026-11-27"),
        ("since October", "2026-10-01", "2026-11-27"),
        ("desde octubre", "2026-10-01", "2026-11-27"),
        ("since October last year", "2025-10-01", "2026-11-27"),
        ("since 2025", "2025-01-01", "2026-11-27"),
        ("after last week", "2026-11-23", "2026-11-27"),
        ("the weekend of November 7", "2026-11-07", "2026-11-08"),
        ("am Wochenende vom 7. November", "2026-11-07", "2026-11-08"),
        ("le week-end du 7 novembre", "2026-11-07", "2026-11-08"),
    ],
)
def test_ends_are_days_however_they_are_said(question: str, first: str, last: str) -> None:
    assert [(str(span.first), str(span.last)) for span in spans(question, today=TODAY)] == [(first, last)]


@given(st.lists(st.sampled_from(ANY)))
def test_ranges_go_forward_whatever_is_asked(words: list[str]) -> None:
    for today in (date(1, 1, 2), TODAY, date.max):
        assert all(span.first <= span.last for span in spans(" ".join(words), today=today))


async def test_notes_of_these_days_come_first(tmp_path: Path) -> None:
    memory = dated_notes(tmp_path)
    await memory.sync()
    for question, first, last in (
        ("Qu'ai-je fait mardi ?", "2026-11-24", "2026-11-24"),
        ("Was habe ich Montag gemacht?", "2026-11-23", "2026-11-23"),
        ("Was war Montagabend?", "2026-11-23", "2026-11-23"),
        ("Cosa ho fatto martedì?", "2026-11-24", "2026-11-24"),
        ("What happened from Tuesday to Thursday?", "2026-11-24", "2026-11-26"),
        ("Was war seit Dienstag?", "2026-11-24", "2026-11-27"),
        ("What did we do since last week?", "2026-11-16", "2026-11-27"),
        ("What happened since October?", "2026-10-01", "2026-11-27"),
        ("What did we do before November 5?", "2026-10-05", "2026-11-04"),
        ("What happened in the week of November 3?", "2026-11-02", "2026-11-08"),
    ):
        days = await days_found(memory, question)
        assert days, question
        wanted = min(6, (date.fromisoformat(last) - date.fromisoformat(first)).days + 1)
        assert all(first <= day <= last for day in days[:wanted]), question
    await memory.close()
