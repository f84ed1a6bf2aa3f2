"""Writes another program's conversations as sessions of an agent."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final

from agent.context.start_notes import notes_text
from agent.messages import AssistantMessage, Text, UserMessage
from agent.settings import AgentSettings
from agent.taint import source
from agent.transcript.entries import Body, Compacted, Entry, Opened, Said, TurnEnded, encode
from agent.transcript.stored_transcript import StoredTranscript
from gateway.base.clock import SystemClock
from gateway.migration.foreign_state import ForeignState, read_json
from gateway.migration.foreign_transcript import ForeignMessage, ForeignTranscript, read_branch, read_transcript
from gateway.migration.migration_report import Report
from gateway.migration.openclaw_database import OpenClawDatabase, reported
from gateway.sessions.protocol import SessionStore
from gateway.sessions.sessions_file import SessionRecord
from gateway.sessions.store import sessions_in

KIND: Final = "sessions"
TURN: Final = "imported"
_AT_ONCE: Final = 1000
"""Entries that are written at once."""
_GROUPS: Final = re.compile(
    r"(?P<channel>telegram|discord|slack):(?:group|channel):(?P<id>[^:]+)(?::(?:topic|thread):(?P<thread>[^:]+))?"
)
_PRIVATE: Final = re.compile(r"(?P<channel>telegram|discord|slack):(?:dm|direct):(?P<id>[^:]+)")
_INTERNAL: Final = ("cron:", "hook:", "subagent:", "acp:", "global", "unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A session that is taken over: its key here, where its transcript is, and how large that is."""

    key: str
    session: str
    spoken: datetime
    size: int
    path: Path | None
    """The file; None if the database has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """Where the sessions of an agent are written to, and what its owner's own begins with."""

    agent: str
    store: SessionStore
    memory: str
    dry_run: bool


def import_sessions(
    state: ForeignState,
    agent: str,
    folder: Path,
    memory: str,
    report: Report,
    *,
    dry_run: bool,
    progress: Callable[[str], None],
) -> None:
    """Write an agent's sessions into ``folder``, and report each. ``memory`` is what the owner's own session begins with: MEMORY.md."""
    store = sessions_in(folder, SystemClock())
    target = _Target(agent=agent, store=store, memory=memory, dry_run=dry_run)
    if not dry_run:
        asyncio.run(store.load())  # before there are transcripts, which it would take for sessions whose records were lost
    with reported(report, KIND, state.database(agent)) as database:
        known = list(_known(state, agent, database, report))
        total, done = sum(one.size for one in known), 0
        for number, one in enumerate(known, 1):
            progress(f"Conversations of {agent}: {number:,} of {len(known):,}, {_megabytes(done)} of {_megabytes(total)}")
            _import_one(one, database, target, report)
            done += one.size
        _tell_older(state, agent, known, database, report)
    if not dry_run:
        asyncio.run(store.fold())


def _import_one(one: _Found, database: OpenClawDatabase | None, target: _Target, report: Report) -> None:
    try:
        found = _read(one, database)
    except OSError as error:
        report.add(KIND, one.key, "problem", f"{one.path}: {error.strerror or error}")
        return
    except ValueError as error:
        report.add(KIND, one.key, "problem", str(error))
        return
    if not found.messages and not found.summary:
        cold = database is not None and one.path is None and database.set_aside(one.session)
        report.add(KIND, one.key, "left out", "it is in the cold archive of OpenClaw" if cold else "it holds no messages")
        return
    record = _record(one, found)
    if not target.dry_run:
        asyncio.run(target.store.put(record))
        _write(target.store.transcript(record.session), _entries(target.agent, record, found, target.memory))
    changed = found.tools or found.broken or found.pictures or found.cut
    report.add(KIND, one.key, "changed" if changed else "taken", _told(found))


def _read(one: _Found, database: OpenClawDatabase | None) -> ForeignTranscript:
    if one.path is not None or database is None:
        return read_transcript(one.path or Path())
    return read_branch(database.lines_backwards(one.session), one_branch=database.follows_branch(one.session))


def _tell_older(
    state: ForeignState, agent: str, known: list[_Found], database: OpenClawDatabase | None, report: Report
) -> None:
    stored = database.older() if database else 0
    files = _transcripts(state.sessions(agent)) - {one.path for one in known}
    for count, place in ((stored, state.database(agent)), (len(files), state.sessions(agent))):
        if count:
            report.add(KIND, f"{count} older transcripts", "left out", f"they stay in {place}")


def foreign_key(key: str, agent: str) -> str | None:
    """Return the session key here for one of the other program; None for a session that is not taken over."""
    rest = key.removeprefix(f"agent:{agent}:")
    if rest == "main":
        return f"agent:{agent}:main"
    if found := _GROUPS.fullmatch(rest):
        thread = f":thread:{found['thread'].lower()}" if found["thread"] else ""
        return f"agent:{agent}:{found['channel']}:group:{found['id'].lower()}{thread}"
    if found := _PRIVATE.fullmatch(rest):
        return f"agent:{agent}:{found['channel']}:dm:{found['id'].lower()}"
    return None


