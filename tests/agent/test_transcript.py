from __future__ import annotations

import asyncio
import json
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.context.window import cold_since
from agent.errors import TranscriptWriteError
from agent.messages import AssistantMessage, Failure, Text, ToolCall, Usage, UserMessage
from agent.transcript.entries import (
    CacheRefreshed,
    Compacted,
    Entry,
    FlushBegun,
    FlushReceipt,
    InvalidEntry,
    Opened,
    Said,
    decode,
    encode,
    with_body_values,
)
from agent.transcript.transcript import Transcript
from gateway.base.clock import ManualClock
from tests.both_engines import transcript_at
from tests.full_disk import no_file_may_hold_more_than
from tests.properties import examples

if TYPE_CHECKING:
    from pathlib import Path

    from agent.transcript.entries import Body

AT = datetime(2026, 3, 1, tzinfo=UTC)


def said(text: str) -> Said:
    return Said(message=UserMessage(content=(Text(text=text),), at=AT))


def clock() -> ManualClock:
    return ManualClock(AT)


async def test_what_was_appended_is_read_back_by_the_next_process(tmp_path: Path) -> None:
    first = await Transcript.load(transcript_at(tmp_path / "deep" / "s.jsonl"), clock())
    await first.append("open", Opened(agent="main", session="s", key="k", notes="n"), n=0)
    await first.append("t1", said("hello"))
    call = ToolCall(id="c", name="read", arguments=None, raw="{broken")
    await first.append("t1", Said(message=AssistantMessage(content=(call,), model="m", stop="tools")))
    second = await Transcript.load(transcript_at(tmp_path / "deep" / "s.jsonl"), clock())
    assert second.entries == first.entries
    assert second.opened == first.opened
    if (file := tmp_path / "deep" / "s.jsonl").exists():
        assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.files
async def test_the_same_place_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    one = await Transcript.load(transcript_at(path), clock())
    await one.append("t1", said("hello"), n=0)
    again = await Transcript.load(transcript_at(path), clock())
    entry = await again.append("t1", said("hello, again"), n=0)
    assert entry.body == said("hello")
    assert len(path.read_bytes().splitlines()) == 1


def test_the_hint_of_a_failure_has_its_former_name_on_disk() -> None:
    failure = Failure(kind="auth", message="The key was rejected.", hint="Add another one.")
    answer = AssistantMessage(content=(), model="m", stop="error", failure=failure)
    entry = Entry(id="t:0", parent=None, at=AT, body=Said(message=answer))
    line = encode(entry)
    assert b'"mend":"Add another one."' in line
    assert b'"hint"' not in line
    assert decode(line) == entry


FORMER = (
    '{"agent":"a","session":"s","key":"k","audience":"","notes":"","pins":[],"kind":"opened"}',
    '{"message":{"content":[{"text":"hi","type":"text"}],"at":"2026-03-01T00:00:00Z","sender":"","role":"user"},"kind":"said"}',
    (
        '{"message":{"content":[{"text":"x","opaque":null,"type":"thinking"},{"id":"1","name":"n","arguments":{"q":1e300},"raw":"",'
        '"type":"tool_call"}],"model":"m","stop":"tools","usage":{"input":3.0,"output":5,"cache_read":0,"cache_write":0,"cost":1.5e-05},'
        '"failure":null,"role":"assistant"},"kind":"said"}'
    ),
    (
        '{"message":{"call_id":"1","name":"n","text":"t","is_error":false,"images":[{"media_type":"image/png","data":"","width":0,'
        '"height":0,"type":"image"}],"details":{"a":[1,null]},"role":"tool"},"kind":"said"}'
    ),
    (
        '{"cycle":null,"outcome":"written","reason":"","written":[{"path":"p","bytes_before":1,"bytes_after":2,"sha256_before":null,'
        '"sha256_after":"s"}],"usage":null,"problem":"","kind":"flush_receipt","of_a_later_version":1}'
    ),
    '{"note":"n","withdrawn":["t:1"],"kind":"unanswered"}',
)
"""Bodies as they were written while they were dataclasses that pydantic read, and one of a later version."""


@pytest.mark.parametrize("former", FORMER)
def test_bodies_that_earlier_versions_wrote_are_read_and_stay_the_same(former: str) -> None:
    body = with_body_values(json.loads(former))
    line = encode(Entry(id="t:0", parent=None, at=AT, body=body))
    assert decode(line).body == body
    written, known = json.loads(line)["body"], json.loads(former)
    assert written["kind"] == known["kind"]
    for name, value in written.get("message", written).items():
        assert value == known.get("message", known)[name]


