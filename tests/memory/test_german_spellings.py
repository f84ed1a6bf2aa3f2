"""German names are found however they are spelled, in notes of any language: ß or ss, ä or ae."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.base.clock import ManualClock
from memory.audience import OWNER
from memory.settings import MemorySettings
from memory.text.folding import folded
from memory.text.spellings import other_spellings
from tests.memory.memory_engines import memory_at

if TYPE_CHECKING:
    from pathlib import Path

NOTES = {
    "straße": "The doctor is called Dr. Straßenmeier and lives in Gänsestraße 4.",
    "köln": "Mrs Müßiggang from Köln phoned about the flat, and we like her.",
    "größ": "Nous avons vu Jürgen Größmann à la gare, et il est avec nous.",
    "weiss": "The plumber is called Herr Weissbaecker, and he is from Goettingen.",
}
ASKED = (
    ("Strassenmeier", "straße"),
    ("Where does Dr. Strassenmeier live?", "straße"),
    ("Gaensestrasse", "straße"),
    ("Gänsestrasse", "straße"),
    ("Muessiggang", "köln"),
    ("Müssiggang", "köln"),
    ("Koeln", "köln"),
    ("Juergen Groessmann", "größ"),
    ("Grossmann", "größ"),
    ("Arzt Strassenmeier", "straße"),  # no note has the other word, as in the next ones
    ("Sanitär Weißbäcker", "weiss"),
    ("Makler Muessiggang", "köln"),
    ("Weißbäcker", "weiss"),
    ("Göttingen", "weiss"),
)


@pytest.mark.parametrize("fillers", [0, 200])
async def test_a_name_is_found_in_its_other_spelling(tmp_path: Path, fillers: int) -> None:
    folder = tmp_path / "notes/memory"
    folder.mkdir(parents=True)
    for name, text in NOTES.items():
        (folder / f"{name}.md").write_text(f"- {text}\n", encoding="utf-8")
    for n in range(fillers):
        (folder / f"filler-{n}.md").write_text("- The kettle and the shelf are old, and the lamp is new.\n", encoding="utf-8")
    memory = memory_at(
        folder.parent,
        tmp_path / "i.sqlite",
        MemorySettings(),
        agent="main",
        clock=ManualClock(datetime(2026, 3, 18, 12, tzinfo=UTC)),
    )
    await memory.sync()
    lost = []
    for asked, name in ASKED:
        hits = (await memory.search(asked, audience=OWNER)).hits
        if not hits or hits[0].path != f"memory/{name}.md":
            lost.append(asked)
    await memory.close()
    assert lost == []


@given(st.text("abesoußäöü", min_size=5, max_size=12))
def test_another_spelling_is_folded_and_not_the_word_itself(word: str) -> None:
    for other in other_spellings(word):
        assert other == folded(other) != folded(word)


@pytest.mark.parametrize("word", ["toe", "due", "blue", "plain", "4711"])
def test_short_and_plain_words_have_one_spelling(word: str) -> None:
    assert other_spellings(word) == ()
