"""Questions about a month or a season bring the notes of that time, in five languages, and others stay silent."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from gateway.base.clock import ManualClock
from memory.audience import OWNER
from memory.settings import MemorySettings
from memory.text.dates import Span, spans, time_words
from tests.memory.memory_engines import memory_at
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from pathlib import Path

    from memory.workspace_memory import WorkspaceMemory

TODAY = date(2026, 11, 26)
DAYS = 300
LINES = {
    "English": (("Tom", "Anna", "Peter", "Olivia"), ("repaired the {}", "bought the {}", "lent us the {}")),
    "German": (("Sven", "Katrin", "Jürgen", "Lieselotte"), ("hat die {} repariert", "hat die {} gekauft", "leiht uns die {}")),
    "French": (("Luc", "Amélie", "Geneviève", "Paul"), ("a réparé la {}", "a acheté la {}", "nous prête la {}")),
    "Spanish": (("Carmen", "Lucía", "Íñigo", "Pablo"), ("arregló la {}", "compró la {}", "nos presta la {}")),
    "Italian": (("Giulia", "Matteo", "Chiara", "Paolo"), ("ha riparato la {}", "ha comprato la {}", "ci presta la {}")),
}
THINGS = ("bicicleta", "Lampe", "tondeuse", "ladder", "stampante")
MONTH = {
    "English": ("last October", "what did we do in October?", "what did {} repair in October?"),
    "German": ("letzten Oktober", "Was haben wir im Oktober gemacht?", "Was hat {} im Oktober repariert?"),
    "French": ("en octobre dernier", "qu'avons-nous fait en octobre ?", "qu'est-ce que {} a réparé en octobre ?"),
    "Spanish": ("el octubre pasado", "¿Qué hicimos en octubre?", "¿Qué arregló {} en octubre?"),
    "Italian": ("lo scorso ottobre", "Che cosa abbiamo fatto in ottobre?", "Che cosa ha riparato {} in ottobre?"),
}
SEASON = {
    "English": (
        "last summer",
        "what did we do last summer?",
        "what did {} repair last summer?",
        "what did {} repair in summer?",
    ),
    "German": (
        "letzten Sommer",
        "Was haben wir letzten Sommer gemacht?",
        "Was hat {} letzten Sommer repariert?",
        "Was hat {} im Sommer repariert?",
    ),
    "French": (
        "l'été dernier",
        "qu'avons-nous fait l'été dernier ?",
        "qu'est-ce que {} a réparé l'été dernier ?",
        "qu'est-ce que {} a réparé en été ?",
    ),
    "Spanish": (
        "el verano pasado",
        "¿Qué hicimos el verano pasado?",
        "¿Qué arregló {} el verano pasado?",
        "¿Qué arregló {} en verano?",
    ),
    "Italian": (
        "l'estate scorsa",
        "Che cosa abbiamo fatto l'estate scorsa?",
        "Che cosa ha riparato {} l'estate scorsa?",
        "Che cosa ha riparato {} in estate?",
    ),
}


def opened(tmp_path: Path, language: str, *, without: tuple[int, ...] = ()) -> WorkspaceMemory:
    folder = tmp_path / "ws/memory"
    folder.mkdir(parents=True)
    names, doings = LINES[language]
    for back in range(DAYS):
        day = TODAY - timedelta(days=back)
        if day.month in without:
            continue
        lines = [
            f"- {names[(back + k) % 4]} {doings[(back * 3 + k * k) % 3].format(THINGS[(back + 2 * k) % 5])}." for k in range(4)
        ]
        (folder / f"{day}.md").write_text(f"# {day}\n\n" + "\n".join(lines) + "\n")
    clock = ManualClock(datetime(2026, 11, 26, 12, tzinfo=UTC))
    return memory_at(folder.parent, tmp_path / "i.sqlite", MemorySettings(), agent="main", clock=clock)


@parametrize_some(2, "language", list(LINES))
async def test_notes_of_a_month_or_a_season_are_found_by_its_name(tmp_path: Path, language: str) -> None:
    memory = opened(tmp_path, language)
    await memory.sync()
    person = LINES[language][0][0]
    for months, questions in (((10,), MONTH[language]), ((6, 7, 8), SEASON[language])):
        for question in questions:
            hits = (await memory.search(question.format(person), audience=OWNER)).hits
            assert hits, question
            assert int(hits[0].path[12:14]) in months, question
    await memory.close()


@parametrize_some(2, "language", list(LINES))
async def test_a_time_without_notes_and_a_stranger_bring_nothing(tmp_path: Path, language: str) -> None:
    memory = opened(tmp_path, language, without=(6, 7, 8, 10))
    await memory.sync()
    for question in (*MONTH[language], *SEASON[language]):
        assert (await memory.search(question.format(LINES[language][0][0]), audience=OWNER)).hits == (), question
    await memory.close()


async def test_what_was_told_of_a_month_before_it_is_found_by_its_name(tmp_path: Path) -> None:
    memory = opened(tmp_path, "German")
    (tmp_path / "ws/memory/2026-04-10.md").write_text("Der Dachdecker kommt im Oktober wegen der Schindeln.\n")
    await memory.sync()
    hits = (await memory.search("Welcher Dachdecker kommt im Oktober?", audience=OWNER)).hits
    assert "memory/2026-04-10.md" in [hit.path for hit in hits]
    strange = "Welches Raumschiff hat im Oktober das Teleskop mit Raketen ausgesetzt?"
    assert (await memory.search(strange, audience=OWNER)).hits == ()
    await memory.close()


@pytest.mark.parametrize(
    ("question", "names", "beside"),
    [
        ("what did Tom repair last summer?", {"summer"}, {"last"}),
        ("Was war im letzten Sommer 2025?", {"sommer", "2025"}, {"letzten"}),
        ("en octobre dernier", {"octobre"}, {"dernier"}),
        ("l'été dernier", {"ete"}, {"dernier"}),
        ("the trip in May 2023", {"may", "2023"}, set()),
        ("on 3 May 2023", set(), set()),
        ("May I pay last?", set(), set()),
    ],
)
def test_words_that_name_a_time_are_told_from_the_others(question: str, names: set[str], beside: set[str]) -> None:
    found = time_words(question, today=TODAY)
    assert (found.names, found.beside) == (names, beside)


def test_the_last_month_of_a_name_is_over() -> None:
    assert spans("last November", today=TODAY) == [Span(date(2025, 11, 1), date(2025, 11, 30))]
    assert spans("letzten Oktober", today=TODAY) == [Span(date(2026, 10, 1), date(2026, 10, 31))]
    assert spans("in November", today=TODAY) == [Span(date(2026, 11, 1), date(2026, 11, 30))]
