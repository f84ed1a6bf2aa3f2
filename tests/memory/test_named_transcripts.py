"""Of conversations that go on, those are looked at that changed, however many there are; and nothing is missed by that."""

from __future__ import annotations

import asyncio
import os
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from gateway.agents.memory_stores import is_searched
from gateway.base.clock import ManualClock, SystemClock
from memory.audience import OWNER
from memory.notes.transcript_source import TranscriptFiles
from memory.settings import MemorySettings, SessionSyncSettings, SyncSettings
from tests.memory.memory_engines import memory_at
from tests.memory.test_transcripts import opened, say

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from memory.notes.sources import Stamp
    from memory.protocol import Clock
    from memory.workspace_memory import WorkspaceMemory

AT_ONCE = SyncSettings(watch_debounce_ms=50, on_search=False, sessions=SessionSyncSettings(delta_messages=1))


class Walked(TranscriptFiles):
    """Transcripts that count how often all of them are looked at."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.walks = 0

    def walk(self) -> Iterator[tuple[str, Stamp]]:
        self.walks += 1
        return super().walk()

    async def looked_after_the_start(self) -> bool:
        """Whether the look at all has ended that the first growth after a start brings."""
        return self.walks > 1


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(1200):
        if await holds():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("not within a minute")


async def found(memory: WorkspaceMemory, word: str) -> bool:
    return bool((await memory.search(word, audience=OWNER)).hits)


def followed(tmp_path: Path, sync: SyncSettings, clock: Clock | None = None) -> tuple[WorkspaceMemory, Walked]:
    (tmp_path / "ws").mkdir()
    transcripts = Walked(tmp_path / "sessions")
    store = tmp_path / "main.sqlite"
    settings = MemorySettings(sync=sync)
    return (
        memory_at(
            tmp_path / "ws",
            store,
            settings,
            agent="main",
            clock=clock or SystemClock(),
            sessions=transcripts,
            own_session=is_searched,
        ),
        transcripts,
    )


async def test_one_conversation_that_goes_on_has_no_other_looked_at(tmp_path: Path) -> None:
    for n in range(20):
        await say(tmp_path / "sessions", f"the ferry number {n} leaves at nine", name=f"s{n}")
    memory, transcripts = followed(tmp_path, AT_ONCE)
    memory.start()
    await until(lambda: found(memory, "ferry"))
    await say(tmp_path / "sessions", "the tram is yellow", name="s3")  # the first look after a start is at all of them
    await until(lambda: found(memory, "tram"))
    await until(transcripts.looked_after_the_start)
    before = transcripts.walks
    for n, word in enumerate(("zebra", "camel", "ostrich")):
        await say(tmp_path / "sessions", f"the {word} is called Otto", name=f"s{n}")
        await until(lambda word=word: found(memory, word))
    assert transcripts.walks == before
    await memory.close()


async def test_what_is_too_little_to_be_indexed_is_looked_at_again_when_another_conversation_goes_on(tmp_path: Path) -> None:
    """So that its end is not left out for longer than it takes to be quiet."""
    sync = SyncSettings(watch_debounce_ms=50, on_search=False, sessions=SessionSyncSettings(delta_messages=4))
    for name in ("one", "other"):
        await say(tmp_path / "sessions", "the ferry leaves at nine", name=name)
    clock = ManualClock(datetime.now(UTC))
    memory, transcripts = followed(tmp_path, sync, clock)
    memory.start()
    await until(lambda: found(memory, "ferry"))
    await say(tmp_path / "sessions", "the tram is yellow", "the bus is red", name="one")
    await until(lambda: found(memory, "tram"))
    await until(transcripts.looked_after_the_start)
    before = transcripts.walks
    await say(tmp_path / "sessions", "the zebra is called Otto", name="one")
    path = tmp_path / "sessions" / "one.jsonl"
    said = path.stat().st_mtime - 300
    os.utime(path, (said, said))
    await asyncio.sleep(1)
    assert not await found(memory, "zebra")
    clock.move(400)  # quiet by now; all of them are looked at after 600
    await say(tmp_path / "sessions", "the camel is called Anna", name="other")
    await until(lambda: found(memory, "zebra"))
    assert transcripts.walks == before
    await memory.close()


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_becomes_of_conversations_the_index_holds_what_a_new_one_does(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    folder, archive = tmp_path / "sessions", tmp_path / "sessions" / "archive"
    archive.mkdir(parents=True)
    memory, _ = followed(tmp_path, AT_ONCE)
    memory.start()
    said = 0
    for _ in range(12):
        for _ in range(dice.randint(1, 5)):
            there = sorted(folder.glob("*.jsonl"))
            deed = dice.choice(("begin", "go on", "go on", "archive", "remove", "other words", "a group's"))
            said += 1
            if deed == "begin" or not there:
                await say(folder, f"word{said} is new", name=f"s{said}")
            elif deed == "a group's":
                await say(folder, f"word{said} is theirs", name=f"g{said}", key="agent:main:telegram:group:-100")
            elif deed == "go on":
                await say(folder, f"word{said} was added", name=dice.choice(there).stem)
            elif deed == "other words":
                path = dice.choice(there)
                new = path.with_suffix(".new")
                new.write_bytes(path.read_bytes().replace(b" is new", b" is old"))
                new.rename(path)
            elif deed == "archive":
                path = dice.choice(there)
                path.rename(archive / path.name)
            else:
                dice.choice(there).unlink()
        await asyncio.sleep(dice.choice((0, 0.1, 0.4)))

    (tmp_path / "again").mkdir()
    (tmp_path / "again/sessions").symlink_to(folder)
    whole = opened(tmp_path / "again", MemorySettings(sync=AT_ONCE), ManualClock(datetime.now(UTC)))
    await whole.sync()

    async def held(one: WorkspaceMemory) -> dict[str, list[tuple[str, str]]]:
        questions = ["is new", "is old", *(f"word{n}" for n in range(said + 1))]
        hits = {word: (await one.search(word, audience=OWNER)).hits for word in questions}
        return {word: sorted((hit.path, hit.snippet) for hit in several) for word, several in hits.items()}

    wanted = await held(whole)

    async def same() -> bool:
        return await held(memory) == wanted

    await until(same)
    assert (await memory.status()).chunks == (await whole.status()).chunks
    await memory.close()
    await whole.close()
