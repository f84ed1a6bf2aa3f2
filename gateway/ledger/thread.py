"""The ledger's connection: a database on a thread of its own, with group commit, shared by all parts of the ledger.

Calls that share a commit change all or nothing, each by itself: one that fails does not affect the others.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from agent import fault_injection
from agent.timing import Clock
from gateway.base.errors import StorageFailed
from gateway.ledger.database import Database, Engine


@dataclass(slots=True)
class Call:
    """A function to run and the future for its result. ``after`` runs on the event loop once the result is stored.

    One of ``concurrent.futures`` is answered by the ledger's thread, one of asyncio on its event loop.
    ``outside``: it is given the engine, between two transactions. ``doubtful``: nobody knows yet whether it was committed.
    """

    work: Callable[[Any], Any]
    answer: asyncio.Future[Any] | concurrent.futures.Future[Any]
    after: Callable[[], None] | None
    outside: bool = False
    synced: bool = True
    doubtful: bool = False
    result: Any = None
    error: Exception | None = None


def commit_together(engine: Engine, calls: Sequence[Call], *, synced: bool) -> Exception | None:
    """Run the calls in one transaction; return the error that rolled back all of them, if any."""
    try:
        engine.begin(synced=synced)
        alone = len(calls) == 1
        for call in calls:
            _run_one(engine, engine.db, call, alone=alone)
            if isinstance(call.error, engine.failures) and not engine.in_transaction:
                return call.error
            if alone and call.error is not None:
                return None
        if fault_injection.armed:
            _fault("before", calls)
        engine.commit()
    except engine.failures as error:
        if engine.in_transaction:
            engine.rollback()
        return error
    if fault_injection.armed:
        _fault("after", calls)
    return None


def _fault(moment: Literal["before", "after"], calls: Sequence[Call]) -> None:
    """Pass a kill point for each call, named after the ledger's function that made it (see ``agent.fault_injection``)."""
    for call in calls:
        fault_injection.point(moment, getattr(call.work, "__qualname__", "").split(".<locals>")[0].rpartition(".")[2])


def _run_one(engine: Engine, db: Database, call: Call, *, alone: bool) -> None:
    """Run a call so that it changes all or nothing; one that is ``alone`` in its transaction needs no savepoint for that."""
    call.result = call.error = None
    if not alone:
        db.execute("SAVEPOINT one")
    try:
        call.result = call.work(db)
    except Exception as error:  # noqa: BLE001  (it belongs to the caller, and must not stop the thread)
        call.error = error
        if engine.in_transaction:
            if alone:
                engine.rollback()
            else:
                db.execute("ROLLBACK TO one")
    if not alone and (call.error is None or engine.in_transaction):
        db.execute("RELEASE one")


def answer(calls: Sequence[Call]) -> None:
    """Set the results of calls that ended. On the event loop, where it has the futures."""
    for call in calls:
        if call.error is None and call.after is not None:
            call.after()
        if call.answer.done():
            continue
        if call.error is None:
            call.answer.set_result(call.result)
        else:
            call.answer.set_exception(call.error)


Result = TypeVar("Result")

GROUP = 100
"""The most calls that share a commit."""
SYNC_SECONDS = 0.5
"""How long after the last call a commit that was not synced is synced, if no other call does it before."""
LAZY_SECONDS = 0.05
"""How long a call that nobody waits for is held back, to share the commit of the next one."""
ASK_SECONDS = 0.2
"""How often a database that is away is looked for while calls wait whose commit may have happened."""
ATTEMPTS = 3
"""How often calls are run whose connection is lost before their commit: nothing of them was stored."""


