"""A message that was taken in, and how its row keeps it."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any

from channels.messages import Attachment, Inbound, Sender
from gateway.ledger.values import as_conversation, flat
from gateway.routing.access import Actor
from gateway.routing.router import Route
from memory.audience import Audience

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.ledger.rows import InboxRow

_VERSION = 1
_PLAIN = ("text", "key", "alias", "message_id", "reply_to", "mentioned")
_LATER = ("event", "target", "quoted", "part_of", "from_bot")
"""Fields that rows of earlier versions lack."""
_ACTOR = tuple(field.name for field in fields(Actor))


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedMessage:
    """A message that was taken in: its row, what was said, by whom, and where it goes.

    ``before`` is what was said around the agent before it, and ``asides`` what else happened: lines to be told with it.
    """

    row: InboxRow
    inbound: Inbound
    actor: Actor
    route: Route
    before: str = ""
    asides: tuple[str, ...] = ()


class UnreadableMessage(ValueError):
    """Raised for a row that this version cannot read."""


def encode_message(inbound: Inbound, actor: Actor, route: Route | None, *, before: str = "", asides: Sequence[str] = ()) -> str:
    """Return the payload of a row: plain ASCII, so that every text survives."""
    written = {
        "v": _VERSION,
        "before": before,
        "asides": list(asides),
        "inbound": {
            **{name: getattr(inbound, name) for name in (*_PLAIN, *_LATER)},
            "attachments": [flat(attachment) for attachment in inbound.attachments],
            "conversation": {name: value for name, value in flat(inbound.conversation).items() if value is not None},
            "sender": flat(inbound.sender),
            "at": inbound.at.isoformat(),
            "hints": dict(inbound.hints),
        },
        "actor": flat(actor),
        "route": None if route is None else flat(route) | {"audience": flat(route.audience)},
    }
    return json.dumps(written, separators=(",", ":"))


def reworded(payload: str, text: str) -> str:
    """Return the payload of a row whose message reads ``text`` now; one that cannot be read stays as it is."""
    try:
        written = json.loads(payload)
        written["inbound"]["text"] = text
    except (KeyError, TypeError, ValueError):
        return payload
    return json.dumps(written, separators=(",", ":"))


def decode_message(row: InboxRow) -> tuple[Inbound, Actor, Route | None]:
    """Read a row; the route is None when there was none. Raises UnreadableMessage."""
    return read_whole(row)[:3]


def read_whole(row: InboxRow) -> tuple[Inbound, Actor, Route | None, str, tuple[str, ...]]:
    """Read a row, with what is to be told before the message. Raises UnreadableMessage."""
    try:
        written: dict[str, Any] = json.loads(row.payload)
        if written["v"] != _VERSION:
            raise UnreadableMessage(f"it was written by another version ({written['v']})")
        said, route = written["inbound"], written["route"]
        inbound = Inbound(
            conversation=as_conversation(said["conversation"]),
            sender=Sender(**said["sender"]),
            at=datetime.fromisoformat(said["at"]),
            hints=said["hints"],
            attachments=tuple(Attachment(**attachment) for attachment in said.get("attachments", ())),
            **{name: said[name] for name in _PLAIN},
            **{name: said[name] for name in _LATER if name in said},
        )
        actor = Actor(**{name: written["actor"][name] for name in _ACTOR})
        whither = None if route is None else Route(**{**route, "audience": Audience(**route["audience"])})
        return inbound, actor, whither, written.get("before", ""), tuple(written.get("asides", ()))
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableMessage(f"its payload is not what it should be: {error!r}"[:300]) from error


def words_of(inbound: Inbound) -> str:
    """Return what a message says, in words and by the names of its files."""
    names = (attachment.name or attachment.kind for attachment in inbound.attachments)
    return " ".join(filter(None, [inbound.text, *(f"📎 {name}" for name in names)]))
