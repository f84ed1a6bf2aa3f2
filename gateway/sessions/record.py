"""The record of a session and its JSON form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """One session. Instants have a zone.

    ``address`` is the conversation that it last spoke with. ``greeted`` says that its owner was told of the fresh start.
    ``former`` is the session that it took over from, which ``/undo`` brings back until ``former_until``. ``unsaved`` is a
    former session whose session-memory file is still to be written. ``last_flush`` tells the latest receipt in a line.
    ``pins`` are what the session takes over from the one before it. ``made_by`` is the message whose command brought this state
    about, so that the command is not carried out again when a crash made its answer be lost. ``fallback_of`` is the model that
    answered last, where that was not the one that was chosen. ``queue`` is what was chosen with ``/queue``. ``space``
    is the server or workspace that the conversation lies in. ``noted`` says what became of what mattered in ``former``.
    """

    session: str
    key: str
    started: datetime
    spoken: datetime
    address: str = ""
    model: str | None = None
    thinking: str | None = None
    reasoning: bool = False
    fallback_of: str = ""
    verbose: bool = False
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


_NAMES = {"session": "sessionId", "started": "startedAt", "spoken": "lastInteractionAt", "last_flush": "lastFlush"}
_INSTANTS = {"started", "spoken", "former_until"}
_FIELDS = {_NAMES.get(spec.name, spec.name): spec.name for spec in fields(SessionRecord) if spec.name != "key"}


def to_json(record: SessionRecord) -> dict[str, Any]:
    """Return a session as JSON values, without its key and without what has no value."""
    return {name: value for name, value in all_to_json(record).items() if value not in (None, "", False, 0, ())}


def all_to_json(record: SessionRecord) -> dict[str, Any]:
    """Return all fields but the key as JSON values."""
    values = {name: getattr(record, field) for name, field in _FIELDS.items()}
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in values.items()}


def from_json(key: str, raw: Mapping[str, Any]) -> SessionRecord:
    """Read one session; fields that are not ours are passed over, so that a newer file can be read.

    Raises:
        ValueError, TypeError: a field is missing or no instant.
    """
    values: dict[str, Any] = {"key": key}
    for name, field in _FIELDS.items():
        if name in raw:
            value = raw[name]
            values[field] = datetime.fromisoformat(value) if field in _INSTANTS and value is not None else value
    record = SessionRecord(**values | {"pins": tuple(values.get("pins") or ())})
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
