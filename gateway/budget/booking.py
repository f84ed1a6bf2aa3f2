"""Usage that is booked for a model call: the provider's figures if plausible, otherwise our estimate."""

from __future__ import annotations

import json
import math

from agent.messages import AssistantMessage, FailureKind, Text, Thinking, Usage
from agent.models import token_estimate
from agent.models.catalog.prices import Price
from gateway.ledger.spending import Spent

CHARS_A_TOKEN = 4
"""Output tokens booked for an interrupted call."""
PLAUSIBLE = 0.4
"""Reported figures below this share of our estimate are considered wrong; the estimate is off by 36 % at the 95th percentile."""
_CHARGED: frozenset[FailureKind] = frozenset({"timeout", "refusal"})
"""Failures after the model was reached, so that the prompt may have been charged."""


def booked(answer: AssistantMessage, *, sent: int, said: int, price: Price) -> Spent:
    """Return the usage of a finished call.

    ``sent``: our estimate of the prompt in tokens. ``said``: the number of streamed characters. A failure before the first
    character used nothing, unless it was a time-out or a refusal.
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
    """Return the usage of a call that was cancelled."""
    usage = Usage(input=sent, output=said // CHARS_A_TOKEN)
    return _spent(usage, price.of_usage(usage), estimated=True)


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


def _estimate(answer: AssistantMessage, sent: int, said: int) -> Usage:
    words = [part.text for part in answer.content if isinstance(part, (Text, Thinking))]
    asked = [call.raw or json.dumps(call.arguments, ensure_ascii=False, default=str) for call in answer.calls]
    return Usage(input=sent, output=max(sum(map(token_estimate.estimate, (*words, *asked))), said // CHARS_A_TOKEN))


def _believed(told: Usage, ours: Usage) -> Usage:
    """Return the provider's usage, with implausible figures replaced by our estimate."""
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
