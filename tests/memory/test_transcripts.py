from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from agent.entries import Opened, Said
from agent.messages import AssistantMessage, Text, UserMessage
from agent.transcript import Transcript
from gateway.clock import ManualClock
from memory.audience import OWNER, Audience
from memory.settings import ExperimentalSettings, MemorySettings, SessionSyncSettings, SyncSettings
from memory.workspace import WorkspaceMemory

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 3, 18, 12, tzinfo=UTC)
ON = MemorySettings(
    sources=("memory", "sessions"),
    experimental=ExperimentalSettings(session_memory=True),
    sync=SyncSettings(sessions=SessionSyncSettings(delta_messages=3)),
)


async def say(folder: Path, *texts: str) -> None:
    clock = ManualClock(NOW)
    transcript = await Transcript.load(folder / "s1.jsonl", clock)
    if transcript.opened is None:
        await transcript.append("t0", Opened(agent="main", session="s1", key="agent:main:main"))
    for text in texts:
        await transcript.append(text, Said(message=UserMessage(content=(Text(text=text),), at=NOW)))
        await transcript.append(text, Said(message=AssistantMessage(content=(Text(text="understood"),), model="m", stop="end")))


def opened(tmp_path: Path, settings: MemorySettings) -> WorkspaceMemory:
    (tmp_path / "ws").mkdir(exist_ok=True)
    return WorkspaceMemory(
        tmp_path / "ws",
        tmp_path / "main.sqlite",
        settings,
        agent="main",
        clock=ManualClock(NOW),
        sessions=tmp_path / "sessions",
    )


async def test_transcripts_are_found_only_when_asked_for_and_only_by_the_owner(tmp_path: Path) -> None:
    await say(tmp_path / "sessions", "the ferry leaves at nine", "/status ferry")
    memory = opened(tmp_path, ON)
    await memory.sync()
    [hit] = (await memory.search("when does the ferry leave?", audience=OWNER)).hits
    assert (hit.path, hit.source) == ("sessions/s1.jsonl", "sessions")
    assert hit.snippet.startswith("User: the ferry leaves at nine\nAssistant: understood")
    assert "/status" not in hit.snippet
    assert (await memory.search("ferry", audience=Audience("group", "family"))).hits == ()
    await memory.close()
    memory = opened(tmp_path, MemorySettings())
    await memory.sync()
    assert (await memory.search("ferry", audience=OWNER)).hits == ()
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
