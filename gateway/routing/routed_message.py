"""A message on its way from its row to its turn, and the encoding of messages in their rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from channels.messages import Attachment, Inbound, Sender
from gateway.commands.table import ParsedCommand, parse_with_triggers
from gateway.ledger.rows import InboxRow
from gateway.ledger.values import as_conversation, flat
from gateway.routing.access import Actor
from gateway.routing.router import Route
from memory.audience import Audience

_VERSION = 1
_PLAIN = ("text", "key", "alias", "message_id", "reply_to", "mentioned")
_LATER = ("event", "target", "quoted", "part_of", "from_bot")
"""Fields that rows of earlier versions lack."""
_ACTOR = tuple(field.name for field in fields(Actor))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedMessage:
    """A message as it is stored in a row. ``route`` is None if no agent could receive it.

    ``before`` is what was said in its group before it, and ``context_events`` are the lines of the context events that are told with it.
    """

    inbound: Inbound
    actor: Actor
    route: Route | None
    before: str = ""
    context_events: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedMessage:
    """A stored message with its row, sender and route.

    ``command`` is the command that it is, if any, for an agent with these ``triggers`` (see ``command_for``). For ``before`` and
    ``context_events`` see ``ReceivedMessage``.
    """

    row: InboxRow
    inbound: Inbound
    actor: Actor
    route: Route
    before: str = ""
    context_events: tuple[str, ...] = ()
    command: ParsedCommand | None = None
    triggers: tuple[str, ...] | None = None

    def command_for(self, triggers: tuple[str, ...]) -> ParsedCommand | None:
        """Return the command in this message for an agent with these triggers; parsed again only if they have changed."""
        if triggers == self.triggers:
            return self.command
        return parse_with_triggers(self.inbound.text, triggers)


class UnreadableMessage(ValueError):
    """Raised for a row that this version cannot read."""


def encode_message(inbound: Inbound, actor: Actor, route: Route | None, *, before: str = "", asides: Sequence[str] = ()) -> str:
    """Return the payload of a row, as ASCII JSON."""
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
    """Return a row's payload with the message's text replaced by ``text``; an unreadable payload is returned unchanged."""
    try:
        written = json.loads(payload)
        written["inbound"]["text"] = text
    except (KeyError, TypeError, ValueError):
        return payload
    return json.dumps(written, separators=(",", ":"))


def decode_message(row: InboxRow) -> tuple[Inbound, Actor, Route | None]:
    """Read a row; its route may be None. Raises UnreadableMessage."""
    message = decode_received(row)
    return message.inbound, message.actor, message.route


def decode_received(row: InboxRow) -> ReceivedMessage:
    """Read a row. Raises UnreadableMessage."""
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
        return ReceivedMessage(
            inbound=inbound,
            actor=actor,
            route=None if route is None else Route(**{**route, "audience": Audience(**route["audience"])}),
            before=written.get("before", ""),
            context_events=tuple(written.get("asides", ())),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableMessage(f"its payload is not what it should be: {error!r}"[:300]) from error


def words_of(inbound: Inbound) -> str:
    """Return the text of a message and the names of its files."""
    names = (attachment.name or attachment.kind for attachment in inbound.attachments)
    return " ".join(filter(None, [inbound.text, *(f"📎 {name}" for name in names)]))
