"""Budgets and the estimate of a longer cache, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

WEEK: Final = 7
"""Days over which the estimate of a longer cache is told in a chat."""
CENT: Final = 0.005
"""USD from which on a sum is not told as nothing."""
_KINDS: Final = {
    "job": "that of the job",
    "hook": "that of the webhook",
    "heartbeat": "that of the heartbeats of",
    "mail": "that of the mailbox",
}
_REST: Final = {"budgets.agent": "agent", "budgets.session": "session"}


def budget_lines(facts: dict[str, Any]) -> list[str]:
    """Return the lines about today's budgets, and how those are raised of which most is used.

    Unlimited ones are told where something is used.
    """
    lines = [f"Budgets of {facts['day']}" + ("" if facts["enabled"] else ", which are not held (budgets.enabled: false)") + ":"]
    for place, one in enumerate(facts["budgets"]):
        whose = f" of {one['whose']}" if one["whose"] else ""
        if one["limit"] is None:
            lines += [f"  {one['name']}{whose}: {amount(one['used'], one['unit'])} used, unlimited"] if one["used"] else []
        else:
            used = f"{amount(one['used'], one['unit'])} of {amount(one['limit'], one['unit'])} used"
            lines.append(f"  {one['name']}{whose}: {used} ({one['share']:.0%}), {amount(one['left'], one['unit'])} left")
        if place == len(facts["budgets"]) - 1 or facts["budgets"][place + 1]["name"] != one["name"]:
            lines += _rest(one, facts["notListed"])
    lines += [
        f"  {one['count']} more budgets of jobs, webhooks and the like, of which less is used"
        for one in facts["notListed"]
        if one["name"] == "sources"
    ]
    return [*lines, *_raised(facts["budgets"])]


def _rest(last: dict[str, Any], not_listed: Sequence[dict[str, Any]]) -> list[str]:
    """Return the line about those that a budget is not told of, which stands behind the ``last`` of it."""
    name, _, unit = last["name"].rpartition(".")
    found = []
    for one in not_listed:
        if one["name"] == name:
            more = f"{one['count']} more {_REST[name]}{'s' if one['count'] > 1 else ''}"
            used = amount(one["usedUsd" if unit == "usd" else "usedTokens"], unit)
            found.append(f"  {last['name']} of {more}: {used} used{'' if one['count'] == 1 else ' in all'}")
    return found


def _raised(budgets: Sequence[dict[str, Any]]) -> list[str]:
    """Return for each kind of budget how the one is raised of which most is used."""
    fullest: dict[str, dict[str, Any]] = {}
    for one in budgets:
        kind = one["kind"] if one["kind"] in {*_KINDS, "subagent"} else ""
        if one["raise"] and (kind not in fullest or one["share"] > fullest[kind]["share"]):
            fullest[kind] = one
    lines = []
    for kind, one in fullest.items():
        if kind == "subagent":
            lines.append(f"To give sub-agents more that are started from now on: {one['raise']}")
        else:
            whose = f"{_KINDS[kind]} {one['whose']}" if kind else one["name"]
            lines.append(f"To raise {whose}: {one['raise']}")
    return lines if "" in fullest else [*lines, "To set a limit of all agents: homebody config set budgets.day.usd AMOUNT"]


def savings_lines(facts: dict[str, Any]) -> list[str]:
    """Return the lines about what keeping prompts for an hour would have saved."""
    if not facts["models"]:
        return [f"No model that was called since {facts['since']} has a price for keeping prompts for an hour."]
    lines = [f"Estimate from the calls since {facts['since']}, if all prompts had been kept for an hour:"]
    lines += [
        f"  {one['model']}: {one['missedCalls']} of {one['calls']} calls would have read {one['missedTokens']:,} tokens more from the "
        f"cache: ${one['saved']:.2f} less; writing for an hour: ${one['dearer']:.2f} more{_longer(one)}"
        for one in facts["models"]
        if one["missedCalls"] or one["dearer"] >= CENT
    ]
    lines += [
        f"  {one['model']}: {one['writtenForAnHour']:,} tokens were written for an hour already: ${one['hourCost']:.2f} more than for "
        f"five minutes, and at most ${one['hourSaved']:.2f} less for what was read after more than five minutes"
        for one in facts["models"]
        if one["writtenForAnHour"]
    ]
    totals = [f"Keeping all for an hour: {_balance(facts['net'])}."]
    if any(one["writtenForAnHour"] for one in facts["models"]):
        totals.append(f"What was kept for an hour so far: {_balance(facts['hourNet'], at_most=True)}.")
    return [*lines, *totals, f"The setting is agents.defaults.cacheRetention: {facts['retention']}"]


def _longer(model: dict[str, Any]) -> str:
    return f"; prompts that stay longer: ${model['longer']:.2f} more" if model["longer"] >= CENT else ""


def _balance(saved: float, *, at_most: bool = False) -> str:
    if saved < 0:
        return f"${-saved:.2f} more"
    return f"{'at most ' * at_most}${saved:.2f} less"


def hour_cache_line(facts: dict[str, Any], days: int) -> str:
    """Return lines for the end of a report: what a cache of an hour would change and has changed; "" where there is nothing of it."""
    told = []
    if any(one["missedCalls"] or one["dearer"] >= CENT for one in facts["models"]):
        told.append(f"With a one-hour cache: {_change(facts['net'])}")
    if any(one["writtenForAnHour"] for one in facts["models"]):
        told.append(f"The one-hour cache that you have: {'at most ' * (facts['hourNet'] >= 0)}{_change(facts['hourNet'])}")
    if not told:
        return ""
    return f"\n\n{'; '.join(told)} in the last {days} days (an estimate; `homebody usage --longer-cache` explains it)."


def _change(saved: float) -> str:
    return f"{'−' if saved >= 0 else '+'}${abs(saved):.2f}"


def amount(value: float, unit: str) -> str:
    """Return a sum or a number of tokens; less than a cent is told in parts of one."""
    if unit != "usd":
        return f"{value:,.0f} tokens"
    return f"${value:.4f}" if 0 < value < 2 * CENT else f"${value:.2f}"
