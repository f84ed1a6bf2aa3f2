"""Calls of those who look at the gateway: windows, conversations, costs, health. Their code is loaded with the first of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from gateway.agents.memory_stores import owner_zone
from gateway.agents.running_agent import RunningAgent
from gateway.api.handlers.late_calls import on_first_use
from gateway.app.dependencies import Dependencies
from gateway.ledger.protocol import Ledger
from gateway.settings.root import Settings, SettingsStore
from memory.audience import Audience

if TYPE_CHECKING:
    from agent.models.catalog.prices import Price
    from gateway.budget.source_budgets import SourceBudget

CONTEXT: Final = ("context", "context.history", "context.prompt", "context.flush")
SESSIONS: Final = ("sessions.list", "sessions.search", "sessions.read", "sessions.export", "sessions.undo")
COSTS: Final = ("costs", "costs.budgets", "costs.cache")
HEALTH: Final = ("logs.read", "doctor.findings", "doctor.mend")

Calls = dict[str, Callable[..., Awaitable[Any]]]


def view_calls(
    deps: Dependencies,
    settings: SettingsStore,
    ledger: Ledger,
    *,
    agents: Mapping[str, RunningAgent],
    audience: Callable[[str], Audience],
    busy: Callable[[str], bool],
    price: Callable[[str], Price],
) -> Calls:
    """Return the calls by name. ``busy`` returns whether a turn runs in the session of a key; ``price`` a model's price."""

    def default() -> str:
        return settings.current.default_agent

    def context() -> Calls:
        from gateway.api.handlers.context_requests import ContextHandlers

        return dict(ContextHandlers(agents, default, audience).calls())

    def sessions() -> Calls:
        from gateway.api.handlers.session_requests import SessionHandlers

        return dict(SessionHandlers(agents, busy).calls())

    def costs() -> Calls:
        from gateway.budget.cost_overview import CostOverview
        from gateway.budget.raised_limits import COMMON_KEYS, BudgetKeys, keys_of

        def keys(agent: str) -> BudgetKeys:
            return keys_of(settings.current, agent) if agent in settings.current.agent_ids else COMMON_KEYS

        overview = CostOverview(
            ledger=ledger,
            settings=lambda: settings.current.budgets,
            retention=lambda: settings.current.agent(default()).settings.cache_retention,
            zone=lambda: owner_zone(settings.current.agent(default())),
            now=deps.clock.now,
            price=price,
            sources=lambda: _set_budgets(settings.current),
            keys=keys,
        )
        return dict(overview.calls())

    def health() -> Calls:
        from gateway.app.health_handlers import HealthHandlers

        return dict(HealthHandlers(deps, settings).calls())

    return {
        **on_first_use(CONTEXT, context),
        **on_first_use(SESSIONS, sessions),
        **on_first_use(COSTS, costs),
        **on_first_use(HEALTH, health),
    }


def _set_budgets(settings: Settings) -> Iterator[SourceBudget]:
    """Yield the budgets of heartbeats and watched mailboxes, which the settings give."""
    from gateway.budget.source_budgets import SourceBudget

    for profile in map(settings.agent, settings.agent_ids):
        if profile.heartbeat.every:
            usd = profile.heartbeat.daily_usd
            yield SourceBudget(source=f"heartbeat:{profile.id}", whose=profile.name, usd=usd, agent=profile.id)
    for name, account in settings.mail.accounts.items():
        if account.watch == "agent":
            yield SourceBudget(source=f"mail:{name}", whose=name, usd=account.watch_daily_usd)
