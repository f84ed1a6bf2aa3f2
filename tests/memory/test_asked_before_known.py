"""A question that had no answer is asked again once the answer is written: by this process, or by another one."""

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

    from memory.workspace_memory import WorkspaceMemory

NOW = datetime(2026, 3, 18, 12, tzinfo=UTC)
QUESTION = "Vaillant boiler warranty"
FACT = "The Vaillant boiler has a warranty until May 2031\n"


def opened(workspace: Path) -> WorkspaceMemory:
    store = workspace.parent / "i.sqlite"
    return memory_at(workspace, store, MemorySettings(), agent="main", clock=ManualClock(NOW))


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Have so many notes that one more is far below the share of changes from which words are counted again."""
    notes = tmp_path / "ws" / "memory"
    notes.mkdir(parents=True)
    for number in range(150):
        (notes / f"walk-{number}.md").write_text(f"We walked to market {number} and bought bread, cheese and apples\n")
    return tmp_path / "ws"


async def test_what_was_searched_before_it_was_written_is_found(workspace: Path) -> None:
    memory = opened(workspace)
    await memory.sync()
    assert (await memory.search(QUESTION, audience=OWNER)).hits == ()
    (workspace / "memory" / "boiler.md").write_text(FACT)
    await memory.wrote("memory/boiler.md")
    [hit] = (await memory.search(QUESTION, audience=OWNER)).hits
    assert hit.path == "memory/boiler.md"
    await memory.close()


async def test_it_is_found_too_when_another_process_indexed_it(workspace: Path) -> None:
    memory, another = opened(workspace), opened(workspace)
    await memory.sync()
    assert (await memory.search(QUESTION, audience=OWNER)).hits == ()
    (workspace / "memory" / "boiler.md").write_text(FACT)
    await another.sync()
    await another.close()
    assert [hit.path for hit in (await memory.search(QUESTION, audience=OWNER)).hits] == ["memory/boiler.md"]
    await memory.close()
