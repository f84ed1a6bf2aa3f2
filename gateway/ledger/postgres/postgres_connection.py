"""A connection to PostgreSQL that takes the ledger's SQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import psycopg
from psycopg import errors, sql
from psycopg.adapt import Buffer, Loader
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.numeric import Int8Dumper

from gateway.ledger.postgres.postgres_statements import translated

CONNECT_SECONDS: Final = 5
_DEFAULTS: Final[dict[str, str | int]] = {
    "application_name": "homebody",
    "connect_timeout": CONNECT_SECONDS,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
"""Settings of libpq, where the URL gives no others. A peer that is gone is noticed within half a minute."""
_PREPARED: Final = 300
"""The most statements that the server keeps prepared: the ledger has about a hundred and fifty."""
_SERVER_LIMITS: Final = {"tcp_keepalives_idle": 10, "tcp_keepalives_interval": 5, "tcp_keepalives_count": 3}
NOTICE_LOSS: Final = " ".join(f"-c {name}={value}" for name, value in _SERVER_LIMITS.items())
"""Options of a session. Without these the server holds the lock of a machine that lost its power for two hours."""
_WRITES: Final = ("INSERT", "UPDATE", "DELETE")
_LOOKS: Final = 2
"""Connections by which a pooler is looked through. One in transaction mode gives the session that was used last to the first of them."""
_LATER: Final = ("SAVEPOINT one", "RELEASE one")
"""Statements of the ledger's thread whose result nobody reads."""


class LimitedConnection(psycopg.Connection[Any]):
    """A connection that ends when the server is silent for longer than ``silence`` seconds, as one does whose disk or process hangs.

    Keepalives do not notice that: the machine itself answers them.
    """

    silence: float | None = None

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        """Run a step of the protocol. Raises psycopg.OperationalError when it takes too long; the connection is closed then."""
        try:
            return super().wait(gen, interval, self.silence if timeout is None else timeout)
        except errors._WaitTimeout:  # noqa: SLF001 - the name under which psycopg documents it for this method
            if timeout is not None:
                raise
            self.pgconn.finish()
            raise psycopg.OperationalError(f"the server has not answered for {self.silence:g} seconds") from None


class _Whole(Loader):
    """Reads what PostgreSQL calls numeric, which is what it makes of a sum: as SQLite does, whole numbers as int."""

    def load(self, data: Buffer) -> int | float:
        text = bytes(data).decode()
        return int(text) if text.lstrip("-").isdecimal() else float(text)


class Found:
    """Implements ``Rows``: rows that were read all at once."""

    __slots__ = ("_at", "_rows")

    def __init__(self, rows: list[Any]) -> None:
        self._rows = rows
        self._at = 0

    def __iter__(self) -> Iterator[Any]:
        return iter(self.fetchall())

    def fetchone(self) -> Any:
        """See the protocol."""
        if self._at == len(self._rows):
            return None
        self._at += 1
        return self._rows[self._at - 1]

    def fetchall(self) -> list[Any]:
        """See the protocol."""
        rows, self._at = self._rows[self._at :], len(self._rows)
        return rows


class PostgresDatabase:
    """Implements ``Database``. ``wrote``: something was written since the transaction was begun.

    ``waiting`` are statements that go before the next one: ``together`` with it, where a round trip takes long.
    """

    def __init__(self, connection: psycopg.Connection[Any], *, shared: bool = False) -> None:
        self.connection = connection
        self._shared = shared
        self._cursor = connection.cursor()
        self._changes = 0
        self.wrote = False
        self.waiting: list[str] = []
        self.together = _is_far(connection)

    def execute(self, statement: str, values: Sequence[Any] | Mapping[str, Any] | None = None, /) -> Found:
        """See the protocol."""
        if statement in _LATER:
            self.waiting.append(statement)
            return Found([])
        cursor = self._cursor
        bound = _all_storable(values) if values else None
        query = translated(statement, bound=bound is not None, shared=self._shared)
        if self.waiting:
            self._execute_together(query, bound)
        else:
            cursor.execute(query, bound)
        if (cursor.statusmessage or "").startswith(_WRITES):
            self._changes = cursor.rowcount
            self.wrote = True
        return Found(cursor.fetchall() if cursor.description is not None else [])

    def changes(self) -> int:
        """See the protocol."""
        return self._changes

    def _execute_together(self, query: str, bound: Any) -> None:
        before, self.waiting = self.waiting, []
        if not self.together:
            self.connection.execute("; ".join(before).encode())
            self._cursor.execute(query, bound)
            return
        with self.connection.pipeline():
            for one in before:
                self.connection.execute(one.encode())
            self._cursor.execute(query, bound)


