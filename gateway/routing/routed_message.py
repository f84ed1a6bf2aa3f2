"""A message on its way from its row to its turn, and the encoding of messages in their rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, fields

from agent.tools.protocol import Origin
from channels.messages import Attachment, Inbound, Sender
from gateway.commands.table import ParsedCommand, parse_with_triggers
from gateway.ledger.rows import Arrival, InboxRow
from gateway.ledger.values import as_conversation
from gateway.routing import automation as automations
from gateway.routing.access import Actor
from gateway.routing.automation import Automation
from gateway.routing.router import Route
from memory.audience import Audience

_VERSION = 1
_PLAIN = ("text", "key", "alias", "message_id", "reply_to", "mentioned")
_LATER = ("event", "target", "quoted", "part_of", "from_bot", "context")
"""Fields that rows of earlier versions lack."""
_ACTOR = tuple(field.name for field in fields(Actor))
_ORIGINS: dict[str, Origin] = {"owner": "owner", "peer": "guest", "group": "group"}


class ReceivedMessage(Struct, frozen=True, kw_only=True):
    """A message as it is stored in a row. ``route`` is None if no agent could receive it.

    ``before`` is what was said in its group before it, and ``context_events`` are the lines of the context events that are told with
    it, ``context_sources`` where untrusted text in them comes from. ``automation`` says why it exists if no person wrote it.
    """

    inbound: Inbound
    actor: Actor
    route: Route | None
    before: str = ""
    context_events: tuple[str, ...] = ()
    context_sources: tuple[str, ...] = ()
    automation: Automation | None = None


class RoutedMessage(Struct, frozen=True, kw_only=True):
    """A stored message with its row, sender and route.

    ``command`` is the command that it is, if any, for an agent with these ``triggers`` (see ``command_for``). One that no person
    wrote is never a command. For the other fields see ``ReceivedMessage``.
    """

    row: InboxRow
    inbound: Inbound
    actor: Actor
    route: Route
    before: str = ""
    context_events: tuple[str, ...] = ()
    context_sources: tuple[str, ...] = ()
    automation: Automation | None = None
    command: ParsedCommand | None = None
    triggers: tuple[str, ...] | None = None

    @property
    def origin(self) -> Origin:
        """Who or what started the turn that answers it."""
        return _ORIGINS[self.route.audience.kind] if self.automation is None else self.automation.origin

    @property
    def platform_id(self) -> str | None:
        """The platform's id of the message, by which a reply can refer to it. None where no platform has the message."""
        return (self.inbound.message_id or None) if self.automation is None else None

    def command_for(self, triggers: tuple[str, ...]) -> ParsedCommand | None:
        """Return the command in this message for an agent with these triggers; parsed again only if they have changed."""
        if triggers == self.triggers or self.automation is not None:
            return self.command
        return parse_with_triggers(self.inbound.text, triggers)


class UnreadableMessage(ValueError):
    """Raised for a row that this version cannot read."""


def encode_message(
    inbound: Inbound,
    actor: Actor,
    route: Route | None,
    *,
    before: str = "",
    asides: Sequence[str] = (),
    aside_sources: Sequence[str] = (),
    automation: Automation | None = None,
) -> str:
    """Return the payload of a row, as ASCII JSON."""
    written: dict[str, Any] = {
        "v": _VERSION,
        "before": before,
        "asides": list(asides),
        "inbound": {
            **{name: getattr(inbound, name) for name in (*_PLAIN, *_LATER)},
            "attachments": [asdict(attachment) for attachment in inbound.attachments],
            "conversation": {name: value for name, value in asdict(inbound.conversation).items() if value is not None},
            "sender": asdict(inbound.sender),
            "at": inbound.at.isoformat(),
            "hints": dict(inbound.hints),
        },
        "actor": asdict(actor),
        "route": None if route is None else asdict(route) | {"audience": asdict(route.audience)},
    }
    if aside_sources:
        written["asideSources"] = list(aside_sources)
    if automation is not None:
        written["automation"] = automations.to_json(automation)
    return json.dumps(written, separators=(",", ":"))


def arrival_of(inbound: Inbound, route: Route, automation: Automation, now: datetime) -> Arrival:
    """Return a message that no person wrote as a row to store. Its ``key`` and ``alias`` name the event behind it: it is stored once."""
    return Arrival(
        key=inbound.key,
        alias=inbound.alias,
        conversation=inbound.conversation.address,
        session=route.session,
        sender=inbound.sender.id,
        payload=encode_message(inbound, automation.actor, route, automation=automation),
        received_at=now,
    )


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
            context_sources=tuple(written.get("asideSources", ())),
            automation=None if (why := written.get("automation")) is None else automations.from_json(why),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableMessage(f"its payload is not what it should be: {error!r}"[:300]) from error


def words_of(inbound: Inbound) -> str:
    """Return the text of a message and the names of its files."""
    names = (attachment.name or attachment.kind for attachment in inbound.attachments)
    return " ".join(filter(None, [inbound.text, *(f"📎 {name}" for name in names)]))
