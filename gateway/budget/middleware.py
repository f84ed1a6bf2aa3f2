"""Budget middleware: each model call is reserved before it is made, and booked afterwards."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import cast

from agent.events import Restarted, TextDelta, ThinkingDelta
from agent.messages import AssistantMessage, Failure
from agent.models import token_estimate
from agent.models.middleware.model_middleware import ModelMiddleware
from agent.models.protocol import Model, Part, Request
from agent.models.thinking import thinking_tokens
from gateway.budget.booking import added, booked, cut_off
from gateway.budget.guard import BudgetGuard
from gateway.ledger.spending import Limit, Spent


class BudgetMiddleware(ModelMiddleware):
    """Reserves the maximum cost before a call and books the actual cost afterwards. One per session."""

    def __init__(self, model: Model, guard: BudgetGuard, session: str) -> None:
        super().__init__(model)
        self._session = session
        self._guard = guard
        self._price = guard.price

    async def stream(self, request: Request) -> AsyncIterator[Part]:
        """Make the call if the budgets allow it; otherwise return a failure that names the budget."""
        sent, price = token_estimate.of_request(request), self._price(self.name)
        most = min(request.max_output + thinking_tokens(request.thinking), self.max_output)
        reserved = await self._guard.reserve(
            self._session, self.name, tokens=sent + most, usd=price.at_most(sent, most), background=request.background
        )
        if reserved.broken is not None or reserved.row is None:
            yield _held(self.name, reserved.broken)
            return
        said, before, settled = 0, Spent(cost=0.0), False
        try:
            stream = cast("AsyncGenerator[Part, None]", self._model.stream(request))  # every model's stream is a generator
            async with aclosing(stream) as parts:  # who goes away leaves no connection open
                async for piece in parts:
                    if isinstance(piece, AssistantMessage):
                        settled = True  # before it is handed on: who has the answer may never come back for more
                        paid = price if piece.model == self.name else self._price(piece.model)  # another may have stood in
                        spent = booked(piece, sent=sent, said=said, price=paid)
                        self._guard.settle(reserved.row, added(before, spent))
                    elif isinstance(piece, (TextDelta, ThinkingDelta)):
                        said += len(piece.text)
                    elif isinstance(piece, Restarted):  # the try that broke off is charged as well
                        before, said = added(before, cut_off(sent=sent, said=said, price=price)), 0
                    yield piece
        finally:
            if not settled:
                self._guard.settle(reserved.row, added(before, cut_off(sent=sent, said=said, price=price)))

    async def close(self) -> None:
        """Do nothing: the wrapped model is shared and closed by its owner."""


def _held(model: str, limit: Limit | None) -> AssistantMessage:
    """The failure for a blocked call. Its hint suggests twice the limit, or a default if the limit is zero."""
    name = "the budget" if limit is None else limit.name
    used = "" if limit is None else f" (${limit.usd:.2f})" if limit.usd is not None else f" ({limit.tokens or 0:,} tokens)"
    more = (
        ""
        if limit is None
        else f"{limit.usd * 2 or 5:g}"
        if limit.usd is not None
        else f"{(limit.tokens or 0) * 2 or 1_000_000}"
    )
    told = f"Today's budget is used up: the next answer could exceed {name}{used}."
    hint = f"Send /budget once, then your message again; or raise the budget: homebody config set {name} {more}"
    return AssistantMessage(content=(), model=model, stop="error", failure=Failure(kind="billing", message=told, hint=hint))