def _is_far(connection: psycopg.Connection[Any]) -> bool:
    """Whether a round trip takes longer than what a pipeline costs here, a tenth of a millisecond."""
    near = ("", "localhost", "127.0.0.1", "::1")
    host = connection.info.host
    return host not in near and not host.startswith("/") and psycopg.Pipeline.is_supported()


def _all_storable(values: Sequence[Any] | Mapping[str, Any]) -> Sequence[Any] | Mapping[str, Any]:
    if isinstance(values, Mapping):
        return {name: storable(value) for name, value in values.items()}
    return [storable(value) for value in values]


def storable(value: Any) -> Any:
    """Return a value as a column takes it: truth values are numbers, and no text holds the character that PostgreSQL stores in none."""
    if isinstance(value, bool):
        return int(value)
    return value.replace("\x00", "\ufffd") if isinstance(value, str) and "\x00" in value else value


def within(url: str, seconds: float) -> str:
    """Return a URL whose connections notice within so many seconds that the other end is gone, where it does not say otherwise itself.

    A machine that loses its power, or a network that drops packets, ends no connection: without this a session that only listens
    would wait for hours.
    """
    limits = {
        "keepalives_idle": max(1, int(seconds / 3)),
        "keepalives_interval": max(1, int(seconds / 6)),
        "tcp_user_timeout": int(seconds * 1000),
    }
    return _completed(url, _DEFAULTS | limits)


def _completed(url: str, limits: Mapping[str, str | int]) -> str:
    given = conninfo_to_dict(url)
    return make_conninfo(url, **{name: value for name, value in limits.items() if name not in given})


class TransactionPooled(psycopg.OperationalError):
    """Raised when statements of one connection may run in different sessions of the server."""


def connected(url: str, schema: str) -> LimitedConnection:
    """Connect; transactions are begun and ended by statements. Raises psycopg.Error."""
    address = _completed(url, _DEFAULTS)
    connection = LimitedConnection.connect(address, autocommit=True)
    try:
        connection.prepare_threshold = 2
        connection.prepared_max = _PREPARED
        connection.adapters.register_dumper(int, Int8Dumper)
        connection.adapters.register_loader("numeric", _Whole)
        settings = [sql.SQL("SET {} = {}").format(sql.Identifier(name), value) for name, value in _SERVER_LIMITS.items()]
        path = sql.SQL("SET search_path TO {}").format(sql.Identifier(schema))
        found = connection.execute(sql.SQL("; ").join([path, *settings, sql.SQL("SELECT pg_backend_pid()")]))
        while found.nextset():
            pass
        _refuse_shared(connection, found.fetchone(), address)
    except BaseException:  # also when interrupted: an open connection may hold a place
        connection.close()
        raise
    return connection


def _refuse_shared(connection: LimitedConnection, session: Any, address: str) -> None:
    """Raise TransactionPooled where other clients of a pooler are given the session of a connection that is open and idle."""
    if session == (connection.info.backend_pid,):  # a pooler tells numbers of its own
        return
    others: list[LimitedConnection] = []
    shared = False
    try:
        while not shared and len(others) < _LOOKS:
            others.append(LimitedConnection.connect(address))
            others[-1].silence = CONNECT_SECONDS
            found = others[-1].execute("SELECT pg_backend_pid()")  # in a transaction, which keeps its session
            shared = found.fetchone() == session
    except psycopg.OperationalError:  # no session is left for others: each has its own
        return
    finally:
        for one in others:
            one.close()
    if shared:
        raise TransactionPooled(
            "a connection pooler in transaction mode is in between, where locks, settings and LISTEN of a session do not hold"
        )


def place(url: str, schema: str) -> str:
    """Return the database in words for people, without the password."""
    given = conninfo_to_dict(url)
    user = f"{given['user']}@" if given.get("user") else ""
    port = f":{given['port']}" if given.get("port") else ""
    return f"postgresql://{user}{given.get('host') or ''}{port}/{given.get('dbname') or ''} (schema {schema})"
