"""The ledger's connection: SQLite on a thread of its own, with group commit, shared by all parts of the ledger."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeVar

import apsw

from agent import fault_injection
from agent.timing import Clock
from gateway.base.errors import StorageFailed
from gateway.ledger.wal import Marking

Result = TypeVar("Result")

GROUP = 100
"""The most calls that share a commit."""
SYNC_SECONDS = 0.5
"""How long after the last call a commit that was not synced is synced, if no other call does it before."""
LAZY_SECONDS = 0.05
"""How long a call that nobody waits for is held back, to share the commit of the next one."""
_SYNC = "INSERT INTO meta VALUES ('syncs', '1') ON CONFLICT DO UPDATE SET value = value + 1"
"""A change, whose commit syncs what was written before it: SQLite writes nothing for one that leaves a row as it was."""

_HINTS = {
    apsw.FullError: "Free some space on that disk; nothing that was confirmed is lost.",
    apsw.ReadOnlyError: "Give your user write access to it (chown, chmod, remount), or point HOMEBODY_HOME elsewhere.",
    apsw.CantOpenError: "Give your user access to the folder (chown, chmod), or point HOMEBODY_HOME elsewhere.",
    apsw.BusyError: "Another program has the file open: close it and start again.",
    apsw.IOError: "Look at the disk (dmesg, free space, quota); nothing that was confirmed is lost.",
    apsw.CorruptError: "Restart the gateway: it sets the damaged file aside and begins a new one.",
    apsw.NotADBError: "Restart the gateway: it sets the damaged file aside and begins a new one.",
}


def storage_error(error: apsw.Error, where: str) -> StorageFailed | None:
    """Translate an error that the disk caused; return None for any other."""
    for kind, hint in _HINTS.items():
        if isinstance(error, kind):
            return StorageFailed(f"the ledger could not be used: {error}", where=where, hint=hint)
    return None


@dataclass(slots=True)
class _Call:
    """A function to run and the future for its result. ``after`` runs on the event loop once the result is stored."""

    work: Callable[[apsw.Connection], Any]
    answer: asyncio.Future[Any]
    after: Callable[[], None] | None
    outside: bool = False
    synced: bool = True
    result: Any = None
    error: Exception | None = None


class LedgerThread:
    """Runs functions on the connection, each in a transaction of its own as far as they can tell.

    Calls that wait at the same time share a commit, whose fsync is the expensive part. It is left out where none of them asks for it: such
    a commit outlives the process, and a loss of power once a later one is synced. Each call has a savepoint: one that raises is rolled
    back without affecting the others. A function may be run twice (the first run is rolled back), so it must change the database alone.
    A caller that is cancelled before its function starts changes nothing; one that is cancelled later cannot know, and reads the rows.
    ``connect`` opens the connection, whose commits are synced, and the mark of its log. ``committed`` is told the seconds of each commit.
    """

    def __init__(
        self,
        connect: Callable[[], tuple[apsw.Connection, Marking]],
        where: str,
        committed: Callable[[float], None] = lambda _: None,
    ) -> None:
        self._connect = connect
        self._committed = committed
        self._where = where
        self._calls: queue.SimpleQueue[Sequence[_Call] | None] = queue.SimpleQueue()
        self._held: list[_Call] = []
        self._sending: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._thread = threading.Thread(target=self._serve, name="ledger", daemon=True)
        self._closed = False
        self._synced = True

    async def start(self) -> None:
        """Open the connection. Raises what opening it raised."""
        self._thread.start()
        await self._opened

    async def run(
        self,
        work: Callable[[apsw.Connection], Result],
        after: Callable[[], None] | None = None,
        *,
        synced: bool = True,
        lazy: bool = False,
    ) -> Result:
        """Run ``work`` and return its result once it is durable.

        Without ``synced`` it survives the end of the process, but a loss of power only once a later commit is synced, which happens within
        a second. It is for what no promise rests on. With ``lazy`` it waits up to ``LAZY_SECONDS`` for another call, and runs before it.
        """
        if self._closed:
            raise StorageFailed("the ledger is closed", where=self._where, hint="Start the gateway again.")
        answer: asyncio.Future[Result] = self._loop.create_future()
        self._held.append(_Call(work, answer, after, synced=synced))
        if not lazy:
            self._send()
        elif self._sending is None:
            self._sending = self._loop.call_later(LAZY_SECONDS, self._send)
        return await answer

    async def run_outside(self, work: Callable[[apsw.Connection], Result]) -> Result:
        """Run ``work`` between two transactions and return its result. It must not change the database."""
        if self._closed:
            raise StorageFailed("the ledger is closed", where=self._where, hint="Start the gateway again.")
        answer: asyncio.Future[Result] = self._loop.create_future()
        self._held.append(_Call(work, answer, None, outside=True))
        self._send()
        return await answer

    async def close(self) -> None:
        """Finish pending calls, then close the connection."""
        if not self._closed:
            self._closed = True
            self._send()
            self._calls.put(None)
        await asyncio.to_thread(self._thread.join)

    def _send(self) -> None:
        """Hand the calls that are held back to the thread, in one step."""
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None
        if self._held:
            self._calls.put(self._held)
            self._held = []

    def _serve(self) -> None:
        try:
            db, marking = self._connect()
        except Exception as error:  # noqa: BLE001  (whatever kept it from opening is the starter's to hear)
            self._on_loop(lambda error=error: self._opened.set_exception(error))  # type: ignore[misc]
            return
        self._on_loop(lambda: self._opened.set_result(None))
        more = True
        while more:
            calls, more = self._gather(SYNC_SECONDS if marking.unsynced else None)
            if not calls and marking.unsynced:
                self._sync(db, marking)
            if calls:
                if inside := [call for call in calls if not call.outside]:
                    self._perform(db, inside, marking)
                for call in calls:
                    if call.outside:
                        self._perform_outside(db, call)
                self._on_loop(lambda done=calls: _answer(done))  # type: ignore[misc]
        marking.close()
        db.close()

    def _gather(self, seconds: float | None) -> tuple[list[_Call], bool]:
        """Wait for calls; return those that wait, none where ``seconds`` passed without any, and whether there may be more."""
        calls: list[_Call] = []
        try:
            some = self._calls.get(timeout=seconds)
        except queue.Empty:
            return [], True
        while some is not None:
            calls += [call for call in some if not call.answer.cancelled()]
            if len(calls) >= GROUP:
                return calls, True
            try:
                some = self._calls.get_nowait()
            except queue.Empty:
                return calls, True
        return calls, False

    def _perform(self, db: apsw.Connection, calls: Sequence[_Call], marking: Marking) -> None:
        synced = any(call.synced for call in calls)
        self._set_synced(db, synced=synced)
        began = time.perf_counter()
        error = _commit_together(db, calls)
        self._committed(time.perf_counter() - began)
        if error is not None and len(calls) > 1:  # one of them may be to blame: each tries for itself
            for call in calls:
                self._perform(db, [call], marking)
            return
        marking.committed(synced=synced)
        for call in calls:
            call.error = error or call.error
            if isinstance(call.error, apsw.Error):
                call.error = storage_error(call.error, self._where) or call.error

    def _sync(self, db: apsw.Connection, marking: Marking) -> None:
        """Sync what was committed before. What the disk refuses is tried again after the next pause."""
        self._set_synced(db, synced=True)
        with contextlib.suppress(apsw.Error):
            db.execute(_SYNC)
            marking.committed()

    def _set_synced(self, db: apsw.Connection, *, synced: bool) -> None:
        """Choose whether commits are synced (https://sqlite.org/pragma.html#pragma_synchronous)."""
        if synced != self._synced:
            db.execute("PRAGMA synchronous = FULL" if synced else "PRAGMA synchronous = NORMAL")
            self._synced = synced

    def _perform_outside(self, db: apsw.Connection, call: _Call) -> None:
        try:
            call.result = call.work(db)
        except Exception as error:  # noqa: BLE001  (it belongs to the caller, and must not stop the thread)
            call.error = error

    def _on_loop(self, callback: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:  # the loop is closed: nobody waits any more
            return


def _commit_together(db: apsw.Connection, calls: Sequence[_Call]) -> apsw.Error | None:
    """Run the calls in one transaction; return the error that rolled back all of them, if any."""
    try:
        db.execute("BEGIN IMMEDIATE")
        alone = len(calls) == 1
        for call in calls:
            _run_one(db, call, alone=alone)
            if not db.in_transaction and isinstance(call.error, apsw.Error):
                return call.error
            if alone and call.error is not None:
                return None
        _fault("before", calls)
        db.execute("COMMIT")
    except apsw.Error as error:
        if db.in_transaction:
            db.execute("ROLLBACK")
        return error
    _fault("after", calls)
    return None


def _fault(moment: Literal["before", "after"], calls: Sequence[_Call]) -> None:
    """Pass a kill point for each call, named after the ledger's function that made it (see ``agent.fault``)."""
    for call in calls if fault_injection.armed() else ():
        fault_injection.point(moment, getattr(call.work, "__qualname__", "").split(".<locals>")[0].rpartition(".")[2])


def _run_one(db: apsw.Connection, call: _Call, *, alone: bool) -> None:
    """Run a call so that it changes all or nothing; one that is ``alone`` in its transaction needs no savepoint for that."""
    call.result = call.error = None
    if not alone:
        db.execute("SAVEPOINT one")
    try:
        call.result = call.work(db)
    except Exception as error:  # noqa: BLE001  (it belongs to the caller, and must not stop the thread)
        call.error = error
        if db.in_transaction:
            db.execute("ROLLBACK" if alone else "ROLLBACK TO one")
    if not alone and db.in_transaction:
        db.execute("RELEASE one")


def _answer(calls: Sequence[_Call]) -> None:
    for call in calls:
        if call.error is None and call.after is not None:
            call.after()
        if call.answer.done():
            continue
        if call.error is None:
            call.answer.set_result(call.result)
        else:
            call.answer.set_exception(call.error)


class LedgerConnection:
    """One connection on its own thread. ``new_id`` makes a random id of at most 25 characters."""

    def __init__(self, thread: LedgerThread, clock: Clock, new_id: Callable[[], str]) -> None:
        self._thread = thread
        self._clock = clock
        self.new_id = new_id
        self._listeners: list[Callable[[Sequence[Any] | None], None]] = []

    def now(self) -> datetime:
        """Return the current instant, in UTC."""
        return self._clock.now()

    async def run(
        self,
        work: Callable[[apsw.Connection], Result],
        after: Callable[[], None] | None = None,
        *,
        synced: bool = True,
        lazy: bool = False,
    ) -> Result:
        """Run ``work`` in a transaction of its own and return its result once it is stored (see ``LedgerThread.run``)."""
        return await self._thread.run(work, after, synced=synced, lazy=lazy)

    async def run_outside(self, work: Callable[[apsw.Connection], Result]) -> Result:
        """Run ``work`` between two transactions and return its result. It must not change the database."""
        return await self._thread.run_outside(work)

    def on_outbound(self, listener: Callable[[Sequence[Any] | None], None]) -> None:
        """Call ``listener`` on the event loop whenever a message to send was queued (see ``OutboxLedger.on_outbound``)."""
        self._listeners.append(listener)

    def notify_outbound(self, due: Sequence[Any] | None = None) -> None:
        """Call the listeners."""
        for listener in self._listeners:
            listener(due)

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
