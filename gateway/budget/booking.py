"""What a model call is booked as: the provider's figures where they can be true, ours where they are missing or cannot be."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from agent.messages import Text, Thinking, Usage
from agent.models import token_estimate
from gateway.ledger.spending import Spent

if TYPE_CHECKING:
    from agent.messages import AssistantMessage, FailureKind
    from agent.models.catalog.prices import Price

CHARS_A_TOKEN = 4
"""For what a call that was cut off may have answered."""
PLAUSIBLE = 0.4
"""The share of our own estimate below which a reported figure is not believed: the estimate is off by 36 % at the 95th percentile."""
_CHARGED: frozenset[FailureKind] = frozenset({"timeout", "refusal"})
"""Failures of a call that had reached the model, so that its prompt may have been charged."""


def booked(answer: AssistantMessage, *, sent: int, said: int, price: Price) -> Spent:
    """Return what a finished call used.

    ``sent`` is our estimate of the prompt in tokens, ``said`` how many characters were streamed. A failure before the first word
    used nothing, unless it was a time-out or a refusal.
    """
    usage = answer.usage
    if usage is None and answer.failure is not None and not said and answer.failure.kind not in _CHARGED:
        return Spent(cost=0.0)
    ours = _estimate(answer, sent, said)
    believed = ours if usage is None else _believed(usage, ours)
    changed = usage is None or believed is not usage
    told = usage.cost if usage is not None and usage.cost is not None and 0 <= usage.cost < math.inf else None
    reckoned = price.of_usage(believed)
    cost = reckoned if told is None else max(told, reckoned) if changed else told
    return _spent(believed, cost, estimated=changed or (told is None and price.estimated))


def cut_off(*, sent: int, said: int, price: Price) -> Spent:
    """Return what a call used that nobody waited for to the end."""
    usage = Usage(input=sent, output=said // CHARS_A_TOKEN)
    return _spent(usage, price.of_usage(usage), estimated=True)


def added(one: Spent, other: Spent) -> Spent:
    """Add up two tries of one call."""
    return Spent(
        input=one.input + other.input,
        output=one.output + other.output,
        cache_read=one.cache_read + other.cache_read,
        cache_write=one.cache_write + other.cache_write,
        cost=(one.cost or 0.0) + (other.cost or 0.0),
        estimated=one.estimated or other.estimated,
    )


def _estimate(answer: AssistantMessage, sent: int, said: int) -> Usage:
    words = [part.text for part in answer.content if isinstance(part, (Text, Thinking))]
    asked = [call.raw or json.dumps(call.arguments, ensure_ascii=False, default=str) for call in answer.calls]
    return Usage(input=sent, output=max(sum(map(token_estimate.estimate, (*words, *asked))), said // CHARS_A_TOKEN))


def _believed(told: Usage, ours: Usage) -> Usage:
    """Return the provider's usage itself where it can be true, else one with our figures in place of those that cannot."""
    figures = (told.input, told.output, told.cache_read, told.cache_write)
    short = told.prompt < PLAUSIBLE * ours.prompt
    silent = told.output < PLAUSIBLE * ours.output
    if min(figures) >= 0 and not short and not silent:
        return told
    cached = () if short or min(figures) < 0 else (told.cache_read, told.cache_write)
    read, written = cached or (0, 0)
    prompt = max(ours.prompt, 0) if short or min(figures) < 0 else told.prompt
    return Usage(
        input=max(prompt - read - written, 0),
        output=ours.output if silent else told.output,
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
