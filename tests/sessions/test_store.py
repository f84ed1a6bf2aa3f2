from __future__ import annotations

import asyncio
import json
import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.transcript.entries import Opened
from agent.transcript.transcript import Transcript
from agent.transcript.transcript_file import TranscriptFile
from gateway.base.clock import ManualClock
from gateway.base.errors import StorageFailed
from gateway.sessions import sessions_file as session_file
from gateway.sessions.sessions_file import SessionRecord, all_to_json, from_json, to_json
from gateway.sessions.store import StoredSessions, sessions_in
from gateway.sessions.transcript_folder import TranscriptFolder
from tests.full_disk import no_file_may_hold_more_than
from tests.properties import examples

if TYPE_CHECKING:
    from pathlib import Path

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def record(key: str = "agent:main:main", **more: Any) -> SessionRecord:
    return SessionRecord(**({"session": f"s-{key[-4:]}", "key": key, "started": NOON, "spoken": NOON} | more))


async def opened(folder: Path) -> StoredSessions:
    store = sessions_in(folder, ManualClock(NOON))
    store.notices = await store.load()
    return store


def edit(folder: Path, change: Any) -> None:
    """Edit sessions.json as an owner does: read, change, save."""
    path = folder / "sessions.json"
    raw = json.loads(path.read_text())
    change(raw["sessions"])
    path.write_text(json.dumps(raw, indent=2))
    os.utime(path, ns=(1, path.stat().st_mtime_ns + 1_000_000))


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def damage(path: Path, data: bytes) -> None:
    path.write_bytes(data)


