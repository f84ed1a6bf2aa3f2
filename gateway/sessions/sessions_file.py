"""``sessions.json``: the record of each session and, beside the file, what changed since it was written.

A change costs one line in ``sessions.json.changes``, however many sessions there are; now and then the lines are folded into
the file, which is replaced whole and atomically. Both predecessors are kept (``.prev``), so that either file may be lost. Lines
hold changed fields only, so an edit by hand of other fields while no gateway runs is kept. An edit while one
runs is detected by the file's stamp and merged field by field.
"""

from __future__ import annotations

import json
import logging
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import fields

from agent import fault_injection
from agent.transcript.transcript_file import append_synced
from gateway.base.atomic_file import sync, write_synced

log = logging.getLogger(__name__)


class SessionRecord(Struct, frozen=True, kw_only=True):
    """One session. Instants have a zone.

    ``address`` is the conversation that it last spoke with, ``elsewhere`` are those on other accounts, the
    latest first. ``greeted`` says that its owner was told of the fresh start.
    ``former`` is the session that it took over from, which ``/undo`` brings back until ``former_until``. ``unsaved`` is a
    former session whose session-memory file is still to be written. ``last_flush`` tells the latest receipt in a line.
    ``pins`` are what the session takes over from the one before it. ``made_by`` is the message whose command brought this state
    about, so that the command is not carried out again when a crash made its answer be lost. ``fallback_of`` is the model that
    answered last, where that was not the one that was chosen. ``queue`` is what was chosen with ``/queue``. ``space``
    is the server or workspace that the conversation lies in. ``noted`` says what became of what mattered in ``former``.
    ``voice`` is what was chosen with ``/voice``: "on", "off" or nothing.
    ``audience`` is who may read an isolated session that is not the owner's, as ``kind:key``: other keys say it themselves.
    """

    session: str
    key: str
    started: datetime
    spoken: datetime
    address: str = ""
    elsewhere: tuple[str, ...] = ()
    model: str | None = None
    thinking: str | None = None
    reasoning: bool = False
    fallback_of: str = ""
    verbose: bool = False
    voice: str = ""
    queue: str = ""
    space: str = ""
    turns: int = 0
    greeted: bool = False
    compactions: int = 0
    last_flush: str = ""
    former: str | None = None
    former_until: datetime | None = None
    unsaved: str | None = None
    pins: tuple[str, ...] = ()
    made_by: str = ""
    noted: str = ""
    audience: str = ""


MOST_ELSEWHERE: Final = 20
_NAMES = {"session": "sessionId", "started": "startedAt", "spoken": "lastInteractionAt", "last_flush": "lastFlush"}
_INSTANTS = {"started", "spoken", "former_until"}
_FIELDS = {_NAMES.get(spec.name, spec.name): spec.name for spec in fields(SessionRecord) if spec.name != "key"}


def conversations_elsewhere(record: SessionRecord, address: str) -> tuple[str, ...]:
    """Return what ``elsewhere`` is once somebody speaks in the session from ``address``."""

    def account(place: str) -> list[str]:
        return place.split(":", 2)[:2]

    if not address or not record.address or account(address) == account(record.address):
        return record.elsewhere
    others = (one for one in record.elsewhere if account(one) not in (account(address), account(record.address)))
    return (record.address, *others)[:MOST_ELSEWHERE]


def to_json(record: SessionRecord) -> dict[str, Any]:
    """Return a session as JSON values, without its key and without what has no value."""
    return {name: value for name, value in all_to_json(record).items() if value not in (None, "", False, 0, ())}


def all_to_json(record: SessionRecord) -> dict[str, Any]:
    """Return all fields but the key as JSON values."""
    values = {name: getattr(record, field) for name, field in _FIELDS.items()}
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in values.items()}


def from_json(key: str, raw: Mapping[str, Any]) -> SessionRecord:
    """Read one session; unknown fields are ignored, so that a newer file can be read.

    Raises:
        ValueError, TypeError: a field is missing or no instant.
    """
    values: dict[str, Any] = {"key": key}
    for name, field in _FIELDS.items():
        if name in raw:
            value = raw[name]
            values[field] = datetime.fromisoformat(value) if field in _INSTANTS and value is not None else value
    record = SessionRecord(**values | {name: tuple(values.get(name) or ()) for name in ("pins", "elsewhere")})
    if record.started.tzinfo is None or record.spoken.tzinfo is None:
        raise ValueError(f"an instant of session {key} has no time zone")
    return record


