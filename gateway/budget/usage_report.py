"""Usage reports by day, agent and model, with the prompt cache's share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from msgspec.structs import asdict

from agent.models.catalog.prices import AS_OF
from gateway.ledger.protocol import Ledger
from gateway.ledger.spending_rows import UsageBy, UsageRow

_CAMEL: Final = frozenset({"cache_read", "cache_write"})
OUTSIDE: Final = "(upkeep)"
"""What is shown for calls outside of turns: memory flushes, summaries, embeddings. Cache refreshes have an origin."""


def first_day(now: datetime, zone: ZoneInfo, days: int) -> str:
    """The first of the last ``days`` days including today, in the owner's time zone."""
    return f"{now.astimezone(zone).date() - timedelta(days=days - 1):%Y-%m-%d}"


async def usage_facts(ledger: Ledger, since: str, by: UsageBy = "model") -> dict[str, Any]:
    """The usage from a day on as JSON values; jobs and sub-agents that are there still have their names in ``label``."""
    rows, labels = await ledger.spending.usage(since, by), dict[str, str]()
    if by == "source" and any(":" in row.name for row in rows):
        labels = {f"job:{one.id}": one.name for one in await ledger.jobs.all()}
        ended = datetime.fromisoformat(since).replace(tzinfo=UTC) - timedelta(days=1)
        labels |= {f"subagent:{one.id}": one.label for one in await ledger.subagents.all(ended_since=ended)}
    return facts(rows, by, labels)


def facts(rows: Sequence[UsageRow], by: UsageBy = "model", labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The rows and their total as JSON values. ``cacheHit``: the share of input tokens read from a prompt cache."""
    listed = [
        {
            **{by if key == "name" else key: value for key, value in asdict(row).items() if key not in _CAMEL},
            **({"label": label} if (label := (labels or {}).get(row.name)) else {}),
            "cacheRead": row.cache_read,
            "cacheWrite": row.cache_write,
            "cacheHit": _hit(row.input, row.cache_read, row.cache_write),
        }
        for row in rows
    ]
    total = {
        "calls": sum(row.calls for row in rows),
        "cost": sum(row.cost for row in rows),
        "unpriced": sum(row.unpriced for row in rows),
        "estimated": sum(row.estimated for row in rows),
        "open": sum(row.open for row in rows),
    }
    return {"usage": listed, "total": total, "pricesAsOf": AS_OF}


def usage_table(found: dict[str, Any], by: UsageBy = "model") -> str:
    """The same as a Markdown table."""
    if not found["usage"]:
        return "There were no model calls in these days."
    lines = [f"| day | agent | {by} | calls | in | out | cache | cost |", "|---|---|---|---:|---:|---:|---:|---:|"]
    for row in found["usage"]:
        sent = row["input"] + row["cacheRead"] + row["cacheWrite"]
        sign = _sign(row)
        cost = "?" if row["unpriced"] and not row["cost"] else f"{sign}${row['cost']:.2f}"
        lines.append(
            f"| {row['day']} | {row['agent']} | {_named(row, by)} | {row['calls']} | {sent:,} | {row['output']:,} "
            f"| {row['cacheHit']:.0%} | {cost} |"
        )
    total = found["total"]
    calls = "1 call" if total["calls"] == 1 else f"{total['calls']} calls"
    lines += ["", f"Total: {_sign(total)}${total['cost']:.2f} in {calls}; prices as of {found['pricesAsOf']}."]
    if estimated := total["estimated"]:
        lines.append(
            f"~: for {estimated} calls the provider reported no usable figures or no price is known, so a high "
            "estimate is used. Set prices with models.providers.NAME.models[].cost or models.pricesFile."
        )
    if unfinished := total["open"]:
        lines.append(
            f"~: {unfinished} calls are under way, or ended with a gateway that was killed: the most that they can cost is "
            "counted, and their tokens only by `homebody usage --budgets`."
        )
    if unpriced := total["unpriced"]:
        lines.append(f"{unpriced} calls by an earlier version have no cost, because the price of their model was unknown.")
    return "\n".join(lines)


def _named(row: dict[str, Any], by: UsageBy) -> str:
    name = row[by] or OUTSIDE
    return f"{row['label'].replace('|', '/')} ({name})" if "label" in row else name


def _sign(figures: dict[str, Any]) -> str:
    return "≥ " if figures["unpriced"] else "~ " if figures["estimated"] or figures["open"] else ""


def _hit(plain: int, read: int, written: int) -> float:
    sent = plain + read + written
    return read / sent if sent else 0.0