class LedgerThread:
    """Runs functions on the connection, each in a transaction of its own as far as they can tell.

    Calls that wait at the same time share a commit, whose fsync is the expensive part. It is left out where none of them asks for it: such
    a commit outlives the process, and a loss of power once a later one is synced. Each call has a savepoint: one that raises is rolled
    back without affecting the others. A function may be run twice (the first run is rolled back), so it must change the database alone.
    Calls whose connection is lost before the commit are run again; where it is lost during the commit they wait until the database tells
    whether it happened, and are run again only if it did not.
    A caller that is cancelled before its function starts changes nothing; one that is cancelled later cannot know, and reads the rows.
    ``connect`` opens the database. ``committed`` is told the seconds of each commit.
    """

    def __init__(
        self,
        connect: Callable[[], Engine],
        where: str,
        committed: Callable[[float], None] = lambda _: None,
    ) -> None:
        self._connect = connect
        self._committed = committed
        self._where = where
        self._calls: queue.SimpleQueue[Sequence[Call] | None] = queue.SimpleQueue()
        self._held: list[Call] = []
        self._sending: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._thread = threading.Thread(target=self._serve, name="ledger", daemon=True)
        self._closed = False
        self._closing = threading.Lock()
        self._doubtful: list[Call] = []
        self._unsynced = False
        """Whether there are commits that a loss of power could take back."""
        self.trouble: StorageFailed | None = None
        """Why something could not be stored last. Who looks at it sets it back."""

    async def start(self) -> None:
        """Open the connection. Raises what opening it raised."""
        self._thread.start()
        await self._opened

    async def run(
        self,
        work: Callable[[Database], Result],
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
        future: asyncio.Future[Result] = self._loop.create_future()
        self._held.append(Call(work, future, after, synced=synced))
        if not lazy:
            self._send()
        elif self._sending is None:
            self._sending = self._loop.call_later(LAZY_SECONDS, self._send)
        return await future

    def run_blocking(self, work: Callable[[Database], Result], *, synced: bool = True) -> Result:
        """Do what ``run`` does, for another thread than that of the event loop, which is not needed for it. Blocks until it is stored."""
        answered: concurrent.futures.Future[Result] = concurrent.futures.Future()
        with self._closing:
            if self._closed:
                raise StorageFailed("the ledger is closed", where=self._where, hint="Start the gateway again.")
            self._calls.put([Call(work, answered, None, synced=synced)])
        return answered.result()

    async def run_outside(self, work: Callable[[Any], Result]) -> Result:
        """Run ``work`` on the engine between two transactions and return its result. It must not change the database."""
        if self._closed:
            raise StorageFailed("the ledger is closed", where=self._where, hint="Start the gateway again.")
        future: asyncio.Future[Result] = self._loop.create_future()
        self._held.append(Call(work, future, None, outside=True))
        self._send()
        return await future

    async def close(self) -> None:
        """Finish pending calls, then close the connection."""
        with self._closing:
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
            engine = self._connect()
        except Exception as error:  # noqa: BLE001  (whatever kept it from opening is the starter's to hear)
            self._on_loop(lambda error=error: self._opened.set_exception(error))  # type: ignore[misc]
            return
        self._on_loop(lambda: self._opened.set_result(None))
        more = True
        while more:
            pause = SYNC_SECONDS if self._unsynced else ASK_SECONDS if self._doubtful else None
            calls, more = self._gather(pause)
            if not calls and self._unsynced:
                self._unsynced = engine.sync()
            if self._doubtful:
                self._settle(engine)
            if inside := [call for call in calls if not call.outside]:
                self._perform(engine, inside)
            for call in calls:
                if call.outside:
                    _perform_outside(engine, call)
            self._answer(calls)
        if self._doubtful:
            self._settle(engine, last=True)
        engine.close()

    def _answer(self, calls: Sequence[Call]) -> None:
        done = [call for call in calls if not call.doubtful]
        if here := [call for call in done if isinstance(call.answer, concurrent.futures.Future)]:
            answer(here)
        if there := [call for call in done if isinstance(call.answer, asyncio.Future)]:
            self._on_loop(lambda: answer(there))

    def _settle(self, engine: Engine, *, last: bool = False) -> None:
        """Learn whether a commit happened whose answer was lost. With ``last`` its callers are told that nobody knows."""
        happened = None
        if engine.away() is None:
            happened = engine.outcome()
        elif engine.doubtful is not None and not last:
            return
        calls, self._doubtful = self._doubtful, []
        for call in calls:
            call.doubtful = False
        if happened is False:
            self._perform(engine, calls)
        elif happened is None:
            hint = "It is looked at when the gateway starts again."
            _fail(calls, StorageFailed("it is not known whether this was stored", where=self._where, hint=hint))
        self._answer(calls)

    def _gather(self, seconds: float | None) -> tuple[list[Call], bool]:
        """Wait for calls; return those that wait, none where ``seconds`` passed without any, and whether there may be more."""
        calls: list[Call] = []
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

    def _perform(self, engine: Engine, calls: Sequence[Call]) -> None:
        synced = any(call.synced for call in calls)
        for _ in range(ATTEMPTS):
            if (away := engine.away()) is not None:
                self.trouble = away
                _fail(calls, away)
                return
            began = time.perf_counter()
            error = commit_together(engine, calls, synced=synced)
            self._committed(time.perf_counter() - began)
            if not engine.lost:
                break
            if engine.doubtful is not None:
                self._wait_to_know(calls)
                return
        if error is not None and len(calls) > 1:  # one of them may be to blame: each tries for itself
            for call in calls:
                self._perform(engine, [call])
            return
        self._unsynced = engine.committed(synced=synced)
        for call in calls:
            call.error = error or call.error
            if isinstance(call.error, engine.failures):
                call.error = engine.storage_error(call.error) or call.error
            if isinstance(call.error, StorageFailed):
                self.trouble = call.error

    def _wait_to_know(self, calls: Sequence[Call]) -> None:
        for call in calls:
            call.doubtful = True
        self._doubtful += calls

    def _on_loop(self, callback: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:  # the loop is closed: nobody waits any more
            return


def _fail(calls: Sequence[Call], error: Exception) -> None:
    for call in calls:
        call.error = error


def _perform_outside(engine: Engine, call: Call) -> None:
    try:
        call.result = call.work(engine)
    except Exception as error:  # noqa: BLE001  (it belongs to the caller, and must not stop the thread)
        call.error = error


class LedgerConnection:
    """One connection on its own thread. ``new_id`` makes a random id of at most 25 characters."""

    def __init__(self, thread: LedgerThread, clock: Clock, new_id: Callable[[], str]) -> None:
        self._thread = thread
        self.new_id = new_id
        self.now = clock.now
        """Returns the current instant, in UTC."""
        self.run = thread.run
        """Runs a function in a transaction of its own and returns its result once it is stored."""
        self.run_blocking = thread.run_blocking
        self.run_outside = thread.run_outside
        self._listeners: list[Callable[[Sequence[Any] | None], None]] = []

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
        self.closed = False
        """Whether nothing is known for long, because others add rows, too."""
        self.changes = 0
        self._known: frozenset[str] | None = None

    def changed(self) -> None:
        """Forget all names."""
        self.changes += 1
        self._known = None

    def learn(self, names: Iterable[str], as_of: int) -> None:
        """Store all names, which were read when there had been ``as_of`` changes."""
        if as_of == self.changes and not self.closed:
            self._known = frozenset(names)

    def lacks(self, name: str) -> bool:
        """Return whether there is certainly no row for a name."""
        return self._known is not None and name not in self._known
