from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from agent.messages import AssistantMessage, Text, UserMessage
from agent.transcript.entries import Opened, Said
from agent.transcript.transcript import Transcript
from agent.transcript.transcript_file import TranscriptFile
from gateway.agents.memory_stores import is_searched
from gateway.base.clock import ManualClock, SystemClock
from memory.audience import OWNER, Audience
from memory.errors import MemoryUnreadable
from memory.indexing.transcript_cutter import TranscriptCutter
from memory.settings import ChunkingSettings, ExperimentalSettings, MemorySettings, SessionSyncSettings, SyncSettings
from tests.memory.memory_engines import memory_at

if TYPE_CHECKING:
    from pathlib import Path

    from memory.store.index import FileChange
    from memory.workspace_memory import WorkspaceMemory

NOW = datetime(2026, 3, 18, 12, tzinfo=UTC)
ON = MemorySettings(
    sources=("memory", "sessions"),
    experimental=ExperimentalSettings(session_memory=True),
    sync=SyncSettings(sessions=SessionSyncSettings(delta_messages=3)),
)


async def say(folder: Path, *texts: str, key: str = "agent:main:main", name: str = "s1", readers: str = "") -> None:
    clock = ManualClock(NOW)
    transcript = await Transcript.load(TranscriptFile(folder / f"{name}.jsonl"), clock)
    if transcript.opened is None:
        await transcript.append("t0", Opened(agent="main", session=name, key=key, audience=readers))
    for text in texts:
        await transcript.append(text, Said(message=UserMessage(content=(Text(text=text),), at=NOW)))
        await transcript.append(text, Said(message=AssistantMessage(content=(Text(text="understood"),), model="m", stop="end")))


def opened(tmp_path: Path, settings: MemorySettings, clock: ManualClock | SystemClock | None = None) -> WorkspaceMemory:
    (tmp_path / "ws").mkdir(exist_ok=True)
    return memory_at(
        tmp_path / "ws",
        tmp_path / "main.sqlite",
        settings,
        agent="main",
        clock=clock or ManualClock(NOW),
        sessions=tmp_path / "sessions",
        own_session=is_searched,
    )


async def test_those_of_isolated_sessions_are_found_only_where_they_say_that_they_are_the_owners(tmp_path: Path) -> None:
    for name, readers in (("old", ""), ("group", "group:family"), ("mine", "owner")):
        await say(tmp_path / "sessions", "the ferry leaves at nine", key=f"agent:main:sub:{name}", name=name, readers=readers)
    memory = opened(tmp_path, ON)
    await memory.sync()
    assert [hit.path for hit in (await memory.search("ferry", audience=OWNER)).hits] == ["sessions/mine.jsonl"]
    await memory.close()


@pytest.mark.sec(61)
async def test_transcripts_are_found_unless_switched_off_and_only_by_the_owner(tmp_path: Path) -> None:
    await say(tmp_path / "sessions", "the ferry leaves at nine", "/status ferry")
    memory = opened(tmp_path, ON)
    await memory.sync()
    [hit] = (await memory.search("when does the ferry leave?", audience=OWNER)).hits
    assert (hit.path, hit.source) == ("sessions/s1.jsonl", "sessions")
    assert hit.snippet.startswith("User: the ferry leaves at nine\nAssistant: understood")
    assert "/status" not in hit.snippet
    assert (await memory.search("ferry", audience=Audience("group", "family"))).hits == ()
    await memory.close()
    for off in (
        MemorySettings(sources=("memory",)),
        MemorySettings(experimental=ExperimentalSettings(session_memory=False)),
    ):
        memory = opened(tmp_path, off)
        await memory.sync()
        assert (await memory.search("ferry", audience=OWNER)).hits == ()
        await memory.close()
    memory = opened(tmp_path, MemorySettings())
    await memory.sync()
    assert (await memory.search("ferry", audience=OWNER)).hits
    with pytest.raises(MemoryUnreadable, match="memory_search"):
        await memory.get("sessions/s1.jsonl", audience=OWNER)
    await memory.close()


