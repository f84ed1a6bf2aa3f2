"""What models cost over some days: by model and by origin, the budgets of today, and what a longer cache would save."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from agent.models.catalog.prices import Price
from gateway.base.errors import UsageError
from gateway.budget.cache_savings import cache_savings
from gateway.budget.daily_budgets import daily_budgets, not_listed
from gateway.budget.raised_limits import COMMON_KEYS, BudgetKeys
from gateway.budget.source_budgets import SourceBudget, source_budgets
from gateway.budget.usage_report import facts, first_day
from gateway.ledger.protocol import Ledger
from gateway.settings.budget_settings import BudgetSettings

MOST_DAYS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class CostOverview:
    """Looks the costs up. ``zone`` is the owner's, ``settings`` returns the budgets in force, ``price`` a model's price.

    ``sources`` are those whose budget the settings give; budgets of jobs, webhooks and sub-agents are in the ledger. ``keys`` returns where
    the settings say the budgets of an agent's heartbeats and sub-agents.
    """

    ledger: Ledger
    settings: Callable[[], BudgetSettings]
    retention: Callable[[], str]
    zone: Callable[[], ZoneInfo]
    now: Callable[[], datetime]
    price: Callable[[str], Price]
    sources: Callable[[], Iterable[SourceBudget]] = tuple
    keys: Callable[[str], BudgetKeys] = lambda _: COMMON_KEYS

    def calls(self) -> dict[str, Callable[..., Awaitable[dict[str, Any]]]]:
        """The calls by name, for ``POST /admin/CALL``."""
        return {"costs": self.costs, "costs.budgets": self.budgets, "costs.cache": self.cache}

    async def costs(self, days: int = 30) -> dict[str, Any]:
        """Return the usage of the last ``days`` days, by model and by origin. Raises UsageError for another number of days."""
        since = self._since(days)
        models = facts(await self.ledger.spending.usage(since, "model"), "model")
        origins = facts(await self.ledger.spending.usage(since, "origin"), "origin")
        return {
            "since": since,
            "today": self._since(1),
            "models": models["usage"],
            "origins": origins["usage"],
            "total": models["total"],
            "pricesAsOf": models["pricesAsOf"],
        }

    async def budgets(self) -> dict[str, Any]:
        """Return today's budgets, what is used and left of them, and what is not listed: sums of agents and sessions, a count of others."""
        settings, today, now = self.settings(), self._since(1), self.now()
        spent = await self.ledger.spending.spent_on(today)
        midnight = now.astimezone(self.zone()).replace(hour=0, minute=0, second=0, microsecond=0)
        of_sources, more = await source_budgets(self.ledger, spent, self.sources(), midnight, self.keys)
        return {
            "day": today,
            "enabled": settings.enabled,
            "warnAt": settings.warn_at,
            "budgets": [*daily_budgets(settings, spent), *of_sources],
            "notListed": [*not_listed(spent), *([{"name": "sources", "count": more}] if more else [])],
        }

    async def cache(self, days: int = 30) -> dict[str, Any]:
        """Return what a cache of an hour would have saved, an estimate. Raises UsageError for another number of days."""
        since = self._since(days)
        found = cache_savings(await self.ledger.spending.calls_since(since), self.price)
        return {"since": since, "retention": self.retention(), **found}

    def _since(self, days: int) -> str:
        if not 0 < days <= MOST_DAYS:
            raise UsageError(f"{days} is no number of days", hint=f"It is from 1 to {MOST_DAYS}.")
        return first_day(self.now(), self.zone(), days)
