"""What people and programs are told of a list of things to do."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any, Final

from agent.tools.todo_file import Changed, Shown
from agent.tools.todo_list import HEADING, Item

_BELOW: Final = "\u2003"
"""Indentation that chat platforms keep."""


def listed(items: Sequence[Item], today: date) -> list[str]:
    """Return a line for each item with its number, with the headings of sections and blank lines between them."""
    rows: list[str] = []
    heading = ""
    for item in items:
        section = "" if item.section == HEADING else item.section
        if section != heading:
            rows += ["", f"**{section or HEADING}**"] if rows else [f"**{section}**"]
            heading = section
        rows.append(f"{_BELOW * item.depth}{'☑' if item.done else '☐'} {item.number} · {item.text}{_due(item, today)}")
    return rows


def change_in_words(action: str, changed: Changed) -> str:
    """Say what came of a change, in a line for people."""
    quoted = f"“{changed.item.text}”"
    if not changed.did:
        state = {"add": "is on the list already", "done": "was done already", "undo": "is open already"}.get(
            action, "says that already"
        )
        return f"{quoted} {state}."
    below = f", with {changed.nested} below it" if changed.nested else ""
    return {
        "add": f"📝 {quoted} is on the list ({changed.path}).",
        "done": f"☑ {quoted} is done.",
        "undo": f"☐ {quoted} is open again.",
        "edit": f"📝 It says {quoted} now.",
        "remove": f"🗑 {quoted} is off the list{below}.",
    }[action]


def facts(item: Item) -> dict[str, Any]:
    """Return an item as JSON values."""
    return {
        "number": item.number,
        "id": item.id,
        "text": item.text,
        "done": item.done,
        "due": item.due.isoformat() if item.due else None,
        "section": item.section,
        "nested": bool(item.depth),
        "line": item.line + 1,
    }


def list_facts(shown: Shown) -> dict[str, Any]:
    """Return a whole list as JSON values."""
    return {"path": str(shown.path), "items": [facts(item) for item in shown.found.items], "untrusted": list(shown.sources)}


def _due(item: Item, today: date) -> str:
    if item.done or item.due is None or item.due > today:
        return ""
    return " — today" if item.due == today else " — overdue"