async def test_a_change_costs_one_line_however_many_sessions_there_are(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    for n in range(600):
        await store.put(record(f"agent:main:s{n}"))
    await store.fold()
    stamp = (tmp_path / "sessions.json").stat().st_mtime_ns
    await store.change("agent:main:s7", turns=1)
    assert (tmp_path / "sessions.json").stat().st_mtime_ns == stamp
    assert (tmp_path / "sessions.json.changes").stat().st_size < 200


async def test_what_changes_all_the_time_is_written_soon_and_together(tmp_path: Path) -> None:
    store = sessions_in(tmp_path, ManualClock(NOON), soon=0.01)
    await store.load()
    told: list[int] = []
    store.changed = lambda one: told.append(one.turns)
    await store.put(record())
    await store.put(record("agent:main:other"))
    before = (tmp_path / "sessions.json.changes").read_bytes()
    for turns in (1, 2, 3):
        store.change_soon("agent:main:main", turns=turns)
    store.change_soon("agent:main:other", turns=7)
    assert (tmp_path / "sessions.json.changes").read_bytes() == before
    assert told == [0, 0, 1, 2, 3, 7]
    for _ in range(1000):
        if (tmp_path / "sessions.json.changes").read_bytes() != before:
            break
        await asyncio.sleep(0.01)
    lines = (tmp_path / "sessions.json.changes").read_bytes().removeprefix(before).splitlines()
    assert sorted(json.loads(line)["set"]["turns"] for line in lines) == [3, 7]
    again = await opened(tmp_path)
    assert [one.turns for one in (again.get("agent:main:main"), again.get("agent:main:other")) if one] == [3, 7]


class Counted(session_file.SessionFile):
    """A table that counts how often it is written, and fails where it is to."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.writes = 0
        self.full = False

    def append(self, changed: Any) -> None:
        if self.full:
            raise OSError(28, "No space left on device")
        self.writes += 1
        super().append(changed)


async def test_sessions_that_begin_at_the_same_time_share_a_write(tmp_path: Path) -> None:
    table = Counted(tmp_path)
    store = StoredSessions(table, TranscriptFolder(tmp_path), ManualClock(NOON))
    await store.load()
    keys = [f"agent:main:s{n}" for n in range(100)]
    await asyncio.gather(*(store.put(record(key)) for key in keys), *(store.change(key, turns=1) for key in keys))
    assert table.writes <= 3
    again = await opened(tmp_path)
    assert {one.key: one.turns for one in again.all()} == dict.fromkeys(keys, 1)


async def test_of_sessions_that_share_a_write_only_one_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    results = await asyncio.gather(
        store.put(record("agent:main:a")),
        store.change("agent:main:none", turns=1),
        store.put(record("agent:main:b")),
        return_exceptions=True,
    )
    assert [type(one) for one in results] == [type(None), KeyError, type(None)]
    assert len(await opened(tmp_path)) == 2


async def test_a_full_disk_changes_none_of_the_sessions_that_share_a_write(tmp_path: Path) -> None:
    table = Counted(tmp_path)
    store = StoredSessions(table, TranscriptFolder(tmp_path), ManualClock(NOON))
    await store.load()
    await store.put(record("agent:main:a", turns=1))
    table.full = True
    results = await asyncio.gather(
        store.change("agent:main:a", turns=2),
        store.change("agent:main:a", turns=3),
        store.put(record("agent:main:b")),
        return_exceptions=True,
    )
    assert all(isinstance(one, StorageFailed) for one in results)
    assert [(one.key, one.turns) for one in store.all()] == [("agent:main:a", 1)]
    table.full = False
    await store.put(record("agent:main:c"))
    assert {one.key: one.turns for one in (await opened(tmp_path)).all()} == {"agent:main:a": 1, "agent:main:c": 0}


async def test_who_stops_waiting_for_a_session_keeps_nobody_else_waiting(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    waiting = [asyncio.create_task(store.put(record(f"agent:main:s{n}"))) for n in range(5)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    waiting[3].cancel()
    results = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 20)
    assert [one for n, one in enumerate(results) if n not in {0, 3}] == [None] * 3
    await store.put(record("agent:main:later"))
    assert {"agent:main:s1", "agent:main:s2", "agent:main:s4", "agent:main:later"} <= {one.key for one in store.all()}


async def test_many_changes_are_folded_and_the_predecessor_is_kept(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    for n in range(session_file.FOLD_AT + 5):
        await store.put(record(turns=n + 1))
    assert json.loads((tmp_path / "sessions.json").read_text())["sessions"]["agent:main:main"]["turns"] == session_file.FOLD_AT
    await store.fold()
    assert (tmp_path / "sessions.json.prev").exists()
    assert (await opened(tmp_path)).get("agent:main:main").turns == session_file.FOLD_AT + 5


async def test_an_edit_by_hand_while_the_house_runs_is_taken_over_and_nothing_else_is_lost(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.put(record(turns=3))
    await store.put(record("agent:main:gone"))
    await store.put(record("agent:main:busy"))
    await store.fold()
    await store.change("agent:main:main", turns=4)
    store.note("agent:main:busy", spoken=NOON + timedelta(hours=1))

    def change(sessions: Any) -> None:
        sessions["agent:main:main"]["model"] = "anthropic/claude-opus-4-5"
        del sessions["agent:main:gone"], sessions["agent:main:busy"]
        sessions["agent:main:new"] = to_json(record("agent:main:new", session="s-new"))

    edit(tmp_path, change)
    await store.refresh()
    main = store.get("agent:main:main")
    assert (main.turns, main.model) == (4, "anthropic/claude-opus-4-5")
    assert store.get("agent:main:gone") is None
    assert store.get("agent:main:busy") is not None, "somebody spoke in it meanwhile"
    assert store.get("agent:main:new").session == "s-new"
    assert (await opened(tmp_path)).get("agent:main:main") == main


async def test_a_put_notices_the_edit_too(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.put(record())
    await store.fold()
    edit(tmp_path, lambda sessions: sessions["agent:main:main"].update(verbose=True))
    await store.change("agent:main:main", turns=1)
    again = (await opened(tmp_path)).get("agent:main:main")
    assert (again.verbose, again.turns) == (True, 1)


async def test_an_edit_that_cannot_be_read_is_set_aside_and_nothing_is_lost(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.put(record(turns=3))
    await store.fold()
    await store.change("agent:main:main", turns=4)
    damage(tmp_path / "sessions.json", b'{"sessions": {"agent:main:main": {')
    await store.refresh()
    assert store.get("agent:main:main").turns == 4
    assert any(name.startswith("sessions.json.bad-") for name in names(tmp_path))
    assert (await opened(tmp_path)).get("agent:main:main").turns == 4


async def test_an_edit_while_the_house_stands_still_holds(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.put(record(turns=3))
    await store.fold()
    await store.change("agent:main:main", turns=4)
    edit(tmp_path, lambda sessions: sessions["agent:main:main"].update(model="scripted/other"))
    again = await opened(tmp_path)
    assert (again.get("agent:main:main").turns, again.get("agent:main:main").model) == (4, "scripted/other")


@pytest.mark.parametrize("bad", [b"", b"{", b"[]", b'{"sessions": {"k": {"sessionId": "x"}}}', b"\xff\xfe"])
async def test_a_damaged_file_is_made_good_by_its_predecessor_and_the_changes(tmp_path: Path, bad: bytes) -> None:
    store = await opened(tmp_path)
    await store.put(record(turns=1))
    await store.fold()
    await store.change("agent:main:main", turns=2)
    await store.fold()
    await store.change("agent:main:main", turns=3)
    damage(tmp_path / "sessions.json", bad)
    again = await opened(tmp_path)
    assert again.get("agent:main:main").turns == 3
    assert "was renamed to" in again.notices[0]


async def test_without_both_files_sessions_are_found_by_their_transcripts(tmp_path: Path) -> None:
    transcript = await Transcript.load(TranscriptFile(tmp_path / "s-1.jsonl"), ManualClock(NOON))
    await transcript.append("open", Opened(agent="main", session="s-1", key="agent:main:main"), n=0)
    (tmp_path / "sessions.json").write_text("{")
    (tmp_path / "sessions.json.prev").write_text("{")
    store = await opened(tmp_path)
    assert store.get("agent:main:main").session == "s-1"
    assert "rebuilt from their transcripts" in store.notices[-1]


async def test_a_full_disk_is_told_and_the_former_state_stands(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.put(record())
    (tmp_path / "sessions.json.changes").unlink()
    (tmp_path / "sessions.json.changes").mkdir()
    with pytest.raises(StorageFailed):
        await store.change("agent:main:main", turns=9)
    assert store.get("agent:main:main").turns == 0


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("put"), st.integers(0, 3), st.integers(0, 9)),
            st.tuples(st.just("remove"), st.integers(0, 3), st.just(0)),
            st.tuples(st.just("fold"), st.just(0), st.just(0)),
        ),
        max_size=30,
    ),
    st.integers(0, 120),
)
def test_a_torn_last_line_loses_only_the_last_change(tmp_path_factory: Any, steps: list[Any], torn: int) -> None:
    folder = tmp_path_factory.mktemp("store")

    async def check() -> None:
        store = await opened(folder)
        states = [store.all()]
        for what, n, turns in steps:
            if what == "put":
                await store.put(record(f"agent:main:s{n}", turns=turns))
            elif what == "remove":
                await store.remove(f"agent:main:s{n}")
            else:
                await store.fold()
            if store.all() != states[-1]:
                states.append(store.all())
        changes = folder / "sessions.json.changes"
        if torn and changes.exists() and steps[-1][0] != "fold":
            data = changes.read_bytes()
            last = data.rstrip(b"\n").rfind(b"\n") + 1
            changes.write_bytes(data[: max(last, len(data) - torn)])
        again = await opened(folder)
        found = sorted(again.all(), key=lambda r: r.key)
        known = [sorted(state, key=lambda r: r.key) for state in states]
        assert found in known[-2:]
        await again.put(record("agent:main:after"))
        assert (await opened(folder)).get("agent:main:after") is not None, "a torn tail spoils nothing that comes after it"

    asyncio.run(check())


@given(
    st.builds(
        SessionRecord,
        session=st.text(max_size=9),
        key=st.just("k"),
        started=st.just(NOON),
        spoken=st.just(NOON),
        verbose=st.booleans(),
        turns=st.integers(0, 99),
        pins=st.lists(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=9), max_size=3).map(tuple),
        former_until=st.one_of(st.none(), st.just(NOON)),
    )
)
def test_a_record_reads_back_as_it_was(one: SessionRecord) -> None:
    assert from_json("k", json.loads(json.dumps(to_json(one) | {"sessionId": one.session}))) == one
    assert from_json("k", all_to_json(one)) == one
    assert from_json("k", to_json(replace(one, session="x")) | {"later": 1}).session == "x"


def test_old_transcripts_are_packed_and_deleted_only_for_want_of_space(tmp_path: Path) -> None:
    import gzip

    archive = TranscriptFolder(tmp_path)
    for n in range(4):
        path = tmp_path / f"s-{n}.jsonl"
        path.write_bytes(os.urandom(1000))
        os.utime(path, (1000 + n, 1000 + n))
    texts = {n: (tmp_path / f"s-{n}.jsonl").read_bytes() for n in range(4)}
    assert archive.put_away({"s-3"}, datetime.fromtimestamp(1002, tz=UTC)) == 2
    assert sorted(path.name for path in tmp_path.glob("*.jsonl")) == ["s-2.jsonl", "s-3.jsonl"]
    assert gzip.decompress((archive.archive / "s-0.jsonl.gz").read_bytes()) == texts[0]
    assert archive.trim(10_000) == []
    assert archive.trim(1500) == ["s-0.jsonl.gz"]
    assert TranscriptFolder(tmp_path / "nowhere").trim(1) == []


@pytest.mark.parametrize("room", [0, 1, 10, 60])
async def test_a_change_that_is_taken_in_part_leaves_nothing_and_costs_no_later_one(tmp_path: Path, room: int) -> None:
    store = await opened(tmp_path)
    await store.put(record("agent:main:a"))
    changes = tmp_path / "sessions.json.changes"
    size = os.stat(changes).st_size  # noqa: PTH116
    with no_file_may_hold_more_than(size + room), pytest.raises(StorageFailed):
        await store.put(record("agent:main:b", model="x" * 200))
    assert os.stat(changes).st_size == size  # noqa: PTH116
    await store.put(record("agent:main:c"))
    again = await opened(tmp_path)
    assert {one.key for one in again.all()} == {"agent:main:a", "agent:main:c"}
    assert again.notices == []


@pytest.mark.parametrize("flip", ["the key", "a value", "the braces", "the checksum"])
async def test_a_line_of_changes_that_cannot_be_read_is_told_and_its_session_found_by_its_transcript(
    tmp_path: Path, flip: str
) -> None:
    store = await opened(tmp_path)
    await store.put(record("agent:main:a", session="s-a"))
    await store.put(record("agent:main:b", session="s-b", verbose=True))
    for key, session in (("agent:main:a", "s-a"), ("agent:main:b", "s-b")):
        transcript = await Transcript.load(TranscriptFile(tmp_path / f"{session}.jsonl"), ManualClock(NOON))
        await transcript.append("open", Opened(agent="main", session=session, key=key), n=0)
    changes = tmp_path / "sessions.json.changes"
    first, second = changes.read_bytes().splitlines(keepends=True)
    at = {
        "the key": first.index(b"main:a"),
        "a value": first.index(b"s-a") + 2,
        "the braces": 0,
        "the checksum": len(first) - 3,
    }
    harmed = bytearray(first)
    harmed[at[flip]] ^= 1
    damage(changes, bytes(harmed) + second)
    again = await opened(tmp_path)
    assert {one.key: one.session for one in again.all()} == {"agent:main:a": "s-a", "agent:main:b": "s-b"}
    (told,) = again.notices
    assert "1 change in" in told
    assert "sessions.json.changes.bad-" in told
    assert (await opened(tmp_path)).notices == [], "told once"


async def test_a_session_that_was_begun_in_a_line_that_is_gone_is_the_one_that_goes_on(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.put(record("agent:main:a", session="s-old"))
    await store.put(record("agent:main:a", session="s-new", started=NOON + timedelta(hours=1)))
    for hours, session in enumerate(("s-old", "s-new")):
        transcript = await Transcript.load(
            TranscriptFile(tmp_path / f"{session}.jsonl"), ManualClock(NOON + timedelta(hours=hours))
        )
        await transcript.append("open", Opened(agent="main", session=session, key="agent:main:a"), n=0)
    changes = tmp_path / "sessions.json.changes"
    first, second = changes.read_bytes().splitlines(keepends=True)
    damage(changes, first + second.replace(b"s-new", b"s-nfw"))
    assert [one.session for one in (await opened(tmp_path)).all()] == ["s-new"]


async def test_changes_of_an_earlier_version_are_read_without_their_checksum(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.put(record("agent:main:a"))
    changes = tmp_path / "sessions.json.changes"
    damage(changes, changes.read_bytes().rpartition(b',"crc":')[0] + b"}\n")
    again = await opened(tmp_path)
    assert ([one.key for one in again.all()], again.notices) == (["agent:main:a"], [])
