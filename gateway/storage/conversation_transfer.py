"""Copies all sessions and transcripts between folders and PostgreSQL, and compares each afterwards."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from agent.transcript.entries import InvalidEntry, decode
from agent.transcript.transcript_file import SUFFIX
from gateway.base.atomic_file import sync, write_synced
from gateway.base.errors import StorageFailed
from gateway.ledger.postgres.postgres_connection import PostgresDatabase
from gateway.sessions.sessions_file import Damaged, Records, SessionFile, from_json
from gateway.sessions.transcript_folder import TranscriptFolder
from gateway.storage.session_table import to_text
from gateway.storage.transcript_table import append

if TYPE_CHECKING:
    import psycopg

Counts = dict[str, int]
Told = Callable[[str, int], None]
TABLES: Final = ("session", "transcript", "transcript_line")
_STARTED: Final = "Start the gateway once without storage.url, which mends it, or run homebody doctor."
_LINES: Final = "SELECT line FROM transcript_line WHERE transcript = ? ORDER BY place"


def into_tables(folders: list[Path], there: psycopg.Connection[Any], told: Told = lambda *_: None) -> Counts:
    """Write the agents' folders of sessions into tables that hold nothing of them, or the same, in the caller's transaction.

    Raises:
        StorageFailed: a folder cannot be read, the tables hold something of its agent, or what was written differs.
    """
    db, counts = PostgresDatabase(there), dict.fromkeys(TABLES, 0)
    for folder in folders:
        agent = folder.parent.name
        records, held = _records(folder), _holds_any(db, agent)
        counts["session"] += len(records)
        if not held:
            for key, record in records.items():
                db.execute("INSERT INTO session (agent, key, record) VALUES (?, ?, ?)", (agent, key, to_text(record)))
            told("session", counts["session"])
        for session, state, data, written in _transcripts(folder):
            counts["transcript"] += 1
            counts["transcript_line"] += data.count(b"\n")
            if not held:
                _add(db, (agent, session), state, data, written)
                told("transcript_line", counts["transcript_line"])
        try:
            _compare(db, agent, folder, records)
        except StorageFailed as error:
            raise (_others(agent, folder) if held else error) from error
    return counts


def _holds_any(db: PostgresDatabase, agent: str) -> bool:
    query = "SELECT 1 FROM session WHERE agent = ? UNION ALL SELECT 1 FROM transcript WHERE agent = ? LIMIT 1"
    return db.execute(query, (agent, agent)).fetchone() is not None


def _others(agent: str, folder: Path) -> StorageFailed:
    return StorageFailed(
        f"the database holds conversations of the agent {agent} already, which are not those in the folder",
        where=str(folder),
        hint="Move the folder away, or name an empty schema: homebody config set storage.schemaName NAME",
    )


def into_folders(there: psycopg.Connection[Any], agents: Path, name: str, told: Told = lambda *_: None) -> Counts:
    """Write sessions and transcripts of all agents as files into ``agents/AGENT/name``, which must not exist. Blocking.

    Raises:
        StorageFailed: something cannot be written, or what was written differs.
    """
    db, counts = PostgresDatabase(there), dict.fromkeys(TABLES, 0)
    if db.execute("SELECT to_regclass('transcript')").fetchone() in {None, (None,)}:
        return {}  # of an earlier version
    for (agent,) in db.execute("SELECT agent FROM session UNION SELECT agent FROM transcript ORDER BY 1").fetchall():
        folder = agents / _plain(agent) / name
        folder.mkdir(mode=0o700, parents=True)
        records: Records = {}
        for key, text in db.execute("SELECT key, record FROM session WHERE agent = ? ORDER BY key", (agent,)):
            records[key] = from_json(key, json.loads(text))
        SessionFile(folder).fold(records)
        counts["session"] += len(records)
        told("session", counts["session"])
        heads = "SELECT id, session, state, written_at FROM transcript WHERE agent = ? ORDER BY id"
        for number, session, state, written in db.execute(heads, (agent,)).fetchall():
            data = b"".join(line + b"\n" for (line,) in db.execute(_LINES, (number,)))
            _write(folder, _plain(session), state, data, written)
            counts["transcript"] += 1
            counts["transcript_line"] += data.count(b"\n")
            told("transcript_line", counts["transcript_line"])
        _compare(db, agent, folder, _records(folder))
        sync(folder)
    return counts


def _records(folder: Path) -> Records:
    file = SessionFile(folder)
    try:
        records = file.read()
    except FileNotFoundError:
        return {}
    except Damaged as error:
        raise StorageFailed(f"the list of sessions cannot be read: {error}", where=str(file.path), hint=_STARTED) from error
    if file.unreadable:
        raise StorageFailed("some changes of sessions cannot be read", where=f"{file.path}.changes", hint=_STARTED)
    return records


def _transcripts(folder: Path) -> Iterator[tuple[str, str, bytes, int]]:
    """Yield session, state, whole lines and the time of writing; of two of one session the one that was not archived."""
    found = sorted(TranscriptFolder(folder).all(), key=lambda one: (one[0].session, one[0].archived))
    before = None
    for stored, stat in found:
        if stored.session != before:
            try:
                data = _whole(b"".join(stored.lines()))
            except OSError as error:
                raise StorageFailed.from_os(error, "read the transcript", stored.where) from error
            yield stored.session, "archived" if stored.archived else "open", data, stat.written_ns // 1000
        before = stored.session


def _whole(data: bytes) -> bytes:
    """Return the whole lines; a last one that lacks nothing but its end is one. What was torn off stays in the folder alone."""
    end = data.rfind(b"\n") + 1
    try:
        decode(data[end:])
    except InvalidEntry:
        return data[:end]
    return data + b"\n"


def _add(db: PostgresDatabase, key: tuple[str, str], state: str, data: bytes, written: int) -> None:
    append(db, key, data, written)
    if data:
        db.execute("UPDATE transcript SET state = ? WHERE agent = ? AND session = ?", (state, *key))
    else:
        insert = "INSERT INTO transcript (agent, session, state, size, written_at) VALUES (?, ?, ?, 0, ?)"
        db.execute(insert, (*key, state, written))


def _write(folder: Path, session: str, state: str, data: bytes, written: int) -> None:
    path = folder / f"{session}{SUFFIX}"
    if state == "aside":
        session, _, ending = session.partition(".")
        path = folder / f"{session}{SUFFIX}.{ending}"
    elif state == "archived":
        path = folder / "archive" / f"{session}{SUFFIX}.gz"
        path.parent.mkdir(mode=0o700, exist_ok=True)
        data = gzip.compress(data, mtime=0)
    write_synced(path, data)
    os.utime(path, ns=(written * 1000, written * 1000))


def _compare(db: PostgresDatabase, agent: str, folder: Path, records: Records) -> None:
    """Raise StorageFailed for the first session or transcript that is not the same on both sides."""
    stored = dict(db.execute("SELECT key, record FROM session WHERE agent = ?", (agent,)).fetchall())
    for key in {**stored, **records}:
        if key not in stored or key not in records or from_json(key, json.loads(stored[key])) != records[key]:
            raise _differs(f"the session {key} of {agent}", folder)
    heads = db.execute("SELECT session, id, size FROM transcript WHERE agent = ? AND state <> 'aside'", (agent,)).fetchall()
    left = {session: (number, size) for session, number, size in heads}
    for session, _, data, _ in _transcripts(folder):
        number, size = left.pop(session, (0, -1))
        there = b"".join(line + b"\n" for (line,) in db.execute(_LINES, (number,)))
        if there != data or size != len(data):
            raise _differs(f"the transcript {session} of {agent}", folder)
    for session in left:
        raise _differs(f"the transcript {session} of {agent}", folder)


def _differs(what: str, folder: Path) -> StorageFailed:
    return StorageFailed(f"{what} is not the same on both sides", where=str(folder), hint="Nothing was changed.")


def _plain(name: str) -> str:
    """Return a name as that of a file. Raises StorageFailed for one that is none."""
    if not name or name.startswith(".") or "/" in name or "\0" in name:
        raise StorageFailed(f"{name!r} cannot be the name of a file", where="PostgreSQL")
    return name