def test_arguments_of_any_depth_and_size_that_a_model_may_write_are_stored() -> None:
    arguments: dict[str, object] = {"number": 10**30}
    for _ in range(300):
        arguments = {"in": arguments}
    call = ToolCall(id="c", name="n", arguments=arguments)
    body = Said(message=AssistantMessage(content=(call,), model="m", stop="tools"))
    assert decode(encode(Entry(id="t:0", parent=None, at=AT, body=body))).body == body


@given(st.text(alphabet=st.characters(exclude_categories=[]), max_size=60))
def test_any_text_survives_a_line(text: str) -> None:
    line = encode(Entry(id="t:0", parent=None, at=AT, body=said(text)))
    assert line.endswith(b"\n")
    assert b"\n" not in line[:-1]
    back = decode(line)
    assert isinstance(back.body, Said)
    clean = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert back.body.message == UserMessage(content=(Text(text=clean),), at=AT)


@pytest.mark.files
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(40))
@given(cut=st.integers(min_value=1, max_value=400), texts=st.lists(st.text(max_size=30), min_size=1, max_size=5))
def test_a_torn_tail_is_set_aside_and_nothing_before_it_is_lost(tmp_path: Path, cut: int, texts: list[str]) -> None:
    path = tmp_path / f"s-{os.urandom(6).hex()}.jsonl"

    async def story() -> None:
        whole = await Transcript.load(transcript_at(path), clock())
        for text in texts:
            await whole.append("t", said(text))
        data = path.read_bytes()
        short = data[: max(0, len(data) - cut)]
        path.write_bytes(short)
        after = await Transcript.load(transcript_at(path), clock())
        lines = short.count(b"\n")
        tail = short.rpartition(b"\n")[2]
        complete = tail != b"" and len(tail) + 1 == len(data.splitlines(keepends=True)[lines])
        assert len(after.entries) == lines + complete
        assert path.read_bytes() == (short + b"\n" if complete else short[: len(short) - len(tail)])
        assert bool(after.torn) == bool(tail and not complete)
        if after.torn:
            assert (path.parent / after.torn).read_bytes().endswith(tail)
        await after.append("t", said("next"))
        assert (await Transcript.load(transcript_at(path), clock())).entries[-1].body == said("next")

    asyncio.run(story())


@pytest.mark.files
async def test_a_changed_line_is_skipped_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    one = await Transcript.load(transcript_at(path), clock())
    for text in ("first", "second", "third"):
        await one.append("t", said(text))
    path.write_bytes(path.read_bytes().replace(b"second", b"forged"))
    again = await Transcript.load(transcript_at(path), clock())
    assert [entry.body for entry in again.entries] == [said("first"), said("third")]
    assert again.bad_lines == 1


async def test_only_what_the_last_summary_keeps_is_held_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    one = await Transcript.load(transcript_at(path), clock())
    await one.append("open", Opened(agent="main", session="s", key="k"), n=0)
    for number in range(6):
        await one.append("t", said(str(number)))
    mark = Compacted(summary="so far", first_kept="t:4", tokens_before=9, tokens_after=3, model="m", reason="threshold")
    await one.append("t", mark)
    again = await Transcript.load(transcript_at(path), clock())
    assert [entry.body for entry in again.entries] == [said("4"), said("5"), mark] == [e.body for e in one.entries]
    assert again.opened is not None
    assert again.cycle == "t:6"
    entry = await again.append("t", said("six"))
    assert entry.id == "t:7"


@pytest.mark.files
async def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    one = await Transcript.load(transcript_at(tmp_path / "s.jsonl"), clock())
    await one.append("t", said("kept"))
    folder = tmp_path / "s.jsonl"
    before = folder.read_bytes()
    folder.rename(tmp_path / "away")
    folder.symlink_to("/dev/full")
    with pytest.raises(TranscriptWriteError) as refused:
        await one.append("t", said("lost"))
    assert "symbolic link" in refused.value.hint
    folder.unlink()
    (tmp_path / "away").rename(folder)
    assert folder.read_bytes() == before
    assert [entry.body for entry in one.entries] == [said("kept")]


@pytest.mark.files
async def test_what_need_not_be_durable_is_on_disk_with_the_next_that_is(tmp_path: Path) -> None:
    path = tmp_path / "new" / "s.jsonl"
    one = await Transcript.load(transcript_at(path), clock())
    await one.append("t", said("light"), durable=False)
    assert not path.exists()
    assert [entry.body for entry in one.of_turn("t")] == [said("light")]
    await one.append("t", said("durable"))
    assert (await Transcript.load(transcript_at(path), clock())).entries == one.entries
    await one.append("t", said("last"), durable=False)
    await one.settle()
    assert [entry.body for entry in (await Transcript.load(transcript_at(path), clock())).entries] == [
        said("light"),
        said("durable"),
        said("last"),
    ]


