"""Leases as one gateway sees them: what it may work for, until when, and what it asks for next.

A lease is the right to work for one token (an agent, or an account of a channel) for a while. It is renewed three times in its length, by
one round with the store: ``LeaseTable.begin`` says what to ask, ``end`` takes the answer. Nothing here does I/O or looks at a clock, so
that tests play thousands of gateways over a bad network.

Tokens that belong together (an account and the agents that answer on it) are a ``Cell``: a gateway takes all of a cell or none of it.

What is taken is held once it is renewed for the first time, at once and in a round of its own. Until then it is a claim, which lasts a part
of a lease alone (``CLAIM_SHARE``): a gateway that dies while it takes over costs that much, not another lease.

A gateway that cannot work (``resting``) gives up what it holds, and takes nothing, as long as another one works. The store decides that:
first such a gateway only says so, for one round, and from the next one on it rests if there is a gateway without trouble then. Where they
share what is broken, a full disk say, all of them have said so by then, and each keeps what it has. One that rests goes on resting until
no gateway is left that does not, so that two do not hand everything to and fro.

Two gateways never hold one token at the same time by their own judgement, as long as their clocks run equally fast within ``DRIFT``: a
lease counts from the moment when the round was *sent*, and ends earlier here than in the store. A gateway that was stopped and wakes up
does not know that it is late until it looks at its clock; what it writes then is refused by the store, since each lease has a ``fence``, a
number that only grows (https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

Cell = tuple[str, ...]
"""Tokens that one gateway holds together, in a fixed order."""
ROUNDS: Final = 3
"""Rounds in the length of a lease: two may be lost in a row."""
DRIFT: Final = 0.1
"""Share of its length by which a lease ends earlier here than in the store: how much clocks may differ in speed, and time to stop."""
CLAIM_SHARE: Final = 3
"""A claim lasts this part of a lease: longer than two rounds take, as it is renewed in the second one."""
FEW: Final = 3
"""So many gateways look at once when a token of another one ends. Of more, one has a round about then anyway."""
WAKING: Final = 0.05
"""Seconds after which a token that ended is surely seen to be free."""
LEAST_STEP: Final = 8
"""Tokens that a gateway takes in a round at least. A quarter of its share may be more: who comes first does not take all."""
GRACE_SHARE: Final = 2
"""Where the store was away for longer than a lease, who held nothing waits this part of one before it takes anything: those that ended
themselves over it, and start again, first say so."""
IDLE_LEASES: Final = 2
"""Leases after which a token that nobody holds is wished for, with its cell: whoever has room for it takes it sooner."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A right to work for ``token`` until ``until``, in seconds of this gateway's clock. ``fence`` grows with each new holder."""

    token: str
    fence: int
    until: float


@dataclass(frozen=True, slots=True)
class Round:
    """What a gateway asks of the store, done as a whole or not at all."""

    gateway: str
    seconds: float
    """How long leases last from now on, in the store's time."""
    claim: float
    """How long what is taken in this round lasts: until the next one renews it."""
    renew: Mapping[str, int]
    """Tokens held or claimed, with their fences."""
    release: Mapping[str, int]
    """Tokens given up, with their fences: free at once."""
    staying: int
    """How many of them it means to keep. The store gives it free tokens up to its share (``share_of``), but no more than ``most``."""
    most: int
    leaving: bool
    """Whether the gateway is being emptied: it gets none, and does not count when tokens are shared out."""
    resting: str = ""
    """Why the gateway cannot work: it is like one that is emptied, as long as another one works. Empty where it can."""
    cells: tuple[Cell, ...] | None = None
    """What it would take, in the order of its wishes; None: any token, each by itself."""
    lacking: tuple[Cell, ...] = ()
    """Those of them of which it holds nothing. The first one part of which is idle is to come here, also from who holds the rest of it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a round did."""

    kept: frozenset[str]
    """Tokens whose lease was renewed. The others are lost: somebody took them after their end."""
    taken: Mapping[str, int]
    """Tokens that are claimed from now on, with their fences."""
    tokens: int
    """How many there are."""
    gateways: int
    """How many gateways share them, this one included unless it is leaving."""
    moved: frozenset[str] = frozenset()
    """Tokens held here that an owner wants to have elsewhere."""
    placed: frozenset[str] = frozenset()
    """Tokens held here that an owner wanted to have here."""
    next_free: float | None = None
    """Seconds until the first token of another gateway is free, unless that renews it."""
    rests: bool | None = None
    """Whether the gateway rests, as it cannot work and another one does; None where it did not ask, or only said it in this round."""
    wished: Cell = ()
    """The cell that is to come here, of those that were lacking."""


