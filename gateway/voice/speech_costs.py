"""Books what speech costs: reserved within the budgets before a server is asked, settled afterwards."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from gateway.budget.budget_guard import BudgetGuard
from gateway.budget.budget_words import no_room
from gateway.ledger.spending_rows import Spent

if TYPE_CHECKING:
    from gateway.voice.speech_server import SpeechServer


@asynccontextmanager
async def booked(
    guard: BudgetGuard | None, session: str, server: SpeechServer, model: str, *, usd: float, estimated: bool
) -> AsyncIterator[None]:
    """Reserve the cost of one request, which is made meanwhile. One that ends with SpeechFailed costs nothing.

    Raises SpeechFailed where a budget does not allow it.
    """
    from gateway.voice.speech_server import SpeechFailed

    row = None
    if guard is not None and usd:
        name = model if server.own else f"openai/{model}"
        reserved = await guard.reserve(session, name, tokens=0, usd=usd, background=False)
        if why := no_room(reserved):
            raise SpeechFailed(f"{why[:1].lower()}{why[1:]}")
        if reserved.row is None:
            raise SpeechFailed(f"today's budget is used up ({reserved.broken.name if reserved.broken else 'budgets'})")
        row = reserved.row
    spent = Spent(cost=usd, estimated=True)
    try:
        yield
        spent = Spent(cost=usd, estimated=estimated)
    except SpeechFailed:
        spent = Spent(cost=0.0)
        raise
    finally:
        if guard is not None and row is not None:
            guard.settle(row, spent)
