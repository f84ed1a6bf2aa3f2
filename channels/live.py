"""Live events: what the gateway tells a connected client about a running turn, beside the replies that it delivers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from msgspec import Struct, field
from msgspec.structs import asdict, fields

from channels.errors import ChannelError

STORAGE_FAILED: Final = "storage-failed"
"""Why the gateway did not take a message: its disk or its database took nothing."""
PAUSE_NOTICE: Final = "p."
"""Begins the key of a Reply that answers nothing: it says that messages wait until a pause is over."""


class Delta(Struct, frozen=True):
    """More text of the reply being written; ``fresh``: it replaces what was shown so far."""

    text: str
    fresh: bool = False


class Activity(Struct, frozen=True):
    """A running tool, described for a person."""

    text: str
    state: Literal["started", "finished", "failed"]


class Reply(Struct, frozen=True):
    """A delivered piece of a reply, as Markdown. A key seen before is the same piece again."""

    text: str
    key: str


class Note(Struct, frozen=True):
    """A notice from the gateway. ``key``: the message that it is about, of which only the window that sent it is told."""

    text: str
    key: str = ""


class Done(Struct, frozen=True):
    """The turn that answered the message ``key`` is over.

    ``facts`` are those of ``homebody agent --json`` and two more: ``chunks``, how many Reply events belong to the turn
    (they may arrive later than this event), and ``exit``, the exit code for a program that asked. ``replyKeys``, if present,
    lists the keys of those Reply events.
    """

    turn: str
    key: str
    facts: Mapping[str, Any] = field(default_factory=dict)


class Rejected(Struct, frozen=True):
    """The message ``key`` gets no turn; ``hint`` says what to do, and ``exit`` is the exit code for a program that asked."""

    key: str
    reason: str
    hint: str = ""
    exit: int = 1


LiveEvent = Delta | Activity | Reply | Note | Done | Rejected

_KINDS: dict[str, type[LiveEvent]] = {kind.__name__.lower(): kind for kind in (Delta, Activity, Reply, Note, Done, Rejected)}


def to_json(frame: LiveEvent) -> dict[str, Any]:
    """Return an event as a JSON object, with its kind under ``frame``."""
    return {"frame": type(frame).__name__.lower(), **asdict(frame)}


def from_json(raw: Mapping[str, Any]) -> LiveEvent:
    """Return the event that ``to_json`` wrote. Fields of a newer version are ignored.

    Raises:
        ChannelError: this version does not know the event.
    """
    kind = _KINDS.get(str(raw.get("frame")))
    if kind is None:
        raise ChannelError(f"unknown event {raw.get('frame')!r} from the gateway", hint="run the same version on both sides")
    known = {one.name for one in fields(kind)}
    try:
        return kind(**{name: value for name, value in raw.items() if name in known})
    except TypeError as error:
        raise ChannelError(f"malformed {raw['frame']} event: {error}", hint="run the same version on both sides") from error
