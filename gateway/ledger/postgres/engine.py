"""The ledger's connection to PostgreSQL while it is open: who may write, and what became of a commit whose answer was lost.

One session writes: it holds an advisory lock of its schema, which ends with the session. Each commit that changes something stores a number
of its own in ``meta``, in the same message as COMMIT, so that the next connection can read whether it happened.

In a cluster (``sharing``) each gateway has a session. They share the lock, so that nobody opens the ledger alone meanwhile, and what each
may write follows from its leases (``gateway/ledger/postgres/cluster_views.py``).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any, Final

import psycopg
from psycopg import errors, sql
from psycopg.pq import TransactionStatus

from gateway.base.errors import StorageAway, StorageFailed
from gateway.ledger.postgres.cluster_views import Sharing, held_schema, make_views
from gateway.ledger.postgres.postgres_connection import PostgresDatabase, connected, place
from gateway.ledger.postgres.postgres_errors import storage_error
from gateway.ledger.postgres.postgres_schema import COMMIT, HOLDER, STEPS, migrate, version_of

OLDEST: Final = 150_000
"""PostgreSQL 15. Of the older ones some are not maintained any more, and none is tested."""
LOCK_SECONDS: Final = 3.0
"""How long the lock of a process that was killed is waited for: the server notices its end when it has done what it was asked."""
SILENT_SECONDS: Final = 60.0
"""How long a statement may take. A server that hangs is told of then, and connected to anew."""
_LOCK_PAUSE: Final = 0.02
_OWN_SCHEMA: Final = "Stop it first, or give this one a schema of its own: homebody config set storage.schemaName NAME"
_KEY: Final = "hashtextextended('homebody ledger ' || %s, 0)"
_LOCK: Final = f"SELECT pg_try_advisory_lock({_KEY})"
_SHARERS: Final = f"""SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock' AND granted AND objsubid = 1
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND classid::bigint << 32 | objid::bigint = {_KEY}"""
_ASK_ONE: Final = (
    "Run the command where one of them runs, with its name: export HOMEBODY_GATEWAY=NAME. All of them: homebody cluster status"
)
_PAUSES: Final = (0.0, 0.1, 0.5, 1.0, 2.0, 5.0)
"""Seconds between attempts to connect again."""
_END_FORMER: Final = "SELECT pg_terminate_backend(pid, 2000) FROM pg_stat_activity WHERE pid = %s AND backend_start::text = %s"
_SET: Final = "INSERT INTO meta VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value"


class PostgresEngine:
    """Implements ``Engine``. ``token`` names this opening of the ledger; ``opened`` prepares the tables, once."""

    failures: type[Exception] = psycopg.Error

    def __init__(
        self, url: str, schema: str, token: str, opened: Callable[[PostgresDatabase], None], sharing: Sharing | None = None
    ) -> None:
        self._url, self._schema, self._token = url, schema, token
        self._sharing = sharing
        self._begin = ["BEGIN"]
        if sharing is not None:
            lock_all = sql.SQL("SELECT pg_advisory_xact_lock(hashtextextended({}, 0))").format(sql.Literal(sharing.lock))
            self._begin.append(lock_all.as_string(None))
        self._where = place(url, schema)
        self._commits = 0
        self._attempts = 0
        self._next_attempt = 0.0
        self._refused: StorageFailed | None = None
        self._cause: StorageFailed | None = None  # why the latest attempt to connect again failed
        self._backend: tuple[int, str] = (0, "")
        self.doubtful: str | None = None
        connection = connected(self._url, self._schema)
        try:
            _must_fit(connection, self._where)
            self._lock(connection)
            if sharing is not None:
                _refuse_pooler(connection, self._backend[0], self._where)
                make_views(connection, schema, sharing.lock)
                self._share(connection, sharing)
            else:
                migrate(connection, schema, token, self._where)
            connection.silence = SILENT_SECONDS
            self.db = PostgresDatabase(connection, shared=sharing is not None)
            with connection.transaction():
                if sharing is None:
                    connection.execute(_SET, (HOLDER, token))
                    connection.execute(_SET, (COMMIT, f"{token}:0"))
                else:
                    connection.execute(self._commit_number(f"{token}:0"))
                opened(self.db)
        except BaseException:  # also when interrupted: an open connection would hold the lock
            connection.close()
            raise

    @property
    def in_transaction(self) -> bool:
        """See the protocol."""
        return not self.db.connection.closed and (bool(self.db.waiting) or self._sent)

    @property
    def lost(self) -> bool:
        """See the protocol."""
        return self.db.connection.closed

    def begin(self, *, synced: bool) -> None:
        """See the protocol. It is sent with the first statement."""
        self.db.wrote = False
        self.db.waiting = [*self._begin, *([] if synced else ["SET LOCAL synchronous_commit TO off"])]

    def commit(self) -> None:
        """See the protocol. Where its answer is lost, ``doubtful`` is the number by which ``outcome`` finds it later."""
        connection = self.db.connection
        self.db.waiting.clear()
        if not self._sent:
            return
        if not self.db.wrote:
            connection.execute("COMMIT")
            return
        self._commits += 1
        number = f"{self._token}:{self._commits}"
        try:
            connection.execute(sql.SQL("{}; COMMIT").format(self._commit_number(number)))
        except psycopg.Error:
            if connection.closed:
                self.doubtful = number
            raise

    def rollback(self) -> None:
        """See the protocol."""
        self.db.waiting.clear()
        if self._sent:
            with contextlib.suppress(psycopg.OperationalError):  # the server rolls back what its client left
                self.db.connection.execute("ROLLBACK")

    def committed(self, *, synced: bool) -> bool:  # noqa: ARG002 -- PostgreSQL syncs by itself what was committed without
        """See the protocol."""
        return False

    def sync(self) -> bool:
        """See the protocol."""
        return False

    def away(self) -> StorageFailed | None:
        """See the protocol."""
        if self._refused is not None or not self.db.connection.closed:
            return self._refused
        now = time.monotonic()
        if now >= self._next_attempt:
            try:
                self._return()
            except (psycopg.Error, StorageFailed) as error:
                self._attempts += 1
                self._next_attempt = now + _PAUSES[min(self._attempts, len(_PAUSES) - 1)]
                known = error if isinstance(error, StorageFailed) else storage_error(error, self._where)
                self._cause = known or self._gone(str(error))
                return self._cause
            self._attempts, self._cause = 0, None
            return self._refused
        return self._cause or self._gone("the connection to PostgreSQL is lost")

    def outcome(self) -> bool | None:
        """See the protocol."""
        number, self.doubtful = self.doubtful, None
        query, name = "SELECT value FROM meta WHERE name = %s", COMMIT
        if self._sharing is not None:
            query, name = "SELECT number FROM cluster_commit WHERE gateway = %s", self._sharing.gateway
        found = self.db.connection.execute(query.encode(), (name,)).fetchone()
        return None if found is None else bool(found[0] == number)

    def storage_error(self, error: Exception) -> StorageFailed | None:
        """See the protocol."""
        if isinstance(
            error, errors.ReadOnlySqlTransaction
        ):  # it has become a replica: the next connection may find the primary
            self.db.connection.close()
        return storage_error(error, self._where)

    def close(self) -> None:
        """See the protocol."""
        self.db.connection.close()

    @property
    def _sent(self) -> bool:
        """Whether the server has begun the transaction, as far as is known here."""
        return self.db.connection.info.transaction_status is not TransactionStatus.IDLE

    def _commit_number(self, number: str) -> sql.Composed:
        if self._sharing is None:
            return sql.SQL("UPDATE meta SET value = {} WHERE name = {}").format(sql.Literal(number), sql.Literal(COMMIT))
        store = "INSERT INTO cluster_commit VALUES ({}, {}) ON CONFLICT (gateway) DO UPDATE SET number = excluded.number"
        return sql.SQL(store).format(sql.Literal(self._sharing.gateway), sql.Literal(number))

    def _share(self, connection: psycopg.Connection[Any], sharing: Sharing) -> None:
        """Have the connection see what this gateway holds, and end its transactions if this process stands still in one."""
        path = sql.SQL("SET search_path TO {}, {}; SET homebody.gateway = {}; SET idle_in_transaction_session_timeout = {}")
        names = sql.Identifier(held_schema(self._schema)), sql.Identifier(self._schema), sql.Literal(sharing.gateway)
        connection.execute(path.format(*names, sql.Literal(int(sharing.idle_seconds * 1000))))

    def _lock(self, connection: psycopg.Connection[Any]) -> None:
        lock(connection, self._schema, self._where, shared=self._sharing is not None)
        started = "SELECT pid, backend_start::text FROM pg_stat_activity WHERE pid = pg_backend_pid()"
        self._backend = connection.execute(started).fetchone() or (0, "")

    def _return(self) -> None:
        """Connect again. What another process did meanwhile is not known here: then this one may write no more."""
        connection = connected(self._url, self._schema)
        connection.silence = SILENT_SECONDS
        try:
            _must_fit(connection, self._where)
            connection.execute(_END_FORMER, self._backend)
            self._lock(connection)
            if self._sharing is not None:
                self._share(connection, self._sharing)
                self.db = PostgresDatabase(connection, shared=True)
                return
            holder = connection.execute("SELECT value FROM meta WHERE name = %s", (HOLDER,)).fetchone()
        except BaseException:  # also when interrupted: an open connection would hold the lock
            connection.close()
            raise
        if holder is not None and holder[0] == self._token:
            self.db = PostgresDatabase(connection)
            return
        connection.close()
        self.doubtful = None  # the commit of the other one is stored in its place
        self._refused = StorageFailed(
            "another gateway has used this database while the connection was lost",
            where=self._where,
            hint="Restart this gateway, if it is the one that should run.",
        )

    def _gone(self, why: str) -> StorageFailed:
        return StorageAway(
            f"the ledger could not be used: {why}",
            where=self._where,
            hint="Start PostgreSQL; nothing that was confirmed is lost.",
        )


def lock(
    connection: psycopg.Connection[Any], schema: str, where: str, *, shared: bool = False, hint: str = _OWN_SCHEMA
) -> None:
    """Take the lock of a ledger, which the session holds until it ends. Raises StorageFailed with ``hint`` where another one has it.

    Several can have it ``shared``.
    """
    until = time.monotonic() + LOCK_SECONDS
    query = _LOCK.replace("_lock(", "_lock_shared(") if shared else _LOCK
    while not (connection.execute(query.encode(), (schema,)).fetchone() or (False,))[0]:
        if time.monotonic() > until:
            reason = "another gateway uses this database"
            if shared:
                reason += ", and is not of a cluster"
            elif connection.execute(_SHARERS.encode(), (schema,)).fetchone():
                reason, hint = "gateways of a cluster use this database, and none of them is asked here", _ASK_ONE
            raise StorageFailed(reason, where=where, hint=hint)
        time.sleep(_LOCK_PAUSE)


def make_tables(url: str, schema: str, token: str) -> None:
    """Make the tables of a ledger that is to be shared, or bring them to the newest version. Raises StorageFailed and psycopg.Error.

    While a gateway uses them they are as they are: where they are older, it has to end first.
    """
    where = place(url, schema)
    with connected(url, schema) as connection:
        _must_fit(connection, where)
        if version_of(connection, schema, where) != len(STEPS):
            lock(connection, schema, where)
            migrate(connection, schema, token, where)


def _refuse_pooler(connection: psycopg.Connection[Any], session: int, where: str) -> None:
    if connection.info.backend_pid != session:
        raise StorageFailed(
            "a cluster needs connections to PostgreSQL itself, and there is a pooler in between",
            where=where,
            hint="Name PostgreSQL itself: homebody config set storage.url",
        )


def _must_fit(connection: psycopg.Connection[Any], where: str) -> None:
    """Raise StorageFailed for a server that cannot hold the ledger."""
    version = connection.info.server_version
    if version < OLDEST:
        raise StorageFailed(
            f"PostgreSQL {version // 10_000} is too old",
            where=where,
            hint="Homebody needs PostgreSQL 15 or later. Name another server: homebody config set storage.url",
        )
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StorageFailed(
            f"the database stores texts as {encoding}",
            where=where,
            hint="Make one that stores UTF8: createdb -E UTF8 -T template0 NAME",
        )
    found = connection.execute("SHOW transaction_read_only").fetchone()
    if found is not None and found[0] == "on":
        raise StorageFailed(
            "the database takes no changes: it is a replica, or set to read-only",
            where=where,
            hint="Name the primary server: homebody config set storage.url",
        )
