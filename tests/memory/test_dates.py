from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.text.dates import Span, day_of, header, spans, spelt_out

TODAY = date(2026, 3, 18)  # a Wednesday


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        ("what happened on 2026-01-26?", (2026, 1, 26), (2026, 1, 26)),
        ("notes of 8 May 2023", (2023, 5, 8), (2023, 5, 8)),
        ("on May 8, 2023", (2023, 5, 8), (2023, 5, 8)),
        ("what did we do in May 2023", (2023, 5, 1), (2023, 5, 31)),
        ("the trip in December", (2025, 12, 1), (2025, 12, 31)),
        ("where was I in 2024", (2024, 1, 1), (2024, 12, 31)),
        ("what was yesterday", (2026, 3, 17), (2026, 3, 17)),
        ("who came last Friday", (2026, 3, 13), (2026, 3, 13)),
        ("two weeks ago", (2026, 3, 1), (2026, 3, 7)),
        ("last month", (2026, 2, 1), (2026, 2, 28)),
        ("what did I say recently", (2026, 3, 4), (2026, 3, 18)),
    ],
)
def test_a_question_names_days(question: str, first: tuple[int, int, int], last: tuple[int, int, int]) -> None:
    assert spans(question, today=TODAY) == [Span(date(*first), date(*last))]


def test_words_that_only_look_like_dates_name_none() -> None:
    assert spans("may I march with 31 people to room 2023?", today=TODAY) == []
    assert spans("on 2026-13-45 and 31 February 2024", today=TODAY) == []


@given(
    st.text(alphabet=st.sampled_from("0123456789- may of last week ago"), max_size=60),
    st.dates(date(1990, 1, 1), date(2090, 1, 1)),
)
def test_spans_go_forward(question: str, today: date) -> None:
    for span in spans(question, today=today):
        assert span.first <= span.last


def test_a_note_is_of_the_day_in_its_name() -> None:
    assert day_of("memory/2026-01-26-api.md") == date(2026, 1, 26)
    assert day_of("memory/2026-99-26.md") is None
    assert header(date(2026, 1, 6), "API") == "2026-01-06 (6 January 2026, Tuesday) API"


@pytest.mark.parametrize(
    ("asked", "plain", "day"),
    [
        ("What happened on October 31st?", "What happened on October 31?", date(2025, 10, 31)),
        ("What happened on the 22nd of October?", "What happened on the 22 of October?", date(2025, 10, 22)),
        ("What happened on the first of October?", "What happened on the 1 October?", date(2025, 10, 1)),
        ("Qu'avons-nous fait le 1er octobre ?", "Qu'avons-nous fait le 1 octobre ?", date(2025, 10, 1)),
        ("le premier octobre 2024", "le 1 octobre 2024", date(2024, 10, 1)),
        ("il 1° ottobre", "il 1 ottobre", date(2025, 10, 1)),
        ("il primo ottobre", "il 1 ottobre", date(2025, 10, 1)),
        ("el 1º de octubre de 2024", "el 1 de octubre de 2024", date(2024, 10, 1)),
        ("el primero de octubre", "el 1 octubre", date(2025, 10, 1)),
        ("am ersten Oktober", "am 1 Oktober", date(2025, 10, 1)),
    ],
)
def test_days_in_ordinals_are_read_and_searched_as_in_figures(asked: str, plain: str, day: date) -> None:
    today = date(2026, 3, 18)
    assert spans(asked, today=today) == [Span(day, day)]
    assert spelt_out(asked, today=today) == plain


@pytest.mark.parametrize(
    "said", ["our first October here", "the first marching band", "the 21st floor", "in May the first of us came"]
)
def test_what_is_first_or_in_a_row_is_no_day(said: str) -> None:
    assert [span for span in spans(said, today=date(2026, 3, 18)) if span.days == 1] == []
    assert spelt_out(said, today=date(2026, 3, 18)) == said
