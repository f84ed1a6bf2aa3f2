"""Sessions and transcripts behave alike in files and in PostgreSQL: what was stored is there, in order, and read from any place."""

from __future__ import annotations

import asyncio
import itertools
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.messages import Text, UserMessage
from agent.transcript.entries import Compacted, Entry, Opened, Said, encode
from agent.transcript.stored_transcript import HEAD_BYTES
from agent.transcript.transcript import Transcript
from agent.transcript.transcript_file import TranscriptFile
from gateway.base.clock import ManualClock
from gateway.sessions.conversation_search import search
from gateway.sessions.forgetting import REMOVED, Speaker, Words, own_lines, take_out
from gateway.sessions.past_sessions import conversations, find, repair, rows
from gateway.sessions.sessions_file import SessionRecord
from gateway.sessions.transcript_reader import TranscriptReader
from tests.both_engines import sessions_at, transcript_at
from tests.ledger import engines
from tests.properties import examples

if TYPE_CHECKING:
    from pathlib import Path

    from gateway.sessions.store import StoredSessions

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MAIN = "agent:main:main"
NUMBERS = itertools.count()


def record(key: str = MAIN, **more: Any) -> SessionRecord:
    return SessionRecord(**({"session": f"s-{key[-4:]}", "key": key, "started": NOON, "spoken": NOON} | more))


async def opened(folder: Path) -> StoredSessions:
    store = sessions_at(folder, ManualClock(NOON))
    assert await store.load() == []
    return store


def said(text: str, sender: str = "") -> Said:
    return Said(message=UserMessage(content=(Text(text=text),), at=NOON, sender=sender))


def line(number: int, text: str) -> bytes:
    return encode(Entry(id=f"t:{number}", parent=None, at=NOON, body=said(text)))


