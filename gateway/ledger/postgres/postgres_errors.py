"""What PostgreSQL refuses, in words for people."""

from __future__ import annotations

from typing import Final

import psycopg
from psycopg import errors

from gateway.base.errors import StorageAway, StorageFailed

_DOCS: Final = "docs/postgresql.md says what it needs."
_HINTS: Final[dict[type[psycopg.Error], str]] = {
    errors.TooManyConnections: "Raise max_connections of PostgreSQL (or the user's CONNECTION LIMIT), or end other programs that use it.",
    errors.InsufficientPrivilege: f"Give the user the right to make a schema in this database, or make it the schema's owner. {_DOCS}",
    errors.ReadOnlySqlTransaction: "Name the primary server in storage.url: a replica takes no changes.",
    errors.DiskFull: "Free some space on the disk of PostgreSQL; nothing that was confirmed is lost.",
    errors.OutOfMemory: "Look at the log of PostgreSQL; nothing that was confirmed is lost.",
    errors.UndefinedTable: "Restore the database from a backup, or name another schema to begin with an empty ledger.",
    errors.InvalidSchemaName: "Restore the database from a backup, or name another schema to begin with an empty ledger.",
    errors.WithCheckOptionViolation: "Another gateway holds this agent or account now: homebody cluster status",
    errors.DataCorrupted: "Restore the database from a backup.",
    errors.IndexCorrupted: "Restore the database from a backup, or try REINDEX.",
}
_NOT_YET: Final = ("is starting up", "is shutting down", "is not yet accepting connections", "is in recovery mode")
_SAID: Final[dict[str, type[psycopg.Error]]] = {
    "too many clients": errors.TooManyConnections,
    "remaining connection slots": errors.TooManyConnections,
    "too many connections": errors.TooManyConnections,
    "No space left on device": errors.DiskFull,
}
_AWAY: Final = (
    "Start PostgreSQL, or check host, user, password and database in storage.url (createdb makes one). "
    "Nothing that was confirmed is lost."
)


def storage_error(error: Exception, where: str) -> StorageFailed | None:
    """Translate an error of the server, its disk or the connection; return None for any other."""
    hint = next((hint for kind, hint in _HINTS.items() if isinstance(error, kind)), None)
    if hint is None:  # what refuses a connection has no code
        hint = next((_HINTS[kind] for words, kind in _SAID.items() if words in str(error)), None)
    if hint is None and not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | psycopg.InternalError):
        return None
    kind = StorageAway if hint is None and _is_away(error) else StorageFailed
    return kind(f"the ledger could not be used: {_one_line(error)}", where=where, hint=hint or _AWAY)


def _is_away(error: Exception) -> bool:
    """Whether no server answered, or one that is only starting. What a server refuses is told with "FATAL" (libpq gives no code then)."""
    return isinstance(error, psycopg.OperationalError) and (
        "FATAL" not in str(error) or any(words in str(error) for words in _NOT_YET)
    )


def _one_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
