"""Which calls of the gateway the page may make, and who: the only table of rights of the page. What is not in it does not exist there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gateway.page.browsers import BrowserRole

CALLS: Final[Mapping[str, BrowserRole]] = {
    "approvals.list": "viewer",
    "approvals.rules": "viewer",
    "approvals.show": "viewer",
    "approvals.decide": "owner",
    "approvals.forget": "owner",
    "approvals.restore": "owner",
    "chat.history": "viewer",
    "chat.search": "viewer",
    "chat.sessions": "viewer",
    "chat.say": "owner",
    "chat.press": "owner",
    "chat.stop": "owner",
    "jobs.calendar": "viewer",
    "jobs.log": "viewer",
    "jobs.preview": "viewer",
    "jobs.add": "owner",
    "jobs.change": "owner",
    "jobs.pause": "owner",
    "jobs.remove": "owner",
    "jobs.resume": "owner",
    "jobs.run": "owner",
    "memory.blame": "viewer",
    "memory.diff": "viewer",
    "memory.explain": "viewer",
    "memory.files": "viewer",
    "memory.log": "viewer",
    "memory.read": "viewer",
    "memory.remove": "owner",
    "memory.undo": "owner",
    "memory.write": "owner",
    "page.browsers": "viewer",
    "page.revoke": "owner",
    "settings.form": "viewer",
    "settings.preview": "viewer",
    "settings.write": "owner",
    "status": "viewer",
    "context": "viewer",
    "context.history": "viewer",
    "context.prompt": "viewer",
    "context.flush": "viewer",
    "sessions.list": "viewer",
    "sessions.search": "viewer",
    "sessions.read": "viewer",
    "sessions.export": "viewer",
    "sessions.undo": "owner",
    "costs": "viewer",
    "costs.budgets": "viewer",
    "costs.cache": "viewer",
    "logs.read": "viewer",
    "doctor.findings": "viewer",
    "doctor.mend": "owner",
    "outbox.list": "viewer",
    "outbox.held": "viewer",
    "outbox.retry": "owner",
    "outbox.drop": "owner",
    "outbox.forget": "owner",
    "outbox.send": "owner",
    "inbox.list": "viewer",
    "inbox.missed": "viewer",
    "inbox.retry": "owner",
    "channels.restart": "owner",
    "resume": "owner",
}
"""Calls by name. "viewer": reads only, for anybody who was let in; "owner": changes something, or shows what only an owner may see."""


AS_VIEWER: Final[Mapping[str, Mapping[str, Any]]] = {
    "doctor.findings": {"offline": True},
    "memory.explain": {"by_words": True},
}
"""Arguments that have these values for a viewer, and no other: asking other machines is done with the owner's keys."""


def allowed(name: str, role: BrowserRole, given: Mapping[str, Any]) -> bool | None:
    """Return whether a role may make a call with these arguments; None for one that the page does not have."""
    needed = CALLS.get(name)
    if needed is None or role == "owner":
        return None if needed is None else True
    bound = AS_VIEWER.get(name, {})
    return needed == "viewer" and all(given.get(key, value) is value for key, value in bound.items())


def changes(name: str) -> bool:
    """Return whether other pages are to look again after a call. Those of the chat tell by themselves."""
    return CALLS.get(name) == "owner" and not name.startswith("chat.")
