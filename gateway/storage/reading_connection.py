"""A connection to PostgreSQL for what only reads, beside that of the ledger: reading a long conversation keeps no message waiting."""

from __future__ import annotations

import errno
import threading
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import errors

from gateway.base.errors import StorageFailed
from gateway.ledger.postgres.engine import SILENT_SECONDS
from gateway.ledger.postgres.postgres_connection import PostgresDatabase, connected, place
from gateway.ledger.postgres.postgres_errors import storage_error


class ReadingConnection:
    """Runs queries, each of which sees what was committed before it. Blocking; for several threads, one query at a time. Raises OSError."""

    def __init__(self, url: str, schema: str) -> None:
        self._url, self._schema = url, schema
        self._one_at_a_time = threading.Lock()
        self._db: PostgresDatabase | None = None

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """Return all rows of a query; none where there are no tables yet. On a connection that was lost it is run again on a new one."""
        with self._one_at_a_time:
            try:
                try:
                    return self._rows(query, values)
                except psycopg.OperationalError:
                    if self._db is None or not self._db.connection.closed:
                        raise
                    return self._rows(query, values)
            except (errors.UndefinedTable, errors.InvalidSchemaName):
                return []
            except psycopg.Error as error:
                where = place(self._url, self._schema)
                raise unusable(storage_error(error, where) or StorageFailed(str(error), where=where)) from error

    def close(self) -> None:
        """Close the connection; another query opens one again."""
        with self._one_at_a_time:
            if self._db is not None:
                self._db.connection.close()
                self._db = None

    def _rows(self, query: str, values: Sequence[Any]) -> list[Any]:
        if self._db is None or self._db.connection.closed:
            self._db = None
            connection = connected(self._url, self._schema)
            connection.silence = SILENT_SECONDS
            connection.execute("SET default_transaction_read_only = on")
            self._db = PostgresDatabase(connection)
        return self._db.execute(query, values).fetchall()


def unusable(error: StorageFailed) -> OSError:
    """Return an error of the database as those see it that know files."""
    return OSError(errno.EIO, str(error))
