"""Whether notes are relevant to a question is decided by the words that tell its subject: less by "take" and "now", and most by names."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from gateway.base.clock import ManualClock
from memory.audience import OWNER
from memory.search.line_matches import LineMatches
from memory.settings import MemorySettings
from memory.text.asking_words import asking_words
from memory.text.stems import stem
from memory.text.terms import query_terms
from tests.memory.memory_engines import memory_at

if TYPE_CHECKING:
    from pathlib import Path

SHORT = (
    "Rain all morning, soup for lunch.",
    "Two hours of email, then the tram home.",
    "Pancakes, and a film in the evening.",
    "Swept the yard and fed the birds.",
    "Der Zug war voll, abends Suppe.",
    "Lange Sitzung, danach Spaziergang am See.",
    "Du riz aux légumes, puis une sieste.",
)
TOLD = (
    "Dr Falk raised the magnesium to 300 mg.",
    "The plasterer begins in May, 2,100 euros.",
    "Pepper weighs 6 kilos, says the vet.",
    "The parking permit is 48 euros a year.",
    "Der Hausmeister stellt die Heizung um fünf ab.",
    "Le garagiste garde la Twingo jusqu'à vendredi.",
    "Now the hall is tidy.",
    "Take the ladder back on Sunday.",
    "We want a new kettle, the old one stays in the shed.",
    "The pay of the cleaner went up, and her number is on the fridge.",
    "Oma kommt am Freitag, sie braucht jetzt einen Stock.",
    "Ça coûte trop, dit Paul au téléphone.",
    "Our neighbour recommends the bakery that starts at six.",
)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws/memory"
    folder.mkdir(parents=True)
    for number in range(120):
        lines = [SHORT[number % len(SHORT)], SHORT[(number * 3 + 1) % len(SHORT)]]
        if number % 7 == 0:
            lines.append("Pepper slept on the windowsill.")
        if number % 9 == 0 and number // 9 < len(TOLD):
            lines.append(TOLD[number // 9])
        day = date(2026, 3, 1) + timedelta(number)
        (folder / f"{day}.md").write_text(f"# {day}\n\n" + "".join(f"- {line}\n" for line in lines))
    return folder.parent


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("How much magnesium do I take now?", "Falk"),
        ("When did the plasterer want to start working?", "plasterer"),
        ("How chubby is Pepper?", "Pepper weighs"),
        ("What do I pay for the permit each quarter?", "parking permit"),
        ("Wie viel bekommt der Hausmeister jetzt?", "Hausmeister"),
        ("Combien demande le garagiste maintenant ?", "garagiste"),
    ],
)
async def test_a_question_is_answered_whose_rare_word_is_noted_whatever_else_it_asks_with(
    workspace: Path, tmp_path: Path, question: str, answer: str
) -> None:
    clock = ManualClock(datetime(2026, 8, 1, 12, tzinfo=UTC))
    memory = memory_at(workspace, tmp_path / "i.sqlite", MemorySettings(), agent="main", clock=clock)
    await memory.sync()
    hits = (await memory.search(question, audience=OWNER)).hits
    assert any(answer in hit.snippet for hit in hits)
    await memory.close()


async def test_a_question_that_shares_its_verb_alone_or_asks_about_another_name_is_not_answered(
    workspace: Path, tmp_path: Path
) -> None:
    clock = ManualClock(datetime(2026, 8, 1, 12, tzinfo=UTC))
    memory = memory_at(workspace, tmp_path / "i.sqlite", MemorySettings(), agent="main", clock=clock)
    await memory.sync()
    for question in (
        "How does Rosalind pay?",
        "Which hotel did we stay at in Bergen?",
        "When does the rowing course start?",
        "Is the ladder of Rosalind red?",
        "Wann kommt der Schornsteinfeger Ziegler?",
        "Combien coûte le permis de pêche ?",
    ):
        assert (await memory.search(question, audience=OWNER)).hits == (), question
    await memory.close()


def test_names_are_words_with_capitals_inside_a_question_where_not_all_nouns_have_them() -> None:
    assert asking_words("When does Ann's passport expire?").names == {"ann"}
    assert asking_words("Has the “Pogo” left? Boats are late.").names == {"pogo"}
    assert asking_words("Wann kommt der Schreiner?").names == frozenset()
    assert asking_words("WHEN DOES THE BOAT LEAVE?").names == frozenset()
    assert asking_words("Dentist Falk").names == frozenset()


def test_usual_words_are_those_of_the_language_of_the_question_in_any_form() -> None:
    assert asking_words("How much magnesium am I taking now?").usual == {stem("taking", ""), "now"}
    assert asking_words("Wie heißt der Bär jetzt?").usual == {stem("heißt", ""), stem("jetzt", "")}
    assert asking_words("What is the Wifi Name in the attic, and the Art?").usual == {stem("name", "")}


def test_words_tell_half_if_usual_and_unknown_names_more_than_unknown_words() -> None:
    def told(question: str, line: str) -> float:
        terms = query_terms(question)
        matches = LineMatches(terms, dict.fromkeys(terms.words, 2.0))
        return matches.telling_shares([line, "nothing"], asking_words(question), rare=1.0)[0]

    assert told("which boiler do we use?", "the boiler") == pytest.approx(1 / 1.35)
    assert told("is the boiler loud?", "the boiler") == pytest.approx(1 / 1.7)
    assert told("has the boiler of Winkler leaked?", "the boiler leaked") == pytest.approx(2 / 3.5)
    assert told("is the boiler loud?", "loud boiler") == 1.0
    assert told("is the boiler loud?", "bread") == 0.0


def test_a_word_that_is_too_common_to_be_unknown_weighs_as_ever() -> None:
    terms = query_terms("is the boiler of Winkler loud?")
    matches = LineMatches(terms, {"boiler": 2.0, "Winkler": 1.0, "loud": 1.0})
    asking = asking_words("is the boiler of Winkler loud?")
    assert matches.telling_shares(["the boiler"], asking, rare=1.0) == [pytest.approx(0.5)]
    assert matches.telling_shares([], asking, rare=1.0) == []
