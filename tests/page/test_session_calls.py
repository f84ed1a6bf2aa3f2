"""Conversations as people read them: paged, searched, exported, restored."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from agent.events import TextDelta
from agent.messages import AssistantMessage, Text, ToolCall, UserMessage
from agent.models.scripted import Stall
from agent.transcript.entries import Entry, Opened, Said, encode
from agent.transcript.transcript_file import TranscriptFile
from gateway.base.clock import ManualClock
from gateway.base.errors import UsageError
from gateway.cli.click_commands import homebody
from gateway.sessions.conversation_search import Words, plain, search
from gateway.sessions.past_sessions import Found, conversations
from gateway.sessions.sessions_file import SessionRecord
from gateway.sessions.store import sessions_in
from gateway.sessions.transcript_reader import TranscriptReader
from tests.gateway.conftest import street

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gateway.app.gateway import Gateway
    from tests.gateway.conftest import Street

__all__ = ["street"]
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MAIN = "agent:main:main"


async def call(house: Gateway, name: str, **arguments: Any) -> dict[str, Any]:
    found: dict[str, Any] = await house.calls()[name](**arguments)
    return found


def line(n: int, text: str, *, role: str = "user") -> bytes:
    content = (Text(text=text),)
    message = (
        UserMessage(content=content, at=NOON) if role == "user" else AssistantMessage(content=content, model="m", stop="end")
    )
    return encode(Entry(id=f"t{n}:0", parent=None, at=NOON, body=Said(message=message)))


def written(path: Path, texts: list[str], key: str = MAIN) -> None:
    head = encode(Entry(id="open:0", parent=None, at=NOON, body=Opened(agent="main", session=path.name.split(".")[0], key=key)))
    path.parent.mkdir(parents=True, exist_ok=True)
    data = head + b"".join(line(n, text) for n, text in enumerate(texts))
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


async def test_a_conversation_is_listed_read_in_pages_and_exported(street: Callable[..., Street]) -> None:
    here = street()
    async with here.house() as (house, talk):
        here.model.then("Hello!", ToolCall(id="c", name="read", arguments={"path": "nothing.txt"}), "There is none.")
        await talk.ask("hello")
        await talk.ask("read nothing.txt")
        (row,) = (await call(house, "sessions.list"))["sessions"]
        assert (row["sessionKey"], row["about"], row["turns"]) == (MAIN, "hello", 2)
        last = await call(house, "sessions.read", session=row["sessionId"], limit=2)
        assert last["total"] == last["offset"] + 2
        every = await call(house, "sessions.read", session=MAIN, offset=0, limit=100)
        kinds = [entry["kind"] for entry in every["entries"]]
        assert kinds == ["opened", "user", "assistant", "user", "assistant", "tool", "assistant"]
        assert every["entries"][4]["calls"][0]["name"] == "read"
        assert every["entries"][5]["isError"]
        assert [entry["n"] for entry in every["entries"]] == list(range(7))
        assert every["entries"][-2:] == last["entries"]
        shown = await call(house, "sessions.read", session=MAIN, offset=0, limit=100, trees=True)
        assert [("tree" in entry) for entry in shown["entries"]] == [
            kind == "assistant" and bool(entry.get("text")) for kind, entry in zip(kinds, every["entries"], strict=True)
        ]
        assert "tree" not in every["entries"][2]
        page = await call(house, "sessions.export", session=MAIN)
        assert page["name"].endswith(".md")
        assert "There is none." in page["text"]
        raw = await call(house, "sessions.export", session=MAIN, form="jsonl")
        assert raw["next"] is None
        assert raw["text"].encode() == b"".join(house.agents["main"].store.transcript(row["sessionId"]).lines())
        with pytest.raises(UsageError, match="no format"):
            await call(house, "sessions.export", session=MAIN, form="exe")
        with pytest.raises(UsageError, match="no session"):
            await call(house, "sessions.read", session="../../etc/passwd")


async def test_the_former_conversation_is_restored_unless_an_answer_is_being_written(street: Callable[..., Street]) -> None:
    here = street()
    async with here.house() as (house, talk):
        here.model.then("Hello!", "NO_REPLY", "Fresh.")
        await talk.ask("the first conversation")
        (old,) = (await call(house, "sessions.list"))["sessions"]
        with pytest.raises(UsageError, match="no previous"):
            await call(house, "sessions.undo", key=MAIN)
        await talk.ask("/new")
        await talk.ask("the second")
        rows = (await call(house, "sessions.list", everything=True))["sessions"]
        assert [row.get("left", False) for row in rows] == [False, True]
        assert rows[0]["undoUntil"]
        back = await call(house, "sessions.undo", key=MAIN)
        assert back["sessionId"] == old["sessionId"]
        here.model.then("Back.")
        await talk.ask("are we back?")
        sent = here.model.requests[-1]
        assert "the first conversation" in " ".join(message.text for message in sent.messages)
        with pytest.raises(UsageError, match="no session"):
            await call(house, "sessions.undo", key="agent:main:nobody")
        goes_on = asyncio.Event()
        here.model.then([Stall(goes_on), TextDelta("Slow.")])
        key = await talk.send("slowly")
        await talk.until(lambda: len(here.model.requests) == 5)
        with pytest.raises(UsageError, match="busy"):
            await call(house, "sessions.undo", key=MAIN)
        goes_on.set()
        await talk.facts(key)


async def test_past_conversations_are_found_by_all_words_of_one_message(tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    written(folder / "s-now.jsonl", ["The door is teal", "and the roof is red"])
    written(folder / "s-left.jsonl", ["a TEAL boat", "Straße und Tür", "no boat at all"], key="agent:main:telegram:1")
    written(folder / "archive" / "s-old.jsonl.gz", ["teal again, on the door"])
    store = sessions_in(folder, ManualClock(NOON))
    await store.put(SessionRecord(session="s-now", key=MAIN, started=NOON, spoken=NOON))
    everything = conversations({"main": store})
    assert everything[0].session == "s-now"
    assert {one.session for one in everything} == {"s-now", "s-left", "s-old"}

    def found(query: str) -> dict[str, list[int]]:
        return {hits.found.session: [hit.number for hit in hits.hits] for hits in search(everything, query).results}

    assert found("teal") == {"s-now": [1], "s-left": [1], "s-old": [1]}
    assert found("teal door") == {"s-now": [1], "s-old": [1]}
    assert found("boat") == {"s-left": [1, 3]}
    assert found("straße TÜR") == {"s-left": [2]}
    assert found('"roof is"') == {"s-now": [2]}
    assert found('"is roof"') == {}
    with pytest.raises(UsageError, match="nothing to search"):
        search(everything, '  "" ')


async def test_a_search_that_takes_too_long_says_where_to_go_on(tmp_path: Path) -> None:
    for n in range(6):
        written(tmp_path / f"s{n}.jsonl", ["teal"])
    everything = [Found("main", f"s{n}", TranscriptFile(tmp_path / f"s{n}.jsonl")) for n in range(6)]
    ticks = iter(range(1000))
    seen: list[str] = []
    after = ""
    for _ in range(10):
        result = search(everything, "teal", after=after, seconds=1.5, now=lambda: float(next(ticks)))
        seen += [hits.found.session for hits in result.results]
        after = result.more
        if not after:
            break
    assert seen == [f"s{n}" for n in range(6)]


async def test_a_transcript_that_cannot_be_read_is_named_and_hides_nothing(tmp_path: Path) -> None:
    written(tmp_path / "good.jsonl", ["teal"])
    (tmp_path / "bad.jsonl.gz").write_bytes(gzip.compress(bytes(range(256)) * 9)[:90])
    everything = [Found("main", name.split(".")[0], TranscriptFile(tmp_path / name)) for name in ("bad.jsonl.gz", "good.jsonl")]
    result = search(everything, "teal")
    assert [hits.found.session for hits in result.results] == ["good"]
    assert "bad.jsonl.gz" in result.unreadable[0]


@given(texts=st.lists(st.text(max_size=40), min_size=1, max_size=8), query=st.text(min_size=1, max_size=12))
def test_the_quick_look_at_the_bytes_passes_over_no_match(texts: list[str], query: str) -> None:
    try:
        words = Words(query)
    except UsageError:
        return
    for n, text in enumerate([*texts, f"before {query} behind"]):
        raw = line(n, text)
        told = json.loads(raw)["body"]["message"]["content"][0]["text"]
        if all(term in plain(told) for term in words.terms):
            assert words.may_be_in(raw)
            assert words.place(told) is not None


def test_fifty_thousand_messages_are_read_in_pages(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    written(path, [])
    with path.open("ab") as file:
        for n in range(50_000):
            file.write(line(n, f"message {n}", role="user" if n % 2 else "assistant"))
    reader = TranscriptReader()
    assert reader.count(TranscriptFile(path)) == 50_001
    began = time.process_time()
    for offset in (0, 49_900, 25_000):
        entries = reader.page(TranscriptFile(path), offset, 50)
        assert len(entries) == 50
    assert time.process_time() - began < 0.5, "a page costs what it holds, not what the conversation holds"
    last = reader.page(TranscriptFile(path), 50_000, 50)
    assert [entry.id for entry in last if entry] == ["t49999:0"]
    with path.open("ab") as file:
        file.write(line(50_000, "one more")[:20])
    assert reader.count(TranscriptFile(path)) == 50_001, "a line that is being written does not count yet"
    with path.open("ab") as file:
        file.write(line(50_000, "one more")[20:])
    assert reader.count(TranscriptFile(path)) == 50_002


def test_a_line_that_cannot_be_read_keeps_its_place(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    written(path, ["one", "two", "three"])
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = b'{"v":1,"kind":"said","id":"t1:0", broken\n'
    path.write_bytes(b"".join(lines))
    entries = TranscriptReader().page(TranscriptFile(path), 0, 10)
    assert [entry is None for entry in entries] == [False, False, True, False]


def test_the_command_finds_what_was_said(tmp_path: Path) -> None:
    folder = tmp_path / "agents" / "main" / "sessions"
    written(folder / "s-left.jsonl", ["We chose teal for the door", "\x1b[31mteal\x1b[0m"])
    ran = CliRunner().invoke(homebody, ["--home", str(tmp_path), "sessions", "search", "teal", "--json"])
    assert ran.exit_code == 0, ran.output
    (found,) = json.loads(ran.stdout)["results"]
    assert (found["sessionId"], found["count"]) == ("s-left", 2)
    ran = CliRunner().invoke(homebody, ["--home", str(tmp_path), "sessions", "search", "teal"])
    assert "We chose teal for the door" in ran.stdout
    assert "\x1b" not in ran.stdout
    assert (
        "Nothing in 1 conversations"
        in CliRunner().invoke(homebody, ["--home", str(tmp_path), "sessions", "search", "x"]).output
    )
