"""Budget guard: checks the budgets before each model call and books its cost, also while the ledger cannot be written."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final
from zoneinfo import ZoneInfo

from msgspec import Struct
from msgspec.structs import replace

from agent.models.catalog.prices import Price
from agent.timing import Clock
from gateway.base.errors import StorageFailed
from gateway.budget.raised_limits import COMMON_KEYS, BudgetKeys
from gateway.budget.usage_report import first_day
from gateway.ledger.spending_rows import Limit, NewCall, Reserved, Same, SpendingLedger, Spent, UsageBy, UsageRow
from gateway.settings.budget_settings import BudgetSettings, DailyBudget
from gateway.telemetry.recorder import Telemetry

log = logging.getLogger(__name__)

WAIT_SECONDS: Final = 60.0
"""How long the calls of a turn, or one outside of turns, wait in all for calls under way to leave room in a budget."""


class Spender(Struct, frozen=True, kw_only=True):
    """Who or what the calls of a turn are made for. ``source`` and its ``label`` in words are empty for people.

    ``usd`` and ``tokens`` are the source's own daily budget.
    """

    origin: str
    source: str = ""
    label: str = ""
    usd: float | None = None
    tokens: int | None = None


class BudgetGuard:
    """The budgets of one agent. ``price`` returns a model's price; ``tell`` sends a line to the owner."""

    def __init__(
        self,
        spending: SpendingLedger,
        settings: BudgetSettings,
        clock: Clock,
        *,
        agent: str,
        zone: ZoneInfo,
        price: Callable[[str], Price],
        tell: Callable[[str], None],
        telemetry: Telemetry | None = None,
        keys: BudgetKeys = COMMON_KEYS,
    ) -> None:
        self.telemetry = telemetry or Telemetry()
        self._spending = spending
        self.settings = settings
        self._keys = keys
        self._clock = clock
        self._agent = agent
        self._zone = zone
        self.price = price
        self.tell = tell
        self._released: set[str] = set()
        self._spenders: dict[str, Spender] = {}
        self._waited: dict[str, float] = {}
        """How many seconds the running turns of sessions have waited for room."""
        self._day = BookingDay(clock, zone, tell)
        self._unwritten = Unwritten()
        self._shares: dict[str, float] = {}
        self.settling: set[asyncio.Task[None]] = set()

    def adopt(self, settings: BudgetSettings, keys: BudgetKeys) -> None:
        """Use other budgets from the next call on. ``keys`` are the settings that those of heartbeats and sub-agents are in."""
        self.settings = settings
        self._keys = keys

    def refusal(self, session: str, reserved: Reserved) -> tuple[str, str]:
        """Return in words why a call of a session was refused, and what helps."""
        from gateway.budget.budget_words import refusal

        spender = self._spenders.get(session)
        return refusal(reserved, spender.source if spender else "", self._keys)

    async def allow_once(self, session: str) -> None:
        """Allow the next message of a session regardless of budgets, also after a restart. Raises StorageFailed."""
        await self._spending.allow(session)

    @contextlib.asynccontextmanager
    async def turn(self, session: str, turn: str, spender: Spender | None = None) -> AsyncIterator[None]:
        """Book a session's calls for a ``spender``, and assign an allowance to a person's turn: it lasts until the turn ends.

        An allowance outlasts a crash.
        """
        if spender is None or not spender.source:
            try:
                if await self._spending.use_allowance(session, turn):
                    self._released.add(session)
            except StorageFailed as error:
                log.warning("could not read whether a turn was allowed by /budget once: %s", error)
        if spender is not None:
            self._spenders[session] = spender
        self._waited[session] = 0.0
        try:
            yield
        finally:
            self._waited.pop(session, None)
            self._released.discard(session)
            self._spenders.pop(session, None)

    async def reserve(
        self,
        session: str,
        model: str,
        *,
        tokens: int,
        usd: float | None,
        background: bool,
        purpose: str = "",
        waits: bool = True,
    ) -> Reserved:
        """Reserve the maximum usage of a call. If the ledger cannot be written, calls are counted in memory.

        Where only calls under way leave no room, it ``waits`` for them, for ``WAIT_SECONDS`` at most. Outside of turns its ``purpose`` is
        booked as its origin.
        """
        spender, waited = self._spenders.get(session), 0.0
        call = NewCall(
            day=self._day.today(),
            agent=self._agent,
            session=session,
            model=model,
            background=background,
            tokens=tokens,
            usd=usd,
            origin=spender.origin if spender else purpose,
            source=spender.source if spender else "",
        )
        while True:
            call = replace(call, day=self._day.today())
            force = not self.settings.enabled or (session in self._released and not background)
            limits = self._limits(background=background, spender=spender)
            try:
                await self._unwritten.write(self._spending)
                reserved = await self._written(call, limits, force=force)
            except StorageFailed as error:
                if not self._unwritten:
                    self.tell(f"💸 The ledger cannot be written, so model costs are counted in memory until it can: {error}")
                return self._unwritten.reserve(call, limits, self._shares, force=force)
            self._shares |= reserved.shares
            left = WAIT_SECONDS - self._waited.get(session, waited)
            if not (waits and reserved.only_held and left > 0):
                break
            waited += await self._wait(session, reserved, left)
        if reserved.broken is not None and not (background or reserved.only_held):
            with contextlib.suppress(StorageFailed):
                reserved = replace(reserved, turns=await self._spending.turn_costs(call))
        try:
            await self._warn(call, limits, reserved)
        except asyncio.CancelledError:
            self._give_back(reserved)
            raise
        return reserved

    async def _written(self, call: NewCall, limits: Sequence[Limit], *, force: bool) -> Reserved:
        """Reserve a call in the ledger. Who goes away meanwhile makes no call, so what was reserved is given back."""
        reserving = asyncio.ensure_future(self._spending.reserve(call, limits, force=force))
        try:
            return await asyncio.shield(reserving)
        except asyncio.CancelledError:
            reserving.add_done_callback(self._reserved_in_vain)
            raise

    def _reserved_in_vain(self, reserving: asyncio.Future[Reserved]) -> None:
        if not reserving.cancelled() and reserving.exception() is None:
            self._give_back(reserving.result())

    def _give_back(self, reserved: Reserved) -> None:
        if reserved.row is not None:
            self.settle(reserved.row, Spent(cost=0.0))

    async def _wait(self, session: str, refused: Reserved, seconds: float) -> float:
        """Wait until a call under way has ended, for so long at most; return how long that was."""
        began = self._clock.monotonic()
        tasks = [
            asyncio.ensure_future(self._spending.settled_since(refused)),
            asyncio.ensure_future(self._clock.sleep(seconds)),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            passed = self._clock.monotonic() - began
            if session in self._waited:
                self._waited[session] += passed
        return passed

    async def _warn(self, call: NewCall, limits: list[Limit], reserved: Reserved) -> None:
        """Tell the owner once a day per budget that it is nearly used up, and once that it refused a call that no person waits for.

        People are told in their reply that a call was refused. Nothing is told if the ledger cannot be read.
        """
        from gateway.budget.budget_words import budget_line

        for limit in limits:
            if not (self.settings.enabled or limit.of):
                continue
            share, refused = reserved.shares[limit.name], limit in (reserved.broken, *reserved.further)
            held = reserved.held if refused and reserved.only_held else 0.0
            own = limit.share(call.tokens, call.usd)
            made = reserved.row is not None and not limit.by_use
            if (share if refused or made else share - own) < self.settings.warn_at or (held and not call.source):
                continue
            whose = limit.name if limit.same in {"", "background"} else f"{limit.name} {getattr(call, limit.same)}"
            unseen = refused and bool(call.source or call.background)
            try:
                due = await self._spending.first_time(call.day, f"{whose} {'held' if held else 'refused'}" if unseen else whose)
                if due and unseen and not held:
                    await self._spending.first_time(call.day, whose)  # that it is nearly used up is no news any more
            except StorageFailed:
                continue
            if due:
                line = budget_line(limit, call, reserved, self._keys, refused=refused, held=held)
                log.warning("%s", line)
                self.tell(line)

    def settle(self, row: int, spent: Spent) -> None:
        """Book a call's usage without waiting; the ledger thread writes it before any later request."""
        if row < 0:
            written = self._unwritten.settle(row, spent)
            if written is None:
                return
            row = written
        task = asyncio.ensure_future(self._settle(row, spent))
        self.settling.add(task)
        task.add_done_callback(self.settling.discard)

    async def _settle(self, row: int, spent: Spent) -> None:
        try:
            await self._spending.settle_call(row, spent)
        except StorageFailed as error:  # the reservation stays spent, which is the careful side
            log.warning("a model call could not be booked: %s", error)

    async def usage(self, days: int, by: UsageBy = "model") -> list[UsageRow]:
        """Return the usage of all agents in the last ``days`` days, including today."""
        return await self._spending.usage(first_day(self._clock.now(), self._zone, days), by)

    async def hour_cache(self, days: int) -> dict[str, Any]:
        """Return the estimate of what keeping prompts for an hour would have saved in the last ``days`` days."""
        from gateway.budget.cache_savings import cache_savings

        calls = await self._spending.calls_since(first_day(self._clock.now(), self._zone, days))
        return cache_savings(calls, self.price)

    async def spent_today(self) -> float:
        """Return what the calls of all agents cost today, in USD."""
        return await self._spending.cost_since(first_day(self._clock.now(), self._zone, 1))

    def _limits(self, *, background: bool, spender: Spender | None = None) -> list[Limit]:
        budgets: list[tuple[str, Same, DailyBudget]] = (
            [("budgets.background", "background", self.settings.background)]
            if background
            else [
                ("budgets.day", "", self.settings.day),
                ("budgets.agent", "agent", self.settings.agent),
                ("budgets.session", "session", self.settings.session),
            ]
        )
        limits = []
        for name, same, budget in budgets:
            by_use = background  # a flush is worth more than the rest of it, and reserves its prompt as if no cache had it
            limits += [Limit(name=f"{name}.usd", same=same, usd=budget.usd, by_use=by_use)] if budget.usd is not None else []
            limits += (
                [Limit(name=f"{name}.tokens", same=same, tokens=budget.tokens, by_use=by_use)]
                if budget.tokens is not None
                else []
            )
        return [*limits, *_own_limits(spender)] if spender is not None and spender.source else limits


def _own_limits(spender: Spender) -> list[Limit]:
    """Return the limits of a source's own daily budget."""
    found = []
    if spender.usd is not None:
        found.append(Limit(name=f"{spender.source}.usd", of=spender.label, same="source", usd=spender.usd))
    if spender.tokens is not None:
        found.append(Limit(name=f"{spender.source}.tokens", of=spender.label, same="source", tokens=spender.tokens))
    return found


WINDOW_SECONDS = 10 * 3600.0
NEW_DATES = 2
"""Maximum number of new dates within the window: the first one, and one after midnight or a clock correction."""


class BookingDay:
    """Returns the date on which calls are booked, as ``YYYY-MM-DD``.

    A new date starts with an unused budget. Within ``WINDOW_SECONDS`` since the machine started, in which it was awake or slept, at
    most ``NEW_DATES`` are accepted; beyond that, calls are booked on the latest one, and ``tell`` takes a sentence about it. Going back
    to a known date is always possible, because its usage is known.
    """

    def __init__(self, clock: Clock, zone: ZoneInfo, tell: Callable[[str], None] = lambda _: None) -> None:
        self._clock = clock
        self._passed: Callable[[], float] = getattr(clock, "since_boot", clock.monotonic)
        self._zone = zone
        self._tell = tell
        self._begun: dict[str, None] = {}
        self._times: deque[float] = deque()
        self._latest = self._told = ""

    def today(self) -> str:
        """Return the date for a call made now."""
        shown = f"{self._clock.now().astimezone(self._zone):%Y-%m-%d}"
        now = self._passed()
        while self._times and now - self._times[0] >= WINDOW_SECONDS:
            self._times.popleft()
        if shown not in self._begun:
            if len(self._times) >= NEW_DATES:
                self._say_so(shown)
                return self._latest
            self._begun[shown] = None
            self._times.append(now)
        self._latest, self._told = shown, ""
        return shown

    def _say_so(self, shown: str) -> None:
        if self._told != shown:
            self._told = shown
            self._tell(
                f"The clock went to {shown} within hours, so calls are still counted for {self._latest}, with its budget. "
                "If the clock is right now: homebody restart"
            )


class _Call(Struct):
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
        own = {limit.name: limit.share(call.tokens, call.usd) for limit in limits}
        broken = next((one for one in limits if one.is_broken(shares[one.name], own[one.name], force=force)), None)
        if broken is not None:
            return Reserved(row=None, broken=broken, shares=shares, tokens=call.tokens, usd=call.usd)
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
        kind = limit.same
        same = [one for one in self._calls.values() if not kind or getattr(one.call, kind) == getattr(call, kind)]
        tokens = call.tokens + sum(_tokens(one) for one in same if one.call.day == call.day)
        usd = (call.usd or 0.0) + sum(_usd(one) for one in same if one.call.day == call.day)
        return limit.share(tokens, usd)


def _tokens(waiting: _Call) -> int:
    spent = waiting.spent
    return waiting.call.tokens if spent is None else spent.input + spent.output + spent.cache_read + spent.cache_write


def _usd(waiting: _Call) -> float:
    return (waiting.call.usd if waiting.spent is None else waiting.spent.cost) or 0.0
