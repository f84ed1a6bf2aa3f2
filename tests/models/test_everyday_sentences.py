"""What people say to a notebook on an ordinary day, in English and German, and what they expect to read."""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.models.notebook.intents import Ask, File, understand
from agent.models.notebook.intents import Talk as Spoken
from agent.models.notebook.named_days import with_dates
from tests.models.test_notebook_model import Talk, talk

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["talk"]

KEPT = r"^Noted in `memory/2026-11-20\.md`: "
"""The reply to a sentence that was written down. The conversation takes place on Friday, 20 November 2026, at 14:05."""

ENGLISH = [
    ("hi", "Hello"),
    ("what can you do?", "five things"),
    ("remember Mia is our cat", KEPT),
    ("who is Mia?", "Mia is our cat"),
    ("Will is my brother", KEPT),
    ("who is Will?", "Will is my brother"),
    ("my son is called Una", KEPT),
    ("what about my son?", "Una"),
    ("the spare key is under the blue pot", KEPT),
    ("where is the spare key?", "blue pot"),
    ("where's the spare key", "blue pot"),
    ("spare key", "blue pot"),
    ("I lent my drill to Tom", KEPT),
    ("Where's my drill", "Tom"),
    ("who has my drill?", "Tom"),
    ("update: gate code is 4712", KEPT),
    ("gate code", "4712"),
    ("correct: the gate code is 4713", KEPT),
    ("mistake: it is 4714", KEPT),
    ("remind me tomorrow at 9 to call mum", r"2026-11-21.*cannot ring"),
    ("todo: paint the fence", KEPT),
    ("my todos?", "Paint the fence"),
    ("add milk to the shopping list", KEPT),
    ("put eggs on the shopping list", KEPT),
    ("what's on the shopping list?", r"eggs(.|\n)*milk|milk(.|\n)*eggs"),
    ("what time is it?", "14:05"),
    ("what day is it today?", "Friday, 20 November 2026"),
    ("I prefer Python", KEPT),
    ("which language do I prefer?", "Python"),
    ("We chose PostgreSQL", KEPT),
    ("which database did we choose?", "PostgreSQL"),
    ("Anna's birthday is 4 May", KEPT),
    ("when is Anna's birthday?", "4 May"),
    ("dentist on Tuesday at 10", KEPT),
    ("when is the dentist?", "Tuesday"),
    ("bought a new lawn mower for 340 euros", KEPT),
    ("how much was the lawn mower?", "340"),
    ("call the plumber next Monday", "2026-11-23"),
    ("how are you?", "notebook"),
    ("thanks", "welcome"),
    ("forget the spare key", "homebody memory undo"),
    ("show today", "Python"),
    ("write me a poem about the sea", "language model"),
]
GERMAN = [
    ("guten Morgen", "Hello"),
    ("was kannst du?", "five things"),
    ("merke: Oma hat am 12. Juni Geburtstag", KEPT),
    ("Wann hat Oma Geburtstag?", "12. Juni"),
    ("Ich habe Tom die Bohrmaschine geliehen", KEPT),
    ("Wer hat die Bohrmaschine?", "Tom"),
    ("erinnere mich morgen um 9 an den Zahnarzt", r"2026-11-21.*cannot ring"),
    ("setz Butter auf die Einkaufsliste", KEPT),
    ("Schreib Brot auf die Einkaufsliste", KEPT),
    ("Was steht auf der Einkaufsliste?", r"Butter(.|\n)*Brot|Brot(.|\n)*Butter"),
    ("nein, der Code ist 4712#", KEPT),
    ("Müllabfuhr ist donnerstags", KEPT),
    ("wann kommt der Müll?", "donnerstags"),
    ("Der Ersatzschlüssel liegt bei Frau Huber", KEPT),
    ("was weißt du über den Schlüssel?", "Huber"),
    ("Wo ist der Ersatzschlüssel?", "Huber"),
    ("Notiere: Der Installateur kommt am Dienstag", KEPT),
    ("wann kommt der Installateur", "Dienstag"),
    ("Merk dir, dass Ben keine Nüsse verträgt", KEPT),
    ("Was verträgt Ben nicht?", "Nüsse"),
    ("Unser WLAN-Passwort lautet Apfelbaum77", KEPT),
    ("Wie lautet das WLAN-Passwort?", "Apfelbaum77"),
    ("Oma anrufen", KEPT),
    ("Aufgabe: Rasen mähen", KEPT),
    ("Aufgaben", "Rasen mähen"),
    ("wie spät ist es?", "14:05"),
    ("wie geht's?", "notebook"),
    ("danke", "welcome"),
    ("Bohrmaschine", "Tom"),
    ("Gestern war ich beim Arzt", "2026-11-19"),
]


@pytest.mark.parametrize("day", [ENGLISH, GERMAN], ids=["english", "german"])
async def test_everyday_sentences_are_understood(talk: Talk, day: Sequence[tuple[str, str]]) -> None:
    wrong = []
    for said, expected in day:
        reply = await talk.say(said)
        if not re.search(expected, reply):
            wrong.append(f"{said!r}: {reply.splitlines()[0]!r} lacks {expected!r}")
    assert not wrong, "\n".join(wrong)


