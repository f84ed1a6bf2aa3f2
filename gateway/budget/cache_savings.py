"""What keeping prompts in the provider's cache for an hour would have cost or saved: an estimate from the calls that were recorded.

A call within an hour and after more than five minutes of the one before it in its session, which read little from the cache, would have
read what the two have in common. In return every write costs more, and what was taken out of the prompt at that call, as old results are
when the cache is cold, would have stayed in it and been read from then on: until a pause of more than an hour, a summary or a new
conversation. What was written for an hour already, as the cost of a call tells, is not counted among that: of it is told what the hour cost
and, at most, what it brought, as prompts would have been shorter without it. Calls of models whose prices name no price of an hour's
keeping are left out: there such a cache cannot be had, or is kept without being asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from agent.messages import Usage
from agent.models.catalog.prices import MILLION, Price
from gateway.ledger.spending_rows import RecordedCall

SHORT: Final = timedelta(minutes=5)
LONG: Final = timedelta(hours=1)
READ_SHARE: Final = 0.5
"""Share of the former prompt from which on a call counts as having read it from the cache."""
NOISE: Final = 0.1
"""Difference of a call's cost from that of either keeping, as a share of what lies between them, that is rounding or an older price."""
NEW: Final = 1.1
"""Times the shortest prompt of a conversation up to which a prompt that became shorter is that of a new one."""
SHORTENED: Final = 0.9
"""Share of the former prompt below which a prompt was shortened."""


@dataclass(slots=True)
class _Conversation:
    """The calls of a session to a model: the last one, whether its prompt was kept for an hour, and the shortest prompt of a conversation.

    ``taken`` are the tokens by which prompts are shorter than they would be with a cache of an hour.
    """

    call: RecordedCall
    kept: bool
    shortest: int
    taken: int = 0

    def paused(self, call: RecordedCall) -> bool:
        """Whether a call came after more than a short cache keeps a prompt, and not after more than a long one does."""
        return SHORT < call.at - self.call.at <= LONG

    def common(self, call: RecordedCall) -> int:
        """Return the most tokens that a call's prompt has in common with the one before it."""
        return min(_prompt(self.call), _prompt(call))

    def read(self, call: RecordedCall) -> bool:
        """Whether a call read what it has in common with the one before it."""
        return call.cache_read >= READ_SHARE * self.common(call)

    def follow(self, call: RecordedCall) -> None:
        """Take into account how a call's prompt differs from the one before it; call it before anything else of that call."""
        former, prompt = _prompt(self.call), _prompt(call)
        cold = self.paused(call) and not self.kept and not self.read(call)
        if call.at - self.call.at > LONG or (prompt < SHORTENED * former and not (cold and prompt > NEW * self.shortest)):
            self.taken, self.shortest = 0, prompt
        elif cold and prompt < former:
            self.taken += former + self.call.output - prompt


@dataclass(slots=True)
class _Sum:
    calls: int = 0
    missed_calls: int = 0
    missed: int = 0
    saved: float = 0.0
    dearer: float = 0.0
    longer: float = 0.0
    kept_longer: int = 0
    written_for_an_hour: int = 0
    hour_cost: float = 0.0
    hour_saved: float = 0.0


def cache_savings(calls: Sequence[RecordedCall], price: Callable[[str], Price]) -> dict[str, Any]:
    """Return the estimate by model, as JSON values. ``calls`` are in the order in which they were made.

    ``saved``, ``dearer`` (for what is written) and ``longer`` (for longer prompts) are in USD, ``net`` is what is left of them.
    ``keptLonger`` counts calls that read the cache after more than five minutes. ``writtenForAnHour`` is in tokens: writing them cost
    ``hourCost`` more than for five minutes, and reading them after more than that ``hourSaved`` less than writing them anew; ``hourNet`` is
    what the hour has saved so far, at most.
    """
    sums: dict[str, _Sum] = {}
    before: dict[tuple[str, str], _Conversation] = {}
    for call in calls:
        known = price(call.model)
        if known.cache_write_1h is None or known.estimated:
            continue
        former = before.get((call.session, call.model))
        hours = _share_for_an_hour(call, known)
        kept = hours > 0 if call.cache_write else former is not None and former.kept
        if former is not None:
            former.follow(call)
        _add(sums.setdefault(call.model, _Sum()), call, former, known, hours)
        shortest, taken = (former.shortest, former.taken) if former else (_prompt(call), 0)
        before[call.session, call.model] = _Conversation(call, kept, min(shortest, _prompt(call)), taken)
    models = [_savings_json(model, found) for model, found in sorted(sums.items())]
    totals = {name: sum(one[name] for one in models) for name in ("saved", "dearer", "net", "hourNet")}
    return {"models": models, **totals, "estimate": True}


def _add(total: _Sum, call: RecordedCall, former: _Conversation | None, price: Price, hours: float) -> None:
    write, hour = price.cache_write or price.input, price.cache_write_1h or price.input
    read = price.input if price.cache_read is None else price.cache_read
    total.calls += 1
    common = 0
    if former is not None and former.paused(call):
        most = former.common(call)
        if former.read(call):
            total.kept_longer += 1
            total.hour_saved += min(call.cache_read, most) * (write - read) / MILLION if former.kept else 0.0
        elif not former.kept:  # a prompt that was kept for an hour was missed for another reason
            common = max(0, most - call.cache_read)
            total.missed_calls += 1
            total.missed += common
            written = min(common, call.cache_write)
            total.saved += (written * (write - read) + (common - written) * (price.input - read)) / MILLION
    total.longer += (former.taken if former else 0) * read / MILLION
    still_written = max(0, call.cache_write - common)
    total.dearer += still_written * (1 - hours) * (hour - write) / MILLION
    total.written_for_an_hour += round(call.cache_write * hours)
    total.hour_cost += call.cache_write * hours * (hour - write) / MILLION


def _share_for_an_hour(call: RecordedCall, price: Price) -> float:
    """Return the share of what a call wrote that was written for an hour, as its cost tells."""
    if not call.cache_write or call.cost is None:
        return 0.0
    usage = Usage(input=call.input, output=call.output, cache_read=call.cache_read, cache_write=call.cache_write)
    share = price.share_for_an_hour(usage, call.cost)
    return 0.0 if share < NOISE else 1.0 if share > 1 - NOISE else share


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
        "longer": found.longer,
        "net": found.saved - found.dearer - found.longer,
        "writtenForAnHour": found.written_for_an_hour,
        "hourCost": found.hour_cost,
        "hourSaved": found.hour_saved,
        "hourNet": found.hour_saved - found.hour_cost,
    }
