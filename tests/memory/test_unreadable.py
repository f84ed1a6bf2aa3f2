"""Notes that cannot be read, or not as they are: whoever searches is told, and nothing else is held up."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from gateway.base.clock import ManualClock
from gateway.cli import main
from memory.audience import OWNER, Audience
from memory.errors import MemoryUnreadable
from memory.settings import MemorySettings
from tests.memory.memory_engines import memory_at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from memory.workspace_memory import WorkspaceMemory

NOW = datetime(2026, 3, 18, 12, tzinfo=UTC)
FAMILY = Audience("group", "family")
NOBODY = 65_534


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    (folder / "memory/groups/family").mkdir(parents=True)
    (folder / "MEMORY.md").write_text("The spare key is under the blue pot\n")
    (folder / "memory/groups/family/notes.md").write_text("The picnic is at the lake\n")
    return folder


@pytest.fixture
def without_root(tmp_path: Path) -> Iterator[None]:
    """Be somebody to whom rights apply, for the length of a test."""
    if os.geteuid():
        yield
        return
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == 0 and str(folder).startswith("/tmp/"):  # noqa: S108 - where pytest puts them
            folder.chmod(0o777)
    os.seteuid(NOBODY)
    yield
    os.seteuid(0)


def opened(workspace: Path, told: list[str] | None = None) -> WorkspaceMemory:
    tell = (told if told is not None else []).append
    return memory_at(
        workspace, workspace.parent / "i.sqlite", MemorySettings(), agent="main", clock=ManualClock(NOW), tell=tell
    )


@pytest.mark.usefixtures("without_root")
async def test_a_note_that_may_not_be_read_is_named_in_results_until_it_may(tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    (folder / "memory/groups/family").mkdir(parents=True)
    (folder / "MEMORY.md").write_text("The spare key is under the blue pot\n")
    locked = folder / "memory/locked.md"
    locked.write_text("The safe opens with 48213\n")
    locked.chmod(0)
    memory = opened(folder)
    await memory.sync()
    answer = await memory.search("what opens the safe?", audience=OWNER)
    assert "memory/locked.md cannot be read" in (answer.note or "")
    assert "cannot be read" not in ((await memory.search("safe", audience=FAMILY)).note or "")
    locked.chmod(0o600)
    await memory.sync()
    answer = await memory.search("what opens the safe?", audience=OWNER)
    assert answer.hits[0].path == "memory/locked.md"
    assert "cannot be read" not in (answer.note or "")
    await memory.close()


async def test_a_hard_link_is_neither_read_nor_indexed(workspace: Path) -> None:
    (workspace / "memory/groups/family/link.md").hardlink_to(workspace / "MEMORY.md")
    memory = opened(workspace)
    synced = await memory.sync()
    assert "hard link" in synced.troubles["memory/groups/family/link.md"]
    assert (await memory.search("where is the spare key?", audience=FAMILY)).hits == ()
    for audience in (FAMILY, OWNER):
        with pytest.raises(MemoryUnreadable):
            await memory.get("memory/groups/family/link.md", audience=audience)
    await memory.close()


async def test_pipes_folders_and_links_named_like_notes_are_told_and_what_is_in_such_a_folder_is_found(workspace: Path) -> None:
    os.mkfifo(workspace / "memory/pipe.md")
    (workspace / "memory/folder.md").mkdir()
    (workspace / "memory/folder.md/inner.md").write_text("The ladder is in the shed\n")
    (workspace / "memory/link.md").symlink_to(workspace / "MEMORY.md")
    memory = opened(workspace)
    troubles = (await memory.sync()).troubles
    assert "no file" in troubles["memory/pipe.md"]
    assert "no file" in troubles["memory/folder.md"]
    assert "symbolic link" in troubles["memory/link.md"]
    assert [hit.path for hit in (await memory.search("ladder", audience=OWNER)).hits] == ["memory/folder.md/inner.md"]
    with pytest.raises(MemoryUnreadable, match="a symbolic link is not followed"):
        await memory.get("memory/link.md", audience=OWNER)
    await memory.close()


async def test_notes_that_a_backup_gave_a_second_name_are_told_once_and_by_each_search(workspace: Path) -> None:
    told: list[str] = []
    memory = opened(workspace, told)
    await memory.sync()
    await asyncio.to_thread(subprocess.run, ["cp", "-al", workspace, workspace.parent / "snapshot"], check=True)
    for _ in range(2):
        await memory.sync()
        answer = await memory.search("where is the spare key?", audience=OWNER)
        assert answer.hits == ()
        assert "MEMORY.md, memory/groups/family/notes.md: not read" in (answer.note or "")
        assert "hard link" in (answer.note or "")
    [notice] = told
    assert "2 notes have a second name" in notice
    assert "MEMORY.md" not in ((await memory.search("picnic", audience=FAMILY)).note or "")
    await asyncio.to_thread(subprocess.run, ["sh", "-c", notice.partition("of them: ")[2]], check=True)
    await memory.sync()
    answer = await memory.search("where is the spare key?", audience=OWNER)
    assert [hit.path for hit in answer.hits] == ["MEMORY.md"]
    assert answer.note is None
    assert len(told) == 1
    await memory.close()


async def test_a_note_of_another_encoding_is_read_line_by_line_and_told_each_time(workspace: Path) -> None:
    (workspace / "memory/old.md").write_bytes(b"K\xe4se beim B\xe4cker\nund \xc3\xa4hnliches\n")
    (workspace / "memory/wide.md").write_bytes("kumquat".encode("utf-16-le"))
    memory = opened(workspace)
    for _ in range(2):
        synced = await memory.sync()
        assert "Windows-1252" in synced.troubles["memory/old.md"]
        assert "UTF-16" in synced.troubles["memory/wide.md"]
    [hit] = (await memory.search("K\u00e4se B\u00e4cker", audience=OWNER)).hits
    assert hit.snippet == "K\u00e4se beim B\u00e4cker\nund \u00e4hnliches"
    assert (await memory.get("memory/old.md", audience=OWNER, lines=1)).text == "K\u00e4se beim B\u00e4cker"
    await memory.close()


async def test_notes_that_are_gone_all_at_once_are_told_with_what_brings_them_back(workspace: Path) -> None:
    for number in range(4):
        (workspace / f"memory/day-{number}.md").write_text(f"day {number}\n")
    told: list[str] = []
    memory = opened(workspace, told)
    await memory.sync()
    shutil.rmtree(workspace)
    await memory.sync()
    assert "6 notes of" in told[0]
    assert "memory undo" in told[0]
    await memory.close()


def test_files_that_are_not_indexed_are_named_by_every_run(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (workspace / "memory/picture.md").write_bytes(b"\x89PNG\x00\x01")
    with (workspace / "memory/long.md").open("wb") as file:
        file.truncate(19_000_000)
    for _ in range(2):
        assert main(["memory", "index", "--workspace", str(workspace)]) == 0
        out = capsys.readouterr().out
        assert "memory/picture.md: " in out
        assert "memory/long.md: " in out


def test_status_is_of_the_files_as_they_are_and_says_how_to_add_an_embedder(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--workspace", str(workspace)]
    assert main(["memory", "index", *options]) == 0
    capsys.readouterr()
    assert main(["memory", "status", "--json", *options]) == 0
    assert json.loads(capsys.readouterr().out)["dirty"] is False
    (workspace / "MEMORY.md").write_text("The spare key is under the red pot\n")
    assert main(["memory", "status", "--json", *options]) == 0
    assert json.loads(capsys.readouterr().out)["dirty"] is True
    assert main(["memory", "status", *options]) == 0
    out = capsys.readouterr().out
    assert "memorySearch.provider openai" in out
    assert "OPENAI_API_KEY" in out


def test_status_says_without_being_asked_that_a_local_model_has_no_runtime(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if sys.modules.get("llama_cpp"):
        pytest.skip("llama-cpp-python is installed")
    assert main(["config", "set", "agents.defaults.memorySearch.provider", "local"]) == 0
    assert main(["memory", "status", "--workspace", str(workspace)]) == 0
    assert "llama-cpp-python is not installed" in capsys.readouterr().out


@pytest.mark.usefixtures("without_root")
async def test_a_folder_that_may_no_more_be_read_is_named_with_what_was_found_in_it_before(tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    shut = folder / "memory/shut"
    shut.mkdir(parents=True)
    (shut / "safe.md").write_text("The safe opens with 48213\n")
    memory = opened(folder)
    await memory.sync()
    shut.chmod(0)
    await memory.sync()
    answer = await memory.search("what opens the safe?", audience=OWNER)
    shut.chmod(0o700)
    assert [hit.path for hit in answer.hits] == ["memory/shut/safe.md"]
    assert "memory/shut cannot be read, so notes there are missing or as they were before" in (answer.note or "")
    assert "not in these results" not in (answer.note or "")
    await memory.close()