def changes(before: SessionRecord | None, after: SessionRecord) -> dict[str, Any]:
    """Return the fields of ``after`` that differ from ``before``, as JSON values."""
    new = all_to_json(after)
    if before is None:
        return new
    old = all_to_json(before)
    return {name: value for name, value in new.items() if old[name] != value}


Records = dict[str, SessionRecord]
_CHECKSUM = b',"crc":'
FOLD_AT = 500
"""Lines of changes after which they are folded, or half as many as there are sessions if that is more."""


class Damaged(ValueError):
    """Raised for a sessions file that cannot be read."""


class SessionFile:
    """Implements ``SessionTable``: the two files of one agent. Blocking; one caller at a time. Raises OSError."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "sessions.json"
        self.previous = folder / "sessions.json.prev"
        self._changes = folder / "sessions.json.changes"
        self._changes_before = folder / "sessions.json.changes.prev"
        self._folder = folder
        self._base: Records = {}
        self._stamp: tuple[int, int, int] | None = None
        self._lines = 0
        self._whole_tail = True
        self.unreadable: list[bytes] = []
        """Lines of changes that could not be read when the files were read last."""

    @property
    def where(self) -> str:
        """See the protocol."""
        return str(self.path)

    @property
    def edited(self) -> bool:
        """Whether the file was changed by hand since it was last read or written here."""
        return self._stamp_now() != self._stamp

    def load(self, now: datetime, rebuilt: Callable[[], list[SessionRecord]]) -> tuple[Records, list[str]]:
        """See the protocol. A file that cannot be read is renamed with a date."""
        notices: list[str] = []
        for path, read in ((self.path, self.read), (self.previous, self.read_previous)):
            try:
                records = read()
            except FileNotFoundError:
                continue
            except Damaged:
                name = self.set_aside(path, f"{now:%Y%m%dT%H%M%S}")
                notices.append(f"{path} could not be read and was renamed to {name}")
                continue
            break
        else:
            records = {record.key: record for record in rebuilt()}
            if notices:
                notices.append(f"{len(records)} sessions were rebuilt from their transcripts")
        if self.unreadable:
            notices.append(self._find_changed(records, rebuilt(), now))
        return records, notices

    def _find_changed(self, records: Records, rebuilt: list[SessionRecord], now: datetime) -> str:
        """Rebuild sessions whose changes are unreadable from their transcripts; the unreadable lines are kept. Returns a notice."""
        lost = b"\n".join(self.unreadable)
        count, found = len(self.unreadable), 0
        for record in rebuilt:  # of several with one key the one started last comes last
            known = records.get(record.key)
            begun_since = known is not None and known.session != record.session and known.started < record.started
            if known is None or (begun_since and json.dumps(record.key).encode() in lost):
                records[record.key] = record
                found += 1
        name = self.keep_changes(f"{now:%Y%m%dT%H%M%S}")
        self.fold(records)
        changes = "1 change" if count == 1 else f"{count} changes"
        return (
            f"{changes} in {self.path}.changes could not be read and were kept as {name}; "
            f"{found} sessions were rebuilt from their transcripts"
        )

    def take_edit(self, records: Records, now: datetime) -> Records:
        """See the protocol. An edit that cannot be read is set aside."""
        try:
            records, touched = self.merged(records)
            log.info("sessions.json was edited by hand: %d sessions updated", len(touched))
        except Damaged as error:
            name = self.set_aside(self.path, f"{now:%Y%m%dT%H%M%S}")
            log.warning("an edit of sessions.json cannot be read and was set aside as %s (%s); nothing is lost", name, error)
        return records

    def read(self) -> Records:
        """Read both files. Raises FileNotFoundError where there is neither, Damaged for a file that cannot be read."""
        stamp = self._stamp_now()
        if stamp is None and not self._changes.exists():
            raise FileNotFoundError(self.path)
        self._base = _read(self.path) if stamp is not None else {}
        self._stamp = stamp
        self.unreadable = []
        return self._with_changes(dict(self._base), self._changes)

    def read_previous(self) -> Records:
        """Read the previous copies and the changes since. Raises as ``read``."""
        self.unreadable = []
        records = self._with_changes(_read(self.previous), self._changes_before)
        return self._with_changes(records, self._changes)

    def append(self, changed: Mapping[str, tuple[SessionRecord | None, SessionRecord]]) -> None:
        """Append changes of sessions durably; a partial write is removed again."""
        self._append([{"key": key, "set": changes(before, after)} for key, (before, after) in changed.items()])

    def remove(self, key: str) -> None:
        """Append the removal of a session."""
        self._append([{"key": key, "gone": True}])

    def due_for_folding(self, count: int) -> bool:
        """Whether there are enough lines of changes to fold them into the file, which has ``count`` sessions."""
        return self._lines >= max(FOLD_AT, count // 2)

    @property
    def pending(self) -> int:
        """How many changes are not folded into the file yet."""
        return self._lines

    def fold(self, records: Mapping[str, SessionRecord]) -> None:
        """Rewrite the file, one session a line, and keep previous copies."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lines = ",\n".join(f"{_json(key)}: {_json(to_json(record))}" for key, record in records.items())
        data = f'{{"v": 1, "sessions": {{\n{lines}\n}}}}\n'.encode("utf-8", "replace")
        fresh = self.path.with_name(f".sessions.json.{os.getpid()}.tmp")
        write_synced(fresh, data)
        if self.path.exists():
            self.previous.unlink(missing_ok=True)
            os.link(self.path, self.previous)
        fresh.replace(self.path)
        if self._changes.exists():
            self._changes.replace(self._changes_before)
        sync(self._folder)
        self._base, self._stamp, self._lines, self._whole_tail = dict(records), self._stamp_now(), 0, True

    def merged(self, records: Records) -> tuple[Records, list[str]]:
        """Merge an edit by hand into ``records``; return the result and the keys that it changed. Raises Damaged."""
        edited = _read(self.path) if self._stamp_now() is not None else self._base
        result, touched = dict(records), []
        for key in {**self._base, **edited}:
            base, theirs, ours = self._base.get(key), edited.get(key), records.get(key)
            if theirs == base:
                continue
            touched.append(key)
            if theirs is None:
                if ours == base:  # one that was spoken in since stays
                    result.pop(key, None)
            elif base is None or ours is None:
                result[key] = theirs
            else:
                result[key] = from_json(key, all_to_json(ours) | changes(base, theirs))
        return result, touched

    def set_aside(self, path: Path, stamp: str) -> str:
        """Rename a file that cannot be read; return its new name."""
        aside = path.with_name(f"{path.name}.bad-{stamp}")
        path.rename(aside)
        return aside.name

    def keep_changes(self, stamp: str) -> str:
        """Give the file of changes a second name, so that it is kept when they are folded; return that name."""
        aside = self._changes.with_name(f"{self._changes.name}.bad-{stamp}")
        aside.unlink(missing_ok=True)
        os.link(self._changes if self._changes.exists() else self._changes_before, aside)
        return aside.name

    def _with_changes(self, records: Records, path: Path) -> Records:
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return records
        lines = data.split(b"\n")
        if path == self._changes:
            self._lines, self._whole_tail = len(lines) - 1, lines[-1] == b""
        self.unreadable += [line for line in lines[:-1] if line and not _apply(records, line)]
        _apply(records, lines[-1])  # one that was never finished was never acknowledged
        return records

    def _append(self, lines: Sequence[Mapping[str, Any]]) -> None:
        if not lines:
            return
        line = b"".join(map(_line, lines))
        if not self._whole_tail:
            line = b"\n" + line
        if fault_injection.armed:
            fault_injection.point("before", "sessions")
        append_synced(self._changes, line)
        if fault_injection.armed:
            fault_injection.point("after", "sessions")
        self._lines += len(lines)
        self._whole_tail = True

    def _stamp_now(self) -> tuple[int, int, int] | None:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _read(path: Path) -> Records:
    try:
        raw = json.loads(path.read_bytes())
        return {key: from_json(key, value) for key, value in raw["sessions"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Damaged(f"{path}: {error}") from error


def _line(change: Mapping[str, Any]) -> bytes:
    payload = json.dumps(change, ensure_ascii=True, separators=(",", ":")).encode()[:-1]
    return payload + _CHECKSUM + b"%d}\n" % zlib.crc32(payload)


def _apply(records: Records, line: bytes) -> bool:
    """Apply one line of changes; return False for a torn or invalid one, which changes nothing.

    Lines of an earlier version have no checksum.
    """
    payload, marked, digest = line.rpartition(_CHECKSUM)
    if marked and digest != b"%d}" % zlib.crc32(payload):
        return False
    try:
        change = json.loads(line)
        key = change["key"]
        if change.get("gone"):
            records.pop(key, None)
            return True
        known = records.get(key)
        records[key] = from_json(key, (all_to_json(known) if known else {}) | change["set"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return False
    return True
