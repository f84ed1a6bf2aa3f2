"""Daily budgets with what is used and left of them, as the budget guard counts them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from gateway.budget.raised_limits import COMMON_KEYS, BudgetKeys, command_of
from gateway.ledger.spending_rows import SpentOn
from gateway.settings.budget_settings import BudgetSettings, DailyBudget

LARGEST: Final = 5
"""Agents and sessions that are told of a budget that each has for itself: those that used most."""


def daily_budgets(settings: BudgetSettings, spent: Sequence[SpentOn]) -> list[dict[str, Any]]:
    """Return the budgets of a day as JSON values: the setting, its limit (None: unlimited), what is used, and whose it is.

    Reservations of calls that are being made count as used. Budgets of an agent or a session are told of those that used most.
    ``raise`` is the command that raises the limit.
    """
    call = usual_call(spent)
    return [
        *_of("budgets.day", settings.day, [("", spent)], call),
        *_of("budgets.background", settings.background, [("", [one for one in spent if one.background])], call),
        *_of("budgets.agent", settings.agent, _by(spent, lambda one: one.agent)[:LARGEST], call),
        *_of("budgets.session", settings.session, _by(spent, lambda one: one.top)[:LARGEST], call),
    ]


def usual_call(spent: Sequence[SpentOn]) -> SpentOn:
    """Return what a call costs on the average, where that is most: in one session, for one source."""
    calls = [one for one in spent if one.calls and not one.background]
    tokens = max((one.tokens // one.calls for one in calls), default=0)
    usd = max((one.cost / one.calls for one in calls), default=0.0)
    return SpentOn(agent="", session="", top="", background=False, calls=1, tokens=tokens, cost=usd)


def not_listed(spent: Sequence[SpentOn]) -> list[dict[str, Any]]:
    """Return how many agents and sessions ``daily_budgets`` leaves out, and what they used, as JSON values; [] where none is."""
    found = []
    for name, groups in (
        ("budgets.agent", _by(spent, lambda one: one.agent)),
        ("budgets.session", _by(spent, lambda one: one.top)),
    ):
        if rest := groups[LARGEST:]:
            calls = [one for _, calls in rest for one in calls]
            usd, tokens = sum(one.cost for one in calls), sum(one.tokens for one in calls)
            found.append({"name": name, "count": len(rest), "usedUsd": usd, "usedTokens": tokens})
    return found


def _by(spent: Iterable[SpentOn], key: Callable[[SpentOn], str]) -> list[tuple[str, list[SpentOn]]]:
    groups: dict[str, list[SpentOn]] = defaultdict(list)
    for one in spent:
        groups[key(one)].append(one)
    return sorted(groups.items(), key=lambda group: -sum(one.cost for one in group[1]))


def _of(name: str, budget: DailyBudget, groups: Sequence[tuple[str, Sequence[SpentOn]]], call: SpentOn) -> list[dict[str, Any]]:
    return budget_rows(name, budget.usd, budget.tokens, groups, call=call)


def budget_rows(
    name: str,
    usd: float | None,
    tokens: int | None,
    groups: Sequence[tuple[str, Sequence[SpentOn]]],
    *,
    call: SpentOn,
    keys: BudgetKeys = COMMON_KEYS,
) -> list[dict[str, Any]]:
    """Return a budget in both units for each group of calls that it is one for. ``name`` is what it is called without the unit.

    ``call`` is what a call costs; ``keys`` are those of the agent whose heartbeat or sub-agent it is.
    """
    found = []
    for unit, limit in (("usd", usd), ("tokens", tokens)):
        for whose, spent in groups or [("", [])]:
            used = sum(one.cost for one in spent) if unit == "usd" else sum(one.tokens for one in spent)
            figures = {"used": used, "call": call.cost if unit == "usd" else call.tokens}
            command = command_of(f"{name}.{unit}", usd if unit == "usd" else None, tokens, keys=keys, **figures)
            found.append(
                {
                    "name": f"{name}.{unit}",
                    "kind": name.partition(":")[0],
                    "unit": unit,
                    "whose": whose or None,
                    "limit": limit,
                    "used": used,
                    "left": None if limit is None else max(0, limit - used),
                    "share": None if limit is None else (used / limit if limit else 1.0),
                    "raise": None if limit is None else command or None,
                }
            )
    return found
