"""What works now, as text: sessions with a turn, and the sub-agents below them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

NOTHING: Final = "Nothing works now."
USAGE: Final = "`/agents stop ID` ends one with all below it, `/stop all` everything."
ENDED_SHOWN: Final = 5
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_STATES: Final = {
    "running": "works",
    "queued": "waits for a place",
    "waiting": "waits for the sub-agents below it",
    "suspended": "waits for my owner's approval",
    "idle": "has answered",
    "done": "has ended",
    "failed": "failed",
    "stopped": "was stopped",
}


def tree_text(facts: dict[str, Any], names: Mapping[str, str]) -> str:
    """Return what works now as Markdown: sessions by agent, and below each its sub-agents. ``names`` are those of the agents."""
    below: dict[str, list[dict[str, Any]]] = {}
    for one in facts["subagents"]:
        below.setdefault(one["parent"], []).append(one)
    lines = []
    for session in facts["sessions"]:
        lines.append(_session_line(session, names))
        lines += _below(below, session["key"], 1)
    return "\n".join([*([*lines, "", USAGE] if lines else [NOTHING]), *_ended(facts["subagents"])])


def _ended(subagents: Sequence[dict[str, Any]]) -> list[str]:
    """Return the lines about those that have ended today, the newest first."""
    ended = sorted((one for one in subagents if one["endedAt"]), key=lambda one: str(one["endedAt"]), reverse=True)
    if not ended:
        return []
    more = [f"- … and {len(ended) - ENDED_SHOWN} more"] if len(ended) > ENDED_SHOWN else []
    return ["", "Ended today:", *(_line(one) for one in ended[:ENDED_SHOWN]), *more]


def _below(below: Mapping[str, Sequence[dict[str, Any]]], key: str, level: int) -> list[str]:
    lines = []
    for one in below.get(key, ()):
        if not one["endedAt"]:
            lines.append(f"{'  ' * level}{_line(one)}")
            lines += _below(below, one["session"], level + 1)
    return lines


def _line(one: dict[str, Any]) -> str:
    cost = f" · {one['tokens']:,} tokens · ${one['usd']:.2f}" if one["tokens"] else ""
    why = f" ({one['reason']})" if one["reason"] else ""
    other = f" · agent {one['agent']}" if not one["parent"].startswith(f"agent:{one['agent']}:") else ""
    return f"- {one['id']} “{one['label']}”{other}: {_STATES[one['state']]}{why} · {age(one['age'])}{cost}"


def _session_line(session: dict[str, Any], names: Mapping[str, str]) -> str:
    name = names.get(session["agent"], session["agent"])
    key = session["key"].removeprefix(f"agent:{session['agent']}:")
    parts = [_STATES[session["state"]]]
    parts += [age(session["age"])] if session["age"] is not None else []
    parts += [f"{session['toolCalls']} tool calls"] if session["toolCalls"] else []
    parts += [f"{session['waiting']} waiting"] if session["waiting"] else []
    return f"- **{name}** `{key}`: {' · '.join(parts)}"


def age(seconds: float) -> str:
    """Return how long something takes or took, in one unit."""
    for unit, name in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= unit:
            return f"{seconds // unit:.0f} {name}"
    return f"{max(0, seconds):.0f} s"