def share_of(tokens: int, gateways: int) -> int:
    """Return how many tokens each of some gateways holds at most."""
    return -(-tokens // max(1, gateways))


def whole_cells(cells: Iterable[Cell], free: Collection[str], held: Collection[str], room: int) -> list[str]:
    """Return the tokens to take so that cells are held as a whole: as long as there is room, the last one may exceed it."""
    chosen: list[str] = []
    for cell in cells:
        missing = [token for token in cell if token not in held]
        if len(chosen) < room and missing and all(token in free for token in missing):
            chosen += missing
    return chosen


def chosen_tokens(
    asked: Round, kept: Collection[str], free: Sequence[str], room: int, *, here: set[str], elsewhere: set[str]
) -> list[str]:
    """Choose what to take: what is wished to be here, and then what is free, except what is wished to be elsewhere."""
    cells = tuple((token,) for token in free) if asked.cells is None else asked.cells
    wanted = whole_cells((cell for cell in cells if not here.isdisjoint(cell)), free, kept, len(free) + 1)
    others = (cell for cell in cells if here.isdisjoint(cell) and elsewhere.isdisjoint(cell))
    return wanted + whole_cells(others, free, kept, room - len(wanted))


def idle_cell(cells: Iterable[Cell], idle: set[str], spoken_for: set[str]) -> Cell:
    """Return the first of these cells part of which nobody has held for long, except those some of which is spoken for; () for none.

    Where settings differ, the holder of an agent may not know its account, which nobody connects then.
    """
    found = (cell for cell in cells if not idle.isdisjoint(cell) and spoken_for.isdisjoint(cell))
    return next(found, ())


class LeaseStore(Protocol):
    """What leases are kept in. Every method raises ``StorageFailed`` where it cannot say what happened."""

    async def round(self, asked: Round) -> Answer:
        """Do a round."""
        ...

    async def add(self, tokens: Iterable[str]) -> None:
        """Make tokens that do not exist yet; they are free."""
        ...

    async def remove(self, tokens: Mapping[str, int]) -> None:
        """Forget tokens that are held with these fences. A token of the same name that is made later has higher fences."""
        ...


@dataclass(frozen=True, slots=True)
class Changes:
    """What the gateway begins, and what it ends at once (``lost``) or in order (``leave``: finish, then ``LeaseTable.left``)."""

    taken: tuple[Lease, ...] = ()
    lost: tuple[str, ...] = ()
    leave: tuple[str, ...] = ()
    claimed: bool = False
    """Whether something was claimed: the next round is due at once."""


@dataclass(slots=True)
class LeaseTable:
    """The leases of one gateway. ``seconds`` is their length; ``now`` is a clock that goes on while the machine sleeps."""

    gateway: str
    seconds: float
    _held: dict[str, Lease] = field(default_factory=dict)
    _claimed: dict[str, int] = field(default_factory=dict)
    _leaving: set[str] = field(default_factory=set)
    _placed: set[str] = field(default_factory=set)
    _wished: set[Cell] = field(default_factory=set)
    """Cells that were had come here: each once, so that gateways whose cells differ do not draw them to and fro."""
    _gateways: int = 0
    _joined: float = 0.0
    """When the last gateway joined, which is to have its part first."""
    _released: dict[str, int] = field(default_factory=dict)
    _share: int = 0
    _next_free: float | None = None
    _waits_until: float = 0.0
    emptying: bool = False
    """Set it to have all leases given up, and none taken."""
    resting: str = ""
    """Set it to why this gateway cannot work: the same, as long as another one works."""
    cells: tuple[Cell, ...] | None = None
    """The cells that may be held; what is held beside them is left. None: any token, each by itself."""

    @property
    def pause(self) -> float:
        """Seconds between two rounds: fewer where a token of another gateway ends before."""
        return min(self.seconds / ROUNDS, self.seconds if self._next_free is None else self._next_free + WAKING)

    def held(self, token: str, now: float) -> Lease | None:
        """Return the lease on ``token`` if it is certain that nobody else has it."""
        lease = self._held.get(token)
        return lease if lease is not None and now < lease.until else None

    def all_held(self, now: float) -> tuple[Lease, ...]:
        """Return all that is certainly held, those that are being left included."""
        return tuple(lease for lease in self._held.values() if now < lease.until)

    def begin(self, now: float) -> tuple[Round, tuple[str, ...]]:
        """Return the next round, and the tokens that ended meanwhile: work for them stops at once."""
        late = self.expired(now)
        self._next_free = None
        if self.emptying:
            self._released |= self._claimed
            self._claimed.clear()
        settled = now - self._joined > IDLE_LEASES * self.seconds
        asked = Round(
            gateway=self.gateway,
            seconds=self.seconds,
            claim=self.seconds / CLAIM_SHARE,
            renew={lease.token: lease.fence for lease in self._held.values()} | self._claimed,
            release=dict(self._released),
            staying=len(self._held) - len(self._leaving) + len(self._claimed),
            most=max(LEAST_STEP, share_of(self._share, 4)) if now >= self._waits_until else 0,
            leaving=self.emptying,
            resting=self.resting,
            cells=self.cells,
            lacking=self._lacking() if settled and not self.emptying and not self.resting else (),
        )
        return asked, late

    def _lacking(self) -> tuple[Cell, ...]:
        cells = self.cells or ()
        self._wished.intersection_update(cells)
        here = self._held.keys() | self._claimed.keys()
        return tuple(cell for cell in cells if cell not in self._wished and here.isdisjoint(cell))

    def end(self, asked: Round, answer: Answer, sent: float, now: float) -> Changes:
        """Take the answer of a round that was sent at ``sent``."""
        until = sent + self.seconds * (1 - DRIFT)
        lost = list(self.expired(now))
        taken: list[Lease] = []
        for token, fence in asked.release.items():
            if self._released.get(token) == fence:
                del self._released[token]
        for token, fence in asked.renew.items():
            known = self._held.get(token)
            if self._claimed.get(token) == fence:
                taken += self._confirmed(Lease(token, fence, until), now, kept=token in answer.kept)
            elif known is None or known.fence != fence:  # it ended here while the round was under way
                if token in answer.kept:
                    self._released[token] = fence
            elif token in answer.kept:
                self._held[token] = Lease(token, fence, max(known.until, until))
            else:
                self._drop(token)
                lost.append(token)
        for token, fence in answer.taken.items():
            (self._released if now >= until or token in self._held else self._claimed)[token] = fence
        self._look_who_joined(answer.gateways, now)
        if answer.wished:
            self._wished.add(answer.wished)
        self._placed |= answer.placed & (self._held.keys() | self._claimed.keys())
        self._next_free = answer.next_free if answer.gateways <= FEW else None
        self._share = 0 if self.emptying else share_of(answer.tokens, answer.gateways)
        return Changes(tuple(taken), tuple(lost), self._too_many(answer.moved), claimed=bool(self._claimed))

    def _look_who_joined(self, gateways: int, now: float) -> None:
        if gateways > self._gateways:  # one that joins is to have its part
            self._placed.clear()
            self._wished.clear()
            self._joined = now
        self._gateways = gateways

    def _confirmed(self, lease: Lease, now: float, *, kept: bool) -> tuple[Lease, ...]:
        """Hold what was claimed, if it was renewed in time. Nothing was begun for it, so that nothing is lost where it was not."""
        del self._claimed[lease.token]
        if kept and now < lease.until:
            self._held[lease.token] = lease
            return (lease,)
        self._placed.discard(lease.token)
        self._wished = {cell for cell in self._wished if lease.token not in cell}
        if kept:
            self._released[lease.token] = lease.fence
        return ()

    def expired(self, now: float) -> tuple[str, ...]:
        """Forget the leases that ended, and return their tokens."""
        late = tuple(lease.token for lease in self._held.values() if now >= lease.until)
        for token in late:
            self._drop(token)
        return late

    def left(self, token: str) -> None:
        """Take note that the work for a token has ended; the next round gives it up."""
        lease = self._held.get(token)
        if lease is not None:
            self._drop(token)
            self._released[token] = lease.fence

    def was_away(self, now: float, seconds: float) -> None:
        """Take note that the store was away for so long before the round that begins now."""
        if seconds > self.seconds:
            self._waits_until = now + self.seconds / GRACE_SHARE

    def stay(self, token: str) -> None:
        """Take note that a token which was to be left cannot be, for now; the next round may ask for it again."""
        self._leaving.discard(token)

    def _drop(self, token: str) -> None:
        self._held.pop(token, None)
        self._leaving.discard(token)
        self._placed.discard(token)

    def _too_many(self, moved: frozenset[str]) -> tuple[str, ...]:
        """Choose what is given up: what is wanted elsewhere, and the oldest beyond the share. What was put here stays until one joins."""
        cells = self._held_cells()
        leave = [cell for cell, whole in cells if not whole or any(token in moved for token in cell)]
        staying = [cell for cell, _ in cells if cell not in leave]
        count = sum(map(len, staying))
        for cell in staying if self.emptying or self._share else ():
            if self.emptying or (count - len(cell) >= self._share and self._placed.isdisjoint(cell)):
                count -= len(cell)
                leave.append(cell)
        tokens = tuple(token for cell in leave for token in cell)
        self._leaving.update(tokens)
        return tokens

    def _held_cells(self) -> list[tuple[Cell, bool]]:
        """Return what is held and not being left, by cells, those taken first in front; and whether it is a whole one that is wanted."""
        staying = [token for token in self._held if token not in self._leaving]
        if self.cells is None:
            return [((token,), True) for token in staying]
        of = {token: cell for cell in self.cells for token in cell}
        found: dict[Cell, list[str]] = {}
        for token in staying:
            found.setdefault(of.get(token, ()), []).append(token)
        alone = [((token,), False) for token in found.pop((), [])]
        return alone + [(tuple(held), len(held) == len(cell)) for cell, held in found.items()]
