"""Finds, exports, archives and repairs conversations by session key or id, ended ones included."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from msgspec import Struct

from agent.messages import AssistantMessage, Message, ToolMessage, UserMessage, begins_turn
from agent.transcript.entries import Compacted, Entry, FlushReceipt, InvalidEntry, Opened, Pinned, Said, decode
from agent.transcript.stored_transcript import StoredTranscript
from gateway.base.errors import StorageFailed
from gateway.sessions.protocol import SessionStore
from gateway.sessions.sessions_file import SessionRecord
from gateway.sessions.transcript_reader import first_entries, unreadable


class Found(Struct, frozen=True):
    """A session that has a transcript. ``record`` is set if it is the current one of its key."""

    agent: str
    session: str
    stored: StoredTranscript
    record: SessionRecord | None = None

    def lines(self) -> list[bytes]:
        """Return the lines of the transcript, as they are. Raises StorageFailed."""
        try:
            return [line.rstrip(b"\r\n") for line in self.stored.lines()]
        except OSError as error:
            raise unreadable(error, self.stored) from error

    def entries(self) -> Iterator[Entry | None]:
        """Yield the entries; None for a line that cannot be read."""
        for line in self.lines():
            try:
                yield decode(line)
            except InvalidEntry:
                yield None


def find(stores: Mapping[str, SessionStore], wanted: str) -> Found | None:
    """Return the session with a key or id, or None. Raises StorageFailed."""
    for agent, store in stores.items():
        for record in store.all():
            if wanted in {record.key, record.session} and _exists(stored := store.transcript(record.session)):
                return Found(agent, record.session, stored, record)
    return next((found for found in left(stores) if found.session == wanted), None)


def left(stores: Mapping[str, SessionStore]) -> Iterator[Found]:
    """Yield the ended sessions that are still kept, the latest first. Raises StorageFailed."""
    for agent, store in stores.items():
        present = {record.session for record in store.all()}
        try:
            kept = store.transcripts.all()
        except OSError as error:
            raise StorageFailed.from_os(error, "list the transcripts", store.transcripts.where) from error
        for stored, _ in sorted(kept, key=lambda found: found[1].written_ns, reverse=True):
            if stored.session not in present:
                yield Found(agent, stored.session, stored)


def _exists(stored: StoredTranscript) -> bool:
    try:
        return stored.exists()
    except OSError as error:
        raise unreadable(error, stored) from error


def key_of(found: Found) -> str:
    """Return the session key in a transcript, or an empty string if it has none."""
    if found.record is not None:
        return found.record.key
    first = next(first_entries(found.stored, 1), None)
    return first.body.key if first is not None and isinstance(first.body, Opened) else ""


ABOUT_CHARS = 80
"""How much of the first message of a conversation tells what it is about."""


def rows(stores: Mapping[str, SessionStore], *, everything: bool = False) -> list[dict[str, Any]]:
    """Return the sessions as JSON values, the latest first: the present ones, with ``everything`` those that ended too. Blocking."""
    present = [
        {
            "agent": agent,
            "sessionKey": record.key,
            "sessionId": record.session,
            "startedAt": record.started.isoformat(timespec="seconds"),
            "lastInteractionAt": record.spoken.isoformat(timespec="seconds"),
            "turns": record.turns,
            "compactions": record.compactions,
            "undoUntil": record.former_until.isoformat(timespec="seconds") if record.former and record.former_until else None,
            **_of_transcript(store.transcript(record.session)),
        }
        for agent, store in stores.items()
        for record in store.all()
    ]
    present.sort(key=lambda row: str(row["lastInteractionAt"]), reverse=True)
    ended = [
        {"agent": one.agent, "sessionKey": key_of(one), "sessionId": one.session, "left": True, **_of_transcript(one.stored)}
        for one in (left(stores) if everything else ())
    ]
    return [*present, *ended]


def _of_transcript(stored: StoredTranscript) -> dict[str, Any]:
    """Return what a transcript itself tells: when it was last written, its size and what the conversation begins with."""
    try:
        found = stored.stat()
    except OSError:
        return {"transcript": stored.where, "writtenAt": None, "bytes": 0, "about": ""}
    written = datetime.fromtimestamp(found.written_ns / 1e9, UTC).isoformat(timespec="seconds")
    return {"transcript": stored.where, "writtenAt": written, "bytes": found.size, "about": about(stored)}


def about(stored: StoredTranscript) -> str:
    """Return the beginning of what a person (or an automation) said first."""
    for entry in first_entries(stored):
        message = entry.body.message if isinstance(entry.body, Said) else None
        if message is not None and begins_turn(message) and message.text.strip():
            text = " ".join(message.text.split())
            return text if len(text) <= ABOUT_CHARS else f"{text[: ABOUT_CHARS - 1].rstrip()}…"
    return ""


def conversations(stores: Mapping[str, SessionStore]) -> list[Found]:
    """Return all sessions that have a transcript, the present ones first, each group the latest first. Blocking."""
    present = [
        Found(agent, record.session, stored, record)
        for agent, store in stores.items()
        for record in store.all()
        if _exists(stored := store.transcript(record.session))
    ]
    present.sort(key=lambda found: found.record.spoken if found.record else datetime.min.replace(tzinfo=UTC), reverse=True)
    return [*present, *left(stores)]


RESULT_CHARS = 2000
"""How much of a tool's result a page shows; the JSONL has all of it."""


