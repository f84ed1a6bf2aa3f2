"""The ledger in a PostgreSQL database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import psycopg

from agent.timing import Clock
from gateway.base.errors import StorageFailed
from gateway.ledger.database import Database, Engine
from gateway.ledger.ledger_store import LedgerStore, new_id
from gateway.ledger.open_rows import unreadable_row
from gateway.ledger.postgres.cluster_views import Sharing
from gateway.ledger.postgres.engine import PostgresEngine
from gateway.ledger.postgres.postgres_connection import PostgresDatabase, place
from gateway.ledger.postgres.postgres_errors import storage_error
from gateway.ledger.postgres.postgres_schema import HOME, PROBE
from gateway.ledger.postgres.transfer import to_file
from gateway.ledger.thread import LedgerConnection, LedgerThread

SCHEMA = "homebody"
Result = TypeVar("Result")


class PostgresLedger(LedgerStore):
    """Implements ``Ledger``. One gateway at a time: a second one is refused while the first runs."""

    def __init__(self, connection: LedgerConnection, url: str, schema: str, where: str, thread: LedgerThread) -> None:
        super().__init__(connection, where)
        self._thread = thread
        self._shared = False
        self._url = url
        self._schema = schema

    @classmethod
    async def open(
        cls,
        url: str,
        clock: Clock,
        *,
        schema: str = SCHEMA,
        new_id: Callable[[], str] = new_id,
        committed: Callable[[float], None] = lambda _: None,
        sharing: Sharing | None = None,
    ) -> PostgresLedger:
        """Open the ledger in the database that ``url`` names, or make it. With ``sharing`` its tables and those of the leases exist.

        Chunks that were being sent when the last process died become ambiguous. Raises StorageFailed.
        """
        try:
            where = place(url, schema)
        except psycopg.ProgrammingError as error:
            hint = "It is postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
            raise StorageFailed(
                f"this is no address of PostgreSQL: {str(error).strip()}", where="storage.url", hint=hint
            ) from None

        def opened() -> Engine:
            try:
                return PostgresEngine(url, schema, new_id(), _take_up if sharing is None else _nothing, sharing)
            except psycopg.Error as error:
                raise storage_error(error, where) or error from error

        thread = LedgerThread(opened, where, committed)
        await thread.start()
        ledger = cls(LedgerConnection(thread, clock, new_id), url, schema, where, thread)
        if sharing is not None:
            ledger._shared = True
            for cache in (ledger.context_events.known, ledger.spending.allowances):
                cache.closed = True  # others change what would be known here
            ledger.spending.shared = True
        return ledger

    @property
    def trouble(self) -> StorageFailed | None:
        """Why something could not be stored, since the last ``probe`` that succeeded."""
        return self._thread.trouble

    async def probe(self) -> None:
        """Store something. Raises StorageFailed."""
        put = "INSERT INTO meta VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
        await self._connection.run(lambda db: db.execute(put, (PROBE, self._connection.new_id())))
        self._thread.trouble = None

    def run_blocking(self, work: Callable[[Database], Result]) -> Result:
        """Run ``work`` in a transaction of the ledger and return its result once it is stored. For other threads than the event loop's.

        It is refused like all that the ledger writes where another gateway has taken over. Raises StorageFailed.
        """
        return self._connection.run_blocking(work)

    async def belong_to(self, home: str) -> None:
        """Take note of the home that this ledger belongs to. If it was another one's, the owner is warned (``warning``): once."""

        def work(db: Database) -> str:
            found = db.execute("SELECT value FROM meta WHERE name = ?", (HOME,)).fetchone()
            put = "INSERT INTO meta VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
            if found is None or found[0] != home:
                db.execute(put, (HOME, home))
            return home if found is None else str(found[0])

        former = await self._connection.run(work)
        if former != home:
            self.warning = (
                f"The database {self.where} was used by another home before: {former}. This one is {home}. If you moved it, nothing has to "
                "be done. If both are in use, stop this gateway, as it works on the messages, jobs and conversations of the other one, and "
                "give it a schema of its own: homebody config set storage.schemaName NAME"
            )

    async def took_any(self) -> bool:
        """See the protocol. Of what others hold nobody here can tell."""
        if self._shared:
            return True
        query = "SELECT pg_sequence_last_value(pg_get_serial_sequence('inbox', 'id'))"
        found = await self._connection.run(lambda db: db.execute(query).fetchone())
        return found is not None and found[0] is not None

    async def copy_to(self, place: Path) -> None:
        """See the protocol."""
        await asyncio.to_thread(to_file, self._url, self._schema, place, new_id())


def _nothing(_: PostgresDatabase) -> None:
    """What is being sent belongs to others: it is looked at when their leases are taken."""


def _take_up(db: PostgresDatabase) -> None:
    """Do what the opening of a ledger does: nobody knows of chunks that were being sent, and what is worked on can be read."""
    db.execute("UPDATE outbox SET state = 'ambiguous', doubts = doubts + 1 WHERE state = 'sending'")
    if (unreadable := unreadable_row(db)) is not None:
        raise StorageFailed(
            f"the ledger is damaged: {unreadable}",
            where="PostgreSQL",
            hint="Restore the database from a backup, or change that row.",
        )
