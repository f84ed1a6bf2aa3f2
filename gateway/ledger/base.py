"""The connection that all parts of the SQLite ledger share, with its clock and its source of ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeVar

from gateway.ledger.thread import LedgerThread

if TYPE_CHECKING:
    import apsw

Result = TypeVar("Result")


class Clock(Protocol):
    """The current time."""

    def now(self) -> datetime:
        """Return the current instant, in UTC."""
        ...


class LedgerConnection:
    """One connection on its own thread. ``new_id`` makes a random id of at most 25 characters."""

    def __init__(self, thread: LedgerThread, clock: Clock, new_id: Callable[[], str]) -> None:
        self._thread = thread
        self._clock = clock
        self.new_id = new_id
        self._listeners: list[Callable[[], None]] = []

    def now(self) -> datetime:
        """Return the current instant, in UTC."""
        return self._clock.now()

    async def run(self, work: Callable[[apsw.Connection], Result], after: Callable[[], None] | None = None) -> Result:
        """Run ``work`` in a transaction of its own and return its result once it is durable (see ``LedgerThread.run``)."""
        return await self._thread.run(work, after)

    async def run_outside(self, work: Callable[[apsw.Connection], Result]) -> Result:
        """Run ``work`` between two transactions and return its result. It must not change the database."""
        return await self._thread.run_outside(work)

    def on_outbound(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` on the event loop whenever a message to send was queued."""
        self._listeners.append(listener)

    def notify_outbound(self) -> None:
        """Call the listeners."""
        for listener in self._listeners:
            listener()

    async def close(self) -> None:
        """Finish pending work, then close the connection."""
        await self._thread.close()


class NameCache:
    """The names for which rows of one kind exist, kept in memory, because few do and every message asks.

    Call ``changed`` before adding rows: names that were read before that are not stored any more.
    """

    def __init__(self) -> None:
        self.changes = 0
        self._known: frozenset[str] | None = None

    def changed(self) -> None:
        """Forget all names."""
        self.changes += 1
        self._known = None

    def learn(self, names: Iterable[str], as_of: int) -> None:
        """Store all names, which were read when there had been ``as_of`` changes."""
        if as_of == self.changes:
            self._known = frozenset(names)

    def lacks(self, name: str) -> bool:
        """Return whether there is certainly no row for a name."""
        return self._known is not None and name not in self._known
