"""Counts model calls in memory while the ledger cannot be written, so that budgets hold during an outage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gateway.ledger.protocol import SpendingLedger
from gateway.ledger.spending import Limit, NewCall, Reserved, Spent


@dataclass(slots=True)
class _Call:
    call: NewCall
    spent: Spent | None = None


class Unwritten:
    """The unwritten calls of one agent. Their row ids are negative."""

    def __init__(self) -> None:
        self._calls: dict[int, _Call] = {}
        self._rows: dict[int, int] = {}
        self._last = 0
        self._writing = False

    def __bool__(self) -> bool:
        return bool(self._calls)

    def reserve(self, call: NewCall, limits: Sequence[Limit], known: Mapping[str, float], *, force: bool) -> Reserved:
        """Reserve a call unless it could exceed a limit. ``known``: the usage of each limit when the ledger was last read."""
        shares = {limit.name: known.get(limit.name, 0.0) + self._share(call, limit) for limit in limits}
        broken = next((limit for limit in limits if shares[limit.name] > 1), None)
        if broken is not None and not force:
            return Reserved(row=None, broken=broken, shares=shares)
        self._last -= 1
        self._calls[self._last] = _Call(call)
        return Reserved(row=self._last, broken=None, shares=shares)

    def settle(self, row: int, spent: Spent) -> int | None:
        """Book a call's usage. Returns its ledger row id if it was written meanwhile."""
        if row in self._calls:
            self._calls[row].spent = spent
            return None
        return self._rows.pop(row, None)

    async def write(self, spending: SpendingLedger) -> None:
        """Write all calls to the ledger. Raises StorageFailed; unwritten calls are kept."""
        if self._writing:
            return
        self._writing = True
        try:
            while self._calls:
                row, waiting = next(iter(self._calls.items()))
                reserved = await spending.reserve(waiting.call, (), force=True)
                self._calls.pop(row)
                assert reserved.row is not None
                if waiting.spent is None:
                    self._rows[row] = reserved.row
                else:
                    await spending.settle_call(reserved.row, waiting.spent)
        finally:
            self._writing = False

    def _share(self, call: NewCall, limit: Limit) -> float:
        same = [
            one for one in self._calls.values() if all(getattr(one.call, name) == getattr(call, name) for name in limit.same)
        ]
        tokens = call.tokens + sum(_tokens(one) for one in same if one.call.day == call.day)
        usd = (call.usd or 0.0) + sum(_usd(one) for one in same if one.call.day == call.day)
        of_tokens = 0.0 if limit.tokens is None else tokens / max(limit.tokens, 1)
        of_usd = 0.0 if limit.usd is None or not usd else usd / max(limit.usd, 1e-9)
        return max(of_tokens, of_usd)


def _tokens(waiting: _Call) -> int:
    spent = waiting.spent
    return waiting.call.tokens if spent is None else spent.input + spent.output + spent.cache_read + spent.cache_write


def _usd(waiting: _Call) -> float:
    return (waiting.call.usd if waiting.spent is None else waiting.spent.cost) or 0.0
