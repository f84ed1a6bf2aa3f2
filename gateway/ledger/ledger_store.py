"""The ledger over one connection to a database: all its parts, what is counted, and what is deleted in time."""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gateway.ledger import restored
from gateway.ledger.activation_rows import ActivationsPart
from gateway.ledger.approval_rows import ApprovalsPart
from gateway.ledger.database import Database
from gateway.ledger.forget_requests import ForgetRequestsPart
from gateway.ledger.heartbeat_rows import HeartbeatsPart
from gateway.ledger.hook_rows import HooksPart
from gateway.ledger.inbox import ContextEventsPart, InboxPart
from gateway.ledger.jobs import JobsPart, forget_jobs
from gateway.ledger.outbox import OutboxPart
from gateway.ledger.outbox_rows import ChatMigrationsPart
from gateway.ledger.pairing_rows import PairingPart
from gateway.ledger.rows import Marks, Tally
from gateway.ledger.spending import SpendingPart
from gateway.ledger.subagent_rows import SubAgentsPart
from gateway.ledger.thread import LedgerConnection
from gateway.ledger.turns import TurnsPart
from gateway.ledger.unasked import UnaskedPart, sweep_unasked
from gateway.ledger.values import instant, stamp

if TYPE_CHECKING:
    from gateway.ledger.word_erasure import WordErasurePart

KEEP_PAYLOADS: Final = timedelta(days=7)
KEEP_KEYS: Final = timedelta(days=30)
KEEP_HELD: Final = timedelta(days=90)
KEEP_LAST: Final = 100_000
"""Keys of an account that are kept regardless of age: about 10 MB."""

KEEP_SPENDING: Final = timedelta(days=370)
"""How much longer than keys rows of ``spending`` are kept."""

_SWEEP = 2000
_SWEPT: Final = "swept"
"""The row of ``meta`` that says when old rows were deleted last."""

_WAITING = "SELECT count(*), (SELECT max(id) FROM inbox) FROM inbox WHERE state = 'waiting'"
_TURNS = "SELECT count(*) FILTER (WHERE state = 'running'), count(*) FROM turn WHERE state IN ('running', 'suspended')"
_OUTGOING = (
    "SELECT count(*), max(id), sum(id), sum(attempt), max(not_before), count(ended_at), sum(length(text)) FROM outbox "
    "WHERE state IN ('ready', 'sending', 'ambiguous', 'dead')"
)
_HELD = "SELECT count(*), max(id), count(*) FILTER (WHERE state = 'held') FROM unasked WHERE state <> 'queued'"
_COSTS = (
    "SELECT (SELECT max(id) FROM spending), calls, picodollars, settled FROM spending_total "
    "WHERE day = (SELECT max(day) FROM spending_total) AND scope = '' AND name = ''"
)


new_id = partial(secrets.token_hex, 10)
"""Returns a random id."""


class LedgerStore:
    """Implements ``Ledger`` but for what an engine does itself: copies, and whether it is new. All parts share one connection.

    ``where`` names the database in words for people; ``warning`` is what the owner should know of how it was opened.
    """

    def __init__(self, connection: LedgerConnection, where: str, warning: str | None = None) -> None:
        self._connection = connection
        self.where = where
        self.warning = warning
        self.keep_last = KEEP_LAST
        self.context_events = ContextEventsPart(connection)
        self.inbox = InboxPart(connection, self.context_events.known)
        self.chat_migrations = ChatMigrationsPart(connection, self.context_events.known)
        self.turns = TurnsPart(connection, self.context_events.known)
        self.approvals = ApprovalsPart(connection)
        self.outbox = OutboxPart(connection)
        self.activations = ActivationsPart(connection)
        self.forget_requests = ForgetRequestsPart(connection)
        self.heartbeats = HeartbeatsPart(connection)
        self.unasked = UnaskedPart(connection, self.context_events.known)
        self.pairing = PairingPart(connection)
        self.jobs = JobsPart(connection, self.context_events.known)
        self.spending = SpendingPart(connection)
        self.hooks = HooksPart(connection)
        self.subagents = SubAgentsPart(connection, self.context_events.known)

    @property
    def words(self) -> WordErasurePart:
        """See the protocol."""
        from gateway.ledger.word_erasure import WordErasurePart

        return WordErasurePart(self._connection)

    async def tally(self) -> Tally:
        def work(db: Database) -> Tally:
            counts = (
                "SELECT (SELECT count(*) FROM inbox WHERE state = 'waiting'), (SELECT count(*) FROM turn WHERE state = 'running'), "
                "(SELECT count(*) FROM turn WHERE state = 'suspended')"
            )
            found: Any = db.execute(counts).fetchone()
            outbox: Any = db.execute("SELECT state, count(*) FROM outbox GROUP BY state").fetchall()
            query = (
                "SELECT count(*) FILTER (WHERE state = 'held'), count(*) FILTER (WHERE state = 'kept') "
                "FROM unasked WHERE state <> 'queued'"
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

    async def marks(self) -> Marks:
        def work(db: Database) -> Marks:
            found: list[Any] = [db.execute(query).fetchone() for query in (_WAITING, _TURNS, _OUTGOING, _HELD, _COSTS)]
            return Marks(queues=tuple(tuple(row) for row in found[:-1]), costs=tuple(found[-1] or ()))

        return await self._connection.run(work, synced=False)

    async def sweep(self) -> int:
        now = self._connection.now()
        heavy, light = stamp(now - KEEP_PAYLOADS), stamp(now - KEEP_KEYS)
        swept = (_SWEPT, str(stamp(now)))

        def work(db: Database) -> int:
            db.execute(
                "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", swept
            )
            return (
                _clear_payloads(db, heavy)
                + _forget_keys(db, light, self.keep_last)
                + _forget_turns(db, light)
                + forget_jobs(db, light, _SWEEP)
                + sweep_unasked(db, light, _SWEEP, held_before=stamp(now - KEEP_HELD))
            )

        return await self._connection.run(work)

    async def last_swept(self) -> datetime | None:
        def work(db: Database) -> datetime | None:
            found: Any = db.execute("SELECT value FROM meta WHERE name = ?", (_SWEPT,)).fetchone()
            return instant(int(found[0])) if found is not None else None

        return await self._connection.run(work)

    async def backup(self) -> Path | None:
        return None

    async def leave_no_trace(self) -> None:
        """Leave nothing of what was removed in files of the ledger's own. A database server frees its pages by itself."""

    async def begin_restored(self) -> dict[str, Any] | None:
        return await self._connection.run(lambda db: restored.begin(db, self._connection.now()))

    async def close(self) -> None:
        await self._connection.close()


def _clear_payloads(db: Database, before: int) -> int:
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


def _forget_keys(db: Database, before: int, keep: int) -> int:
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


def _forget_turns(db: Database, before: int) -> int:
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
