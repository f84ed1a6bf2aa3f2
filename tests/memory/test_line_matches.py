"""What stands together in one line, in the order of the question, and beside a time, ranks above what is spread over a passage."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.base.clock import ManualClock
from memory.audience import OWNER
from memory.search.line_matches import LineMatches
from memory.settings import MemorySettings
from memory.store.candidates import NO_MATCH
from memory.text.folding import folded, full_width, without_accents
from memory.text.stems import ARABIC, forms, language_of, stem
from memory.text.terms import query_terms
from tests.memory.memory_engines import memory_at

if TYPE_CHECKING:
    from pathlib import Path


def matches(question: str, *, languages: tuple[str, ...] = (), asks_when: bool = False) -> LineMatches:
    terms = query_terms(question)
    return LineMatches(terms, dict.fromkeys([*terms.words, *terms.content_bigrams], 1.0), languages, asks_when=asks_when)


def test_words_of_one_line_count_whole_and_those_beside_it_half() -> None:
    asked = matches("boiler warranty")
    assert asked.measure("The boiler has a warranty").share == 1.0
    assert asked.measure("Who knows the boilers?\nThe warranty ends in May").share == 0.75
    assert asked.measure("The boiler\nwas loud\nand its warranty is over").share == 0.5
    assert asked.measure("Bread and apples") == NO_MATCH


def test_phrases_are_pairs_in_the_order_of_the_question() -> None:
    asked = matches("the red garden door key")
    assert asked.measure("the red garden door key").phrases == 1.0
    assert asked.measure("a key for the door").phrases == 0.0
    assert asked.measure("the garden door").phrases == pytest.approx(1 / 3)
    assert asked.measure("a door of the keys").phrases == 0.0  # two words between
    assert asked.measure("a door a key").phrases == pytest.approx(1 / 3)


def test_a_time_counts_only_for_questions_that_ask_for_one() -> None:
    text = "We adopted the dog last Friday"
    assert matches("adopt dog", asks_when=True).measure(text).timed == 1.0
    assert matches("adopt dog").measure(text).timed == 0.0
    assert matches("adopt dog", asks_when=True).measure("We adopted the dog").timed == 0.0


def test_word_forms_and_scripts() -> None:
    assert matches("when did we buy a mouse").measure("we bought three mice").share == 1.0
    assert matches("studying happily").measure("She studies happily").share == 1.0
    assert matches("Häuser", languages=("German",)).measure("das Haus").share == 1.0
    assert matches("小明的生日").measure("小明的生日是三月五日").share == 1.0
    assert matches("カラオケ").measure("ｶﾗｵｹ に行った").share == 1.0


@given(question=st.text(max_size=60), text=st.text(max_size=200))
def test_any_text_is_measured(question: str, text: str) -> None:
    found = matches(question, languages=("German", ARABIC), asks_when=True).measure(text)
    assert all(0.0 <= number <= 1.0 for number in found)


@given(st.text(max_size=80))
def test_folding_keeps_what_it_must(text: str) -> None:
    assert len(without_accents(text)) == len(text)
    assert folded(folded(text)) == folded(text)
    assert full_width(full_width(text)) == full_width(text)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Wir haben gestern das Auto in die Werkstatt gebracht, weil es nicht mehr fuhr.", "German"),
        ("Nous avons acheté du pain et des pommes pour la fête.", "French"),
        ("We took the car to the garage because it would not start.", ""),
        ("4711 HL-L2350DW Anna Bob", ""),
        ("اشتريت السيارة من أحمد", ARABIC),
        ("", ""),
    ],
)
def test_the_language_of_a_note(text: str, language: str) -> None:
    assert language_of(text) == language


def test_stems_of_a_word_are_asked_for_once() -> None:
    assert forms("Haus", ["German"]) == ["Haus"]
    assert forms("garden", []) == ["garden"]
    assert forms("Häuser", ["French", "German"])[0] == "Häuser"
    assert stem("Häuser", "German") in forms("Häuser", ["French", "German"])
    assert stem("السيارة", ARABIC) == stem("سيارة", ARABIC) == stem("والسيارة", ARABIC)


NOTES = {
    "German": ("Die Häuser am See wurden von den Großeltern gebaut, und wir haben sie geerbt.", "Haus der Großmutter am See"),
    "French": ("Les chevaux ont été vendus par la voisine à un fermier de la vallée.", "vendre un cheval à des fermiers"),
    "Spanish": ("Los niños han sido vacunados por la doctora en la clínica nueva.", "vacunación del niño en las clínicas"),
    "Italian": ("Le finestre della cucina sono state riparate dal falegname di Siena.", "riparare la finestra delle cucine"),
}


@pytest.mark.parametrize("language", NOTES)
async def test_endings_of_a_notes_own_language_do_not_matter(language: str, tmp_path: Path) -> None:
    folder = tmp_path / "ws/memory"
    folder.mkdir(parents=True)
    for number in range(60):
        (folder / f"day-{number}.md").write_text(f"We walked to market {number} and bought bread, cheese and apples\n", "utf-8")
    note, question = NOTES[language]
    (folder / "fact.md").write_text(note + "\n", "utf-8")
    clock = ManualClock(datetime(2026, 3, 18, 12, tzinfo=UTC))
    memory = memory_at(folder.parent, tmp_path / "i.sqlite", MemorySettings(), agent="main", clock=clock)
    await memory.sync()
    assert [hit.path for hit in (await memory.search(question, audience=OWNER)).hits][:1] == ["memory/fact.md"]
    await memory.close()


@given(
    st.lists(
        st.sampled_from(["boiler", "Serviced", "-", "_", "7", "\n", "\t", ".", "\x1c", "'s ", "foo-bar"]), max_size=40
    ).map("".join)
)
def test_lines_match_alike_in_texts_with_and_without_other_characters(text: str) -> None:
    asked = matches("Was the foo boiler 7 serviced?")
    assert asked.by_line(text + "\n\n") == asked.by_line(text + "\n\n–")
    assert asked.measure(text + "\n\n") == asked.measure(text + "\n\n–")
