"""Short names of months in questions, with and without a dot: the day and the year beside them are read."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pytest

from memory.text.dates import Span, spans
from memory.text.written_days import names_a_day
from tests.memory.dated_notes import TODAY, dated_notes, days_found

if TYPE_CHECKING:
    from pathlib import Path

_SHORT = (
    "Jan. Feb. Mar. Apr. May Jun. Jul. Aug. Sept. Oct. Nov. Dec.",
    "Jan. Feb. Mrz. Apr. Mai Jun. Jul. Aug. Sep. Okt. Nov. Dez.",
    "janv. févr. mars avr. mai juin juil. août sept. oct. nov. déc.",
    "ene. feb. mar. abr. mayo jun. jul. ago. sept. oct. nov. dic.",
    "gen. feb. mar. apr. mag. giu. lug. ago. set. ott. nov. dic.",
)


@pytest.mark.parametrize("names", _SHORT)
@pytest.mark.parametrize(
    "way", ["{d} {m} {y}", "{d}. {m} {y}", "{d}.{m} {y}", "le {d} {m} {y}", "What was on {d} {m}, {y}?", "el {d} de {m} de {y}"]
)
def test_a_short_month_takes_the_year_behind_it(names: str, way: str) -> None:
    for number, name in enumerate(names.split(), 1):
        day = date(2024, number, 5)
        for written in (name, name.rstrip(".")):
            question = way.format(d=5, m=written, y=2024)
            assert spans(question, today=TODAY) == [Span(day, day)], question


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        ("il 5 ott", "2026-10-05", "2026-10-05"),
        ("3–7 ott. 2025", "2025-10-03", "2025-10-07"),
        ("dal 3 ott. al 7 ott. 2025", "2025-10-03", "2025-10-07"),
        ("vom 3. Okt. bis 7. Okt. 2025", "2025-10-03", "2025-10-07"),
        ("Was war am 5. Okt.? 2025 war besser.", "2026-10-05", "2026-10-05"),
    ],
)
def test_ranges_and_days_without_a_year_have_short_months_too(question: str, first: str, last: str) -> None:
    assert spans(question, today=TODAY) == [Span(date.fromisoformat(first), date.fromisoformat(last))]


@pytest.mark.parametrize(
    "question", ["Who is Ott?", "set 5 alarms", "20 mag ich nicht", "Wo wohnt Herr Ott?", "gen 3 console", "5 set pieces"]
)
def test_short_months_that_are_other_words_are_no_days(question: str) -> None:
    assert spans(question, today=TODAY) == []


def test_a_note_that_names_the_day_of_another_year_with_a_short_month_names_another_day() -> None:
    assert names_a_day("bis 5. Okt. 2025 bezahlt", [date(2025, 10, 5)])
    assert not names_a_day("bis 5. Okt. 2025 bezahlt", [date(2026, 10, 5)])


async def test_the_note_of_that_year_comes_first(tmp_path: Path) -> None:
    memory = dated_notes(tmp_path)
    await memory.sync()
    for question in ("Was geschah am 5. Okt. 2025?", "5 ott. 2025", "Qu'est-ce qu'on a fait le 5 oct. 2025 ?", "5 Oct. 2025"):
        assert (await days_found(memory, question))[0] == "2025-10-05", question
    await memory.close()
