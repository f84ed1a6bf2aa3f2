"""Budgets and the estimate of a longer cache, in words."""

from __future__ import annotations

from typing import Any, Final

WEEK: Final = 7
"""Days over which the estimate of a longer cache is told in a chat."""
CENT: Final = 0.005
"""USD from which on a sum is not told as nothing."""
DAY: Final = "budgets.day.usd"
_RAISED: Final = (
    ("job", "That of a job", "homebody cron change JOB --usd 1"),
    ("hook", "That of a webhook", "homebody hooks change NAME --daily-usd 1"),
    ("heartbeat", "That of heartbeats", "homebody config set agents.defaults.heartbeat.dailyUsd 2"),
    ("mail", "That of a watched mailbox", "homebody config set mail.accounts.NAME.watchDailyUsd 2"),
)


def budget_lines(facts: dict[str, Any]) -> list[str]:
    """Return the lines about today's budgets. Unlimited ones are told where something is used."""
    lines = [f"Budgets of {facts['day']}" + ("" if facts["enabled"] else ", which are not held (budgets.enabled: false)") + ":"]
    for one in facts["budgets"]:
        whose = f" of {one['whose']}" if one["whose"] else ""
        if one["limit"] is None:
            lines += [f"  {one['name']}{whose}: {_amount(one['used'], one['unit'])} used, unlimited"] if one["used"] else []
        else:
            used = f"{_amount(one['used'], one['unit'])} of {_amount(one['limit'], one['unit'])} used"
            lines.append(f"  {one['name']}{whose}: {used} ({one['share']:.0%}), {_amount(one['left'], one['unit'])} left")
    raised = max((2 * one["limit"] for one in facts["budgets"] if one["name"] == DAY and one["limit"] is not None), default=10)
    lines.append(f"To raise one: homebody config set {DAY} {max(raised, 10):g}")
    kinds = {one["kind"] for one in facts["budgets"]}
    return [*lines, *(f"{words}: {command}" for kind, words, command in _RAISED if kind in kinds)]


def savings_lines(facts: dict[str, Any]) -> list[str]:
    """Return the lines about what keeping prompts for an hour would have saved."""
    if not facts["models"]:
        return [f"No model that was called since {facts['since']} has a price for keeping prompts for an hour."]
    lines = [f"Estimate from the calls since {facts['since']}, if all prompts had been kept for an hour:"]
    lines += [
        f"  {one['model']}: {one['missedCalls']} of {one['calls']} calls would have read {one['missedTokens']:,} tokens more from the "
        f"cache: ${one['saved']:.2f} less; writing for an hour: ${one['dearer']:.2f} more"
        for one in facts["models"]
        if one["missedCalls"] or one["dearer"] >= CENT
    ]
    lines += [
        f"  {one['model']}: {one['writtenForAnHour']:,} tokens were written for an hour already: ${one['hourCost']:.2f} more than for "
        f"five minutes, and ${one['hourSaved']:.2f} less for what was read after more than five minutes"
        for one in facts["models"]
        if one["writtenForAnHour"]
    ]
    balance = f"${facts['net']:.2f} saved" if facts["net"] >= 0 else f"${-facts['net']:.2f} more"
    return [*lines, f"In all: {balance}. The setting is agents.defaults.cacheRetention: {facts['retention']}"]


def hour_cache_line(facts: dict[str, Any], days: int) -> str:
    """Return lines for the end of a report: what a cache of an hour would change and has changed; "" where there is nothing of it."""
    told = []
    if any(one["missedCalls"] or one["dearer"] >= CENT for one in facts["models"]):
        told.append(f"With a one-hour cache: {_change(facts['net'])}")
    if any(one["writtenForAnHour"] for one in facts["models"]):
        told.append(f"The one-hour cache that you have: {_change(facts['hourNet'])}")
    if not told:
        return ""
    return f"\n\n{'; '.join(told)} in the last {days} days (an estimate; `homebody usage --longer-cache` explains it)."


def _change(saved: float) -> str:
    return f"{'−' if saved >= 0 else '+'}${abs(saved):.2f}"


def _amount(value: float, unit: str) -> str:
    return f"${value:.2f}" if unit == "usd" else f"{value:,.0f} tokens"
