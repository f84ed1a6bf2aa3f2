"""Files and disks that let the memory down: each is told, the others are indexed, and keyword search goes on answering."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import textwrap
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gateway.base.clock import ManualClock
from memory.audience import OWNER
from memory.embedding.engines.bag_of_words import BagOfWords
from memory.errors import EmbeddingFailed, MemoryUnreadable
from memory.settings import MemorySettings
from memory.workspace_memory import WorkspaceMemory
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

NOW = datetime(2026, 3, 18, 12, tzinfo=UTC)
NOBODY = 65_534


class Interrupting(BagOfWords):
    """An embedder that does something else before it answers, and that may refuse."""

    def __init__(self, act: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self.act = act
        self.refusal: EmbeddingFailed | None = None
        self.asked = 0

    async def embed(self, texts: Sequence[str], *, purpose: Any) -> list[list[float]]:
        self.asked += 1
        self.act()
        if self.refusal is not None:
            raise self.refusal
        return await super().embed(texts, purpose=purpose)


def note(root: Path, name: str, text: str) -> Path:
    path = root / "memory" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def opened(tmp_path: Path, embedder: BagOfWords | None = None, **others: Any) -> WorkspaceMemory:
    others.setdefault("clock", ManualClock(NOW))
    return WorkspaceMemory(
        tmp_path / "ws", tmp_path / "state/i.sqlite", MemorySettings(), agent="main", embedder=embedder, **others
    )


async def paths(memory: WorkspaceMemory, query: str) -> list[str]:
    return [hit.path for hit in (await memory.search(query, audience=OWNER)).hits]


async def test_what_is_no_readable_file_is_passed_over_or_named(tmp_path: Path) -> None:
    note(tmp_path / "ws", "good.md", "The heron stands in the pond\n")
    folder = tmp_path / "ws/memory"
    (folder / "folder.md").mkdir()
    (folder / "folder.md/inside.md").write_text("The stork is on the roof\n")
    (folder / "dangling.md").symlink_to(folder / "nowhere.md")
    (folder / "loop.md").symlink_to(folder / "loop.md")
    os.mkfifo(folder / "pipe.md")
    memory = opened(tmp_path)
    synced = await memory.sync()
    assert await paths(memory, "heron pond") == ["memory/good.md"]
    assert await paths(memory, "stork roof") == ["memory/folder.md/inside.md"]
    assert {"memory/dangling.md", "memory/loop.md"} <= synced.troubles.keys()
    for name in ("folder.md", "dangling.md", "loop.md", "pipe.md"):
        with pytest.raises(MemoryUnreadable, match=name):
            await memory.get(f"memory/{name}", audience=OWNER)
    await memory.close()


_AS_NOBODY = """
    import asyncio, json, os, sys
    from pathlib import Path
    from gateway.base.clock import SystemClock
    from memory.audience import OWNER
    from memory.settings import MemorySettings
    from memory.workspace_memory import WorkspaceMemory

    async def main():
        root = Path(sys.argv[1])
        warm = WorkspaceMemory(root / "warm", root / "warm.sqlite", MemorySettings(), agent="warm", clock=SystemClock())
        await warm.sync()  # has everything imported, which the other user may not read
        await warm.search("anything", audience=OWNER)
        await warm.close()
        if os.getuid() == 0:
            os.setgroups([]); os.setgid({nobody}); os.setuid({nobody})
        memory = WorkspaceMemory(root / "ws", root / "state/i.sqlite", MemorySettings(), agent="main", clock=SystemClock())
        synced = await memory.sync()
        hits = (await memory.search("heron pond", audience=OWNER)).hits
        try:
            await memory.get("memory/shut.md", audience=OWNER)
        except Exception as error:
            told = str(error) + " | " + error.hint
        print(json.dumps([synced.troubles, [hit.path for hit in hits], told]))
        await memory.close()

    asyncio.run(main())
