"""A workspace with notes of many days, for questions about times, and the names of months in five languages."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from gateway.base.clock import ManualClock
from memory.audience import OWNER
from memory.settings import MemorySettings
from tests.memory.memory_engines import memory_at

if TYPE_CHECKING:
    from pathlib import Path

    from memory.workspace_memory import WorkspaceMemory

TODAY = date(2026, 11, 27)  # a Friday
_MONTHS = {
    "English": "January February March April May June July August September October November December",
    "German": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "French": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "Spanish": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "Italian": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
}
MONTHS = {language: names.split() for language, names in _MONTHS.items()}


def dated_notes(tmp_path: Path) -> WorkspaceMemory:
    """Return the memory of a workspace with notes of all days of three autumns, and of every tenth day besides."""
    folder = tmp_path / "ws/memory"
    folder.mkdir(parents=True)
    for back in range(800):
        day = TODAY - timedelta(days=back)
        if day.month in {9, 10, 11} or back % 10 == 0:
            (folder / f"{day}.md").write_text(f"# {day}\n\n- {'Swept the yard' if back % 3 else 'Baked bread'} that year.\n")
    clock = ManualClock(datetime(2026, 11, 27, 12, tzinfo=UTC))
    return memory_at(folder.parent, tmp_path / "i.sqlite", MemorySettings(), agent="main", clock=clock)


async def days_found(memory: WorkspaceMemory, question: str) -> list[str]:
    """Return the days of the notes that a question brings, best first."""
    return [hit.path[7:17] for hit in (await memory.search(question, audience=OWNER)).hits]
