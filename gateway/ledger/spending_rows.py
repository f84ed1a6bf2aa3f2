"""What is recorded of model calls, their limits, and the protocol of what keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal, Protocol

from msgspec import Struct


class SpendingLedger(Protocol):
    """Tokens and cost of model calls."""

    async def reserve(self, call: NewCall, limits: Sequence[Limit], *, force: bool = False) -> Reserved:
        """Record a call about to be made, unless it could exceed one of the limits. ``force`` records it anyway."""
        ...

    async def settle_call(self, row: int, spent: Spent) -> None:
        """Record what a call used."""
        ...

    async def settled_since(self, reserved: Reserved) -> None:
        """Return once a call was settled after a reservation was refused; in a ledger that others share after some seconds anyway."""
        ...

    async def allow(self, session: str) -> None:
        """Let the session's next turn exceed every limit."""
        ...

    async def use_allowance(self, session: str, turn: str) -> bool:
        """Return whether a turn may exceed the limits. It takes an unused allowance of its session, and keeps it over restarts."""
        ...

    async def first_time(self, day: str, what: str) -> bool:
        """Record that something happened on a day; return whether it was the first time. Records of other days are deleted."""
        ...

    async def spent_on(self, day: str) -> list[SpentOn]:
        """Return what each session used on a day (``YYYY-MM-DD``), in the background and otherwise, by source."""
        ...

    async def calls_since(self, day: str, *, limit: int = 50_000) -> list[RecordedCall]:
        """Return the latest calls from a day on that were booked with the provider's figures, oldest first."""
        ...

    async def of_sessions(self, sessions: Sequence[str], since: datetime) -> dict[str, tuple[int, float]]:
        """Return the tokens and the USD that sessions have used since the day of an instant; without those that used nothing."""
        ...

    async def turn_costs(self, call: NewCall) -> TurnCosts:
        """Return what the turn that makes a call has used so far, and the dearest of the latest turns for the same source or session.

        All sub-agents count as one source. Work in the background belongs to no turn.
        """
        ...

    async def cost_since(self, day: str) -> float:
        """Return what all calls from a day on cost, in USD, reservations included, those of other gateways of a cluster, too."""
        ...

    async def usage(self, since: str, by: UsageBy = "model") -> list[UsageRow]:
        """Return the usage from a day (``YYYY-MM-DD``) on, by day, agent and model, or origin or source of the turns.

        For people the source is their origin; in the background and outside of turns the origin is empty.
        """
        ...


class NewCall(Struct, frozen=True, kw_only=True):
    """A model call about to be made, with the most it can use. ``day`` is the owner's date; ``usd`` is None when no price is known.

    ``origin`` is who or what started the turn that makes it, and is empty outside of turns; ``source`` is the job, webhook or
    sub-agent, such as "job:abcde", and is empty for people.
    """

    day: str
    agent: str
    session: str
    model: str
    background: bool
    tokens: int
    usd: float | None
    origin: str = ""
    source: str = ""


_DIGITS: Final = 9
_ROUNDING: Final = 1e-9
Same = Literal["", "agent", "session", "source", "background"]
"""Which calls of a day are counted together; ``""``: all."""


class Limit(Struct, frozen=True, kw_only=True):
    """A limit on one day's calls: those of the ``same`` agent, session or source, those in the background, or all.

    Calls of a session are counted with those of all sub-agents that came of it. With ``within``, a session's key, only those count.
    ``of`` says in words whose it is, for one that belongs to a job, webhook or sub-agent; such a one cannot be forced. ``by_use``: it
    refuses calls once it is used up, so that the last one may go beyond it; otherwise each that could. One is of tokens or of USD.
    """

    name: str
    of: str = ""
    same: Same = ""
    within: str = ""
    tokens: int | None = None
    usd: float | None = None
    by_use: bool = False

    def share(self, tokens: int, usd: float | None) -> float:
        """Return which share of the limit so much is; 1 is all of it."""
        of_tokens = 0.0 if self.tokens is None else tokens / max(self.tokens, 1)
        of_usd = 0.0 if self.usd is None or not usd else usd / max(self.usd, 1e-9)
        return max(of_tokens, of_usd)

    def amount(self, share: float) -> float:
        """Return how many tokens or USD a share of the limit is: the reverse of ``share``."""
        return share * (max(self.tokens or 0, 1) if self.usd is None else max(self.usd, 1e-9))

    def is_broken(self, share: float, own: float, *, force: bool = False) -> bool:
        """Whether a call may not be made with which ``share`` of the limit would be used, ``own`` of it at most by the call itself."""
        if force and not self.of:
            return False
        if self.by_use and self.tokens != 0 and self.usd != 0:
            return own > 0 and share - own >= 1 - _ROUNDING
        return share > 1


class TurnCosts(Struct, frozen=True, kw_only=True):
    """What a turn has used so far, and the ``dearest`` one before it."""

    tokens: int = 0
    usd: float = 0.0
    dearest_tokens: int = 0
    dearest_usd: float = 0.0


class Reserved(Struct, frozen=True, kw_only=True):
    """The result of a reservation: the call's row, or the limit it could exceed. ``shares`` of each limit are used with this call.

    Of one that is refused, ``tokens`` and ``usd`` are the most that it can use. ``held``: the share of the broken limit that calls under
    way have reserved, and of which they may leave a part. ``further`` limits refuse it, too, whatever those leave. ``as_of``: how many
    calls had been settled before. ``turns``: what such turns cost, where nothing is waited for.
    """

    row: int | None
    broken: Limit | None
    shares: dict[str, float]
    tokens: int = 0
    usd: float | None = None
    held: float = 0.0
    further: tuple[Limit, ...] = ()
    as_of: int = 0
    turns: TurnCosts = TurnCosts()

    @property
    def only_held(self) -> bool:
        """Whether it is refused only because of calls under way: without them there would be room."""
        limit = self.broken
        if limit is None or self.held <= 0:
            return False
        return not limit.is_broken(round(self.shares[limit.name] - self.held, _DIGITS), self.own_of(limit))

    def own_of(self, limit: Limit) -> float:
        """Return which share of a limit the refused call can use at most."""
        return limit.share(self.tokens, self.usd)


class Spent(Struct, frozen=True, kw_only=True):
    """What a call used. ``cost`` is in USD; ``estimated``: tokens or price are our estimate, not the provider's figure."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float | None = None
    estimated: bool = False


class UsageRow(Struct, frozen=True, kw_only=True):
    """What one agent used on one day of one model, or for one origin or source: that is its ``name``.

    ``unpriced`` counts calls without a cost, ``open`` those never settled, ``estimated`` those whose tokens or price are our estimate.
    """

    day: str
    agent: str
    name: str
    calls: int
    input: int
    output: int
    cache_read: int
    cache_write: int
    cost: float
    unpriced: int
    open: int
    estimated: int = 0


class SpentOn(Struct, frozen=True, kw_only=True):
    """What a session used on one day, in the background or not, for one source.

    ``top`` is the session that its sub-agents belong to; else itself.
    """

    agent: str
    session: str
    top: str
    background: bool
    calls: int
    tokens: int
    cost: float
    source: str = ""


class RecordedCall(Struct, frozen=True, kw_only=True):
    """One call that was booked with the provider's figures. ``cost`` is in USD, and None in those of an earlier version."""

    at: datetime
    session: str
    model: str
    input: int
    output: int
    cache_read: int
    cache_write: int
    cost: float | None = None


UsageBy = Literal["model", "origin", "source"]