WORDS = [
    "the",
    "dog",
    "Anna",
    "Ben",
    "has",
    "eats",
    "two",
    "red",
    "blue",
    "shoes",
    "in",
    "on",
    "Garten",
    "kaufte",
    "vier",
    "Äpfel",
    "und",
]


TOLD = [
    ("Kannst du dir merken, dass Jonas keine Nüsse essen darf?", "Jonas keine Nüsse essen darf"),
    ("Kannst du bitte notieren, dass der Keller feucht ist?", "Der Keller feucht ist"),
    ("Könntest du Käse auf die Einkaufsliste setzen?", "Einkaufsliste: Käse"),
    ("Schreibst du dir auf, dass Paul am Montag kommt?", "Paul am Montag kommt"),
    ("Merkst du dir, dass mein Auto HH-AB 123 ist?", "Mein Auto HH-AB 123 ist"),
    ("Vergiss bitte nicht: Impfpass mitnehmen", "Impfpass mitnehmen"),
    ("Könntest du dir aufschreiben, dass Lars umzieht?", "Lars umzieht"),
    ("Notierst du bitte, dass wir 2 Liter Öl brauchen?", "Wir 2 Liter Öl brauchen"),
    ("Merk dir bitte, dass der Zählerstand 4711 ist", "Der Zählerstand 4711 ist"),
    ("What a day, the car broke down on the A7", "What a day, the car broke down on the A7"),
    ("Who would have thought, grandpa sold the boat", "Who would have thought, grandpa sold the boat"),
    ("Wie schön, Nina hat ein Mädchen bekommen, es heißt Frieda", "Wie schön, Nina hat ein Mädchen bekommen, es heißt Frieda"),
    (
        "Wann auch immer Karl anruft, sag ihm die Nummer 0171 222333",
        "Wann auch immer Karl anruft, sag ihm die Nummer 0171 222333",
    ),
    ("What Eva said: she will pay the rent in cash", "What Eva said: she will pay the rent in cash"),
    ("Where did I put... ah never mind, it is in the desk", "Where did I put... ah never mind, it is in the desk"),
    ("Find a new dentist for Mia", "Find a new dentist for Mia"),
    ("Did you know that my aunt Greta lives in Bremen?", "My aunt Greta lives in Bremen"),
    ("Weißt du schon, dass wir im April umziehen?", "Wir im April umziehen"),
    ("Is the meeting at 5? No, it is at 6 in room B12.", "Is the meeting at 5? No, it is at 6 in room B12."),
]


@pytest.mark.parametrize(("said", "kept"), TOLD)
def test_a_polite_or_roundabout_sentence_is_kept(said: str, kept: str) -> None:
    intent = understand(said)
    assert isinstance(intent, File)
    assert intent.lines == (kept,)


@pytest.mark.parametrize("said", ["Thanks, that's great!", "Tschüss, bis bald", "Danke dir!", "bye, see you"])
def test_courtesies_are_no_notes(said: str) -> None:
    assert isinstance(understand(said), Spoken)


@pytest.mark.parametrize(
    "said", ["where is the key", "wann kommt der Bus", "is the key there?", "Mia, where is the key?", "find the key"]
)
def test_a_question_stays_a_question(said: str) -> None:
    assert isinstance(understand(said), Ask)


@given(st.lists(st.sampled_from(WORDS), min_size=4).map(lambda words: ["Anna", *words]))
def test_no_sentence_without_a_question_is_lost(words: list[str]) -> None:
    intent = understand(" ".join(words))
    assert isinstance(intent, File)
    assert " ".join(intent.lines).casefold() == " ".join(words).casefold()


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("to call mum tomorrow", "to call mum tomorrow (2026-11-21)"),
        ("Tomorrow at 9", "Tomorrow (2026-11-21) at 9"),
        ("the day after tomorrow", "the day after tomorrow (2026-11-22)"),
        ("übermorgen kommt Anna", "übermorgen (2026-11-22) kommt Anna"),
        ("next Friday", "next Friday (2026-11-27)"),
        ("am nächsten Montag", "am nächsten Montag (2026-11-23)"),
        ("the bin is emptied on Friday", "the bin is emptied on Friday"),
        ("am Morgen trinke ich Tee", "am Morgen trinke ich Tee"),
        ("tomorrow (2026-11-21)", "tomorrow (2026-11-21)"),
    ],
)
def test_a_day_named_from_today_is_kept_with_its_date(said: str, kept: str) -> None:
    assert with_dates(said, date(2026, 11, 20)) == kept


@given(
    st.lists(st.sampled_from([*WORDS, "tomorrow", "morgen", "gestern", "next", "Friday", "(2026-11-20)", "\n"])).map(" ".join),
    st.dates(),
)
def test_dates_are_added_once_and_nothing_is_taken_away(text: str, today: date) -> None:
    once = with_dates(text, today)
    assert with_dates(once, today) == once
    assert re.sub(r" \(\d{4}-\d\d-\d\d\)", "", once) == re.sub(r" \(\d{4}-\d\d-\d\d\)", "", text)
    assert len(once) >= len(text)
