"""What keeping prompts in the provider's cache for an hour would have cost or saved: an estimate from the calls that were recorded.

A call within an hour and after more than five minutes of the one before it in its session, which read little from the cache, would have
read what the two have in common. In return every write costs more. Calls of models whose prices name no price of an hour's keeping are
left out: there such a cache cannot be had, or is kept without being asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from agent.models.catalog.prices import MILLION, Price
from gateway.ledger.spending import RecordedCall

SHORT: Final = timedelta(minutes=5)
LONG: Final = timedelta(hours=1)
READ_SHARE: Final = 0.5
"""Share of the former prompt from which on a call counts as having read it from the cache."""


@dataclass(slots=True)
class _Sum:
    calls: int = 0
    written: int = 0
    missed_calls: int = 0
    missed: int = 0
    saved: float = 0.0
    dearer: float = 0.0
    kept_longer: int = 0


def cache_savings(calls: Sequence[RecordedCall], price: Callable[[str], Price]) -> dict[str, Any]:
    """Return the estimate by model, as JSON values. ``calls`` are in the order in which they were made.

    ``saved`` and ``dearer`` are in USD, ``net`` is what is left of them. ``keptLonger`` counts calls that read the cache after more than
    five minutes: there an hour's keeping was in force already.
    """
    sums: dict[str, _Sum] = {}
    before: dict[tuple[str, str], RecordedCall] = {}
    for call in calls:
        former = before.get((call.session, call.model))
        before[call.session, call.model] = call
        known = price(call.model)
        if known.cache_write_1h is None or known.estimated:
            continue
        _add(sums.setdefault(call.model, _Sum()), call, former, known)
    models = [_savings_json(model, found) for model, found in sorted(sums.items())]
    return {
        "models": models,
        "saved": sum(one["saved"] for one in models),
        "dearer": sum(one["dearer"] for one in models),
        "net": sum(one["net"] for one in models),
        "estimate": True,
    }


def _add(total: _Sum, call: RecordedCall, former: RecordedCall | None, price: Price) -> None:
    write, hour = price.cache_write or price.input, price.cache_write_1h or price.input
    read = price.input if price.cache_read is None else price.cache_read
    total.calls += 1
    common = 0
    if former is not None and SHORT < call.at - former.at <= LONG:
        most = min(_prompt(former), _prompt(call))
        if call.cache_read >= READ_SHARE * most:
            total.kept_longer += 1
        else:
            common = max(0, most - call.cache_read)
            total.missed_calls += 1
            total.missed += common
            written = min(common, call.cache_write)
            total.saved += (written * (write - read) + (common - written) * (price.input - read)) / MILLION
    still_written = max(0, call.cache_write - common)
    total.written += still_written
    total.dearer += still_written * (hour - write) / MILLION


def _prompt(call: RecordedCall) -> int:
    return call.input + call.cache_read + call.cache_write


def _savings_json(model: str, found: _Sum) -> dict[str, Any]:
    return {
        "model": model,
        "calls": found.calls,
        "missedCalls": found.missed_calls,
        "missedTokens": found.missed,
        "keptLonger": found.kept_longer,
        "saved": found.saved,
        "dearer": found.dearer,
        "net": found.saved - found.dearer,
    }
