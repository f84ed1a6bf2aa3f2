"""The SQLite files of OpenClaw, which since June 2026 hold what were files before: people, keys, cron jobs, sessions and transcripts.

Seen in a state folder that npm ``openclaw`` 2026.9.6 made (schema 18 of ``state/openclaw.sqlite``, 23 of
``agents/<id>/agent/openclaw-agent.sqlite``). They are only read: where a write-ahead log was left behind, a copy is read instead, since
SQLite would change the file.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import apsw

from gateway.migration.migration_report import Report

LARGEST_EVENT: Final = 4 * 1024 * 1024
"""What a compressed line of a transcript may become; OpenClaw compresses none that is larger."""

_LINES: Final = "SELECT event_json, event_zstd, event_utf8_bytes FROM transcript_events WHERE session_id = ? ORDER BY seq DESC"
_BRANCH: Final = (
    "SELECT e.event_json, e.event_zstd, e.event_utf8_bytes FROM transcript_events e"
    " JOIN session_transcript_active_events a ON a.session_id = e.session_id AND a.event_seq = e.seq"
    " WHERE e.session_id = ? ORDER BY e.seq DESC"
)


@dataclass(frozen=True, slots=True)
class StoredSession:
    """The current session of one key: its id, and the program's own record of it."""

    key: str
    session: str
    entry: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A cron job as JSON values. ``own`` is one that the program made for itself."""

    job: Mapping[str, Any]
    own: bool


class OpenClawDatabase:
    """One of the files. Every method raises ValueError where the file is damaged or laid out in another way."""

    def __init__(self, connection: apsw.Connection, name: str) -> None:
        self._connection = connection
        self._name = name

    def people(self, channel: str) -> list[str]:
        """Return the senders who were let in on a platform, in order."""
        sql = "SELECT entry FROM channel_pairing_allow_entries WHERE channel_key = ? ORDER BY sort_order, updated_at, entry"
        return [str(entry) for (entry,) in self._rows(sql, channel)]

    def shared_profiles(self) -> Any:
        """Return the keys that all agents have, laid out as ``auth-profiles.json`` was."""
        return self._json("SELECT value_json FROM config_machine_state WHERE state_key = 'authProfiles.store'")

    def own_profiles(self) -> Any:
        """Return the keys of one agent."""
        return self._json("SELECT store_json FROM auth_profile_store LIMIT 1")

    def jobs(self) -> list[StoredJob]:
        """Return the cron jobs, in order."""
        sql = "SELECT job_json, enabled, declaration_key IS NOT NULL FROM cron_jobs ORDER BY sort_order, job_id"
        return [StoredJob({**_object(text), "enabled": bool(enabled)}, bool(own)) for text, enabled, own in self._rows(sql)]

    def sessions(self) -> list[StoredSession]:
        """Return the current session of each key."""
        sql = "SELECT session_key, current_session_id, entry_json FROM session_nodes ORDER BY updated_at"
        return [StoredSession(str(key), str(session), _object(entry)) for key, session, entry in self._rows(sql)]

    def older(self) -> int:
        """Return how many sessions are no current one."""
        sql = "SELECT count(*) FROM session_windows WHERE session_id NOT IN (SELECT current_session_id FROM session_nodes)"
        return int(self._rows(sql)[0][0])

    def size(self, session: str) -> int:
        """Return the bytes of a session's transcript."""
        sql = "SELECT coalesce(sum(coalesce(event_utf8_bytes, length(event_json))), 0) FROM transcript_events WHERE session_id = ?"
        return int(self._rows(sql, session)[0][0])

    def set_aside(self, session: str) -> bool:
        """Return whether the messages of a session were moved to the program's cold archive."""
        return bool(self._rows("SELECT 1 FROM session_transcript_cold_archives WHERE session_id = ?", session))

    def follows_branch(self, session: str) -> bool:
        """Return whether the program noted up to the last line which lines are the branch that counts."""
        sql = (
            "SELECT (SELECT max(event_seq) FROM session_transcript_active_events WHERE session_id = ?1)"
            " = (SELECT max(seq) FROM transcript_events WHERE session_id = ?1)"
        )
        return bool(self._rows(sql, session)[0][0])

    def lines_backwards(self, session: str) -> Iterator[bytes | None]:
        """Yield the lines of a transcript, last one first; None for one that cannot be unpacked."""
        sql = _BRANCH if self.follows_branch(session) else _LINES
        with self._reading():
            for text, packed, size in self._connection.execute(sql, (session,)):
                yield str(text).encode() if text is not None else _unpacked(packed, size)

    def _json(self, sql: str) -> Any:
        rows = self._rows(sql)
        return _object(rows[0][0]) if rows else None

    def _rows(self, sql: str, *values: str) -> list[tuple[Any, ...]]:
        with self._reading():
            return list(self._connection.execute(sql, values))

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            raise ValueError(f"{self._name} cannot be read: {error}") from error


@contextmanager
def open_database(path: Path) -> Iterator[OpenClawDatabase | None]:
    """Open a file to read it; None if there is none.

    Raises:
        ValueError: it is no SQLite file.
        OSError: it cannot be read.
    """
    if not path.is_file():
        yield None
        return
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size:
        with tempfile.TemporaryDirectory(prefix="homebody-migrate-") as folder:
            copy = Path(shutil.copy(path, folder))
            shutil.copy(log, folder)
            with _connected(f"file:{quote(str(copy))}", path) as found:
                yield found
    else:
        with _connected(f"file:{quote(str(path))}?immutable=1", path) as found:
            yield found


@contextmanager
def reported(report: Report, kind: str, path: Path) -> Iterator[OpenClawDatabase | None]:
    """Open a file as ``open_database`` does; what is wrong with it, or found to be wrong while it is read, becomes a line of the report."""
    with ExitStack() as stack:
        found = None
        try:
            found = stack.enter_context(open_database(path))
        except (ValueError, OSError) as error:
            report.add(kind, str(path), "problem", str(error))
        try:
            yield found
        except ValueError as error:
            report.add(kind, str(path), "problem", str(error))


@contextmanager
def _connected(uri: str, path: Path) -> Iterator[OpenClawDatabase]:
    try:
        flags = apsw.SQLITE_OPEN_READONLY if "immutable" in uri else apsw.SQLITE_OPEN_READWRITE
        connection = apsw.Connection(uri, flags=flags | apsw.SQLITE_OPEN_URI)
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except apsw.Error as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    try:
        yield OpenClawDatabase(connection, path.name)
    finally:
        connection.close()


def _object(text: object) -> dict[str, Any]:
    try:
        found = json.loads(str(text))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _unpacked(packed: object, size: object) -> bytes | None:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    if not isinstance(packed, bytes) or not isinstance(size, int) or size > LARGEST_EVENT:
        return None
    try:
        return zstd.ZstdDecompressor().decompress(packed, max_length=size)
    except (zstd.ZstdError, EOFError):
        return None
