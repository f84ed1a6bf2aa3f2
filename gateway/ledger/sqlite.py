"""The ledger in an SQLite file."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import apsw

from agent.timing import Clock
from gateway.base.errors import StorageFailed
from gateway.ledger import restored
from gateway.ledger.activations import SqliteActivations
from gateway.ledger.approvals import SqliteApprovals
from gateway.ledger.backup import LedgerBackup
from gateway.ledger.chat_migrations import SqliteChatMigrations
from gateway.ledger.forget_requests import SqliteForgetRequests
from gateway.ledger.heartbeats import SqliteHeartbeats
from gateway.ledger.hooks import SqliteHooks
from gateway.ledger.inbox import SqliteContextEvents, SqliteInbox
from gateway.ledger.jobs import SqliteJobs, forget_jobs
from gateway.ledger.ledger_file import closing, connect
from gateway.ledger.outbox import SqliteOutbox
from gateway.ledger.pairing import SqlitePairing
from gateway.ledger.rows import Tally
from gateway.ledger.spending import SqliteSpending
from gateway.ledger.subagents import SqliteSubAgents
from gateway.ledger.thread import LedgerConnection, LedgerThread
from gateway.ledger.turns import SqliteTurns
from gateway.ledger.unasked import SqliteUnasked, sweep_unasked
from gateway.ledger.values import stamp
from gateway.ledger.wal import Marking

KEEP_PAYLOADS: Final = timedelta(days=7)
KEEP_KEYS: Final = timedelta(days=30)
KEEP_LAST: Final = 100_000
"""Keys of an account that are kept regardless of age: about 10 MB."""

KEEP_SPENDING: Final = timedelta(days=370)
"""How much longer than keys rows of ``spending`` are kept."""

_SWEEP = 2000


def ledger_gone(path: Path) -> str:
    """Return the warning for a home that has sessions but no ledger."""
    return (
        f"There are sessions, but the ledger of messages is gone and {path} was begun anew. What waited for an answer, and which replies "
        "were not sent yet, is unknown: whoever got no answer should write again. People who were let in by a pairing code must ask anew. "
        "If there is a copy of the file: stop the gateway, put it in this place, and start again."
    )


def _new_id() -> str:
    return secrets.token_hex(10)


class SqliteLedger:
    """Implements ``Ledger``. All parts share one connection.

    ``path`` is the file; ``warning`` is what the owner should know when a damaged file was set aside at the start.
    """

    def __init__(self, connection: LedgerConnection, path: Path, changes: int, warning: str | None = None) -> None:
        self._connection = connection
        self.path = path
        self.warning = warning
        self.keep_last = KEEP_LAST
        self._backup = LedgerBackup(connection, path, changes)
        self.context_events = SqliteContextEvents(connection)
        self.inbox = SqliteInbox(connection, self.context_events.known)
        self.chat_migrations = SqliteChatMigrations(connection, self.context_events.known)
        self.turns = SqliteTurns(connection, self.context_events.known)
        self.approvals = SqliteApprovals(connection)
        self.outbox = SqliteOutbox(connection)
        self.activations = SqliteActivations(connection)
        self.forget_requests = SqliteForgetRequests(connection)
        self.heartbeats = SqliteHeartbeats(connection)
        self.unasked = SqliteUnasked(connection)
        self.pairing = SqlitePairing(connection)
        self.jobs = SqliteJobs(connection, self.context_events.known)
        self.spending = SqliteSpending(connection)
        self.hooks = SqliteHooks(connection)
        self.subagents = SqliteSubAgents(connection, self.context_events.known)

    @classmethod
    async def open(
        cls,
        path: Path,
        clock: Clock,
        *,
        new_id: Callable[[], str] = _new_id,
        committed: Callable[[float], None] = lambda _: None,
    ) -> SqliteLedger:
        """Open ``state/ledger.sqlite`` or make it. The caller holds the state lock. ``committed`` is told the seconds of each commit.

        Chunks that were being sent when the last process died become ambiguous. Raises StorageFailed.
        """
        first: list[tuple[int, str | None]] = []

        def opened() -> tuple[apsw.Connection, Marking]:
            found = connect(path, new_id(), clock.now())
            first.append((-1 if found.changed else found.db.total_changes(), found.warning))
            return found.db, found.marking

        thread = LedgerThread(opened, str(path), committed)
        await thread.start()
        return cls(LedgerConnection(thread, clock, new_id), path, *first[0])

    async def took_any(self) -> bool:
        """Return whether any message was ever accepted into this ledger."""
        query = "SELECT 1 FROM sqlite_sequence WHERE name = 'inbox' AND seq > 0"
        return await self._connection.run(lambda db: db.execute(query).fetchone()) is not None

    async def tally(self) -> Tally:
        def work(db: apsw.Connection) -> Tally:
            counts = (
                "SELECT (SELECT count(*) FROM inbox WHERE state = 'waiting'), (SELECT count(*) FROM turn WHERE state = 'running'), "
                "(SELECT count(*) FROM turn WHERE state = 'suspended')"
            )
            found: Any = db.execute(counts).fetchone()
            outbox: Any = db.execute("SELECT state, count(*) FROM outbox GROUP BY state").fetchall()
            query = (
                "SELECT coalesce(sum(state = 'held'), 0), coalesce(sum(state = 'kept'), 0) FROM unasked WHERE state <> 'queued'"
            )
            held, kept = db.execute(query).fetchall()[0]
            return Tally(
                waiting=found[0],
                running=found[1],
                suspended=found[2],
                held=int(str(held)),
                kept=int(str(kept)),
                outbox=dict(outbox),
            )

        return await self._connection.run(work)

    async def sweep(self) -> int:
        now = self._connection.now()
        heavy, light = stamp(now - KEEP_PAYLOADS), stamp(now - KEEP_KEYS)

        def work(db: apsw.Connection) -> int:
            return (
                _clear_payloads(db, heavy)
                + _forget_keys(db, light, self.keep_last)
                + _forget_turns(db, light)
                + forget_jobs(db, light, _SWEEP)
                + sweep_unasked(db, light, _SWEEP)
            )

        return await self._connection.run(work)

    async def backup(self) -> Path | None:
        return await self._backup.make()

    async def begin_restored(self) -> dict[str, Any] | None:
        """At the first start after a restore: have jobs that were due up to now told and not fired; return what was restored, once."""
        return await self._connection.run(lambda db: restored.begin(db, self._connection.now()))

    async def copy_to(self, place: Path) -> None:
        """Copy the ledger as it is now to ``place``, beside the work of the gateway. Raises StorageFailed."""
        try:
            await self._backup.copy_to(place)
        except OSError as error:
            raise StorageFailed.from_os(error, "copy the ledger", place) from error
        except apsw.Error as error:
            raise StorageFailed(f"the ledger could not be copied: {error}", where=str(place)) from error

    async def close(self) -> None:
        await self._connection.close()
        await asyncio.to_thread(closing, self.path)


def _clear_payloads(db: apsw.Connection, before: int) -> int:
    db.execute(
        "UPDATE inbox SET payload = NULL WHERE id IN "
        "(SELECT id FROM inbox WHERE ended_at IS NOT NULL AND payload IS NOT NULL AND ended_at < ? LIMIT ?)",
        (before, _SWEEP),
    )
    count = db.changes()
    db.execute(
        "UPDATE outbox SET text = '', missed = NULL, extras = NULL WHERE id IN "
        "(SELECT id FROM outbox WHERE ended_at IS NOT NULL AND ended_at < ? AND (text <> '' OR extras IS NOT NULL) LIMIT ?)",
        (before, _SWEEP),
    )
    return count + db.changes()


def _forget_keys(db: apsw.Connection, before: int, keep: int) -> int:
    count = 0
    for (account,) in db.execute("SELECT DISTINCT account FROM inbox").fetchall():
        newest = "SELECT id FROM inbox WHERE account = :account ORDER BY id DESC LIMIT 1 OFFSET :keep"
        found = db.execute(newest, {"account": account, "keep": keep}).fetchone()
        if found is None:
            continue
        db.execute(
            "DELETE FROM inbox WHERE id IN (SELECT id FROM inbox WHERE account = ? AND id <= ? "
            "AND ended_at IS NOT NULL AND payload IS NULL AND ended_at < ? LIMIT ?)",
            (account, found[0], before, _SWEEP),
        )
        count += db.changes()
    return count


def _forget_turns(db: apsw.Connection, before: int) -> int:
    db.execute(
        "DELETE FROM outbox WHERE id IN (SELECT id FROM outbox WHERE ended_at IS NOT NULL AND ended_at < ? LIMIT ?)",
        (before, _SWEEP),
    )
    count = db.changes()
    db.execute(
        "DELETE FROM spending WHERE id IN (SELECT id FROM spending WHERE at < ? LIMIT ?)",
        (before - KEEP_SPENDING // timedelta(microseconds=1), _SWEEP),
    )
    count += db.changes()
    db.execute(
        "DELETE FROM approval WHERE id IN (SELECT id FROM approval WHERE turn IS NULL AND decided_at < ? LIMIT ?)",
        (before, _SWEEP),
    )
    count += db.changes()
    db.execute(
        "DELETE FROM subagent WHERE id IN (SELECT id FROM subagent WHERE state <> 'open' AND ended_at < ? LIMIT ?)",
        (before, _SWEEP),
    )
    count += db.changes()
    db.execute(
        "DELETE FROM turn WHERE id IN (SELECT id FROM turn WHERE ended_at IS NOT NULL AND ended_at < ? LIMIT ?)",
        (before, _SWEEP),
    )
    return count + db.changes()
