"""Sessions and transcripts in PostgreSQL, through the ledger that writes them: nothing lost, doubled or out of order, and moved whole."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import subprocess
import sys
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agent.errors import TranscriptWriteError
from agent.transcript.entries import Opened
from agent.transcript.transcript import Transcript
from gateway.base.clock import ManualClock
from gateway.base.errors import StorageFailed, UsageError
from gateway.base.paths import Paths
from gateway.ledger.sqlite import SqliteLedger
from gateway.settings.storage_settings import StorageSettings
from gateway.storage.moving import to_file, to_postgres
from gateway.storage.open_storage import Storage, open_storage
from tests import programs
from tests.ledger.test_kill import ROOT
from tests.peers.cut_line import CutLine
from tests.postgres.test_lost_connections import NOON, live
from tests.sessions.test_either_store import line, record, said

if TYPE_CHECKING:
    from agent.transcript.stored_transcript import StoredTranscript
    from tests.postgres_server import Server

pytestmark = [pytest.mark.postgres, pytest.mark.long]


def at(url: str) -> StorageSettings:
    return StorageSettings.model_validate({"url": url})


async def opened(url: str, home: Path) -> Storage:
    return await open_storage(Paths(home), at(url), ManualClock(NOON))


def texts(stored: StoredTranscript) -> list[str]:
    return [one.decode().partition('"text":"')[2].partition('"')[0] for one in stored.lines()]


@pytest.mark.parametrize("heard", [False, True], ids=["not heard", "heard"])
async def test_a_line_that_breaks_at_any_message_loses_and_doubles_no_entry(
    url: str, server: Server, tmp_path: Path, heard: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        cut = CutLine(Path(folder) / ".s.PGSQL.5432", server.folder / ".s.PGSQL.5432")
        cut.heard = heard
        storage = await opened(url.replace(str(server.folder), folder), tmp_path)
        store = storage.sessions("main")
        await store.load()
        transcript = await Transcript.load(store.transcript("s-main"), ManualClock(NOON))
        done = 0
        for number in range(30):
            await store.put(record(turns=number))
            await transcript.append("t", said(f"word {number}"))
            done += 1
            cut.cut = cut.messages + number % 8 + 1
        assert cut.broken >= 10
        cut.cut = None
        assert await asyncio.to_thread(texts, store.transcript("s-main")) == [f"word {n}" for n in range(done)]
        again = storage.sessions("main")
        await again.load()
        assert [one.turns for one in again.all()] == [29]
        await storage.close()
        cut.close()


async def test_a_gateway_that_wakes_after_another_took_over_writes_nothing(url: str, tmp_path: Path) -> None:
    import psycopg

    first = await opened(url, tmp_path)
    store = first.sessions("main")
    await store.load()
    await store.put(record())
    transcript = await Transcript.load(store.transcript("s-main"), ManualClock(NOON))
    await transcript.append("t", said("mine"))
    with psycopg.connect(url, autocommit=True) as admin:
        query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        for (pid,) in admin.execute(query).fetchall():
            admin.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))
    second = await opened(url, tmp_path)
    theirs = second.sessions("main")
    await theirs.load()
    await theirs.put(record(turns=7))
    other = await Transcript.load(theirs.transcript("s-main"), ManualClock(NOON))
    await other.append("t", said("theirs"))
    with pytest.raises(TranscriptWriteError, match="another gateway"):
        await transcript.append("t", said("too late"))
    with pytest.raises(StorageFailed, match="another gateway"):
        await store.put(record(turns=99))
    assert await asyncio.to_thread(texts, theirs.transcript("s-main")) == ["mine", "theirs"]
    again = second.sessions("main")
    await again.load()
    assert [one.turns for one in again.all()] == [7]
    await second.close()
    await first.close()


def test_what_was_acknowledged_is_there_after_kills(url: str, tmp_path: Path) -> None:
    dice = random.Random(20260301)
    told: list[str] = []
    for _ in range(12):
        command = [sys.executable, str(Path(__file__).with_name("appending.py")), url, str(tmp_path)]
        program = programs.start(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
        assert program.stdout is not None
        told += [program.stdout.readline().strip() for _ in range(1 + dice.randrange(6))]
        program.kill()
        told += map(str.strip, program.stdout)
        program.stdout.close()
        program.wait()

    async def check() -> None:
        storage = await opened(url, tmp_path)
        store = storage.sessions("main")
        await store.load()
        kept = await asyncio.to_thread(texts, store.transcript("s-main"))
        found = [int(one) for one in kept]
        assert found == list(range(len(found))), "in order, each once"
        acknowledged = [int(one) for one in told if one.isdecimal()]
        assert len(acknowledged) > 12
        assert set(acknowledged) <= set(found)
        (one,) = store.all()
        assert one.turns >= max(acknowledged)
        await storage.close()

    asyncio.run(check())


async def filled(home: Path) -> dict[str, bytes]:
    """Make a home with files of all kinds; return what has to come back, by path."""
    paths = Paths(home)
    paths.prepare()
    ledger = await SqliteLedger.open(paths.state / "ledger.sqlite", ManualClock(NOON))
    await live(ledger, 0)
    await ledger.close()
    storage = await open_storage(paths, StorageSettings(), ManualClock(NOON))
    for agent in ("main", "work"):
        store = storage.sessions(agent)
        await store.load()
        await store.put(record(f"agent:{agent}:main", turns=3, pins=("a\0b", "ü"), former="s-0", former_until=NOON))
        await store.put(record(f"agent:{agent}:other", session="s-x"))
        await store.change(f"agent:{agent}:main", verbose=True)
        for session in ("s-main", "s-old", "s-x"):
            transcript = await Transcript.load(store.transcript(session), ManualClock(NOON))
            await transcript.append("open", Opened(agent=agent, session=session, key=f"agent:{agent}:main"), n=0)
            for number in range(20):
                await transcript.append("t", said(f"word {number} of {session} \0"))
        kept = {"s-main", "s-x"}
        assert await asyncio.to_thread(store.transcripts.put_away, kept, NOON + timedelta(days=4000)) == 1
    await storage.close()
    with paths.sessions("main").joinpath("s-x.jsonl").open("ab") as file:
        file.write(b"{not a line}\n" + line(99, "whole, but for its end")[:-1])
    return stored_in(home)


def stored_in(home: Path) -> dict[str, bytes]:
    import gzip

    found = {}
    for path in sorted(Paths(home).agents.rglob("sessions/**/*.jsonl*")):
        data = path.read_bytes()
        found[str(path.relative_to(home))] = gzip.decompress(data) if path.suffix == ".gz" else data
    return found


async def records_in(home: Path) -> list[Any]:
    storage = await open_storage(Paths(home), StorageSettings(), ManualClock(NOON))
    found = []
    for agent in ("main", "work"):
        store = storage.sessions(agent)
        assert await store.load() == []
        found += sorted(store.all(), key=lambda one: one.key)
    await storage.close()
    return found


async def test_everything_goes_there_and_back_as_it_was(url: str, tmp_path: Path) -> None:
    before = await filled(tmp_path)
    paths, records = Paths(tmp_path), await records_in(tmp_path)
    trial = await asyncio.to_thread(to_postgres, paths, at(url), NOON, dry_run=True)
    assert (trial.rows["session"], trial.rows["transcript"]) == (4, 6)
    assert stored_in(tmp_path) == before
    moved = await asyncio.to_thread(to_postgres, paths, at(url), NOON, dry_run=False)
    assert moved.rows == trial.rows
    assert len(moved.former_folders) == 2
    assert stored_in(tmp_path) == {}
    storage = await opened(url, tmp_path)
    store = storage.sessions("main")
    await store.load()
    assert len(store) == 2
    transcript = await Transcript.load(store.transcript("s-main"), ManualClock(NOON))
    assert len(transcript.entries) == 21
    await storage.close()
    back = await asyncio.to_thread(to_file, paths, at(url), NOON, dry_run=False)
    assert (back.rows["session"], back.rows["transcript"], back.rows["transcript_line"]) == (4, 6, 128)
    torn = "agents/main/sessions/s-x.jsonl"
    assert stored_in(tmp_path) == before | {torn: before[torn] + b"\n"}
    assert await records_in(tmp_path) == records
    with pytest.raises(UsageError, match="already"):
        await asyncio.to_thread(to_file, paths, at(url), NOON, dry_run=False)


async def unclosed(home: Path) -> None:
    """Put a ledger in place that a killed gateway left: most of it is in its log."""
    ledger = await SqliteLedger.open(home / "elsewhere.sqlite", ManualClock(NOON))
    await live(ledger, 0)
    for side in ("", "-wal", "-open"):
        shutil.copyfile(home / f"elsewhere.sqlite{side}", Paths(home).state / f"ledger.sqlite{side}")
    await ledger.close()


@pytest.mark.parametrize("renamed", [(), ("",), ("", "-wal"), ("-wal",), ("-wal", "-open")], ids=str)
async def test_a_move_that_was_killed_while_files_were_renamed_is_finished_by_the_next(
    url: str, tmp_path: Path, renamed: tuple[str, ...]
) -> None:
    """The last two are what an earlier version left, which renamed the log before the file."""
    before = await filled(tmp_path)
    await unclosed(tmp_path)
    paths = Paths(tmp_path)
    moved = await asyncio.to_thread(to_postgres, paths, at(url), NOON, dry_run=False)
    assert moved.rows["inbox"] == 1
    file = paths.state / "ledger.sqlite"
    for side in ("", "-wal", "-open"):
        if side not in renamed:
            (tmp_path / f"{moved.former}{side}").rename(f"{file}{side}")
    (tmp_path / moved.former_folders[1]).rename(paths.sessions("work"))
    again = await asyncio.to_thread(to_postgres, paths, at(url), NOON + timedelta(hours=1), dry_run=False)
    assert again.former_folders
    assert not list(paths.state.glob("ledger.sqlite")) + list(paths.state.glob("ledger.sqlite-*"))
    [kept] = paths.state.glob("ledger.sqlite.moved-*Z")
    assert {one.name.removeprefix(kept.name) for one in paths.state.glob(f"{kept.name}*")} == {"", "-wal", "-open"}
    storage = await opened(url, tmp_path)
    assert (await storage.ledger.tally()).outbox == {"sent": 1}
    await storage.close()
    with pytest.raises(UsageError, match="no ledger") as told:
        await asyncio.to_thread(to_postgres, paths, at(url), NOON, dry_run=False)
    assert "nothing to move" in told.value.hint
    back = await asyncio.to_thread(to_file, paths, at(url), NOON, dry_run=False)
    assert back.rows["inbox"] == 1
    assert set(stored_in(tmp_path)) == set(before)


async def test_a_ledger_that_lacks_its_log_is_not_moved(url: str, tmp_path: Path) -> None:
    Paths(tmp_path).prepare()
    await unclosed(tmp_path)
    (Paths(tmp_path).state / "ledger.sqlite-wal").unlink()
    with pytest.raises(StorageFailed, match="damaged") as told:
        await asyncio.to_thread(to_postgres, Paths(tmp_path), at(url), NOON, dry_run=False)
    assert "without storage.url" in told.value.hint


async def test_a_trial_leaves_no_schema(url: str, tmp_path: Path) -> None:
    import psycopg

    await filled(tmp_path)
    await asyncio.to_thread(to_postgres, Paths(tmp_path), at(url), NOON, dry_run=True)
    with psycopg.connect(url) as there:
        assert there.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'homebody'").fetchone() is None


class Ended(BaseException):
    """What a migration is ended by."""


async def test_a_move_that_ends_anywhere_leaves_the_source_as_it_was(url: str, tmp_path: Path) -> None:
    before = await filled(tmp_path)
    paths = Paths(tmp_path)

    def ending(after: int) -> Any:
        left = iter(range(after))

        def told(_table: str, _rows: int) -> None:
            if next(left, None) is None:
                raise Ended

        return told

    calls: list[str] = []
    await asyncio.to_thread(to_postgres, paths, at(url), NOON, dry_run=True, told=lambda table, _rows: calls.append(table))
    assert calls.count("transcript_line") == 6
    for after in range(0, len(calls), 3):
        with pytest.raises(Ended):
            await asyncio.to_thread(to_postgres, paths, at(url), NOON, dry_run=False, told=ending(after))
        assert stored_in(tmp_path) == before
        assert (paths.state / "ledger.sqlite").exists()
    await asyncio.to_thread(to_postgres, paths, at(url), NOON, dry_run=False)
    calls.clear()
    await asyncio.to_thread(to_file, paths, at(url), NOON, dry_run=True, told=lambda table, _rows: calls.append(table))
    assert calls.count("transcript_line") == 6
    for after in range(0, len(calls), 3):
        with pytest.raises(Ended):
            await asyncio.to_thread(to_file, paths, at(url), NOON, dry_run=False, told=ending(after))
        assert stored_in(tmp_path) == {}
        assert not (paths.state / "ledger.sqlite").exists()
        assert not list(paths.agents.glob("*/sessions.moving"))
    await asyncio.to_thread(to_file, paths, at(url), NOON, dry_run=False)
    assert set(stored_in(tmp_path)) == set(before)


def everything_in(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


async def test_a_move_to_files_writes_nothing_while_a_gateway_uses_the_database_or_where_it_cannot_be_left(
    url: str, tmp_path: Path
) -> None:
    import psycopg

    before, paths = await filled(tmp_path), Paths(tmp_path)
    await asyncio.to_thread(to_postgres, paths, at(url), NOON, dry_run=False)
    there = everything_in(tmp_path)
    storage = await opened(url, tmp_path)
    opened_there = everything_in(tmp_path)
    with pytest.raises(StorageFailed, match="another gateway uses this database") as told:
        await asyncio.to_thread(to_file, paths, at(url), NOON, dry_run=False)
    assert "Stop every gateway" in told.value.hint
    await storage.close()
    assert everything_in(tmp_path) == opened_there
    await (await opened(url, tmp_path)).close()
    with psycopg.connect(url, autocommit=True) as admin:
        taken = f"homebody_moved_{NOON:%Y%m%d_%H%M%S}"
        admin.execute(f"CREATE SCHEMA {taken}".encode())
        with pytest.raises(psycopg.errors.DuplicateSchema):
            await asyncio.to_thread(to_file, paths, at(url), NOON, dry_run=False)
        assert everything_in(tmp_path) == there
        admin.execute(f"DROP SCHEMA {taken}".encode())
    await asyncio.to_thread(to_file, paths, at(url), NOON, dry_run=False)
    assert set(stored_in(tmp_path)) == set(before)


@pytest.mark.parametrize("heard", [True, False])
async def test_a_move_to_files_whose_last_answer_is_lost_is_whole_or_undone(url: str, tmp_path: Path, heard: bool) -> None:
    """The connection ends at the commit: before the server heard it, or after."""
    import psycopg

    from gateway.ledger.postgres.transfer import held_alone, rename

    await filled(tmp_path)
    await asyncio.to_thread(to_postgres, Paths(tmp_path), at(url), NOON, dry_run=False)
    undone: list[str] = []

    def leave() -> None:
        with held_alone(url, "homebody") as there:

            def put() -> Any:
                there.execute("COMMIT" if heard else "SELECT 1")
                with psycopg.connect(url, autocommit=True) as admin:
                    admin.execute("SELECT pg_terminate_backend(%s, 5000)", (there.info.backend_pid,))
                return lambda: undone.append("files")

            rename(there, url, "homebody", "homebody_moved", put)

    if heard:
        await asyncio.to_thread(leave)
    else:
        with pytest.raises(StorageFailed):
            await asyncio.to_thread(leave)
    assert undone == ([] if heard else ["files"])
    with psycopg.connect(url) as look:
        found = look.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'homebody%'").fetchall()
    names = {str(name) for (name,) in found}
    assert ("homebody_moved" in names, "homebody" in names) == (heard, not heard)


async def test_conversations_follow_a_ledger_that_was_moved_before(url: str, tmp_path: Path) -> None:
    """A home whose ledger an earlier version moved: no gateway starts until its conversations are there, too."""
    await filled(tmp_path)
    paths = Paths(tmp_path)
    (paths.state / "ledger.sqlite").rename(paths.state / "elsewhere")
    with pytest.raises(StorageFailed, match="conversations in files, too") as told:
        await opened(url, tmp_path)
    assert "storage migrate --to postgresql" in told.value.hint
    moved = await asyncio.to_thread(to_postgres, paths, at(url), NOON, dry_run=False)
    assert (moved.rows["session"], moved.former) == (4, "")
    storage = await opened(url, tmp_path)
    store = storage.sessions("main")
    await store.load()
    await store.change("agent:main:main", turns=4)
    await storage.close()
    (tmp_path / moved.former_folders[0]).rename(paths.sessions("main"))
    with pytest.raises(StorageFailed, match="conversations of the agent main already"):
        await asyncio.to_thread(to_postgres, paths, at(url), NOON, dry_run=False)


async def test_a_second_home_on_one_schema_is_warned_once(url: str, tmp_path: Path) -> None:
    for home, warned in (("one", False), ("one", False), ("two", True), ("two", False)):
        storage = await opened(url, tmp_path / home)
        warning = storage.ledger.warning or ""
        assert (f"{tmp_path}/one" in warning and "storage.schemaName" in warning) == warned
        await storage.close()


async def test_a_database_that_is_away_is_no_empty_conversation(url: str, server: Server, tmp_path: Path) -> None:
    storage = await opened(url, tmp_path)
    store = storage.sessions("main")
    await store.load()
    transcript = await Transcript.load(store.transcript("s-main"), ManualClock(NOON))
    await transcript.append("t", said("here"))
    await asyncio.to_thread(texts, store.transcript("s-main"))
    server.stop()
    try:
        for read in (
            store.transcript("s-main").exists,
            store.transcripts.all,
            lambda: list(store.transcript("s-main").lines()),
        ):
            with pytest.raises(OSError, match="could not be used"):
                await asyncio.to_thread(read)
        with pytest.raises(TranscriptWriteError):
            await transcript.append("t", said("refused"))
        with pytest.raises(StorageFailed):
            await store.load()
    finally:
        server.start()
    while True:
        try:
            await transcript.append("t", said("later"))
        except TranscriptWriteError:  # attempts to connect are some time apart
            await asyncio.sleep(0.05)
        else:
            break
    assert await asyncio.to_thread(texts, store.transcript("s-main")) == ["here", "later"]
    await storage.close()
