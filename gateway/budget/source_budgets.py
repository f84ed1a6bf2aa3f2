"""Daily budgets of single jobs, webhooks, sub-agents, heartbeats and watched mailboxes, with what is used and left of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from gateway.budget.daily_budgets import budget_rows, usual_call
from gateway.budget.raised_limits import BudgetKeys
from gateway.ledger.protocol import Ledger
from gateway.ledger.spending_rows import SpentOn
from gateway.ledger.subagent_rows import SubAgent
from gateway.routing.router import agent_of

MOST: Final = 100
"""Budgets that are told: those of which most is used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceBudget:
    """What one source may use in a day. ``source`` is what its calls are booked under, such as ``job:abcde``; ``whose`` its name.

    ``agent`` is the agent whose settings give it.
    """

    source: str
    whose: str
    usd: float | None = None
    tokens: int | None = None
    agent: str = ""


async def source_budgets(
    ledger: Ledger,
    spent: Sequence[SpentOn],
    settings: Iterable[SourceBudget],
    since: datetime,
    keys: Callable[[str], BudgetKeys],
) -> tuple[list[dict[str, Any]], int]:
    """Return the budgets of sources that have one of their own, as ``daily_budgets`` does, and how many more there are.

    ``settings`` are those that the settings give; ``keys`` returns where these say them for an agent. Sub-agents are those that are open,
    or ended after ``since``; each counts with all that came of it.
    """
    found = [
        *settings,
        *(
            SourceBudget(source=f"job:{one.id}", whose=one.name, usd=one.daily_usd, tokens=one.daily_tokens)
            for one in await ledger.jobs.all()
            if one.state != "done"
        ),
        *(
            SourceBudget(source=f"hook:{one.name}", whose=one.name, usd=one.rules.daily_usd, tokens=one.rules.daily_tokens)
            for one in await ledger.hooks.all()
        ),
    ]
    call = usual_call(spent)
    rows = [row for one in found for row in _rows(one, [each for each in spent if each.source == one.source], call, keys)]
    agents = await ledger.subagents.all(ended_since=since)
    for one in agents:
        below = _below(one, agents)
        own = SourceBudget(source=f"subagent:{one.id}", whose=one.label, usd=one.usd, agent=agent_of(one.parent))
        rows += _rows(own, [each for each in spent if each.session in below], call, keys)
    return sorted(rows, key=lambda row: (-row["share"], row["name"]))[:MOST], max(0, len(rows) - MOST)


def _rows(
    budget: SourceBudget, spent: Sequence[SpentOn], call: SpentOn, keys: Callable[[str], BudgetKeys]
) -> list[dict[str, Any]]:
    rows = budget_rows(budget.source, budget.usd, budget.tokens, [(budget.whose, spent)], call=call, keys=keys(budget.agent))
    return [row for row in rows if row["limit"] is not None]


def _below(top: SubAgent, agents: Sequence[SubAgent]) -> frozenset[str]:
    """Return the sessions of a sub-agent and of all that came of it."""
    found = {top.session}
    for one in sorted(agents, key=lambda each: each.depth):
        if one.parent in found:
            found.add(one.session)
    return frozenset(found)
