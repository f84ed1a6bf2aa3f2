"""Leases in the memory of one process, by a clock of its own: for tests and simulations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from gateway.cluster.leases import IDLE_LEASES, Answer, Round, chosen_tokens, idle_cell, share_of


@dataclass(slots=True)
class _Token:
    fence: int
    until: float = 0.0


class MemoryLeases:
    """A ``LeaseStore`` whose rounds happen one after the other. ``now`` is the store's clock, in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._tokens: dict[str, _Token] = {}
        self._seen: dict[str, float] = {}
        self._troubles: dict[str, str] = {}
        self._resting: set[str] = set()
        self._wishes: dict[str, str] = {}
        self._made = 0

    async def round(self, asked: Round) -> Answer:
        """Do a round."""
        return self.do(asked)

    def do(self, asked: Round) -> Answer:
        """Do a round at once."""
        now = self._now()
        rests = self._rests(asked, now)
        leaving = asked.leaving or bool(rests)
        if leaving:
            self._seen.pop(asked.gateway, None)
        else:
            self._seen[asked.gateway] = now + asked.seconds
        for token, fence in asked.release.items():
            if self._is(token, fence):
                self._tokens[token].until = now
        kept = frozenset(token for token, fence in asked.renew.items() if self._is(token, fence))
        for token in kept:
            self._tokens[token].until = now + asked.seconds
        alive = {gateway for gateway, until in self._seen.items() if now < until}
        free = sorted((known.until, token) for token, known in self._tokens.items() if known.until <= now)
        names = [token for _, token in free]
        room = min(asked.most, share_of(len(self._tokens), len(alive)) - asked.staying)
        here = {token for token, gateway in self._wishes.items() if gateway == asked.gateway}
        elsewhere = {token for token, gateway in self._wishes.items() if gateway in alive - {asked.gateway}}
        chosen = chosen_tokens(asked, kept, names, room, here=here, elsewhere=elsewhere)
        idle = {token for until, token in free if until <= now - IDLE_LEASES * asked.seconds}
        wished = () if leaving else idle_cell(asked.lacking, idle, elsewhere.union(chosen))
        if wished:
            self._wishes |= dict.fromkeys(wished, asked.gateway)
            here.update(wished)
            chosen = chosen_tokens(asked, kept, names, room, here=here, elsewhere=elsewhere)
        taken = {}
        for token in () if leaving else chosen:
            self._tokens[token].fence += 1
            self._tokens[token].until = now + asked.claim
            taken[token] = self._tokens[token].fence
        known = self._tokens.keys() if asked.cells is None else {token for cell in asked.cells for token in cell}
        placed = {token for token in here if token in kept or token in taken or token not in known}
        for token in placed:
            del self._wishes[token]
        moved = kept if rests else frozenset(t for t in kept if self._wishes.get(t, asked.gateway) in alive - {asked.gateway})
        held = kept | taken.keys()
        ends = [known.until - now for token, known in self._tokens.items() if known.until > now and token not in held]
        next_free = min(ends, default=None)
        return Answer(kept, taken, len(self._tokens), len(alive), moved, frozenset(placed), next_free, rests, wished)

    def _rests(self, asked: Round, now: float) -> bool | None:
        """Decide whether a gateway rests; None where it does not ask, or says for the first time that it cannot work."""
        said = self._troubles.get(asked.gateway)
        self._troubles[asked.gateway] = asked.resting
        others = {gateway for gateway, until in self._seen.items() if now < until} - {asked.gateway}
        decided = bool(asked.resting) and said != ""
        rests = decided and any(not self._troubles[one] or asked.gateway in self._resting for one in others)
        (self._resting.add if rests else self._resting.discard)(asked.gateway)
        return rests if decided else None

    async def add(self, tokens: Iterable[str]) -> None:
        """Make tokens that do not exist yet."""
        for token in tokens:
            if token not in self._tokens:
                self._made += 1
                self._tokens[token] = _Token(self._made << 32)

    async def remove(self, tokens: Mapping[str, int]) -> None:
        """Forget tokens that are held with these fences."""
        for token, fence in tokens.items():
            if self._is(token, fence):
                del self._tokens[token]

    def move(self, token: str, gateway: str) -> None:
        """Want a token to be held by another gateway."""
        self._wishes[token] = gateway

    def writes(self, token: str, fence: int) -> bool:
        """Return whether a write that holds this fence is taken."""
        known = self._tokens.get(token)
        return known is not None and known.fence == fence

    def _is(self, token: str, fence: int) -> bool:
        return token in self._tokens and self._tokens[token].fence == fence
