"""Irregular verbs and plurals in five languages: a word that no note has is found in its other forms, and nothing else is."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from gateway.base.clock import ManualClock
from memory.audience import OWNER
from memory.settings import MemorySettings
from tests.memory.memory_engines import memory_at

if TYPE_CHECKING:
    from pathlib import Path

NOTES = {
    "German": (
        "Am Abend habe ich dem Nachbarn die Kettensäge geliehen.",
        "Der Nachbar gießt die Geranien, wenn wir nicht da sind.",
        "Wir sind mit dem Rad nach Ulm gefahren und haben dort Rast gemacht.",
        "Sie nahm am Morgen die blauen Tabletten.",
        "Die Gäste brachten einen guten Wein mit.",
    ),
    "French": (
        "Nous avons vendu le vélo à la voisine.",
        "Ils ont bu du cidre dans le jardin.",
        "J'ai lu le contrat dans le train.",
    ),
    "Italian": (
        "Ho letto il contratto con la vicina.",
        "Ha rotto il vaso della nonna.",
        "Sono arrivati gli zii di Bari per le feste.",
    ),
    "Spanish": (
        "Puse la lámpara en la sala de arriba.",
        "Mi primo trajo naranjas de la huerta.",
        "El niño durmió mal por la tos.",
    ),
    "English": ("She lent me a sander for the weekend.", "The old pipe froze in the night."),
}
ASKED = {
    "German": (
        ("leihen", 0),
        ("Wer wollte die Kettensäge leihen?", 0),
        ("gegossen", 1),
        ("fuhren", 2),
        ("nehmen", 3),
        ("bringen", 4),
    ),
    "French": (("vendre", 0), ("boire", 1), ("lire", 2)),
    "Italian": (("leggere", 0), ("rompere", 1), ("zio", 2)),
    "Spanish": (("poner", 0), ("traer", 1), ("dormir", 2)),
    "English": (("lend", 0), ("frozen", 1)),
}


@pytest.mark.parametrize("language", list(NOTES))
@pytest.mark.parametrize("fillers", [0, 60])
async def test_a_word_is_found_in_its_irregular_forms(tmp_path: Path, language: str, fillers: int) -> None:
    folder = tmp_path / "notes/memory"
    folder.mkdir(parents=True)
    for number, text in enumerate(NOTES[language]):
        (folder / f"fact-{number}.md").write_text(f"- {text}\n", "utf-8")
    for number in range(fillers):
        (folder / f"filler-{number}.md").write_text("- The kettle and the shelf are old, and the lamp is new.\n", "utf-8")
    clock = ManualClock(datetime(2026, 3, 18, 12, tzinfo=UTC))
    memory = memory_at(folder.parent, tmp_path / "i.sqlite", MemorySettings(), agent="main", clock=clock)
    await memory.sync()
    for asked, number in ASKED[language]:
        hits = (await memory.search(asked, audience=OWNER)).hits
        assert [hit.path for hit in hits][:1] == [f"memory/fact-{number}.md"], asked
    await memory.close()


async def test_a_form_with_another_meaning_is_no_form_of_the_verb(tmp_path: Path) -> None:
    folder = tmp_path / "notes/memory"
    folder.mkdir(parents=True)
    (folder / "one.md").write_text("- Devo ancora leggere il giornale, e il gatto della nonna è nella Grotta.\n", "utf-8")
    (folder / "two.md").write_text("- Annegret ist mit dem Rad zu den anderen gekommen.\n", "utf-8")
    clock = ManualClock(datetime(2026, 3, 18, 12, tzinfo=UTC))
    memory = memory_at(folder.parent, tmp_path / "i.sqlite", MemorySettings(), agent="main", clock=clock)
    await memory.sync()
    for asked in ("letto", "rotto", "Tanne"):
        assert (await memory.search(asked, audience=OWNER)).hits == (), asked
    await memory.close()
