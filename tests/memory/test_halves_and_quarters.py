"""Halves of months and years and quarters of years, and parts of the last month, in questions in five languages."""

from __future__ import annotations

from calendar import monthrange
from datetime import date
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.text.dates import Span, spans
from tests.memory.dated_notes import MONTHS, TODAY, dated_notes, days_found

if TYPE_CHECKING:
    from pathlib import Path

DAYS = st.dates(date(1990, 1, 1), date(2090, 12, 31))
HALVES = {
    "English": (
        ("first half of {}", "What did we do in the first half of {}?"),
        ("second half of {}", "in the 2nd half of {}"),
    ),
    "German": (("erste {}hälfte", "Was war in der ersten Hälfte des {}?"), ("zweite {}hälfte", "in der 2. Hälfte im {}")),
    "French": (
        ("première quinzaine de {}", "la première moitié du mois de {}"),
        ("seconde quinzaine de {}", "deuxième quinzaine de {}"),
    ),
    "Spanish": (("primera quincena de {}", "en la primera mitad de {}"), ("segunda quincena de {}", "la segunda mitad de {}")),
    "Italian": (("prima metà di {}", "nella prima quindicina di {}"), ("seconda metà di {}", "la seconda quindicina di {}")),
}
QUARTERS = ("Q{n} {y}", "{y} Q{n}", "{y}-Q{n}", "Q{n}/{y}", "in Q{n} of {y}", "{n}. Quartal {y}", "What did we do in Q{n} {y}?")
NTH_QUARTER = (
    ("first quarter of {}", "erstes Quartal {}", "premier trimestre {}", "primer trimestre de {}", "primo trimestre del {}"),
    (
        "second quarter of {}",
        "im zweiten Quartal {}",
        "deuxième trimestre {}",
        "segundo trimestre de {}",
        "secondo trimestre {}",
    ),
    ("the third quarter of {}", "drittes Quartal {}", "troisième trimestre {}", "tercer trimestre de {}", "terzo trimestre {}"),
    ("fourth quarter {}", "viertes Quartal {}", "quatrième trimestre {}", "cuarto trimestre de {}", "quarto trimestre {}"),
)


@pytest.mark.parametrize("language", list(MONTHS))
@given(DAYS, st.integers(1, 12))
def test_halves_of_a_month_are_fifteen_days_and_the_rest(language: str, today: date, month: int) -> None:
    name = MONTHS[language][month - 1]
    for half, ways in enumerate(HALVES[language]):

        def days(year: int, half: int = half) -> Span:
            return Span(date(year, month, 16 if half else 1), date(year, month, monthrange(year, month)[1] if half else 15))

        for way in ways:
            question = way.format(name)
            assert spans(question, today=today) == [days(today.year - (days(today.year).first > today))], question
            if "?" not in way:
                assert spans(f"{question} 2024", today=today) == [days(2024)], question


@given(st.integers(2000, 2089), st.integers(1, 4))
def test_quarters_of_a_year_are_three_months(year: int, number: int) -> None:
    meant = Span(date(year, 3 * number - 2, 1), date(year, 3 * number, monthrange(year, 3 * number)[1]))
    for way in QUARTERS:
        assert spans(way.format(n=number, y=year), today=TODAY) == [meant], way
    for way in NTH_QUARTER[number - 1]:
        assert spans(way.format(year), today=TODAY) == [meant], way


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        ("second half of October last year", "2025-10-16", "2025-10-31"),
        ("second half of 2025", "2025-07-01", "2025-12-31"),
        ("in the first half of the year", "2026-01-01", "2026-06-30"),
        ("erstes Halbjahr 2026", "2026-01-01", "2026-06-30"),
        ("premier semestre 2026", "2026-01-01", "2026-06-30"),
        ("H2 2025", "2025-07-01", "2025-12-31"),
        ("third quarter", "2026-07-01", "2026-09-30"),
        ("Was war im dritten Quartal?", "2026-07-01", "2026-09-30"),
        ("What did we do in Q4?", "2026-10-01", "2026-12-31"),
        ("Q4 last year", "2025-10-01", "2025-12-31"),
        ("at the end of last month", "2026-10-21", "2026-10-31"),
        ("beginning of this month", "2026-11-01", "2026-11-10"),
        ("late this month", "2026-11-21", "2026-11-27"),
        ("Ende letzten Monats", "2026-10-21", "2026-10-31"),
        ("Anfang des letzten Monats", "2026-10-01", "2026-10-10"),
        ("fin du mois dernier", "2026-10-21", "2026-10-31"),
        ("a mediados del mes pasado", "2026-10-11", "2026-10-20"),
        ("alla fine del mese scorso", "2026-10-21", "2026-10-31"),
    ],
)
def test_parts_of_years_and_of_the_last_month_are_times(question: str, first: str, last: str) -> None:
    assert [(str(span.first), str(span.last)) for span in spans(question, today=TODAY)] == [(first, last)]


@pytest.mark.parametrize(
    "question",
    [
        "Who drives the Audi Q3?",
        "Who scored in the third quarter?",
        "third quarter of the game",
        "the second half of the match",
        "a quarter of the cake",
        "troisième trimestre de grossesse",
        "im ersten Semester",
        "second quarter mile",
        "la seconda metà della mela",
        "rent is due at the end of the month",
        "the T3 bus",
    ],
)
def test_other_halves_and_quarters_are_none(question: str) -> None:
    assert spans(question, today=TODAY) == []


async def test_notes_of_a_half_or_a_quarter_come(tmp_path: Path) -> None:
    memory = dated_notes(tmp_path)
    await memory.sync()
    for question, first, last in (
        ("erste Novemberhälfte", "2026-11-01", "2026-11-15"),
        ("Qu'avons-nous fait la seconde quinzaine d'octobre ?", "2026-10-16", "2026-10-31"),
        ("What happened in Q3 2026?", "2026-07-01", "2026-09-30"),
        ("Was war Ende letzten Monats?", "2026-10-21", "2026-10-31"),
    ):
        days = await days_found(memory, question)
        assert len(days) == 6, question
        assert all(first <= day <= last for day in days), question
    await memory.close()
