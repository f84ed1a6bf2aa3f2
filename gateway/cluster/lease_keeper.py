"""Keeps the leases of this gateway: a round with the store three times in the length of a lease, and an end to work whose lease is over."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from gateway.base.errors import StorageFailed
from gateway.cluster.leases import Cell, Changes, Lease, LeaseStore, LeaseTable

log = logging.getLogger(__name__)


def time_awake_or_not() -> float:
    """Return seconds that go on while the machine sleeps: a lease does not wait for whoever holds it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class LeaseKeeper:
    """Runs rounds until it is cancelled, and says what changes by three functions, which must not block.

    ``taken``: work for this lease may begin. ``leave``: finish the work for this token, then call ``left``. ``lost``: stop at once; what is
    still written is refused by its fence. ``rests``: it was decided whether a gateway that cannot work (``rest``) gives up everything.
    """

    def __init__(
        self,
        store: LeaseStore,
        gateway: str,
        seconds: float,
        *,
        taken: Callable[[Lease], None],
        leave: Callable[[str], None],
        lost: Callable[[str], None],
        rests: Callable[[bool], None] = lambda _: None,
        clock: Callable[[], float] = time_awake_or_not,
    ) -> None:
        self._store = store
        self._table = LeaseTable(gateway, seconds)
        self._taken, self._leave, self._lost, self._rests = taken, leave, lost, rests
        self._clock = clock
        self._changed = asyncio.Event()
        self._away_since: float | None = None

    def want(self, cells: tuple[Cell, ...]) -> None:
        """Say which cells may be held from now on."""
        self._table.cells = cells
        self._changed.set()

    def held(self, token: str) -> Lease | None:
        """Return the lease on a token, if it is certain that no other gateway has it."""
        return self._table.held(token, self._clock())

    def left(self, token: str) -> None:
        """Take note that the work for a token has ended. It is given up at once."""
        self._table.left(token)
        self._changed.set()

    def rest(self, why: str) -> None:
        """Say why this gateway cannot work, with "" that it can: it gives up everything in order while another one works."""
        if why != self._table.resting:
            self._table.resting = why
            self._changed.set()

    def stay(self, token: str) -> None:
        """Take note that the work for a token cannot be left, for now."""
        self._table.stay(token)

    async def run(self) -> None:
        """Keep the leases until cancelled."""
        while True:
            began = self._clock()
            if not await self._round():
                await self._wait_until(began + self._table.pause)

    async def empty(self, seconds: float) -> bool:
        """Give up everything in order, within a time limit; ``run`` goes on meanwhile. Returns whether nothing is held any more."""
        self._table.emptying = True
        self._changed.set()
        try:
            async with asyncio.timeout(seconds):
                while self._table.all_held(self._clock()):  # noqa: ASYNC110  (rounds change it, and the clock)
                    await asyncio.sleep(min(0.05, seconds / 10))
                await self._round()  # so that what was given up last is free at once
        except TimeoutError:
            return False
        return True

    async def _round(self) -> bool:
        """Do a round; return whether the next one is due at once."""
        sent = self._clock()
        if self._away_since is not None:
            self._table.was_away(sent, sent - self._away_since)
        asked, late = self._table.begin(sent)
        self._end(late)
        try:
            answer = await self._store.round(asked)
        except StorageFailed as error:
            if self._away_since is None:
                self._away_since = sent
                log.warning("leases cannot be renewed; work stops when they end: %s", error)
            return False
        if self._away_since is not None:
            log.info("leases are renewed again, after %.0f s", self._clock() - self._away_since)
            self._away_since = None
        if answer.rests is not None and asked.resting == self._table.resting:
            self._rests(answer.rests)
        changes = self._table.end(asked, answer, sent, self._clock())
        self._apply(changes)
        return changes.claimed

    def _apply(self, changes: Changes) -> None:
        self._end(changes.lost)
        for lease in changes.taken:
            self._taken(lease)
        for token in changes.leave:
            self._leave(token)

    def _end(self, tokens: tuple[str, ...]) -> None:
        for token in tokens:
            log.warning("the lease on %s is lost: its work stops here", token)
            self._lost(token)

    async def _wait_until(self, when: float) -> None:
        """Wait for the time of the next round, or for something to give up. Leases that end meanwhile end their work."""
        self._changed.clear()
        while (now := self._clock()) < when and not self._changed.is_set():
            self._end(self._table.expired(now))
            ends = min((lease.until for lease in self._table.all_held(now)), default=when)
            try:
                async with asyncio.timeout(max(0.001, min(when, ends) - now)):
                    await self._changed.wait()
            except TimeoutError:
                continue
