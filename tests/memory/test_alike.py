"""Words that a note has in another form: found when nothing else is, and only then."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from gateway.base.clock import ManualClock
from memory.audience import OWNER, Audience
from memory.settings import MemorySettings
from tests.memory.memory_engines import memory_at

if TYPE_CHECKING:
    from pathlib import Path

    from memory.workspace_memory import WorkspaceMemory

CASES = [
    ("Der Hausschlüssel liegt unter dem blauen Topf", "Wo ist der Schlüssel?"),
    ("Der Schlüssel liegt unter dem blauen Topf", "Wo ist der Hausschlüssel?"),
    ("Die Schornsteinfegerin kommt am Montag", "Wann kommt der Schornsteinfeger?"),
    ("Der Kinderarzt heißt Doktor Weber", "Wie heißt die Kinderärztin?"),
    ("اشتريت السيارة من أحمد", "من باع سيارة؟"),
    ("Die Waschmaschinen sind kaputt", "Waschmaschine?"),
]


HEADS = (
    "Bücher-Regal Garten-Regal Winter-Reifen Telefon-Nummer Ferien-Wohnung Kinder-Zimmer Brief-Kasten Kranken-Kasse Hunde-Leine "
    "Apfel-Kuchen Heizungs-Keller Werkzeug-Kiste Kaffee-Tasse Strom-Zähler Küchen-Schrank"
)


def opened(tmp_path: Path, fillers: int) -> WorkspaceMemory:
    notes = tmp_path / "notes" / "memory"
    notes.mkdir(parents=True)
    for number in range(fillers):
        (notes / f"day-{number}.md").write_text(f"Am Morgen auf dem Markt {number}: Brot, Käse und Äpfel gekauft\n", "utf-8")
    clock = ManualClock(datetime(2026, 3, 18, 12, tzinfo=UTC))
    return memory_at(notes.parent, tmp_path / "i.sqlite", MemorySettings(), agent="main", clock=clock)


@pytest.mark.parametrize("fillers", [0, 60])
@pytest.mark.parametrize(("fact", "question"), CASES)
async def test_a_word_in_another_form_is_found(fact: str, question: str, fillers: int, tmp_path: Path) -> None:
    memory = opened(tmp_path, fillers)
    (tmp_path / "notes/memory/fact.md").write_text(fact + "\n", "utf-8")
    await memory.sync()
    hits = (await memory.search(question, audience=OWNER)).hits
    assert [hit.path for hit in hits][:1] == ["memory/fact.md"]
    assert (await memory.search(question, audience=Audience("group", "family"))).hits == ()
    await memory.close()


async def test_the_word_itself_comes_before_what_is_like_it(tmp_path: Path) -> None:
    memory = opened(tmp_path, 5)
    (tmp_path / "notes/memory/exact.md").write_text("Der Schlüssel hängt am Brett\n", "utf-8")
    (tmp_path / "notes/memory/like.md").write_text("Der Hausschlüssel liegt unter dem Topf\n", "utf-8")
    await memory.sync()
    hits = (await memory.search("Wo ist der Schlüssel?", audience=OWNER)).hits
    assert [hit.path for hit in hits] == ["memory/exact.md"]
    await memory.close()


async def test_what_is_written_later_is_known_at_once(tmp_path: Path) -> None:
    memory = opened(tmp_path, 60)
    await memory.sync()
    assert (await memory.search("Wo ist der Hausschlüssel?", audience=OWNER)).hits == ()
    (tmp_path / "notes/memory/fact.md").write_text("Der Schlüssel liegt unter dem blauen Topf\n", "utf-8")
    await memory.wrote("memory/fact.md")
    assert (await memory.search("Wo ist der Hausschlüssel?", audience=OWNER)).hits
    await memory.close()


async def test_the_end_of_a_compound_is_found_where_its_stem_is_another_one(tmp_path: Path) -> None:
    memory = opened(tmp_path, 60)
    compounds = [compound.split("-") for compound in HEADS.split()]
    for number, (first, head) in enumerate(compounds):
        text = f"Das mit dem {first}{head.lower()} ist jetzt endlich erledigt und bezahlt.\n"
        (tmp_path / f"notes/memory/fact-{number}.md").write_text(text, "utf-8")
    (tmp_path / "notes/memory/other.md").write_text("Die Reparatur der Struktur war aufregend für uns alle.\n", "utf-8")
    await memory.sync()
    for first, head in compounds:
        found = [hit.snippet for hit in (await memory.search(head, audience=OWNER)).hits]
        assert any(f"{first}{head.lower()}" in text for text in found), head
        assert not any("Reparatur" in text for text in found), head
    for asked in ("Tür", "Regen", "Figur"):
        assert (await memory.search(asked, audience=OWNER)).hits == (), asked
    await memory.close()