def page(entries: Iterable[Entry | None], zone: ZoneInfo, day: str = "") -> Iterator[str]:
    """Yield the page in blocks of one or more paragraphs. An unreadable line of the transcript is reported in its place.

    ``day``: the day whose heading stands above already, for a page that is made in pieces.
    """
    for entry in entries:
        if entry is None:
            yield "*(unreadable line)*"
            continue
        at = entry.at.astimezone(zone)
        block = _block(entry, f"{at:%H:%M}")
        if not block:
            continue
        if not isinstance(entry.body, Opened) and f"{at:%Y-%m-%d}" != day:
            day = f"{at:%Y-%m-%d}"
            yield f"## {day}"
        yield block


def _block(entry: Entry, time: str) -> str:
    match entry.body:
        case Opened(agent=agent, session=session, key=key):
            return f"# {key}\n\nAgent {agent}, session {session}, begun {entry.at:%Y-%m-%d %H:%M} UTC."
        case Said(message=message):
            return _message(message, time)
        case Compacted(summary=summary):
            return f"*{time}: summary of the conversation so far, written for the model:*\n\n{_quoted(summary)}"
        case FlushReceipt(written=written) if written:
            return f"*{time}: noted in {', '.join(note.path for note in written)}*"
        case Pinned(text=text):
            return f"*{time}: pinned:* {text}"
    return ""


def _message(message: Message, time: str) -> str:
    match message:
        case UserMessage(runtime=True):
            return f"*{time}:*\n\n{_fenced(message.text[:RESULT_CHARS])}"
        case UserMessage(sender=sender):
            return f"**{sender or 'You'}** · {time}\n\n{message.text}".rstrip()
        case AssistantMessage():
            calls = [f"> 🔧 `{call.name}` {json.dumps(call.arguments, ensure_ascii=False)}" for call in message.calls]
            trouble = f"*(no answer: {message.failure.message})*" if message.failure else ""
            end = "*(interrupted)*" if message.stop == "cut" else ""
            parts = [part for part in (message.text, "\n".join(calls), trouble, end) if part]
            return "\n\n".join([f"**Agent** · {time} · {message.model}", *parts]) if parts else ""
        case ToolMessage(name=name, text=text):
            cut = f"\n[cut: {len(text):,} characters in all]" if len(text) > RESULT_CHARS else ""
            return f"> {'✗' if message.is_error else '✓'} `{name}`\n\n{_fenced(text[:RESULT_CHARS] + cut)}"
    return ""


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def _fenced(text: str) -> str:
    """Return a text in a code fence that nothing in it ends."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def repair(stored: StoredTranscript, now: datetime) -> dict[str, Any]:
    """Repair a transcript and return what was done, as JSON values. An intact one is not changed.

    The session must not be open. Blocking.

    Raises:
        StorageFailed: it cannot be read or written; it is unchanged.
    """
    try:
        lines = list(stored.lines()) if stored.exists() else []
        good = [line for line in lines if _is_sound(line)]
        facts: dict[str, Any] = {"transcript": stored.where, "lines": len(lines), "bad": len(lines) - len(good), "kept": None}
        if len(good) < len(lines):
            facts["kept"] = stored.replace(b"".join(good), aside=f"bad-{now:%Y%m%dT%H%M%S%f}")
    except OSError as error:
        raise StorageFailed.from_os(error, "repair the transcript", Path(stored.where)) from error
    return facts


def _is_sound(line: bytes) -> bool:
    try:
        decode(line.rstrip(b"\r\n"))
    except InvalidEntry:
        return False
    return line.endswith(b"\n")