async def test_a_large_entry_is_written_out_beside_the_loop(tmp_path: Path) -> None:
    one = await Transcript.load(transcript_at(tmp_path / "s.jsonl"), clock())
    large = asyncio.ensure_future(one.append("t", said("x" * 40_000), durable=False))
    small = asyncio.ensure_future(one.append("t", said("y"), durable=False))
    await asyncio.sleep(0)
    assert not large.done()
    await asyncio.gather(large, small)
    await one.settle()
    again = await Transcript.load(transcript_at(tmp_path / "s.jsonl"), clock())
    assert sorted(len(entry.body.message.text) for entry in again.entries) == [1, 40_000]


@pytest.mark.files
async def test_what_waits_is_neither_lost_nor_doubled_when_the_disk_refuses(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    one = await Transcript.load(transcript_at(path), clock())
    path.symlink_to("/dev/full")
    await one.append("t", said("light"), durable=False)
    with pytest.raises(TranscriptWriteError):
        await one.append("t", said("refused"))
    await one.settle()
    path.unlink()
    await one.append("t", said("durable"))
    assert [entry.body for entry in (await Transcript.load(transcript_at(path), clock())).entries] == [
        said("light"),
        said("durable"),
    ]


async def test_entries_are_found_by_turn_and_kind_as_far_as_they_are_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    one = await Transcript.load(transcript_at(path), clock())
    first = await one.append("a", FlushBegun(cycle=None, reason="threshold"))
    second = await one.append("b", said("hello"))
    assert one.latest(FlushBegun) == first
    assert one.latest(FlushBegun, Said) == second
    mark = Compacted(summary="so far", first_kept=second.id, tokens_before=9, tokens_after=3, model="m", reason="threshold")
    third = await one.append("b", mark)
    for transcript in (one, await Transcript.load(transcript_at(path), clock())):
        assert transcript.latest(FlushBegun) is None
        assert transcript.of_turn("a") == []
        assert transcript.of_turn("b") == [second, third]


_steps = st.lists(
    st.tuples(st.sampled_from(["said", "answered", "told", "refreshed", "flushed"]), st.integers(0, 12)), max_size=12
)


def _body_of(step: str, used: Usage | None, first_kept: str) -> Body:
    match step:
        case "answered":
            return Said(message=AssistantMessage(content=(Text(text="yes"),), model="m", stop="end", usage=used))
        case "refreshed":
            return CacheRefreshed(usage=used)
        case "flushed":
            return FlushReceipt(cycle=None, outcome="nothing", usage=used)
        case "told":
            return Compacted(summary="", first_kept=first_kept, tokens_before=9, tokens_after=3, model="m", reason="threshold")
    return said("hello")


@given(steps=_steps)
@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_the_last_call_of_the_model_is_known_however_a_transcript_grows(
    tmp_path: Path, steps: list[tuple[str, int]]
) -> None:
    path, now = tmp_path / f"{uuid4().hex}.jsonl", clock()
    one = await Transcript.load(transcript_at(path), now)
    for number, (step, other) in enumerate(steps):
        now.move(60)
        await one.append("t", _body_of(step, Usage(input=9) if other % 2 else None, f"t:{other % (number + 1)}"))
        assert one.last_call == cold_since(one.entries)
    again = await Transcript.load(transcript_at(path), now)
    assert again.last_call == cold_since(again.entries)


def test_a_line_without_its_checksum_is_torn() -> None:
    with pytest.raises(InvalidEntry):
        decode(b'{"v":1,"kind":"said","id":"t:0"}\n')


@pytest.mark.files
@pytest.mark.parametrize("room", [0, 1, 10, 60])
async def test_a_write_that_is_taken_in_part_leaves_nothing_and_costs_no_later_entry(tmp_path: Path, room: int) -> None:
    path = tmp_path / "s.jsonl"
    transcript = await Transcript.load(transcript_at(path), clock())
    await transcript.append("a", said("first"), n=0)
    size = transcript.size
    with no_file_may_hold_more_than(size + room), pytest.raises(TranscriptWriteError):
        await transcript.append("b", said("x" * 200), n=0)
    assert os.stat(path).st_size == size  # noqa: PTH116
    await transcript.append("c", said("later"), n=0)
    again = await Transcript.load(transcript_at(path), clock())
    assert ([entry.id for entry in again.entries], again.bad_lines, again.torn) == (["a:0", "c:0"], 0, "")
