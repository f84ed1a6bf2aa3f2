"""Ranges of days with slashes, ranges of months, and lists of days, in questions in five languages."""

from __future__ import annotations

from calendar import monthrange
from datetime import date, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.text.dates import Span, day_words, spans, spelt_out, time_words
from tests.memory.dated_notes import MONTHS, TODAY, dated_notes, days_found

if TYPE_CHECKING:
    from pathlib import Path

    from memory.text.figure_dates import Order

DAYS = st.dates(date(1990, 1, 1), date(2090, 12, 31))
MONTH_RANGES = {
    "English": ("from {} to {}", "what did we do between {} and {}?", "{} through {}", "{}–{}"),
    "German": ("von {} bis {}", "Was war zwischen {} und {}?", "{} bis {}"),
    "French": ("de {} à {}", "entre {} et {}", "qu'a-t-on fait de {} jusqu’à {} ?"),
    "Spanish": ("de {} a {}", "entre {} y {}", "desde {} hasta {}"),
    "Italian": ("da {} a {}", "tra {} e {}", "{} - {}"),
}
LISTS = {
    "English": ("on the {0}th and the {1}th of {2}", "{2} {0}th and {1}th", "what was on {0}th or {1}th {2}?"),
    "German": ("der {0}. und der {1}. {2}", "Was war am {0}. und {1}. {2}?", "am {0}. oder am {1}. {2}"),
    "French": ("le {0} et le {1} {2}",),
    "Spanish": ("el {0} y el {1} de {2}",),
    "Italian": ("il {0} e il {1} {2}", "il {0} o il {1} di {2}"),
}


@given(DAYS, st.integers(1, 300), DAYS)
def test_a_range_with_slashes_is_in_the_order_of_the_language_or_the_owners(first: date, days: int, today: date) -> None:
    last = first + timedelta(days=days)
    day_first = f"{first.day}/{first.month}/{first.year} - {last.day}/{last.month}/{last.year}"
    month_first = f"{first.month}/{first.day}/{first.year}–{last.month}/{last.day}/{last.year}"
    assert spans(f"du {day_first.replace(' - ', ' au ')}", today=today, order="month first") == [Span(first, last)]
    orders: tuple[tuple[str, Order], ...] = ((day_first, "day first"), (month_first, "month first"))
    for written, order in orders:
        assert spans(f"what was from {written}?", today=today, order=order) == [Span(first, last)]
        if first.day != last.day:
            assert Span(first, last) in spans(written, today=today)


@given(
    st.dates(date(1990, 1, 1), date(2090, 6, 1)),
    st.integers(1, 27),
    st.sampled_from(["du {} au {}", "{} - {}", "{}–{}", "el {} al {}"]),
)
def test_a_range_with_slashes_without_a_year_has_begun(first: date, days: int, written: str) -> None:
    last = first + timedelta(days=days)
    both = [(day.day, day.month) for day in (first, last)]
    if all(day <= month and month in {2, 3, 4, 5, 6, 8, 10, 16} for day, month in both):
        return  # these may be fractions or marks
    question = written.format(*(f"{day}/{month}" for day, month in both))
    for ahead in (0, 1, 100, 330):
        assert spans(question, today=first + timedelta(days=ahead), order="day first") == [Span(first, last)], question


def test_where_the_order_is_unknown_the_number_that_stays_is_the_month() -> None:
    november = [Span(date(2026, 11, 3), date(2026, 11, 7))]
    assert spans("3/11 - 7/11", today=TODAY) == spans("11/3–11/7", today=TODAY) == november
    assert len(spans("3/5 - 5/7", today=TODAY)) == 2


@pytest.mark.parametrize("language", list(MONTHS))
@given(DAYS, st.integers(1, 12), st.integers(1, 11))
def test_a_range_of_months_is_one_time(language: str, today: date, first: int, more: int) -> None:
    last = (first + more - 1) % 12 + 1

    def months(year: int) -> Span:
        return Span(date(year - (last < first), first, 1), date(year, last, monthrange(year, last)[1]))

    names = [MONTHS[language][number - 1] for number in (first, last)]
    for written in MONTH_RANGES[language]:
        question = written.format(*names)
        assert spans(question, today=today) == [months(today.year - (last > today.month))], question
        if "?" not in written:
            assert spans(f"{question} 2024", today=today) == [months(2024)], question
    assert spans(f"{names[0]} 2023 - {names[1]} 2024", today=today) == [Span(date(2023, first, 1), months(2024).last)]


@pytest.mark.parametrize("language", list(MONTHS))
@given(DAYS, st.integers(1, 12), st.integers(1, 27), st.integers(1, 10))
def test_days_of_a_list_are_days_and_not_a_range(language: str, today: date, month: int, day: int, more: int) -> None:
    days = (day, min(28, day + more))

    def meant(year: int) -> list[Span]:
        return [Span(date(year, month, one), date(year, month, one)) for one in days]

    for written in LISTS[language]:
        question = written.format(*days, MONTHS[language][month - 1])
        assert spans(question, today=today) == meant(today.year - (date(today.year, month, day) > today)), question
        assert spans(f"{question} 2024".replace("? 2024", " 2024?"), today=today) == meant(2024), question


