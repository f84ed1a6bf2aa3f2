"""A few connections to PostgreSQL that the indexes of all agents of a process share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import psycopg
from psycopg import sql

Connect: TypeAlias = "Callable[[], psycopg.Connection[Any]]"
"""Opens a connection with ``autocommit``, whose statements end with psycopg.OperationalError where the server is silent for long."""
Connection: TypeAlias = "psycopg.Connection[Any]"

_MOST = 4
_ONLY_BY_INDEX = (
    "SET enable_seqscan = off; SET jit = off; SET statement_timeout = '60s'; SET idle_in_transaction_session_timeout = '60s'"
)
"""Reading all word lists of all agents is never better than the index; a plan made before there were statistics may think so."""


class Connections:
    """Lends connections; they are closed when the last index that uses them is. For several threads.

    ``where`` is the database in words for people.
    """

    def __init__(self, connect: Connect, schema: str, where: str) -> None:
        self.schema = schema
        self.where = where
        self._connect = connect
        self._places = threading.BoundedSemaphore(_MOST)
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._users = 0

    def attach(self) -> None:
        """Count one more index that uses them."""
        with self._lock:
            self._users += 1

    def detach(self) -> None:
        """Count one less."""
        with self._lock:
            self._users -= 1
            idle, self._idle = (self._idle, []) if self._users <= 0 else ([], self._idle)
        for connection in idle:
            connection.close()

    def drop_idle(self) -> None:
        """Close those that nobody uses: after a restart of the server all of them are dead."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Lend a connection. Each statement sees what was committed before it.

        Raises:
            psycopg.Error: the database cannot be reached.
        """
        with self._places:
            connection = self._take()
            try:
                yield connection
            finally:
                self._give_back(connection)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Lend a connection in a transaction, which is committed at the end and undone after an error."""
        with self.reading() as connection, connection.transaction():
            yield connection

    def _take(self) -> Connection:
        with self._lock:
            while self._idle:
                connection = self._idle.pop()
                if not connection.closed:
                    return connection
        return self.new()

    def new(self) -> Connection:
        """Open a connection of one's own, which sees the schema and the types of pgvector wherever that is installed."""
        connection = self._connect()
        try:
            found = connection.execute(
                "SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'"
            ).fetchone()
            path = [sql.Identifier(self.schema), *(sql.Identifier(name) for name in found or ())]
            connection.execute(sql.SQL("SET search_path TO {}; {}").format(sql.SQL(", ").join(path), sql.SQL(_ONLY_BY_INDEX)))
        except BaseException:  # also when interrupted
            connection.close()
            raise
        return connection

    def _give_back(self, connection: Connection) -> None:
        with self._lock:
            if not connection.closed and self._users > 0:
                self._idle.append(connection)
                return
        connection.close()
