"""Which gateway of a cluster answers which of the owner's calls: the only table of it.

What is not in it is answered where it is asked, as it concerns what all gateways share: people, settings, costs, hooks, the files of the
home; or it is about that very gateway.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

Way = Literal["agent", "session", "account", "row", "each"]


@dataclass(frozen=True, slots=True)
class Holder:
    """The call is answered by the holder of what an argument names.

    "agent": the agent in ``argument``, else that of the session in ``session``, else the default agent. "session": the agent in a
    session's key. "account": the chat account of the arguments ``channel`` and ``account``. "row": the agent or account that the row
    ``kind`` belongs to; a session's id is a row, too.
    """

    way: Literal["agent", "session", "account", "row"]
    argument: str = "agent"
    kind: str = ""
    without: str = ""
    """"each": without the argument every gateway answers."""


@dataclass(frozen=True, slots=True)
class Each:
    """Every gateway answers, and the answers are put together.

    ``by``: fields of the entries of lists by which these are put in order; "-" before one means the latest first. ``some``: it is enough
    if one of them can do it.
    """

    by: Mapping[str, str]
    some: bool = False


_AGENT: Final = Holder("agent")
_APPROVAL: Final = Holder("row", "name", "approval")
_JOB: Final = Holder("row", "job", "job")
_OUTBOX: Final = Holder("row", "row", "outbox")
_SESSION: Final = Holder("row", "session", "session")
_CHAT: Final = Holder("session", "session")
_NEWEST_SESSION: Final = {"sessions": "-lastInteractionAt", "results": "-lastInteractionAt", "": "-spoken"}

ROUTES: Final[Mapping[str, Holder | Each]] = {
    "agents.tree": Each({}),
    "approvals.decide": _APPROVAL,
    "approvals.list": Each({"approvals": "-askedAt"}),
    "approvals.show": _APPROVAL,
    "channels.restart": Each({}, some=True),
    "chat.history": _CHAT,
    "chat.press": _CHAT,
    "chat.say": _CHAT,
    "chat.search": _CHAT,
    "chat.sessions": Each(_NEWEST_SESSION),
    "chat.stop": _CHAT,
    "context": _AGENT,
    "context.flush": _AGENT,
    "context.history": _AGENT,
    "context.prompt": _AGENT,
    "hooks.trial": Holder("row", "name", "hook"),
    "inbox.list": Each({"inbox": "-id"}),
    "inbox.missed": Each({"inbox": "-id"}),
    "inbox.retry": Holder("row", "row", "inbox"),
    "jobs.add": _AGENT,
    "jobs.calendar": Holder("agent", without="each"),
    "jobs.change": _JOB,
    "jobs.list": Holder("agent", without="each"),
    "jobs.log": _JOB,
    "jobs.pause": _JOB,
    "jobs.preview": _AGENT,
    "jobs.remove": _JOB,
    "jobs.resume": _JOB,
    "jobs.run": _JOB,
    "jobs.show": _JOB,
    "mcp.list": Each({}),
    "memory.blame": _AGENT,
    "memory.diff": _AGENT,
    "memory.explain": _AGENT,
    "memory.files": _AGENT,
    "memory.log": _AGENT,
    "memory.read": _AGENT,
    "memory.remove": _AGENT,
    "memory.status": _AGENT,
    "memory.sync": _AGENT,
    "memory.tidy": _AGENT,
    "memory.tidyDecide": _AGENT,
    "memory.undo": _AGENT,
    "memory.write": _AGENT,
    "outbox.drop": _OUTBOX,
    "outbox.forget": _OUTBOX,
    "outbox.held": Each({"held": "id"}),
    "outbox.list": Each({"outbox": "-id"}),
    "outbox.retry": _OUTBOX,
    "outbox.send": Holder("row", "row", "unasked", without="each"),
    "resume": Each({}),
    "route.explain": Holder("account", "channel"),
    "sandbox.check": _AGENT,
    "sandbox.explain": _AGENT,
    "sessions.export": _SESSION,
    "sessions.list": Holder("agent", without="each"),
    "sessions.read": _SESSION,
    "sessions.repair": Holder("session", "key"),
    "sessions.search": Holder("agent", without="each"),
    "sessions.undo": Holder("session", "key"),
    "share.call": _AGENT,
    "status": Each({}),
    "todo.change": _AGENT,
    "todo.list": _AGENT,
    "tools.list": _AGENT,
    "tools.show": _AGENT,
    "workspace.status": Each({}),
    "workspace.sync": _AGENT,
}
ORDER: Final[Mapping[str, Mapping[str, str]]] = {
    "jobs.calendar": {"due": "at", "jobs": "nextAt", "runs": "at", "oftener": ""},
    "jobs.list": {"jobs": "nextAt"},
    "sessions.list": _NEWEST_SESSION,
    "sessions.search": _NEWEST_SESSION,
}
"""In what order lists are put together of calls that each gateway answers only without an argument (``Holder.without``)."""


def agent_of(session: object) -> str | None:
    """Return the agent in a session's key; None for what is no key."""
    parts = session.split(":") if isinstance(session, str) else []
    return parts[1] if parts[:1] == ["agent"] and len(parts) > 1 else None


def order_of(name: str) -> Mapping[str, str]:
    """Return how the lists in a call's answers are put in order."""
    route = ROUTES.get(name)
    return route.by if isinstance(route, Each) else ORDER.get(name, {})


def asks_each(name: str, given: Mapping[str, Any]) -> bool:
    """Return whether every gateway answers a call with these arguments."""
    route = ROUTES.get(name)
    if isinstance(route, Holder):
        return route.without == "each" and given.get(route.argument) is None
    return isinstance(route, Each)