KEYS = (
    "agent:main:telegram:group:-100",
    "agent:main:discord:channel:7",
    "agent:main:telegram:dm:9",
    "agent:main:dm:anna",
    "odd",
    "",
)


@pytest.mark.parametrize("key", KEYS)
async def test_what_others_say_is_in_no_search_of_anybody(tmp_path: Path, key: str) -> None:
    await say(tmp_path / "sessions", "the ferry leaves at nine", name="theirs", key=key)
    await say(tmp_path / "sessions", "my tram is yellow")
    memory = opened(tmp_path, ON)
    await memory.sync()
    for audience in (OWNER, Audience("group", "telegram--100"), Audience("peer", "telegram-9"), Audience("peer", "anna")):
        assert (await memory.search("when does the ferry leave?", audience=audience)).hits == ()
    assert (await memory.search("tram", audience=OWNER)).hits
    assert (await memory.search("tram", audience=Audience("peer", "anna"))).hits == ()
    await memory.close()


async def test_a_note_comes_before_what_was_said_of_it(tmp_path: Path) -> None:
    await say(tmp_path / "sessions", "the ferry leaves at nine", "the ferry leaves when?")
    memory = opened(tmp_path, ON)
    (tmp_path / "ws/memory").mkdir()
    (tmp_path / "ws/memory/ferry.md").write_text("# Ferry\n\nThe ferry to Texel leaves at nine, from the old harbour.\n")
    await memory.sync()
    hits = (await memory.search("when does the ferry leave?", audience=OWNER)).hits
    assert [hit.source for hit in hits] == ["memory", "sessions"]
    await memory.close()


async def until(memory: WorkspaceMemory, question: str) -> None:
    for _ in range(600):
        if (await memory.search(question, audience=OWNER)).hits:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{question} was not found within a minute")


@pytest.mark.parametrize("deltas", [{"delta_messages": 4}, {"delta_messages": 10_000, "delta_bytes": 2_000}])
async def test_a_conversation_that_grows_is_taken_up_by_itself(tmp_path: Path, deltas: dict[str, int]) -> None:
    settings = MemorySettings(sync=SyncSettings(watch_debounce_ms=50, on_search=False, sessions=SessionSyncSettings(**deltas)))
    await say(tmp_path / "sessions", "the ferry leaves at nine")
    memory = opened(tmp_path, settings, SystemClock())
    memory.start()
    await until(memory, "ferry")
    await say(tmp_path / "sessions", *(f"the zebra number {n} is called Otto " + "and so on " * 60 for n in range(5)))
    await until(memory, "zebra")
    await memory.close()


async def test_what_is_said_while_transcripts_are_being_read_is_taken_up_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = MemorySettings(
        sync=SyncSettings(watch_debounce_ms=50, on_search=False, sessions=SessionSyncSettings(delta_messages=1))
    )
    was_read, go_on, slow = threading.Event(), threading.Event(), threading.Event()
    cut = TranscriptCutter.cut

    def cut_slowly(*args: Any) -> FileChange:
        change = cut(*args)
        if slow.is_set():
            was_read.set()
            go_on.wait(60)
        return change

    monkeypatch.setattr(TranscriptCutter, "cut", cut_slowly)
    await say(tmp_path / "sessions", "the ferry leaves at nine")
    memory = opened(tmp_path, settings, SystemClock())
    memory.start()
    await until(memory, "ferry")
    slow.set()
    await say(tmp_path / "sessions", "the tram is yellow")
    assert await asyncio.to_thread(was_read.wait, 60)
    await say(tmp_path / "sessions", "the zebra is called Otto")
    await asyncio.sleep(2)  # the watch tells of it meanwhile
    slow.clear()
    go_on.set()
    await until(memory, "zebra")
    await memory.close()


