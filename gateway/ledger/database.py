"""What the parts of the ledger need of a database, and what the ledger's thread needs of the engine that has it open.

SQL is written once, for SQLite and PostgreSQL: placeholders are ``?`` and ``:name``, ON CONFLICT names its columns, truth values in columns
are 0 and 1, a list is bound as JSON and read by ``json_each``, and rows without an id of their own are in the order of ``rowid``. What
PostgreSQL lacks of that is in its schema (``gateway/ledger/postgres/postgres_schema.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from gateway.base.errors import StorageFailed


class Rows(Protocol):
    """The result of a statement."""

    def __iter__(self) -> Iterator[Any]:
        """Yield the rows that were not read yet."""
        ...

    def fetchone(self) -> Any:
        """Return the next row, or None."""
        ...

    def fetchall(self) -> list[Any]:
        """Return the rows that were not read yet."""
        ...


class Database(Protocol):
    """What a function that runs in a transaction of the ledger may call."""

    def execute(self, statement: str, values: Sequence[Any] | Mapping[str, Any] | None = None, /) -> Rows:
        """Run one statement."""
        ...

    def changes(self) -> int:
        """Return how many rows the last INSERT, UPDATE or DELETE changed."""
        ...


class Engine(Protocol):
    """An open database. The ledger's thread alone calls it."""

    @property
    def failures(self) -> type[Exception]:
        """The base class of the engine's errors."""
        ...

    @property
    def db(self) -> Database:
        """What functions are given."""
        ...

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open. An error of the disk or the connection may have ended it."""
        ...

    @property
    def lost(self) -> bool:
        """Whether the connection is lost. A file has none to lose."""
        ...

    @property
    def doubtful(self) -> str | None:
        """The number of a commit during which the connection was lost, until ``outcome`` is asked."""
        ...

    def away(self) -> StorageFailed | None:
        """Return why nothing can be stored now, None where it can. Tries to connect again now and then."""
        ...

    def outcome(self) -> bool | None:
        """Return whether the doubtful commit happened, None where that cannot be known."""
        ...

    def begin(self, *, synced: bool) -> None:
        """Begin a transaction whose commit is ``synced`` or not."""
        ...

    def commit(self) -> None:
        """Commit it."""
        ...

    def rollback(self) -> None:
        """Undo it."""
        ...

    def committed(self, *, synced: bool) -> bool:
        """Do what is due after a commit; return whether there are commits that a loss of power could take back."""
        ...

    def sync(self) -> bool:
        """Sync what was committed before, and return whether there is more. What the disk refuses is tried again later."""
        ...

    def storage_error(self, error: Exception) -> StorageFailed | None:
        """Translate an error that the storage caused; return None for any other."""
        ...

    def close(self) -> None:
        """Close the database."""
        ...
