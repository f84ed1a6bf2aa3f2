"""``homebody chat --resume``: finds the session to continue and shows its last messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.messages import AssistantMessage, is_of_a_person
from agent.transcript.entries import InvalidEntry, Said, decode
from gateway.base.errors import StorageFailed, UsageError
from gateway.sessions.past_sessions import find, left

if TYPE_CHECKING:
    from collections.abc import Mapping
    from zoneinfo import ZoneInfo

    from gateway.sessions.past_sessions import Found
    from gateway.sessions.sessions_file import SessionRecord
    from gateway.sessions.store import SessionStore

OFFERED = 9
SHOWN_CHARS = 400
LINE_CHARS = 60
_LIST = "`homebody sessions list` lists all sessions."


def latest(stores: Mapping[str, SessionStore]) -> list[SessionRecord]:
    """Return the sessions that have messages, most recent first."""
    records = [record for store in stores.values() for record in store.all()]
    return sorted(records, key=lambda record: record.spoken, reverse=True)


def meant(stores: Mapping[str, SessionStore], wish: str) -> SessionRecord:
    """Return the session with this key or id, or whose key contains it.

    Raises:
        UsageError: there is none, or several; or the session has ended (only ``/undo`` restores it).
    """
    found = find(stores, wish)
    if found is not None and found.record is not None:
        return found.record
    if any(one.session == wish for one in left(stores)):
        raise UsageError(
            f"the session {wish} has ended",
            hint="`/undo` in the chat restores the one that ended last; `homebody sessions show` prints it.",
        )
    records = latest(stores)
    exact = [record for record in records if record.key.endswith(f":{wish.lower()}")]
    near = exact or [record for record in records if wish.lower() in record.key]
    if len(near) == 1:
        return near[0]
    if near:
        raise UsageError(
            f"{wish!r} matches several sessions: {', '.join(record.key for record in near[:OFFERED])}",
            hint="Be more exact.",
        )
    raise UsageError(f"there is no session {wish!r}", hint=_LIST)


def offered(records: list[SessionRecord], zone: ZoneInfo) -> list[str]:
    """Return the latest sessions as numbered lines to choose from."""
    return [f"{number}. {record.key}  ({told(record, zone)})" for number, record in enumerate(records[:OFFERED], 1)]


def told(record: SessionRecord, zone: ZoneInfo) -> str:
    """Return a session's number of turns and the time of its last message, in the owner's time zone."""
    turns = "1 turn" if record.turns == 1 else f"{record.turns} turns"
    return f"{turns}, last {record.spoken.astimezone(zone):%a %d %b %H:%M}"


def where_it_was(stores: Mapping[str, SessionStore], record: SessionRecord, zone: ZoneInfo) -> str:
    """Return the last messages of a session as text."""
    head = f"{record.key}, last message on {record.spoken.astimezone(zone):%a %d %b at %H:%M}."
    found = find(stores, record.key)
    words = [] if found is None else _last_words(found)
    return "\n".join([head, *words])


def _last_words(found: Found) -> list[str]:
    answer = ""
    try:
        lines = found.lines()
    except StorageFailed:
        return []
    for line in reversed(lines):
        try:
            body = decode(line).body
        except InvalidEntry:
            continue
        message = body.message if isinstance(body, Said) else None
        if isinstance(message, AssistantMessage) and message.text and not answer:
            answer = message.text
        elif message is not None and is_of_a_person(message) and message.text:
            return [f"› {_short(message.text, LINE_CHARS)}", *([_short(answer, SHOWN_CHARS)] if answer else [])]
    return []


def _short(text: str, most: int) -> str:
    line = text.strip() if most > LINE_CHARS else " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"