async def test_the_end_of_a_conversation_is_taken_up_once_it_is_quiet(tmp_path: Path) -> None:
    await say(tmp_path / "sessions", "the ferry leaves at nine")
    clock = ManualClock(datetime.now(UTC))
    settings = MemorySettings(sync=SyncSettings(watch=False, on_search=False))
    memory = opened(tmp_path, settings, clock)
    memory.start()
    await until(memory, "ferry")
    await say(tmp_path / "sessions", "the zebra is called Otto")
    await memory.sync()
    assert (await memory.search("zebra", audience=OWNER)).hits == ()
    clock.move(1_300)
    await until(memory, "zebra")
    await memory.close()


async def test_a_transcript_is_read_again_after_it_grew_by_enough(tmp_path: Path) -> None:
    await say(tmp_path / "sessions", "the ferry leaves at nine")
    memory = opened(tmp_path, ON)
    await memory.sync()
    await say(tmp_path / "sessions", "the tram is yellow")
    await memory.sync()
    assert (await memory.search("tram", audience=OWNER)).hits == ()
    await say(tmp_path / "sessions", "the bus is late")
    await memory.sync()
    assert (await memory.search("tram", audience=OWNER)).hits
    await memory.close()


async def test_a_transcript_in_which_words_of_the_same_length_took_the_place_of_others_is_read_again(tmp_path: Path) -> None:
    await say(tmp_path / "sessions", "the ferry leaves at nine", "the tram is yellow")
    memory = opened(tmp_path, ON)
    await memory.sync()
    assert (await memory.search("ferry", audience=OWNER)).hits
    stored = TranscriptFile(tmp_path / "sessions" / "s1.jsonl")
    stored.replace(stored.path.read_bytes().replace(b"ferry", b"zebra"))
    await memory.sync()
    assert (await memory.search("ferry", audience=OWNER)).hits == ()
    assert (await memory.search("zebra", audience=OWNER)).hits
    await memory.close()


async def test_words_that_are_overwritten_in_place_one_after_the_other_are_found_no_more(tmp_path: Path) -> None:
    await say(
        tmp_path / "sessions", "the ferry leaves at nine", *(f"and so on for the {n}th time " * 40 for n in range(30)), "a tram"
    )
    memory = opened(tmp_path, ON)
    await memory.sync()
    path = tmp_path / "sessions" / "s1.jsonl"
    for word, other in ((b"ferry", b"zebra"), (b"zebra", b"camel")):
        overwritten = path.read_bytes().replace(word, other)
        with path.open("r+b") as file:
            file.write(overwritten)
        await memory.sync()
        assert (await memory.search(word.decode(), audience=OWNER)).hits == ()
        assert (await memory.search(other.decode(), audience=OWNER)).hits
    await memory.close()


async def test_an_index_that_followed_a_conversation_holds_what_one_that_is_made_of_the_whole_does(tmp_path: Path) -> None:
    on_each_line = SyncSettings(sessions=SessionSyncSettings(delta_messages=1))
    settings = MemorySettings(
        sources=("memory", "sessions"), sync=on_each_line, chunking=ChunkingSettings(tokens=40, overlap=12)
    )
    memory = opened(tmp_path, settings)
    for n in range(30):
        await say(tmp_path / "sessions", f"ferry{n} leaves at {n}" + f", and so on{n}" * (n % 7) * (n % 5))
        await memory.sync()
    (tmp_path / "again").mkdir()
    (tmp_path / "again/sessions").symlink_to(tmp_path / "sessions")
    whole = opened(tmp_path / "again", settings)
    await whole.sync()
    assert (await memory.status()).chunks == (await whole.status()).chunks > 20
    for n in range(30):
        query = f"when does ferry{n} leave"
        found, again = [(await one.search(query, audience=OWNER)).hits for one in (memory, whole)]
        assert found
        assert [(hit.start_line, hit.end_line, hit.snippet) for hit in found] == [
            (hit.start_line, hit.end_line, hit.snippet) for hit in again
        ]
    await memory.close()
    await whole.close()
