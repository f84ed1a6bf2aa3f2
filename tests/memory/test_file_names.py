"""File names that are not UTF-8, as old archives bring them: each is told by name, and everything else is indexed."""

from __future__ import annotations

import asyncio
import json
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from agent.tools.file_tool_context import FileToolContext
from agent.tools.list_files import ListFiles
from agent.tools.protocol import ToolContext
from agent.tools.workspace_sandbox import WorkspaceSandbox
from gateway.base.clock import ManualClock, SystemClock
from gateway.cli import main
from memory.audience import OWNER
from memory.embedding.engines.bag_of_words import BagOfWords
from memory.errors import MemoryUnreadable
from memory.settings import MemorySettings, SyncSettings
from tests.memory.memory_engines import memory_at
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

    from memory.workspace_memory import WorkspaceMemory

NOW = datetime(2026, 3, 18, 12, tzinfo=UTC)
FILE, FOLDER = b"M\xfcller.md", b"K\xe4se"


def put(folder: Path, name: bytes, text: str) -> None:
    path = folder / os.fsdecode(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    put(folder / "memory", b"plain.md", "The spare key is under the blue pot\n")
    put(folder / "memory", FILE, "M\u00fcller has the other key\n")
    put(folder / "memory", FOLDER + b"/inner.md", "Gouda is in the fridge\n")
    put(folder / "memory", FOLDER + b"/deep/inner.md", "deeper\n")
    put(folder / "memory", b"picture-\xff.png", "no note at all\n")
    return folder


def opened(
    workspace: Path,
    settings: MemorySettings | None = None,
    clock: ManualClock | SystemClock | None = None,
    told: list[str] | None = None,
) -> WorkspaceMemory:
    return memory_at(
        workspace,
        workspace.parent / "i.sqlite",
        settings or MemorySettings(),
        agent="main",
        clock=clock or ManualClock(NOW),
        embedder=BagOfWords(),
        tell=(told if told is not None else []).append,
    )


async def test_each_is_named_and_the_others_are_indexed(workspace: Path) -> None:
    memory = opened(workspace)
    for _ in range(2):
        synced = await memory.sync()
        assert sorted(synced.troubles) == ["memory/K\\xe4se", "memory/M\\xfcller.md"]
        assert "not UTF-8" in synced.troubles["memory/M\\xfcller.md"]
    assert (await memory.search("spare key", audience=OWNER)).hits[0].path == "memory/plain.md"
    status = await memory.status(deep=True)
    assert "memory/K\\xe4se" in status.troubles
    assert json.dumps(status.troubles, ensure_ascii=False).encode()
    await memory.close()


async def test_such_a_name_is_no_note_to_whoever_asks_for_it(workspace: Path) -> None:
    memory = opened(workspace)
    for name in (f"memory/{os.fsdecode(FILE)}", "memory/\ud800.md"):
        with pytest.raises(MemoryUnreadable):
            await memory.get(name, audience=OWNER)
        await memory.wrote(name)
    await memory.close()


async def test_a_further_path_may_have_such_a_name(workspace: Path) -> None:
    put(workspace.parent, FOLDER + b"/cheese.md", "Gouda is in the fridge\n")
    extra = str(workspace.parent / os.fsdecode(FOLDER))
    memory = opened(workspace, MemorySettings(extra_paths=(extra,)))
    await memory.sync()
    [hit] = (await memory.search("gouda", audience=OWNER)).hits
    assert hit.path == "@K\\xe4se/cheese.md"
    assert (await memory.get(hit.path, audience=OWNER)).text == "Gouda is in the fridge"
    await memory.close()


async def test_the_watcher_goes_on_past_them(workspace: Path) -> None:
    memory = opened(workspace, MemorySettings(sync=SyncSettings(watch_debounce_ms=50, on_search=False)), SystemClock())
    memory.start()
    await memory.sync()
    async with asyncio.timeout(PATIENCE):
        while not [hit for hit in (await memory.search("platypus", audience=OWNER)).hits if "platypus" in hit.snippet]:
            put(workspace / "memory", b"again-\xe9.md", "and again\n")
            put(workspace / "memory", b"seen.md", "A platypus was seen\n")
            await asyncio.sleep(0.1)
    await memory.close()


async def test_notes_are_taken_up_after_such_a_name_ended_the_watch(workspace: Path) -> None:
    told: list[str] = []
    settings = MemorySettings(sync=SyncSettings(watch_debounce_ms=50, on_search=False, on_session_start=False))
    memory = opened(workspace, settings, SystemClock(), told)

    async def is_found(animal: str) -> bool:
        hits = (await memory.search(animal, audience=OWNER)).hits
        return any(animal in hit.snippet for hit in hits)

    memory.start()
    async with asyncio.timeout(PATIENCE):
        while not await is_found("platypus"):
            put(workspace / "memory", b"seen.md", "A platypus was seen\n")  # until the watch stands
            await asyncio.sleep(0.1)
        for name, animal in ((b"stra\xdfe.md", "quokka"), (b"\xff.md", "wombat")):
            put(workspace / "memory", name, "x")
            await asyncio.sleep(0.3)
            put(workspace / "memory", animal.encode() + b".md", f"A {animal} was seen\n")
            while not await is_found(animal):  # noqa: ASYNC110 - what changes is on disk
                await asyncio.sleep(0.1)
    assert not [sentence for sentence in told if "cannot be watched" in sentence]
    await memory.close()


@pytest.mark.parametrize("command", [["index"], ["index", "--json"], ["status", "--deep"], ["log"], ["search", "spare key"]])
def test_commands_go_on_past_them(workspace: Path, command: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["memory", *command, "--workspace", str(workspace)]) == 0
    out, err = capfd.readouterr()
    assert "defect" not in out + err
    assert "M\\" in out or command[0] in {"log", "search"}


async def test_the_model_is_shown_a_name_that_can_be_sent(workspace: Path) -> None:
    tool = ListFiles(FileToolContext(sandbox=WorkspaceSandbox(workspace)))
    scene = ToolContext(now=NOW, session="s", turn="t", audience=OWNER)
    outcome = await tool.run({"path": "memory", "depth": 3}, scene)
    assert outcome.text.encode()
    assert "plain.md" in outcome.text
