"""Questions that count days from today, asked of notes of many days."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.base.clock import ManualClock
from memory.audience import OWNER
from memory.settings import MemorySettings
from memory.text.bare_weekdays import bare_weekdays
from memory.text.dates import spans, spelt_out
from memory.text.figure_dates import figure_dates
from memory.text.relative_days import counted
from tests.memory.memory_engines import memory_at
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from datetime import tzinfo
    from pathlib import Path

    from memory.workspace_memory import WorkspaceMemory

TODAY = date(2026, 11, 22)  # a Sunday
DOINGS = ("swept the yard", "baked bread", "called the bank", "did the laundry", "met Bob", "read a book", "went to the market")
PHRASES = (
    "what did I do last past this previous on am vor letzten diesen letzte Tuesday Friday Dienstag week month Woche Monat 5 two zwei "
    "days ago Tagen yesterday gestern the day before vorgestern heute today 17. November 2026-11-17 recently"
)
LAST_OF_SOMETHING = (
    "the last days of Pompeii",
    "die letzten Tage der Menschheit",
    "gli ultimi giorni di Pompei",
    "los últimos días de Pompeya",
    "the last two days before the wedding",
)
WORDS = st.sampled_from(PHRASES.split())


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws/memory"
    folder.mkdir(parents=True)
    day = date(2025, 6, 1)
    while day <= TODAY:
        doing = DOINGS[day.toordinal() * 5 % 7]
        (folder / f"{day}.md").write_text(f"# {day}\n\nLast Tuesday is over. In the morning I {doing}, the day was long.\n")
        day += timedelta(days=1 if day > date(2026, 10, 1) else 9)
    return folder.parent


def opened(workspace: Path, now: datetime | None = None, zone: tzinfo = UTC) -> WorkspaceMemory:
    clock = ManualClock(now or datetime(2026, 11, 22, 12, tzinfo=UTC))
    return memory_at(workspace, workspace.parent / "i.sqlite", MemorySettings(), agent="main", clock=clock, zone=zone)


@parametrize_some(
    8,
    ("question", "day"),
    [
        ("What did I do last Tuesday?", "2026-11-17"),
        ("what happened this past Friday", "2026-11-20"),
        ("What did I do 5 days ago?", "2026-11-17"),
        ("what was there the day before yesterday", "2026-11-20"),
        ("What did I do yesterday?", "2026-11-21"),
        ("what did I do on Thursday?", "2026-11-19"),
        ("Was habe ich letzten Dienstag gemacht?", "2026-11-17"),
        ("Was war gestern?", "2026-11-21"),
        ("Was war vorgestern Abend?", "2026-11-20"),
        ("Qu'est-ce que j'ai fait mardi dernier ?", "2026-11-17"),
        ("Qu'est-ce que nous avons fait hier soir ?", "2026-11-21"),
        ("¿Qué hice el martes pasado?", "2026-11-17"),
        ("¿Qué hice anteayer?", "2026-11-20"),
        ("Che cosa ho fatto martedì scorso?", "2026-11-17"),
        ("Che cosa ho fatto cinque giorni fa?", "2026-11-17"),
        ("Was habe ich vor 5 Tagen gemacht?", "2026-11-17"),
        ("Was habe ich vor drei Tagen gemacht?", "2026-11-19"),
        ("Was war am Donnerstag?", "2026-11-19"),
        ("Was war am 17. November?", "2026-11-17"),
        ("Was war am 17.11.2026?", "2026-11-17"),
        ("what happened on 17 November 2026?", "2026-11-17"),
    ],
)
async def test_the_note_of_the_day_comes_first(workspace: Path, question: str, day: str) -> None:
    memory = opened(workspace)
    await memory.sync()
    assert (await memory.search(question, audience=OWNER)).hits[0].path == f"memory/{day}.md"
    await memory.close()


async def test_the_day_is_the_owners(workspace: Path) -> None:
    late = datetime(2026, 11, 22, 4, tzinfo=UTC)  # still the 21st in New York
    memory = opened(workspace, late, ZoneInfo("America/New_York"))
    await memory.sync()
    assert (await memory.search("What did I do yesterday?", audience=OWNER)).hits[0].path == "memory/2026-11-20.md"
    await memory.close()


async def test_what_was_told_the_day_after_is_found_too(workspace: Path) -> None:
    (workspace / "memory/2026-11-17.md").unlink()
    (workspace / "memory/2026-11-18.md").write_text("Yesterday evening the heron came to the pond.\n")
    (workspace / "memory/2026-10-05.md").write_text("The heron came to the pond in the morning.\n")
    (workspace / "memory/2026-09-05.md").write_text("The heron came to the pond at noon.\n")
    memory = opened(workspace)
    await memory.sync()
    hits = (await memory.search("When did the heron come to the pond last Tuesday?", audience=OWNER)).hits
    assert hits[0].path == "memory/2026-11-18.md"
    await memory.close()


async def test_a_week_brings_its_days_and_no_others(workspace: Path) -> None:
    memory = opened(workspace)
    await memory.sync()
    for question in ("What did I do last week?", "Was habe ich letzte Woche gemacht?"):
        hits = (await memory.search(question, audience=OWNER)).hits
        assert hits
        assert all("memory/2026-11-09.md" <= hit.path <= "memory/2026-11-15.md" for hit in hits)
    await memory.close()


@given(st.lists(WORDS, max_size=12).map(" ".join), st.dates())
def test_phrases_do_not_overlap_and_days_are_in_order(question: str, today: date) -> None:
    end = 0
    for one in counted(question, today):
        assert end <= one.start < one.end <= len(question)
        assert one.first <= one.last <= today
        end = one.end
    assert all(span.first <= span.last for span in spans(question, today=today))
    assert isinstance(spelt_out(question, today=today), str)
    if not counted(question, today) and not figure_dates(question, today) and not any(bare_weekdays(question, today)):
        assert spelt_out(question, today=today) == question


def test_words_that_only_look_like_it_stay() -> None:
    for question in ("the last supper", "Friday the cat", "vor dem Haus", "agony of days", "is Monday a name?"):
        assert counted(question, TODAY) == []


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        ("a year ago today", "2025-11-22", "2025-11-22"),
        ("Was war heute vor einem Jahr?", "2025-11-22", "2025-11-22"),
        ("il y a deux ans aujourd'hui", "2024-11-22", "2024-11-22"),
        ("hoy hace un mes", "2026-10-22", "2026-10-22"),
        ("due settimane fa oggi", "2026-11-08", "2026-11-08"),
        ("vor drei Wochen", "2026-10-29", "2026-11-04"),
        ("il y a trois semaines", "2026-10-29", "2026-11-04"),
        ("hace tres semanas", "2026-10-29", "2026-11-04"),
        ("tre settimane fa", "2026-10-29", "2026-11-04"),
        ("letztes Wochenende", "2026-11-14", "2026-11-15"),
        ("le week-end dernier", "2026-11-14", "2026-11-15"),
        ("this weekend", "2026-11-21", "2026-11-22"),
        ("la semaine dernière", "2026-11-09", "2026-11-15"),
        ("la semana pasada", "2026-11-09", "2026-11-15"),
        ("la settimana scorsa", "2026-11-09", "2026-11-15"),
        ("last summer", "2026-06-01", "2026-08-31"),
        ("l'été dernier", "2026-06-01", "2026-08-31"),
        ("im Winter 2025", "2025-12-01", "2026-02-28"),
        ("en primavera", "2026-03-01", "2026-05-31"),
        ("in autumn", "2026-09-01", "2026-11-22"),
        ("en mars", "2026-03-01", "2026-03-31"),
        ("lo scorso mese", "2026-10-01", "2026-10-31"),
        ("el 5 de marzo de 2026", "2026-03-05", "2026-03-05"),
        ("le 5 août", "2026-08-05", "2026-08-05"),
        ("the last two weeks", "2026-11-08", "2026-11-22"),
        ("What did I do the last few days?", "2026-11-17", "2026-11-22"),
        ("in den letzten Tagen", "2026-11-17", "2026-11-22"),
        ("letzte zwei Wochen", "2026-11-08", "2026-11-22"),
        ("ces trois derniers jours", "2026-11-19", "2026-11-22"),
        ("ces derniers jours", "2026-11-17", "2026-11-22"),
        ("los últimos tres días", "2026-11-19", "2026-11-22"),
        ("durante las últimas dos semanas", "2026-11-08", "2026-11-22"),
        ("las dos últimas semanas", "2026-11-08", "2026-11-22"),
        ("gli ultimi tre giorni", "2026-11-19", "2026-11-22"),
        ("negli ultimi giorni", "2026-11-17", "2026-11-22"),
        ("at the weekend", "2026-11-14", "2026-11-15"),
        ("hier soir", "2026-11-21", "2026-11-21"),
        ("Was war im Vorjahr?", "2025-01-01", "2025-12-31"),
    ],
)
def test_days_are_counted_in_five_languages(question: str, first: str, last: str) -> None:
    [span] = spans(question, today=TODAY)
    assert (str(span.first), str(span.last)) == (first, last)


@pytest.mark.parametrize(
    "question", ["Was ist hier los?", "Wer hat das getan?", "the fall of Rome", "mes amis", "a été vendu", *LAST_OF_SOMETHING]
)
def test_words_that_only_look_like_a_time_are_none(question: str) -> None:
    assert spans(question, today=TODAY) == []
