"""The brake: asks before each model call whether the purses allow it, and notes afterwards what it cost."""

from __future__ import annotations

import contextlib
import logging
from datetime import timedelta
from typing import TYPE_CHECKING

from gateway.budget.metered import MeteredModel
from gateway.ledger.spending import Limit, NewCall, Reserved

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from zoneinfo import ZoneInfo

    from agent.clock import Clock
    from agent.models.catalog import Price
    from agent.models.protocol import Model
    from gateway.budget.settings import BudgetSettings
    from gateway.ledger.protocol import SpendingLedger
    from gateway.ledger.spending import UsageRow

log = logging.getLogger(__name__)


class Brake:
    """The budgets of one agent. ``price`` returns what is known of a model's price; ``tell`` speaks to the owner."""

    def __init__(
        self,
        ledger: SpendingLedger,
        settings: BudgetSettings,
        clock: Clock,
        *,
        agent: str,
        zone: ZoneInfo,
        price: Callable[[str], Price | None],
        tell: Callable[[str], None],
    ) -> None:
        self._ledger = ledger
        self._settings = settings
        self._clock = clock
        self._agent = agent
        self._zone = zone
        self._price = price
        self._tell = tell
        self._warned: set[tuple[str, str]] = set()
        self._allowed: set[str] = set()
        self._released: set[str] = set()

    def adopt(self, settings: BudgetSettings) -> None:
        """Go by other budgets from the next call on."""
        self._settings = settings

    def metered(self, model: Model, session: str) -> Model:
        """Return a model whose calls go through this brake."""
        return MeteredModel(model, session, self, self._ledger, self._price)

    def allow_once(self, session: str) -> None:
        """Let the next message of a session through, whatever it costs."""
        self._allowed.add(session)

    @contextlib.contextmanager
    def turn(self, session: str) -> Iterator[None]:
        """Mark a turn: one that was allowed goes through until it ends."""
        if session in self._allowed:
            self._allowed.discard(session)
            self._released.add(session)
        try:
            yield
        finally:
            self._released.discard(session)

    async def reserve(self, session: str, model: str, *, tokens: int, usd: float | None, background: bool) -> Reserved:
        """Reserve the most that a call can use. Raises StorageFailed."""
        day = f"{self._clock.now().astimezone(self._zone):%Y-%m-%d}"
        call = NewCall(day=day, agent=self._agent, session=session, model=model, background=background, tokens=tokens, usd=usd)
        force = not self._settings.enabled or (session in self._released and not background)
        reserved = await self._ledger.reserve(call, self._limits(background=background), force=force)
        for name, share in reserved.shares.items():
            if share >= self._settings.warn_at and (day, name) not in self._warned and self._settings.enabled:
                self._warned.add((day, name))
                self._tell(f"💸 {min(share, 1):.0%} of the budget {name} is used for today. `/usage` shows on what.")
        return reserved

    async def usage(self, days: int) -> list[UsageRow]:
        """What all agents used in the last ``days`` days, today included."""
        first = self._clock.now().astimezone(self._zone).date() - timedelta(days=days - 1)
        return await self._ledger.usage(f"{first:%Y-%m-%d}")

    def _limits(self, *, background: bool) -> list[Limit]:
        purses = (
            [("budgets.background", ("background",), self._settings.background)]
            if background
            else [
                ("budgets.day", (), self._settings.day),
                ("budgets.agent", ("agent",), self._settings.agent),
                ("budgets.session", ("session",), self._settings.session),
            ]
        )
        return [
            Limit(name=name, same=same, tokens=purse.tokens, usd=purse.usd)
            for name, same, purse in purses
            if purse.tokens is not None or purse.usd is not None
        ]
