"""A message on its way from its row to its turn, and the encoding of messages in their rows.

``Automation`` says why a message exists that no person wrote (a job, a webhook, a sub-agent), and the rules of its turn.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict, fields

from agent.tools.protocol import Origin
from channels.messages import Attachment, Inbound, Sender
from gateway.commands.table import ParsedCommand, parse
from gateway.ledger.rows import Arrival, InboxRow
from gateway.ledger.values import as_conversation
from gateway.routing.access import LOCAL_PERSON, Actor
from gateway.routing.router import Route
from memory.audience import Audience

ISOLATED: Final = frozenset({"job", "hook", "sub", "heartbeat"})
"""The third part of the keys of isolated sessions, such as ``agent:main:job:abcde``."""


class Automation(Struct, frozen=True, kw_only=True):
    """Why a message exists that no person wrote, and the rules of its turn.

    ``name`` is the job's, hook's or sub-agent's name, for people and for the head of the message. ``source`` is its id, such as
    "job:abcde", "hook:alarm", "subagent:x1" or "heartbeat:main"; usage and limits are counted by it. ``fresh``: the session begins
    anew for this message, without a flush. ``light``: the request has no history and shares the prompt of the owner's main session;
    ``thinking`` is its level. ``allow`` and ``deny`` narrow the tools of the turn and never widen them. ``daily_usd`` and
    ``daily_tokens`` are the source's own daily budget. ``urgent``: what it sends may be sent in quiet hours and beyond the daily
    number. A reply that is ``quiet_reply`` is dropped, also one that has it at its beginning or end and at most ``quiet_chars``
    other characters. ``quiet_failure``: nobody is told if its turn fails. ``sources`` name where untrusted words in the text come
    from; with any, the text is fenced and taints the history. ``instruction`` are words of who made it that stand before the fence:
    what to do with such a text. ``parent`` is the session that is told the result, ``depth`` how many sub-agents are above it.
    ``owner``: it was made by or for the owner; otherwise its rights are a guest's. ``made_in`` is the address of the conversation
    that it was made in: in a group its rules for tools hold, wherever the reply goes.

    With sub-agents: ``asked_by`` is the origin of the turn from which it all came, whose rights bound those of the ``origin``; ``request``
    names that turn; ``result_of`` is the id of the sub-agent whose result the message brings.
    """

    origin: Origin
    name: str
    source: str
    fresh: bool = False
    light: bool = False
    model: str | None = None
    thinking: str | None = None
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    daily_usd: float | None = None
    daily_tokens: int | None = None
    urgent: bool = False
    quiet_reply: str | None = None
    quiet_chars: int = 0
    quiet_failure: bool = False
    sources: tuple[str, ...] = ()
    instruction: str = ""
    parent: str | None = None
    depth: int = 0
    owner: bool = True
    made_in: str = ""
    asked_by: Origin | None = None
    request: str = ""
    result_of: str = ""

    @property
    def actor(self) -> Actor:
        """Whose rights its turn has."""
        if self.owner:
            return Actor(role="owner", person=LOCAL_PERSON, sender=self.source)
        return Actor(role="peer", person=self.source, sender=self.source)


_MARKUP: Final = " \t\r\n*_`~.!\"'"


def to_say(automation: Automation, reply: str) -> str:
    """Return what is sent of a reply: nothing of one that says nothing, and never the ``quiet_reply`` at its beginning or end."""
    if says_nothing(automation, reply):
        return ""
    if automation.quiet_reply is None or not automation.quiet_chars:
        return reply
    token = re.escape(automation.quiet_reply)
    edges = re.compile(rf"\A[\s*_`~.!\"']*{token}(?!\w)[*_`~.!\"']*|(?<!\w)[*_`~\"']*{token}[\s*_`~.!\"']*\Z", re.IGNORECASE)
    bare = edges.sub("", reply)
    if bare == reply:
        return reply
    bare = bare.strip()
    return "" if len(bare) <= automation.quiet_chars else bare


def says_nothing(automation: Automation, reply: str) -> bool:
    """Return whether a reply is the one that means that there is nothing to say, however it is marked up."""
    quiet = automation.quiet_reply
    return bool(quiet) and reply.strip(_MARKUP).casefold() == (quiet or "").casefold()


_FIELDS: Final = {field.name: field.default for field in fields(Automation)}
_LISTS: Final = frozenset({"allow", "deny", "sources"})


def automation_to_json(automation: Automation) -> dict[str, Any]:
    """Return an automation as JSON values, without what is as usual."""
    values = {name: getattr(automation, name) for name in _FIELDS}
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in values.items() if value != _FIELDS[name]
    }


def automation_from_json(raw: Mapping[str, Any]) -> Automation:
    """Read what ``to_json`` wrote. Fields of later versions are ignored.

    Raises:
        TypeError: a field is missing.
    """
    known: dict[str, Any] = {name: value for name, value in raw.items() if name in _FIELDS}
    lists = {name: tuple(known[name]) for name in _LISTS if known.get(name) is not None}
    return Automation(**known | lists)


def is_isolated(session: str) -> bool:
    """Return whether a session key is that of an isolated session, in which automations alone speak."""
    return bool(isolated_kind(session))


def isolated_kind(session: str) -> str:
    """Return what an isolated session is for, one of ``ISOLATED``; an empty string for the key of any other session."""
    parts = session.split(":")
    return parts[2] if len(parts) > 2 and parts[0] == "agent" and parts[2] in ISOLATED else ""  # noqa: PLR2004 -- agent, id, kind


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
    def says_something(self) -> bool:
        """Whether there is anything in it that could be answered."""
        instruction = self.automation.instruction if self.automation is not None else ""
        return bool(self.inbound.text.strip() or instruction or self.inbound.attachments)

    @property
    def platform_id(self) -> str | None:
        """The platform's id of the message, by which a reply can refer to it. None where no platform has the message."""
        return (self.inbound.message_id or None) if self.automation is None else None

    def command_for(self, triggers: tuple[str, ...]) -> ParsedCommand | None:
        """Return the command in this message for an agent with these triggers; parsed again only if they have changed."""
        if triggers == self.triggers or self.automation is not None:
            return self.command
        return parse(self.inbound.text, triggers)


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
        written["automation"] = automation_to_json(automation)
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
            automation=None if (why := written.get("automation")) is None else automation_from_json(why),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableMessage(f"its payload is not what it should be: {error!r}"[:300]) from error


def words_of(inbound: Inbound) -> str:
    """Return the text of a message and the names of its files."""
    names = (attachment.name or attachment.kind for attachment in inbound.attachments)
    return " ".join(filter(None, [inbound.text, *(f"📎 {name}" for name in names)]))
