"""Folders of notes that are moved, of which the kernel tells nothing but their own names, are noticed while a gateway runs."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from gateway.base.clock import PacedClock, SystemClock
from memory.audience import OWNER
from memory.settings import MemorySettings, SyncSettings
from tests.memory.memory_engines import memory_at
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from memory.workspace_memory import WorkspaceMemory


@asynccontextmanager
async def watched(
    folder: Path, *extra_paths: str, clock: SystemClock | PacedClock | None = None
) -> AsyncIterator[WorkspaceMemory]:
    """Open the memory of a workspace, and wait until its watch stands."""
    sync = SyncSettings(watch_debounce_ms=50, on_search=False, on_session_start=False)
    settings = MemorySettings(sync=sync, extra_paths=extra_paths)
    workspace = folder / "workspace"
    for place in ("memory/trips/north", "memory/plans"):
        (workspace / place).mkdir(parents=True)
        (workspace / place / "notes.md").write_text(f"A walrus of {place.rsplit('/', 1)[-1]}\n")
    memory = memory_at(workspace, folder / "index.sqlite", settings, agent="main", clock=clock or SystemClock())
    await memory.sync()
    memory.start()
    try:
        while "memory/stands.md" not in await found(memory, "platypus"):
            (workspace / "memory" / "stands.md").write_text("A platypus was seen\n")
            await asyncio.sleep(0.1)
        yield memory
    finally:
        await memory.close()


async def found(memory: WorkspaceMemory, word: str) -> set[str]:
    return {hit.path for hit in (await memory.search(word, audience=OWNER)).hits if word in hit.snippet}


async def until_found(memory: WorkspaceMemory, word: str, paths: set[str]) -> None:
    async with asyncio.timeout(PATIENCE):
        while await found(memory, word) != paths:  # noqa: ASYNC110 - what changes is on disk
            await asyncio.sleep(0.1)


NORTH, PLANS = "memory/trips/north/notes.md", "memory/plans/notes.md"
MOVES: dict[str, tuple[Callable[[Path], object], set[str]]] = {
    "renamed": (lambda memory: (memory / "plans").rename(memory / "ideas"), {NORTH, "memory/ideas/notes.md"}),
    "with one around it": (lambda memory: (memory / "trips").rename(memory / "ways"), {"memory/ways/north/notes.md", PLANS}),
    "away": (lambda memory: (memory / "plans").rename(memory.parent.parent / "bin"), {NORTH}),
    "into another": (
        lambda memory: (memory / "plans").rename(memory / "trips" / "plans"),
        {NORTH, "memory/trips/plans/notes.md"},
    ),
    "all of them": (lambda memory: memory.rename(memory.with_name("memory-of-old")), set()),
}


@pytest.mark.parametrize("move", MOVES)
async def test_a_folder_of_notes_that_is_moved_is_found_where_it_is(tmp_path: Path, move: str) -> None:
    act, paths = MOVES[move]
    async with watched(tmp_path) as memory:
        await until_found(memory, "walrus", {NORTH, PLANS})
        act(tmp_path / "workspace" / "memory")
        await until_found(memory, "walrus", paths)


async def test_a_folder_that_comes_from_elsewhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "zoo.md").write_text("An axolotl\n")
    (tmp_path / "team").mkdir()
    async with watched(tmp_path, "../team") as memory:
        shutil.copytree(tmp_path / "old", tmp_path / "team" / "copied")
        await until_found(memory, "axolotl", {"@team/copied/zoo.md"})
        (tmp_path / "old").rename(tmp_path / "workspace" / "memory" / "old")
        await until_found(memory, "axolotl", {"memory/old/zoo.md", "@team/copied/zoo.md"})


async def test_folders_of_extra_paths_may_come_later_and_be_exchanged(tmp_path: Path) -> None:
    clock = PacedClock(datetime.now(UTC), 60)
    async with watched(tmp_path, "../team", clock=clock) as memory:
        (tmp_path / "team").mkdir()
        (tmp_path / "team" / "a.md").write_text("A quokka\n")
        await until_found(memory, "quokka", {"@team/a.md"})  # perhaps by a look of before
        (tmp_path / "team" / "again.md").write_text("A quokka, again\n")
        await until_found(memory, "quokka", {"@team/a.md", "@team/again.md"})
        (tmp_path / "team").rename(tmp_path / "team-of-old")
        await until_found(memory, "quokka", set())
        (tmp_path / "team").mkdir()
        (tmp_path / "team" / "b.md").write_text("Another quokka\n")
        await until_found(memory, "quokka", {"@team/b.md"})
        (tmp_path / "team" / "c.md").write_text("A third quokka\n")
        await until_found(memory, "quokka", {"@team/b.md", "@team/c.md"})


async def test_folders_without_notes_wake_nobody(tmp_path: Path) -> None:
    async with watched(tmp_path) as memory:
        places = memory.sources
        root = tmp_path / "workspace"
        assert places.may_hold_notes(str(root / "memory" / "plans"))
        assert not places.may_hold_notes(str(root / "node_modules" / "plans"))
        assert not places.may_hold_notes(str(root / "memory" / ".git" / "plans"))
        assert not places.may_hold_notes(str(root / "memory" / "peers" / "anna" / "inbox" / "plans"))
        assert not places.may_hold_notes(str(tmp_path / "elsewhere"))