@pytest.mark.parametrize(
    ("question", "days"),
    [
        ("am 3., 5. und 7.11.", ["2026-11-03", "2026-11-05", "2026-11-07"]),
        ("November 3, 5 and 7, 2025", ["2025-11-03", "2025-11-05", "2025-11-07"]),
        ("3. und 7. November letztes Jahr", ["2025-11-03", "2025-11-07"]),
        ("on 3 and 28 November", ["2026-11-03", "2026-11-28"]),
        ("Nov 3 and 7 people came", ["2026-11-03"]),
        ("Nov 3, 10 people came", ["2026-11-03"]),
    ],
)
def test_lists_have_two_days_and_more(question: str, days: list[str]) -> None:
    assert [str(span.first) for span in spans(question, today=TODAY)] == days


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        ("October 30th through November 2nd", "2026-10-30", "2026-11-02"),
        ("3–7 November last year", "2025-11-03", "2025-11-07"),
        ("du 3 au 7 novembre de l'année dernière", "2025-11-03", "2025-11-07"),
        ("vom 28. Dezember bis 3. Januar letztes Jahr", "2024-12-28", "2025-01-03"),
        ("last year from September to November", "2025-09-01", "2025-11-30"),
        ("von September 2025 bis März", "2025-09-01", "2026-03-31"),
        ("from December to February", "2025-12-01", "2026-02-28"),
        ("del 3 al 7/11", "2026-11-03", "2026-11-07"),
        ("30/10/25 - 2/11/25", "2025-10-30", "2025-11-02"),
        ("11/2025", "2025-11-01", "2025-11-30"),
        ("du 3 au 7.11.", "2026-11-03", "2026-11-07"),
        ("desde el 3 hasta el 5 de noviembre", "2026-11-03", "2026-11-05"),
        ("dal 3 fino al 5 novembre", "2026-11-03", "2026-11-05"),
        ("2026-11-03..2026-11-07", "2026-11-03", "2026-11-07"),
        ("2026-11-03/2026-11-07", "2026-11-03", "2026-11-07"),
        ("in der Nacht vom 2. auf den 3. November", "2026-11-02", "2026-11-03"),
        ("3.11.26 bis 7.11.26", "2026-11-03", "2026-11-07"),
        ("September", "2026-09-01", "2026-09-30"),
        ("What happened 1/10–5/10?", "2026-10-01", "2026-10-05"),
        ("Was war 4/10–8/10?", "2026-10-04", "2026-10-08"),
    ],
)
def test_ranges_have_years_in_words_too(question: str, first: str, last: str) -> None:
    assert [(str(span.first), str(span.last)) for span in spans(question, today=TODAY, order="day first")] == [(first, last)]


@pytest.mark.parametrize(
    "question",
    [
        "1/2 - 3/4 cup of sugar",
        "between 1/2 and 3/4 of the cake",
        "rated 7/10 - 8/10",
        "an aspect of 16/9 - 4/3",
        "version 3.7–3.11",
        "on pages 3 and 7",
        "chapter 3–7",
        "from 9 to 5",
        "9:30–10:45",
        "did they march to may's house",
        "a path a/3/11-7/11/b",
        "from 3 to 7.11",
        "the ratio 3/11-7/11",
        "April",
        "versions 3.11..3.13",
        "13/2025",
    ],
)
def test_fractions_versions_and_verbs_are_none(question: str) -> None:
    assert spans(question, today=TODAY, order="day first") == []


def test_words_for_between_belong_to_the_range() -> None:
    for question, word in (
        ("Qu'est-ce qui s'est passé entre le 3 et le 7 novembre ?", "entre"),
        ("qu'a-t-on fait entre mars et mai ?", "entre"),
        ("fra il 3 e il 7 novembre", "fra"),
    ):
        assert word in time_words(question, today=TODAY).names, question


def test_figures_of_ranges_and_lists_are_no_words_of_the_question() -> None:
    words = time_words("Did Tom paint from 3 to 7 November last year?", today=TODAY)
    assert (words.names, words.beside) == ({"3", "to", "7", "november"}, {"last", "year"})
    assert spelt_out("October 30th through November 2nd", today=TODAY).split() == ["October", "through", "November"]
    assert spelt_out("der 3. und der 7. November", today=TODAY) == "3 November 7 November"
    assert day_words("Was war am 3. und 7. November?", today=TODAY).named


async def test_ranges_and_lists_bring_their_days_alone_or_first(tmp_path: Path) -> None:
    memory = dated_notes(tmp_path)
    await memory.sync()
    for question, first, last in (
        ("October 30th through November 2nd", "2026-10-30", "2026-11-02"),
        ("3/11 - 7/11", "2026-11-03", "2026-11-07"),
        ("3–7 November last year", "2025-11-03", "2025-11-07"),
        ("von September bis Oktober letztes Jahr", "2025-09-01", "2025-10-31"),
        ("11/2025", "2025-11-01", "2025-11-30"),
    ):
        days = await days_found(memory, question)
        assert len(days) > 3, question
        assert all(first <= day <= last for day in days), question
    assert sorted((await days_found(memory, "der 3. und der 7. November"))[:2]) == ["2026-11-03", "2026-11-07"]
    await memory.close()