"""


def run_apart(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own, which may lower its own rights and limits."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", textwrap.dedent(program), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=PATIENCE, check=False)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may enter, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_a_note_that_may_not_be_read_is_named_and_the_others_are_found(open_folder: Path) -> None:
    note(open_folder / "ws", "good.md", "The heron stands in the pond\n")
    note(open_folder / "ws", "shut.md", "The heron is private\n").chmod(0o000)
    note(open_folder / "ws", "closed/deep.md", "far below\n").parent.chmod(0o000)
    (open_folder / "state").mkdir()
    (open_folder / "state").chmod(0o777)
    done = run_apart(_AS_NOBODY.format(nobody=NOBODY), str(open_folder))
    (open_folder / "ws/memory/closed").chmod(0o755)
    assert done.returncode == 0, done.stderr
    troubles, found, told = json.loads(done.stdout)
    assert found == ["memory/good.md"]
    assert troubles["memory/shut.md"].endswith("cannot be read: Permission denied")
    assert "Permission denied" in troubles["memory/closed"]
    assert told == "memory/shut.md cannot be read: Permission denied | chmod u+r memory/shut.md"


def test_a_workspace_that_may_not_be_read_is_told(open_folder: Path) -> None:
    note(open_folder / "ws", "good.md", "The heron stands in the pond\n")
    (open_folder / "ws").chmod(0o700)
    (open_folder / "state").mkdir()
    (open_folder / "state").chmod(0o777)
    done = run_apart(_AS_NOBODY.format(nobody=NOBODY), str(open_folder))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0] == {".": "the folder cannot be read: Permission denied"}


_ON_A_FULL_DISK = """
    import asyncio, resource, signal, sys
    from pathlib import Path
    from gateway.base.clock import SystemClock
    from memory.audience import OWNER
    from memory.errors import MemoryTrouble
    from memory.settings import MemorySettings
    from memory.workspace_memory import WorkspaceMemory

    async def main():
        root = Path(sys.argv[1])
        memory = WorkspaceMemory(root / "ws", root / "state/i.sqlite", MemorySettings(), agent="main", clock=SystemClock())
        await memory.sync()
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        for number in range(40):
            (root / f"ws/memory/{number}.md").write_text("".join(f"{number} {n} a new line\\n" for n in range(2000)))
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
        try:
            await memory.sync()
        except MemoryTrouble as trouble:
            print("told:", trouble, "|", trouble.hint)
        print("found:", [hit.path for hit in (await memory.search("heron pond", audience=OWNER)).hits])
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        await memory.sync()
        print("after:", [hit.path for hit in (await memory.search("39 1999 new line", audience=OWNER)).hits][:1])
        await memory.close()

    asyncio.run(main())
"""


def test_a_disk_that_takes_no_more_leaves_the_old_index_answering_until_there_is_room(tmp_path: Path) -> None:
    note(tmp_path / "ws", "good.md", "The heron stands in the pond\n")
    done = run_apart(_ON_A_FULL_DISK, str(tmp_path))
    assert done.returncode == 0, done.stderr
    told, found, after = done.stdout.splitlines()
    assert told.startswith(("told: the memory index ", "told: the disk of "))
    assert str(tmp_path / "state/i.sqlite") in told
    assert told.rpartition("| ")[2]
    assert found == "found: ['memory/good.md']"
    assert after == "after: ['memory/39.md']"


async def test_notes_renamed_and_deleted_while_they_are_indexed_end_where_they_are(tmp_path: Path) -> None:
    for number in range(60):
        note(tmp_path / "ws", f"{number:02}.md", f"parcel {number} holds {'apples' if number % 2 else 'pears'}\n")
    folder = tmp_path / "ws/memory"
    memory = opened(tmp_path)

    def meddle(what: str, done: int, total: int) -> None:
        del total
        if what == "files" and done < 30:  # the first batch is filed, the rest were only listed
            (folder / "59.md").unlink(missing_ok=True)
            if (folder / "58.md").exists():
                (folder / "58.md").rename(folder / "moved.md")
                (folder / "00.md").unlink()

    first = await memory.sync(meddle)
    assert first.troubles == {}
    assert not {"memory/59.md", "memory/58.md"} & set(await paths(memory, "parcel 59 58"))
    await memory.sync()
    status = await memory.status(deep=True)
    assert (status.files, status.changed_files) == (58, [])
    assert (await paths(memory, "parcel 58"))[0] == "memory/moved.md"
    assert "memory/00.md" not in await paths(memory, "parcel 0 00")
    await memory.close()


async def test_a_note_that_goes_while_it_is_embedded_leaves_no_vector_behind(tmp_path: Path) -> None:
    gone = note(tmp_path / "ws", "gone.md", "The heron left\n")
    note(tmp_path / "ws", "stays.md", "The stork stays\n")
    embedder = Interrupting(lambda: gone.unlink(missing_ok=True))
    memory = opened(tmp_path, embedder)
    taken: list[asyncio.Task[None]] = []
    embedder.act = lambda: (gone.unlink(missing_ok=True), taken.append(asyncio.ensure_future(memory.wrote("memory/gone.md"))))
    await memory.sync()
    await asyncio.gather(*taken)
    embedder.act = lambda: None
    await memory.sync()
    status = await memory.status()
    assert (status.files, status.chunks, status.vectors, status.missing_vectors) == (1, 1, 1, 0)
    await memory.close()


async def test_a_provider_that_says_429_for_an_hour_is_left_alone_and_then_asked_again(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    told: list[str] = []
    embedder = Interrupting()
    embedder.refusal = EmbeddingFailed("the provider answered 429", passing=True, retry_after=600.0)
    memory = opened(tmp_path, embedder, clock=clock, tell=told.append)
    for minute in range(0, 60, 2):
        note(tmp_path / "ws", f"{minute}.md", f"At minute {minute} the heron flew\n")
        await memory.sync()
        assert f"memory/{minute}.md" in await paths(memory, f"minute {minute} heron")
        clock.move(120)
    assert embedder.asked <= 7  # once in ten minutes, not at every sync
    assert told == ["Memory search uses keywords only: the provider answered 429"]
    embedder.refusal = None
    clock.move(600)
    await memory.sync()
    status = await memory.status()
    assert (status.missing_vectors, status.trouble) == (0, "")
    assert (await memory.search("heron", audience=OWNER)).provider == "fake"
    await memory.close()
