"""What needs the owner's approval while untrusted text is in view, whatever the rules allow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Final

from agent.tools.file_tool_context import is_standing
from agent.tools.protocol import Act, ToolContext
from agent.urls import normal_url

_NAMED: Final = 3
_PUBLISH: Final = "to change a file; it can be read by others"
_WHAT: Final = {
    "exec": "to run a command that no rule allows",
    "write": "to change a file that every conversation is given",
    "url": "to open an address that nobody named in this conversation",
    "send": "to send something elsewhere",
    "schedule": "to set up something for later",
    "call": "to do something in another program or service",
    "spawn": "to start a sub-agent, which costs money",
}


def needs_yes(act: Act, context: ToolContext, seen: Callable[[str], bool] | None = None) -> str | None:
    """Return why an act needs the owner's approval because untrusted text is in view, or None where it does not.

    Ask it about an "exec" only where no rule of the owner's allows the command. ``seen`` says whether an address in normal form was given
    from outside in this conversation (default: as ``context`` says). A whole address must have been: what a model adds to one carries data
    out in a path or a host's name as well as in a query.
    """
    if context.taint <= frozenset(act.excused) or (
        act.kind == "spawn" and not may_be_asked(context)
    ):  # few are started then: gateway.subagents.starting
        return None
    if act.kind == "url":
        url = normal_url(act.url)
        if url and (seen or context.has_seen)(url):
            return None
    others = act.kind == "write" and not is_standing(PurePosixPath(act.path))
    what = _WHAT[act.kind] if not others else "to change a note" if context.task else _PUBLISH
    return f"untrusted text is in this conversation ({named(context)}), and it may be what asks {what}"


def may_be_asked(context: ToolContext) -> bool:
    """Return whether the owner is asked about an act of this turn: their own turns, and those of jobs that are theirs."""
    return context.origin == "owner" or (context.origin == "schedule" and context.audience.kind == "owner")


def in_order(context: ToolContext) -> tuple[str, ...]:
    """Return the sources of untrusted text in a conversation, the newest first where that is known."""
    return tuple(dict.fromkeys((*(one for one in context.newest_sources if one in context.taint), *sorted(context.taint))))


def named(context: ToolContext) -> str:
    """Name a few sources for people."""
    shown = in_order(context)[:_NAMED]
    left = len(context.taint) - len(shown)
    return ", ".join(shown) + (f" and {left} more" if left else "")
