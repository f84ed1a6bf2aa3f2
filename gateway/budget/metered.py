"""A model whose every call is reserved before and settled after."""

from __future__ import annotations

import logging
from contextlib import aclosing
from typing import TYPE_CHECKING, cast

from agent import tokens
from agent.events import TextDelta, ThinkingDelta
from agent.messages import AssistantMessage, Failure
from agent.models.thinking import room
from gateway.errors import StorageFailed
from gateway.ledger.spending import Spent

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

    from agent.messages import Usage
    from agent.models.catalog import Price
    from agent.models.protocol import Model, Part, Request
    from gateway.budget.brake import Brake
    from gateway.ledger.spending import Limit

log = logging.getLogger(__name__)

CHARS_A_TOKEN = 4
"""For what a call that was cut off may have answered."""


class MeteredModel:
    """A ``Model`` around another one, for one session."""

    def __init__(self, model: Model, session: str, brake: Brake, price: Callable[[str], Price | None]) -> None:
        self._model = model
        self._session = session
        self._brake = brake
        self._price = price

    @property
    def name(self) -> str:
        """See the protocol."""
        return self._model.name

    @property
    def window(self) -> int:
        """See the protocol."""
        return self._model.window

    @property
    def max_output(self) -> int:
        """See the protocol."""
        return self._model.max_output

    async def stream(self, request: Request) -> AsyncIterator[Part]:
        """Make the call if the purses allow it; else say so as a failure. A ledger that cannot be used holds nothing up."""
        sent, price = tokens.of_request(request), self._price(self.name)
        most = min(request.max_output + room(request.thinking), self.max_output)
        usd = None if price is None else (sent * _dearest(price) + most * price.output) / 1_000_000
        try:
            reserved = await self._brake.reserve(
                self._session, self.name, tokens=sent + most, usd=usd, background=request.background
            )
        except StorageFailed as error:
            log.warning("a model call could not be reserved: %s", error)
            async for piece in self._model.stream(request):
                yield piece
            return
        if reserved.broken is not None or reserved.row is None:
            yield _held(self.name, reserved.broken)
            return
        said, settled = 0, False
        try:
            stream = cast("AsyncGenerator[Part, None]", self._model.stream(request))  # every model's stream is a generator
            async with aclosing(stream) as parts:  # who goes away leaves no connection open
                async for piece in parts:
                    if isinstance(piece, AssistantMessage):
                        settled = True  # before it is handed on: who has the answer may never come back for more
                        paid = price if piece.model == self.name else self._price(piece.model)  # another may have stood in
                        self._brake.settle(reserved.row, _spent(piece.usage, paid))
                    elif isinstance(piece, (TextDelta, ThinkingDelta)):
                        said += len(piece.text)
                    yield piece
        finally:
            if not settled:
                answered = said // CHARS_A_TOKEN
                self._brake.settle(reserved.row, Spent(input=sent, output=answered, cost=_cost(price, sent, answered)))

    async def close(self) -> None:
        """Leave the model alone: it belongs to whoever lent it."""


def _dearest(price: Price) -> float:
    """What a million tokens cost at most to send."""
    return max(price.input, price.cache_write, price.cache_write_1h or 0.0)


def _spent(usage: Usage | None, price: Price | None) -> Spent:
    """A call that told nothing used nothing: it failed before it began."""
    if usage is None:
        return Spent(cost=0.0)
    cost = usage.cost if usage.cost is not None or price is None else price.of_usage(usage)
    return Spent(input=usage.input, output=usage.output, cache_read=usage.cache_read, cache_write=usage.cache_write, cost=cost)


def _cost(price: Price | None, sent: int, answered: int) -> float | None:
    return None if price is None else (sent * price.input + answered * price.output) / 1_000_000


def _held(model: str, limit: Limit | None) -> AssistantMessage:
    name = "the budget" if limit is None else limit.name
    sums = [] if limit is None or limit.usd is None else [f"${limit.usd:.2f}"]
    sums += [] if limit is None or limit.tokens is None else [f"{limit.tokens:,} tokens"]
    told = f"Today's budget is used up: the next answer could go beyond {name} ({' or '.join(sums)})."
    mend = f"Say /budget once, and then your message again; or raise it: homebody config set {name}.usd 10"
    return AssistantMessage(content=(), model=model, stop="error", failure=Failure(kind="billing", message=told, mend=mend))