def _known(state: ForeignState, agent: str, database: OpenClawDatabase | None, report: Report) -> Iterator[_Found]:
    """Yield the sessions of the database, then those of ``sessions.json`` whose keys it does not have."""
    seen: set[str] = set()
    for stored in database.sessions() if database else ():
        seen.add(stored.key)
        if (here := _key_here(stored.key, agent, report)) and database:
            spoken, size = _instant(stored.entry), database.size(stored.session)
            yield _Found(key=here, session=stored.session, spoken=spoken, size=size, path=None)
    folder = state.sessions(agent)
    try:
        raw = read_json(folder / "sessions.json")
    except (OSError, ValueError) as error:
        report.add(KIND, str(folder / "sessions.json"), "problem", str(error))
        return
    for key, entry in (raw if isinstance(raw, dict) else {}).items():
        session = entry.get("sessionId") if isinstance(entry, dict) else None
        here = None if key in seen else _key_here(str(key), agent, report)
        if here is None:
            continue
        path = _file(folder, entry, session) if isinstance(entry, dict) else None
        if path is None:
            report.add(KIND, str(key), "problem", "its transcript is not there")
            continue
        yield _Found(key=here, session=str(session), spoken=_instant(entry), size=path.stat().st_size, path=path)


def _key_here(key: str, agent: str, report: Report) -> str | None:
    here = foreign_key(key, agent)
    if here is None and not any(key.removeprefix(f"agent:{agent}:").startswith(one) for one in _INTERNAL):
        report.add(KIND, key, "left out", "there is no such kind of session here")
    return here


def _file(folder: Path, entry: Mapping[str, Any], session: object) -> Path | None:
    names = [str(entry.get("sessionFile") or ""), f"{session}.jsonl"]
    for name in filter(None, names):
        path = folder / Path(name).name
        if path.is_file() and not path.is_symlink():
            return path
    return None


def _transcripts(folder: Path) -> set[Path]:
    return set(folder.glob("*.jsonl")) if folder.is_dir() else set()


def _instant(entry: Mapping[str, Any]) -> datetime:
    stamp = entry.get("updatedAt")
    try:
        return datetime.fromtimestamp(float(stamp) / 1000, UTC) if stamp else datetime.now(UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        return datetime.now(UTC)


def _record(one: _Found, found: ForeignTranscript) -> SessionRecord:
    started = found.messages[0].at if found.messages else one.spoken
    return SessionRecord(
        session=f"{started:%Y%m%d}-{secrets.token_hex(6)}",
        key=one.key,
        started=started,
        spoken=max(one.spoken, started),
        turns=sum(message.role == "user" for message in found.messages),
        compactions=1 if found.summary else 0,
        greeted=True,
    )


def _entries(agent: str, record: SessionRecord, found: ForeignTranscript, memory: str) -> Iterator[Entry]:
    settings = AgentSettings()
    notes = (
        notes_text(memory, (), memory_chars=settings.bootstrap_max_chars, daily_chars=0) if record.key.endswith(":main") else ""
    )
    taint = (source("import", "tools of the other program"),) if found.outside else ()
    opened = Opened(agent=agent, session=record.session, key=record.key, notes=notes, taint=taint)
    last = Entry(id="open:0", parent=None, at=record.started, body=opened)
    yield last
    for number, message in enumerate(found.messages):
        last = _next(last, number, message.at, _said(message))
        yield last
    if found.summary:
        first = f"{TURN}:0" if found.messages else ""
        body = Compacted(
            summary=found.summary, first_kept=first, tokens_before=0, tokens_after=0, model="", reason="imported", taint=taint
        )
        last = _next(last, len(found.messages), last.at, body)
        yield last
    yield _next(last, len(found.messages) + 1, last.at, TurnEnded(turn=TURN, outcome="answered", facts={"imported": True}))


def _next(last: Entry, number: int, at: datetime, body: Body) -> Entry:
    return Entry(id=f"{TURN}:{number}", parent=last.id, at=max(at, last.at), body=body)


def _said(message: ForeignMessage) -> Said:
    content = (Text(text=message.text),)
    if message.role == "user":
        return Said(message=UserMessage(content=content, at=message.at))
    return Said(message=AssistantMessage(content=content, model=message.model or "unknown", stop="end"))


def _told(found: ForeignTranscript) -> str:
    parts = [f"{len(found.messages)} messages"]
    parts += ["the summary of what was before"] if found.summary else []
    left = [f"{found.tools} results of tools"] if found.tools else []
    left += [f"{found.pictures} pictures"] if found.pictures else []
    left += [f"{found.broken} lines that could not be read"] if found.broken else []
    left += ["what is older than these"] if found.cut else []
    return " and ".join(parts) + (f"; left out: {', '.join(left)}" if left else "")


def _write(stored: StoredTranscript, entries: Iterator[Entry]) -> None:
    lines = map(encode, entries)
    while some := list(islice(lines, _AT_ONCE)):
        stored.append(b"".join(some))


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"
