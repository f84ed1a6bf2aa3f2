"""Days of months in words, in five languages: read as in figures."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.text.dates import Span, day_words, spans, spelt_out
from memory.text.days_in_words import with_days_in_figures
from tests.memory.dated_notes import MONTHS, TODAY, dated_notes, days_found

if TYPE_CHECKING:
    from pathlib import Path

WORDS = {
    "English": {1: "first", 3: "third", 7: "seventh", 12: "twelfth", 20: "twentieth", 21: "twenty-first", 28: "twenty eighth"},
    "German": {1: "ersten", 3: "dritten", 7: "siebten", 12: "zwölften", 20: "zwanzigsten", 21: "einundzwanzigsten"},
    "French": {1: "premier", 3: "trois", 7: "sept", 12: "douze", 17: "dix-sept", 21: "vingt et un", 28: "vingt-huit"},
    "Spanish": {1: "primero", 3: "tres", 7: "siete", 12: "doce", 16: "dieciséis", 21: "veintiuno", 28: "veintiocho"},
    "Italian": {1: "primo", 3: "tre", 7: "sette", 12: "dodici", 21: "ventuno", 23: "ventitré", 28: "ventotto"},
}
WAYS = {
    "English": ("on the {} of {}", "What happened on the {} of {}?"),
    "German": ("am {} {}", "Was war am {} {}?"),
    "French": ("le {} {}", "Qu'avons-nous fait le {} {} ?", "mardi {} {}"),
    "Spanish": ("el {} de {}", "¿Qué hicimos el {} de {}?"),
    "Italian": ("il {} {}", "Cosa abbiamo fatto il {} {}?"),
}
TWO = {
    "English": "from the {} to the {} of {}",
    "German": "vom {} bis zum {} {}",
    "French": "du {} au {} {}",
    "Spanish": "del {} al {} de {}",
    "Italian": "dal {} al {} {}",
}
VOCABULARY = " ".join(
    f"{' '.join(words.values())} {names[2]} {names[4]} {names[10]}"
    for words, names in zip(WORDS.values(), MONTHS.values(), strict=True)
)


@pytest.mark.parametrize("language", list(WORDS))
@given(st.data(), st.integers(1, 12), st.dates(date(1990, 1, 1), date(2090, 12, 31)))
def test_a_day_in_words_is_the_one_in_figures(language: str, data: st.DataObject, month: int, today: date) -> None:
    day, word = data.draw(st.sampled_from(sorted(WORDS[language].items())))
    name = MONTHS[language][month - 1]
    for way in WAYS[language]:
        for year in ("", " 2024"):
            said, figures = (way.format(one, f"{name}{year}") for one in (word, day))
            assert spans(said, today=today) == spans(figures, today=today) != [], said


@pytest.mark.parametrize("language", list(WORDS))
@given(st.data(), st.integers(1, 12))
def test_two_days_in_words_are_a_range(language: str, data: st.DataObject, month: int) -> None:
    first, last = sorted(data.draw(st.lists(st.sampled_from(sorted(WORDS[language])), min_size=2, max_size=2, unique=True)))
    question = TWO[language].format(WORDS[language][first], WORDS[language][last], f"{MONTHS[language][month - 1]} 2024")
    assert spans(question, today=TODAY) == [Span(date(2024, month, first), date(2024, month, last))], question


@given(
    st.lists(st.sampled_from(f"{VOCABULARY} am le el il the of de on und et y e to 3 2025 -".split()), max_size=9).map(" ".join)
)
def test_figures_take_the_place_of_words_once(question: str) -> None:
    once = with_days_in_figures(question)
    assert with_days_in_figures(once) == once
    assert spans(question, today=TODAY) == spans(once, today=TODAY)
    assert day_words(question, today=TODAY).rest == day_words(once, today=TODAY).rest
    assert spelt_out(question, today=TODAY) == spelt_out(once, today=TODAY)


@pytest.mark.parametrize(
    ("question", "days"),
    [
        ("on November first", ["2026-11-01"]),
        ("What happened on November twenty-third?", ["2026-11-23"]),
        ("November third, 2025", ["2025-11-03"]),
        ("l'otto novembre", ["2026-11-08"]),
        ("der dritte und der siebte November", ["2026-11-03", "2026-11-07"]),
        ("am dreissigsten Oktober", ["2026-10-30"]),
        ("3.Nov.", ["2026-11-03"]),
    ],
)
def test_each_language_has_forms_of_its_own(question: str, days: list[str]) -> None:
    assert [str(span.first) for span in spans(question, today=TODAY)] == days


@pytest.mark.parametrize(
    "question",
    [
        "the third Jan we met",
        "November third graders",
        "les deux mars étaient périmés",
        "the second May edition",
        "la tercera parte",
        "sei Mai freundlich",
        "vierte Klasse Mai",
        "le trois pièces",
    ],
)
def test_other_numbers_beside_names_stay(question: str) -> None:
    assert with_days_in_figures(question) == question
    assert [span for span in spans(question, today=TODAY) if span.days == 1] == []


async def test_notes_of_a_day_in_words_come_first(tmp_path: Path) -> None:
    memory = dated_notes(tmp_path)
    await memory.sync()
    for question in ("am dritten November", "le trois novembre", "el tres de noviembre", "il tre novembre", "November third"):
        assert (await days_found(memory, question))[:1] == ["2026-11-03"], question
    await memory.close()