async def test_what_was_put_is_there_after_a_restart_without_any_closing(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.put(record(turns=3, pins=("a", "b"), former="s-0", former_until=NOON))
    await store.change("agent:main:main", verbose=True)
    await store.put(record("agent:main:other"))
    await store.remove("agent:main:other")
    again = await opened(tmp_path)
    assert again.all() == store.all()
    assert again.get("agent:main:main").pins == ("a", "b")


async def test_what_was_to_be_written_soon_is_written_when_the_house_closes(tmp_path: Path) -> None:
    store = sessions_at(tmp_path, ManualClock(NOON), soon=60)
    await store.load()
    await store.put(record())
    store.change_soon("agent:main:main", turns=5)
    await store.fold()
    again = await opened(tmp_path)
    found = again.get("agent:main:main")
    assert found is not None
    assert found.turns == 5


async def test_changes_made_at_once_from_several_places_all_count(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.put(record())
    names = {"turns": 5, "verbose": True, "model": "m", "greeted": True, "compactions": 2, "unsaved": "s-0"}
    await asyncio.gather(*(store.change("agent:main:main", **{name: value}) for name, value in names.items()))
    again = (await opened(tmp_path)).get("agent:main:main")
    assert {name: getattr(again, name) for name in names} == names


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.sampled_from(["put", "remove", "soon", "note", "fold"]), st.integers(0, 3), st.integers(0, 9)), max_size=25
    )
)
def test_after_any_changes_a_fold_leaves_what_was_in_memory(tmp_path: Path, steps: list[Any]) -> None:
    async def check() -> None:
        store = await opened(tmp_path)
        for one in store.all():
            await store.remove(one.key)
        for what, n, turns in steps:
            key = f"agent:main:s{n}"
            if what == "put":
                await store.put(record(key, turns=turns, model="\ud800 \0 ü" if turns > 7 else None))
            elif what == "fold":
                await store.fold()
            elif store.get(key) is None:
                continue
            elif what == "remove":
                await store.remove(key)
            elif what == "soon":
                store.change_soon(key, turns=turns)
            else:
                store.note(key, spoken=NOON + timedelta(minutes=turns))
        known = sorted(store.all(), key=lambda one: one.key)
        await store.fold()
        again = await opened(tmp_path)
        found = {one.key: one.turns for one in again.all()}
        assert found == {one.key: one.turns for one in known}

    asyncio.run(check())


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(st.text(max_size=40), min_size=1, max_size=4), min_size=1, max_size=6), st.data())
def test_lines_are_read_from_any_place_as_of_one_file(tmp_path: Path, groups: list[list[str]], data: Any) -> None:
    stored = transcript_at(tmp_path / f"s-{next(NUMBERS)}.jsonl")
    assert not stored.exists()
    with pytest.raises(FileNotFoundError):
        stored.stat()
    assert stored.contents(NOON)[:2] == (0, [])
    assert list(stored.lines_backwards()) == []
    whole, number = b"", 0
    for group in groups:
        some = b""
        for text in group:
            some += line(number, text)
            number += 1
        whole += some
        assert stored.append(some) == len(whole)
    lines = [one + b"\n" for one in whole.split(b"\n")[:-1]]
    places = [0, *itertools.accumulate(map(len, lines))][:-1]
    assert stored.stat().size == len(whole)
    found = stored.contents(NOON)
    assert (found.size, len(found.heads)) == (len(whole), len(lines))
    assert all(one.startswith(head) for head, one in zip(found.heads, lines, strict=True))
    begin, end = sorted((data.draw(st.integers(0, len(lines))), data.draw(st.integers(0, len(lines)))))
    assert b"".join(one + b"\n" for one in found.whole(begin, end)) == b"".join(lines[begin:end])
    start = data.draw(st.sampled_from([*places, len(whole)]))
    assert b"".join(stored.lines(start)) == whole[start:]
    wanted = sorted(data.draw(st.sets(st.sampled_from(places))))
    assert stored.lines_at(wanted) == [lines[places.index(place)] for place in wanted]
    backwards = [(place, one[:-1]) for place, one in reversed(list(zip(places, lines, strict=True))) if place < start]
    assert list(stored.lines_backwards(start)) == backwards
    before = stored.stat()
    assert stored.replace(lines[0]) == ""
    after = stored.stat()
    assert (after.size, after.written_ns // 1000) == (len(lines[0]), before.written_ns // 1000)
    assert after.identity != before.identity
    assert stored.append(line(number, "more")) == len(lines[0]) + len(line(number, "more"))


IDS = st.builds("{}:{}".format, st.sampled_from(["t", "u", "v" * 300]), st.integers(0, 9))
BODIES = st.one_of(
    st.builds(said, st.text(max_size=600)),
    st.builds(
        lambda notes, pins, taint: Opened(agent="a", session="s", key=MAIN, notes=notes, pins=tuple(pins), taint=tuple(taint)),
        st.text(max_size=600),
        st.lists(st.sampled_from("abc")),
        st.lists(st.sampled_from(["web:one", "web:two"]), unique=True),
    ),
    st.builds(
        lambda kept, waiting, taint: Compacted(
            summary="s" * 300,
            first_kept=kept,
            tokens_before=2,
            tokens_after=1,
            model="m",
            reason="r",
            waiting=waiting,
            taint=taint,
        ),
        IDS,
        st.lists(IDS, max_size=2).map(tuple),
        st.sampled_from([(), ("web:three",)]),
    ),
)
STORED = st.lists(
    st.one_of(
        st.builds(lambda id_, body: encode(Entry(id=id_, parent=None, at=NOON, body=body)), IDS, BODIES),
        st.sampled_from([b"\n", b"no entry\n", b'{"v":1,"kind":"compacted","id":"t:7"}\n', b"x" * 500 + b"\n"]),
    ),
    max_size=12,
)


@settings(max_examples=examples(24), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STORED)
def test_a_transcript_is_the_same_to_whoever_goes_on_with_it(tmp_path: Path, lines: list[bytes]) -> None:
    name = f"g-{next(NUMBERS)}.jsonl"
    stored, file = transcript_at(tmp_path / name), TranscriptFile(tmp_path / f"file-{name}")
    if lines:
        stored.append(b"".join(lines))
        file.append(b"".join(lines))
    here, there = (asyncio.run(Transcript.load(one, ManualClock(NOON))) for one in (stored, file))
    turns = ["t", "u", "v" * 300, "w"]
    facts = [
        (
            *(one.entries, one.opened, one.bad_lines, one.size, one.taint, one.newest_sources, one.pins, one.cycle),
            *([one.holds(turn) for turn in turns], [one.of_turn(turn) for turn in turns]),
        )
        for one in (here, there)
    ]
    assert facts[0] == facts[1]


async def test_the_lines_before_a_summary_stay_where_they_are_when_a_transcript_is_opened(tmp_path: Path) -> None:
    stored = transcript_at(tmp_path / "s.jsonl")
    mark = Compacted(summary="s", first_kept="t:398", tokens_before=2, tokens_after=1, model="m", reason="r")
    stored.append(b"".join(line(number, f"{number} " * 200) for number in range(400)))
    stored.append(encode(Entry(id="t:400", parent=None, at=NOON, body=mark)))
    found = stored.contents(NOON)
    opened = await Transcript.load(stored, ManualClock(NOON))
    assert [entry.id for entry in opened.entries] == ["t:398", "t:399", "t:400"]
    if engines.Current.engine == engines.POSTGRES:
        assert max(map(len, found.heads)) == HEAD_BYTES
        assert len(found.whole(0, 1)[0]) > HEAD_BYTES


async def test_a_long_transcript_is_read_in_pages_and_backwards(tmp_path: Path) -> None:
    stored = transcript_at(tmp_path / "s-1.jsonl")
    transcript = await Transcript.load(stored, ManualClock(NOON))
    for number in range(700):
        await transcript.append("t", said(f"word {number}"), durable=number % 100 == 99)
    mark = Compacted(summary="so far", first_kept="t:690", tokens_before=9, tokens_after=3, model="m", reason="threshold")
    await transcript.append("c", mark)
    assert transcript.size == stored.stat().size

    def read() -> None:
        reader = TranscriptReader()
        assert reader.count(stored) == 701
        assert [one.body for one in reader.page(stored, 350, 2) if one] == [said("word 350"), said("word 351")]
        assert reader.number_of(stored, "t:3") == 3
        assert reader.base_of(stored, 700) == 690
        lines, following = reader.lines(stored, 0, 700)
        assert (len(lines), reader.lines(stored, following or 0, 700)[1]) == (700, None)
        assert len(list(stored.lines_backwards())) == 701

    await asyncio.to_thread(read)
    again = await Transcript.load(stored, ManualClock(NOON))
    assert [one.body for one in again.entries] == [*(said(f"word {n}") for n in range(690, 700)), mark]


async def test_conversations_are_listed_searched_archived_and_forgotten(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    for session, text in (("s-old", "the teal parrot is mine alone"), ("s-new", "good morning")):
        transcript = await Transcript.load(store.transcript(session), ManualClock(NOON))
        await transcript.append("open", Opened(agent="main", session=session, key=MAIN), n=0)
        await transcript.append("t", said(text, "Ann telegram:7, private"))
    await store.put(record(session="s-new"))

    def check() -> None:
        stores = {"main": store}
        assert [(one.session, one.record is None) for one in conversations(stores)] == [("s-new", False), ("s-old", True)]
        assert [row["about"] for row in rows(stores, everything=True)] == ["good morning", "the teal parrot is mine alone"]
        assert store.transcripts.put_away({"s-new"}, datetime.now(UTC) + timedelta(days=1)) == 1
        found = find(stores, "s-old")
        assert found is not None
        assert found.stored.archived
        (hits,) = search(conversations(stores), "parrot").results
        assert hits.found.session == "s-old"
        words = Words(Speaker(channel="telegram", id="7", name="Ann"))
        kept = [one.stored for one in conversations(stores)]
        lines = own_lines(kept, words)
        assert sum(take_out(one, words, lines) for one in kept) == 2
        assert all(b"parrot" not in one for stored in kept for one in stored.lines())
        assert sum(REMOVED.encode() in one for stored in kept for one in stored.lines()) == 2
        assert store.transcripts.trim(10_000) == []
        assert len(store.transcripts.trim(10)) == 1
        assert find(stores, "s-old") is None
        assert [name for name, _ in store.transcripts.searched().walk()] == ["s-new.jsonl"]

    await asyncio.to_thread(check)


def test_a_line_that_cannot_be_read_is_taken_out_and_the_former_lines_are_kept(tmp_path: Path) -> None:
    stored = transcript_at(tmp_path / "s-1.jsonl")
    stored.append(line(0, "one") + b"{nonsense}\n" + line(1, "two"))
    facts = repair(stored, NOON)
    assert (facts["lines"], facts["bad"]) == (3, 1)
    assert "bad-" in facts["kept"]
    assert b"".join(stored.lines()) == line(0, "one") + line(1, "two")
    assert repair(stored, NOON)["bad"] == 0
