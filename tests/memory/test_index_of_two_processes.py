"""Several processes write to one index file: a gateway and the command line. They take turns, and searches answer from what is there."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import apsw
import pytest

from gateway.base.clock import ManualClock
from gateway.cli import main
from memory.audience import OWNER
from memory.errors import IndexBusy
from memory.settings import MemorySettings
from memory.workspace_memory import WorkspaceMemory
from tests.memory.memory_engines import memory_at
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOW = datetime(2026, 3, 18, 12, tzinfo=UTC)
HERON = "The heron stands in the pond\n"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    (folder / "memory").mkdir(parents=True)
    (folder / "memory/heron.md").write_text(HERON)
    return folder


@pytest.fixture
def other(tmp_path: Path) -> Iterator[apsw.Connection]:
    """A connection to the index file of another process, which has been made by then."""
    connection = apsw.Connection(str(tmp_path / "i.sqlite"))
    yield connection
    connection.close()


def at(workspace: Path, clock: ManualClock | None = None, told: list[str] | None = None) -> WorkspaceMemory:
    return WorkspaceMemory(
        workspace,
        workspace.parent / "i.sqlite",
        MemorySettings(),
        agent="main",
        clock=clock or ManualClock(NOW),
        tell=(told if told is not None else []).append,
    )


def on_engine(workspace: Path) -> WorkspaceMemory:
    return memory_at(workspace, workspace.parent / "i.sqlite", MemorySettings(), agent="main", clock=ManualClock(NOW))


async def found(memory: WorkspaceMemory, query: str) -> bool:
    return bool((await memory.search(query, audience=OWNER)).hits)


@pytest.mark.files
async def test_a_search_answers_from_what_is_there_while_another_process_writes(
    workspace: Path, other: apsw.Connection
) -> None:
    before = at(workspace)
    await before.sync()
    await before.close()
    (workspace / "memory/stork.md").write_text("The stork is on the roof\n")
    other.execute("BEGIN IMMEDIATE")
    memory = at(workspace)
    await memory.sync_if_free()
    with pytest.raises(IndexBusy, match="another process has been writing"):
        await memory.sync()
    for _ in range(30):  # what searches learn is not written meanwhile
        answer = await memory.search("heron pond", audience=OWNER)
        assert answer.hits
    assert answer.stale
    assert "Another process is writing to the index" in str(answer.note)
    assert not await found(memory, "stork roof")
    other.execute("COMMIT")
    await memory.sync()
    answer = await memory.search("stork roof", audience=OWNER)
    assert answer.hits
    assert answer.note is None
    await memory.close()


@pytest.mark.files
async def test_notes_are_indexed_after_another_process_and_the_owner_is_told_if_it_goes_on_for_long(
    workspace: Path, other: apsw.Connection
) -> None:
    clock = ManualClock(NOW)
    told: list[str] = []
    memory = at(workspace, clock, told)
    await memory.sync()
    memory.start()
    other.execute("BEGIN IMMEDIATE")
    (workspace / "memory/stork.md").write_text("The stork is on the roof\n")
    await memory.wrote("memory/stork.md")
    assert not told
    begun = clock.monotonic()
    async with asyncio.timeout(PATIENCE):
        while not told:
            clock.move(1)
            await asyncio.sleep(0.1)
    assert told[0].startswith("Notes are not indexed, as another process has been writing to the memory index")
    assert clock.monotonic() - begun >= 60
    clock.move(16)
    await asyncio.sleep(0.1)
    assert len(told) == 1
    other.execute("COMMIT")
    async with asyncio.timeout(PATIENCE):
        while not await found(memory, "stork roof"):
            clock.move(1)
            await asyncio.sleep(0.05)
    await memory.close()


async def test_two_processes_that_index_a_large_note_at_once_store_it_once(workspace: Path) -> None:
    (workspace / "memory/long.md").write_text(
        "".join(f"{line} alpha{line} some words to fill the line\n" for line in range(20_000))
    )
    one, two = on_engine(workspace), on_engine(workspace)
    await one.status()
    synced = await asyncio.gather(one.sync(), two.sync())
    status = await one.status()
    assert status.changed_files == []
    assert status.chunks == sum(each.chunks for each in synced) > 1_000
    assert await found(two, "alpha19999")
    await one.close()
    await two.close()


async def test_a_large_note_is_stored_whole_after_indexing_was_cut_off(workspace: Path) -> None:
    long = workspace / "memory/long.md"
    long.write_text("".join(f"{line} alpha{line} some words to fill the line\n" for line in range(20_000)))
    memory = on_engine(workspace)
    await memory.status()
    syncing = asyncio.create_task(memory.sync())
    part = 0
    async with asyncio.timeout(PATIENCE):
        while not part:
            part = (await memory.status()).chunks
    syncing.cancel()
    await asyncio.gather(syncing, return_exceptions=True)
    await memory.close()
    memory = on_engine(workspace)
    synced = await memory.sync()
    assert (await memory.status()).chunks > synced.chunks
    assert (await memory.status()).chunks >= synced.chunks + part - 1
    assert await found(memory, "alpha19999")
    long.write_text("The stork is on the roof\n")
    await memory.sync()
    assert (await memory.status()).chunks == 2
    assert not await found(memory, "alpha19999")
    await memory.close()


def test_the_search_command_beside_another_writer_ends_well_and_says_what_may_be_missing(
    workspace: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    options = ("--workspace", str(workspace), "--json")
    assert main(["memory", "index", *options]) == 0
    capsys.readouterr()
    assert main(["memory", "status", *options]) == 0
    file = json.loads(capsys.readouterr().out)["store"]
    other = apsw.Connection(file)
    other.execute("BEGIN IMMEDIATE")
    try:
        (workspace / "memory/stork.md").write_text("The stork is on the roof\n")
        assert main(["memory", "search", "heron pond", *options]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert [hit["path"] for hit in answer["results"]] == ["memory/heron.md"]
        assert "Another process is writing to the index" in answer["note"]
    finally:
        other.close()
    assert main(["memory", "search", "stork", *options]) == 0
    assert [hit["path"] for hit in json.loads(capsys.readouterr().out)["results"]] == ["memory/stork.md"]
