"""Calls of models and embedders within the budget: each is reserved before it is made, and booked afterwards."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Literal, cast

from msgspec import structs

from agent.events import Restarted, TextDelta, ThinkingDelta
from agent.messages import AssistantMessage, Failure, FailureKind, Text, Thinking, Usage
from agent.models.catalog.prices import EMBEDDING_ESTIMATE, FREE, Price, is_own
from agent.models.middleware.model_middleware import ModelMiddleware
from agent.models.notebook import NAME as NOTEBOOK
from agent.models.protocol import Model, Part, Request
from gateway.budget.budget_guard import BudgetGuard
from gateway.budget.budget_words import no_room
from gateway.ledger.spending_rows import Spent
from memory.embedding.protocol import Embedder
from memory.errors import EmbeddingFailed


def within_budget(model: Model, budget: tuple[BudgetGuard, str] | None) -> Model:
    """Return a model for the session of a key whose calls are paid from a budget; the notebook costs nothing, and has none."""
    return model if budget is None or model.name == NOTEBOOK else BudgetMiddleware(model, *budget)


class BudgetMiddleware(ModelMiddleware):
    """Reserves the maximum cost before a call and books the actual cost afterwards. One per session."""

    def __init__(self, model: Model, guard: BudgetGuard, session: str) -> None:
        super().__init__(model)
        self._session = session
        self._guard = guard
        self._price = guard.price

    async def stream(self, request: Request) -> AsyncIterator[Part]:
        """Make the call if the budgets allow it; otherwise return a failure that names the budget."""
        from agent.models import token_estimate
        from agent.models.thinking import THINKING_TOKENS

        sent, price = token_estimate.weight_of_request(request).total, self._price(self.name)
        most = min(request.max_output + THINKING_TOKENS.get(request.thinking, 0), self.max_output)
        reserved = await self._guard.reserve(
            self._session,
            self.name,
            tokens=sent + most,
            usd=price.at_most(sent, most),
            background=request.background,
            purpose=request.purpose,
        )
        if reserved.broken is not None or reserved.row is None:
            why, hint = self._guard.refusal(self._session, reserved)
            failure = Failure(kind="billing", message=why, hint=hint)
            yield AssistantMessage(content=(), model=self.name, stop="error", failure=failure)
            return
        said, before, settled, began = 0, Spent(cost=0.0), False, self._guard.telemetry.monotonic()
        try:
            stream = cast("AsyncGenerator[Part, None]", self._model.stream(request))  # every model's stream is a generator
            async with aclosing(stream) as parts:  # who goes away leaves no connection open
                async for piece in parts:
                    if isinstance(piece, AssistantMessage):
                        settled = True  # before it is handed on: who has the answer may never come back for more
                        paid = price if piece.model == self.name else self._price(piece.model)  # another may have stood in
                        spent = added(before, booked(piece, sent=sent, said=said, most=most, window=self.window, price=paid))
                        self._guard.settle(reserved.row, spent)
                        self._measured(piece.model, began, spent, piece.failure.kind if piece.failure else None)
                    elif isinstance(piece, (TextDelta, ThinkingDelta)):
                        said += len(piece.text)
                    elif isinstance(piece, Restarted):  # the try that broke off is charged as well
                        broken = cut_off(sent=sent, said=said, price=price, told=piece.usage, most=most, window=self.window)
                        before, said = added(before, broken), 0
                    yield piece
        finally:
            if not settled:
                spent = added(before, cut_off(sent=sent, said=said, price=price))
                self._guard.settle(reserved.row, spent)
                self._measured(self.name, began, spent, "cancelled")

    def _measured(self, model: str, began: float, spent: Spent, failure: str | None) -> None:
        telemetry = self._guard.telemetry
        tokens = {
            "input": spent.input,
            "output": spent.output,
            "cache_read": spent.cache_read,
            "cache_write": spent.cache_write,
        }
        telemetry.model_called(model, telemetry.monotonic() - began, tokens=tokens, cost=spent.cost, failure=failure)

    async def close(self) -> None:
        """Do nothing: the wrapped model is shared and closed by its owner."""


SESSION = "memory search"
"""The name under which embeddings are booked."""
LOCAL = frozenset({"local", "fake"})
"""Providers that cost nothing."""


class BudgetEmbedder:
    """Wraps an ``Embedder``. Its calls count as background work; over budget they fail, and memory is searched by keyword only.

    They wait for no room in the budget, as the search goes on without them.
    Tokens are estimated, because providers report them differently and embeddings cost little.
    """

    def __init__(self, embedder: Embedder, budget_guard: BudgetGuard, price: Price | None) -> None:
        self.within = embedder
        self._budget_guard = budget_guard
        address = getattr(getattr(embedder, "endpoint", None), "base_url", "")
        self._price = FREE if is_own(address) else price or EMBEDDING_ESTIMATE

    @property
    def provider(self) -> str:
        """See the protocol."""
        return self.within.provider

    @property
    def model(self) -> str:
        """See the protocol."""
        return self.within.model

    @property
    def fingerprint(self) -> str:
        """See the protocol."""
        return self.within.fingerprint

    @property
    def max_batch_tokens(self) -> int:
        """See the protocol."""
        return self.within.max_batch_tokens

    @property
    def max_batch_texts(self) -> int:
        """See the protocol."""
        return self.within.max_batch_texts

    @property
    def stepped_in(self) -> str | None:
        """The fallback in use, if the wrapped embedder has one."""
        found: str | None = getattr(self.within, "stepped_in", None)
        return found

    async def embed(self, texts: Sequence[str], *, purpose: Literal["query", "passage"]) -> list[list[float]]:
        """See the protocol."""
        from memory.embedding.inputs import estimated_tokens

        if self.provider in LOCAL:
            return await self.within.embed(texts, purpose=purpose)
        sent = sum(map(estimated_tokens, texts))
        usd = self._price.at_most(sent, 0)
        reserved = await self._budget_guard.reserve(
            SESSION, f"{self.provider}/{self.model}", tokens=sent, usd=usd, background=True, waits=False
        )
        if why := no_room(reserved):
            raise EmbeddingFailed(f"{why}, so no vectors are created.", hint="Memory is searched by keyword meanwhile.")
        if reserved.row is None:
            name = reserved.broken.name if reserved.broken else "the budget"
            _, hint = self._budget_guard.refusal(SESSION, reserved)
            raise EmbeddingFailed(f"Today's budget ({name}) is used up, so no vectors are created.", hint=hint)
        spent = Spent(cost=0.0)
        try:
            vectors = await self.within.embed(texts, purpose=purpose)
            spent = Spent(input=sent, cost=usd, estimated=True)
        finally:
            self._budget_guard.settle(reserved.row, spent)
        return vectors

    async def close(self) -> None:
        """Close the wrapped embedder."""
        await self.within.close()


CHARS_A_TOKEN = 4
"""Output tokens booked for an interrupted call."""
PLAUSIBLE = 0.4
"""Reported figures below this share of our estimate are considered wrong; the estimate is off by 36 % at the 95th percentile."""
_CHARGED: frozenset[FailureKind] = frozenset({"timeout", "refusal"})
"""Failures after the model was reached, so that the prompt may have been charged."""


def booked(answer: AssistantMessage, *, sent: int, said: int, price: Price, most: int = 0, window: int = 0) -> Spent:
    """Return the usage of a finished call.

    ``sent``: our estimate of the prompt in tokens. ``said``: the number of streamed characters. ``most``: the longest answer that
    was asked for. ``window``: that of the model (0: not known, like ``most``). A failure before the first character used nothing
    where nothing was told of its prompt, unless it was a time-out or a refusal.
    """
    from agent.models import token_estimate

    usage = answer.usage
    if (usage is None or usage.prompt <= 0) and answer.failure is not None and not said and answer.failure.kind not in _CHARGED:
        return Spent(cost=0.0)
    words = [part.text for part in answer.content if isinstance(part, (Text, Thinking))]
    words += [call.raw or json.dumps(call.arguments, ensure_ascii=False, default=str) for call in answer.calls]
    ours = Usage(input=sent, output=max(sum(map(token_estimate.estimate, words)), said // CHARS_A_TOKEN))
    return _judged(usage, ours, price, most=most, window=window)


def cut_off(*, sent: int, said: int, price: Price, told: Usage | None = None, most: int = 0, window: int = 0) -> Spent:
    """Return the usage of a call that broke off or was cancelled. ``told`` is what the provider had told of it until then."""
    spent = _judged(told, Usage(input=sent, output=said // CHARS_A_TOKEN), price, most=most, window=window)
    return structs.replace(spent, estimated=True)


def _judged(usage: Usage | None, ours: Usage, price: Price, *, most: int, window: int) -> Spent:
    """Return what is booked of what a provider tells: as it is, or with what cannot be true replaced by our estimate."""
    told = usage.cost if usage is not None and usage.cost is not None and 0 <= usage.cost < math.inf else None
    if usage is None:
        return _spent(ours, price.of_usage(ours), estimated=True)
    believed = _plausible(usage, ours, most=most, window=window)
    changed = believed is not usage
    cost = price.of_usage(believed)
    if told is not None and not changed:
        cost = told
    elif told is not None and (usage.prompt > believed.prompt or usage.output > believed.output):
        cost = min(max(told, cost), price.at_most(believed.prompt, believed.output))
    elif told is not None:
        kept = believed.cache_write == usage.cache_write  # figures do not say what was written for an hour: the cost does
        surcharge = price.share_for_an_hour(usage, told) * price.hour_surcharge(usage) if kept else 0.0
        cost = max(told, cost + surcharge)
    return _spent(believed, cost, estimated=changed or (told is None and price.estimated))


def added(one: Spent, other: Spent) -> Spent:
    """Add up two attempts of one call."""
    return Spent(
        input=one.input + other.input,
        output=one.output + other.output,
        cache_read=one.cache_read + other.cache_read,
        cache_write=one.cache_write + other.cache_write,
        cost=(one.cost or 0.0) + (other.cost or 0.0),
        estimated=one.estimated or other.estimated,
    )


def _plausible(told: Usage, ours: Usage, *, most: int, window: int) -> Usage:
    """Return the provider's usage, with implausible figures replaced by our estimate, and an answer of more than ``most`` by that."""
    negative = min(told.input, told.output, told.cache_read, told.cache_write) < 0
    short = told.prompt < PLAUSIBLE * ours.prompt
    silent = told.output < PLAUSIBLE * ours.output
    large = bool(window) and told.prompt > max(window, ours.prompt / PLAUSIBLE)
    longest = max(most, math.ceil(ours.output / PLAUSIBLE))
    endless = bool(most) and told.output > longest
    if not (negative or short or silent or large or endless):
        return told
    wrong = short or negative or large
    read, written = (0, 0) if wrong else (told.cache_read, told.cache_write)
    prompt = max(ours.prompt, 0) if wrong else told.prompt
    return Usage(
        input=max(prompt - read - written, 0),
        output=ours.output if silent else min(told.output, longest) if endless else told.output,
        cache_read=read,
        cache_write=written,
    )


def _spent(usage: Usage, cost: float, *, estimated: bool) -> Spent:
    return Spent(
        input=usage.input,
        output=usage.output,
        cache_read=usage.cache_read,
        cache_write=usage.cache_write,
        cost=cost,
        estimated=estimated,
    )
