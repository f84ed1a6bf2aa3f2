"""``homebody chat --resume``: which earlier conversation is meant, and where it had got to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.messages import AssistantMessage, UserMessage
from agent.transcript.entries import InvalidEntry, Said, decode
from gateway.base.errors import StorageFailed, UsageError
from gateway.sessions.lookup import find, left

if TYPE_CHECKING:
    from collections.abc import Mapping
    from zoneinfo import ZoneInfo

    from gateway.sessions.lookup import Found
    from gateway.sessions.record import SessionRecord
    from gateway.sessions.store import SessionStore

OFFERED = 9
SHOWN_CHARS = 400
LINE_CHARS = 60
_LIST = "`homebody sessions list` shows them all."


def latest(stores: Mapping[str, SessionStore]) -> list[SessionRecord]:
    """Return the sessions that something was said in, the one spoken with last first."""
    records = [record for store in stores.values() for record in store.all()]
    return sorted(records, key=lambda record: record.spoken, reverse=True)


def meant(stores: Mapping[str, SessionStore], wish: str) -> SessionRecord:
    """Return the session that a key, an id, or a part of a key names.

    Raises:
        UsageError: none, or several; or it was left, and only ``/undo`` brings it back.
    """
    found = find(stores, wish)
    if found is not None and found.record is not None:
        return found.record
    if any(one.session == wish for one in left(stores)):
        raise UsageError(
            f"the conversation {wish} was left",
            hint="`/undo` brings back the latest one that was left; `homebody sessions show` shows it.",
        )
    records = latest(stores)
    exact = [record for record in records if record.key.endswith(f":{wish.lower()}")]
    near = exact or [record for record in records if wish.lower() in record.key]
    if len(near) == 1:
        return near[0]
    if near:
        raise UsageError(f"{wish!r} may mean {', '.join(record.key for record in near[:OFFERED])}", hint="Say more of it.")
    raise UsageError(f"there is no session {wish!r}", hint=_LIST)


def offered(records: list[SessionRecord], zone: ZoneInfo) -> list[str]:
    """Put the latest sessions into lines to choose from."""
    return [f"{number}. {record.key}  ({told(record, zone)})" for number, record in enumerate(records[:OFFERED], 1)]


def told(record: SessionRecord, zone: ZoneInfo) -> str:
    """Say how long a session is, and when it was spoken with by its owner's clock."""
    turns = "1 turn" if record.turns == 1 else f"{record.turns} turns"
    return f"{turns}, last {record.spoken.astimezone(zone):%a %d %b %H:%M}"


def where_it_was(stores: Mapping[str, SessionStore], record: SessionRecord, zone: ZoneInfo) -> str:
    """Tell the last words of a session, for whoever comes back to it."""
    head = f"{record.key}, last spoken with on {record.spoken.astimezone(zone):%a %d %b at %H:%M}."
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
        elif isinstance(message, UserMessage) and message.text:
            return [f"› {_short(message.text, LINE_CHARS)}", *([_short(answer, SHOWN_CHARS)] if answer else [])]
    return []


def _short(text: str, most: int) -> str:
    line = text.strip() if most > LINE_CHARS else " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"
