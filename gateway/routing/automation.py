"""Messages that no person wrote: why such a message exists, and the rules of the turn that answers it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import fields

from agent.tools.protocol import Origin
from gateway.routing.access import LOCAL_PERSON, Actor

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


def to_json(automation: Automation) -> dict[str, Any]:
    """Return an automation as JSON values, without what is as usual."""
    values = {name: getattr(automation, name) for name in _FIELDS}
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in values.items() if value != _FIELDS[name]
    }


def from_json(raw: Mapping[str, Any]) -> Automation:
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
