"""Answers of several gateways to one call, put together as if one had given them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

IDENTITY: Final[Mapping[str, str]] = {"inbox": "id", "jobs": "id", "outbox": "id", "servers": "name", "workspaces": "agent"}
"""Lists whose entries may be told of by several gateways: the one that says most of an entry is believed."""
SUMMED: Final = frozenset({"conversations", "dead", "held", "kept", "more", "ready", "running", "searched", "sending", "sent"})
SUMMED_TOO: Final = frozenset({"ambiguous", "suspended", "unreadable", "waiting"})


def merged(answers: Sequence[Any], order: Mapping[str, str]) -> Any:
    """Return one answer for several, of which the first is this gateway's. ``order``: see ``call_table.Each``."""
    first = answers[0]
    if isinstance(first, dict):
        return {name: _field(name, [one[name] for one in answers if name in one], order) for name in _names(answers)}
    return _ordered(_joined(answers, ""), order.get("", "")) if isinstance(first, list) else first


def merged_status(answers: Sequence[tuple[str, dict[str, Any]]], unreached: Sequence[str]) -> dict[str, Any]:
    """Return the status of a cluster, of which the first answer is this gateway's. Names of gateways stand before their notices."""
    whole: dict[str, Any] = merged([status for _, status in answers], {})
    first = answers[0][1]
    whole |= {name: first[name] for name in ("pid", "version", "backup", "settings") if name in first}
    for name in ("notices", "paused"):
        whole[name] = [
            text if place == 0 or text.startswith(f"{label}: ") else f"{label}: {text}"
            for place, (label, status) in enumerate(answers)
            for text in status.get(name, ())
        ]
    whole["notices"] += [f"{why}. What it holds is missing here." for why in unreached]
    whole["gateways"] = [
        {
            "gateway": label,
            "pid": status.get("pid"),
            "version": status.get("version"),
            "agents": sorted(status.get("agents", ())),
        }
        for label, status in answers
    ]
    return whole


def _names(answers: Sequence[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for one in answers for name in one))


def _field(name: str, values: Sequence[Any], order: Mapping[str, str]) -> Any:
    first = values[0]
    if isinstance(first, dict):
        return {one: _field(one, [value[one] for value in values if one in value], {}) for one in _names(values)}
    if isinstance(first, list):
        return _ordered(_joined(values, name), order.get(name, ""))
    if name in SUMMED | SUMMED_TOO and all(isinstance(one, int) for one in values):
        return sum(values)
    return next((one for one in values if one is not None), None)


def _joined(lists: Sequence[Any], name: str) -> list[Any]:
    """Return the entries of all lists, each once."""
    found: dict[str, Any] = {}
    for entry in (entry for one in lists for entry in one):
        field = IDENTITY.get(name)
        known = str(entry[field]) if field is not None and isinstance(entry, dict) else json.dumps(entry, sort_keys=True)
        if known not in found or (isinstance(entry, dict) and len(entry) > len(found[known])):
            found[known] = entry
    return list(found.values())


def _ordered(entries: list[Any], by: str) -> list[Any]:
    field = by.removeprefix("-")
    if not field or not all(isinstance(one, dict) for one in entries):
        return entries
    there = [one for one in entries if one.get(field) is not None]
    rest = [one for one in entries if one.get(field) is None]
    return [*sorted(there, key=lambda one: one[field], reverse=by.startswith("-")), *rest]
