"""Says in a line how an agent's heartbeats are and what they cost today."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from gateway.ledger.spending_rows import UsageRow

_WHY: Final = {
    "nothing to do": "nothing to do in HEARTBEAT.md, so no model is called",
    "outside active hours": "outside of its hours (heartbeat.activeHours)",
    "quiet hours": "paused in quiet hours",
    "owner away": "paused, as you have not written for a week",
    "busy": "waits for the running answer",
    "waiting": "waits for the last one",
}

_SEVERAL: Final = 3
"""Calls of a day from which on the cache must have given something: the first writes it."""


def status_line(facts: Mapping[str, Any], spent: Sequence[UsageRow], zone: ZoneInfo) -> str:
    """Return the line of ``/status``; nothing where heartbeats are off. ``facts`` are those of ``Heartbeats``."""
    if facts["skipped"] == "off":
        return ""
    rows = [row for row in spent if row.agent == facts["agent"] and row.name == f"heartbeat:{facts['agent']}"]
    calls, cost = sum(row.calls for row in rows), sum(row.cost for row in rows)
    today = f"; today {calls} {'call' if calls == 1 else 'calls'}, ${cost:.2f}" if calls else ""
    every = f"every {_interval(facts['every'])}"
    if facts["skipped"] in {"unreadable", "unreachable"}:
        return f"- ⚠️ Heartbeat {every}: {facts['trouble']}"
    if facts["failures"]:
        every = f"(the last {facts['failures']} failed, so less often than {every})"
    due = datetime.fromisoformat(facts["next"]).astimezone(zone) if facts["next"] else None
    how = _WHY.get(facts["skipped"] or "") or (f"next at {due:%H:%M}" if due else "begins in a moment")
    return f"- 💓 Heartbeat {every}: {how}{today}{_uncached(rows)}"


def _uncached(rows: Sequence[UsageRow]) -> str:
    """Say that the day's heartbeats cost their full price, where they cost anything and the provider's cache gave none of them anything."""
    calls, prompt = sum(row.calls for row in rows), sum(row.input + row.cache_write for row in rows)
    if calls < _SEVERAL or any(row.cache_read for row in rows) or not any(row.cost for row in rows):
        return ""
    return (
        f", each at its full price: nothing came from the provider's cache. It may keep no prompt of {prompt // calls:,} tokens; "
        "a longer USER.md, a cheaper `heartbeat.model` or a longer `heartbeat.every` cost less"
    )


def _interval(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    if hours and not rest:
        return f"{hours} h"
    return f"{timedelta(seconds=round(seconds)) / timedelta(minutes=1):g} min"
