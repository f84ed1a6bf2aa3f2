"""What PostgreSQL refuses, in words for people."""

from __future__ import annotations

import re
from typing import Final

import psycopg
from psycopg import errors

from gateway.base.errors import StorageAway, StorageFailed
from gateway.ledger.postgres.postgres_connection import TransactionPooled

_SET: Final = "homebody config set storage.url"
_ANEW: Final = "Restore the database from a backup, or begin with an empty schema: homebody config set storage.schemaName NAME"
_DOCS: Final = "docs/postgresql.md says what it needs."
_HINTS: Final[dict[type[psycopg.Error], str]] = {
    errors.TooManyConnections: "Raise max_connections of PostgreSQL (or the user's CONNECTION LIMIT), or end other programs that use it.",
    errors.InsufficientPrivilege: f"Give the user the right to make a schema in this database, or make it the schema's owner. {_DOCS}",
    errors.ReadOnlySqlTransaction: f"A replica takes no changes. Name the primary server: {_SET}",
    errors.DiskFull: "Free some space on the disk of PostgreSQL; nothing that was confirmed is lost.",
    errors.OutOfMemory: "Look at the log of PostgreSQL; nothing that was confirmed is lost.",
    errors.UndefinedTable: _ANEW,
    errors.InvalidSchemaName: _ANEW,
    errors.WithCheckOptionViolation: "Another gateway holds this agent or account now: homebody cluster status",
    errors.DataCorrupted: "Restore the database from a backup.",
    TransactionPooled: f"Set pool_mode = session for this database in pgbouncer.ini, or name PostgreSQL itself: {_SET}",
    errors.IndexCorrupted: "Restore the database from a backup, or try REINDEX.",
}
_NOT_YET: Final = ("is starting up", "is shutting down", "is not yet accepting connections", "is in recovery mode")
_SAID: Final[dict[str, str]] = {
    "too many clients": _HINTS[errors.TooManyConnections],
    "remaining connection slots": _HINTS[errors.TooManyConnections],
    "too many connections": _HINTS[errors.TooManyConnections],
    "No space left on device": _HINTS[errors.DiskFull],
    "password authentication failed": f"Correct user and password: {_SET}. In PostgreSQL: ALTER ROLE NAME PASSWORD '...'",
    "no password supplied": f"Put the password into the address: {_SET}",
    r'database ".*" does not exist': "Make it: createdb NAME --owner USER --encoding UTF8",
    r'role ".*" does not exist': "Make it: createuser NAME --pwprompt",
    "SSL required|, no encryption": f"The server takes encrypted connections alone, so add sslmode=verify-full to the address: {_SET}",
    "no pg_hba.conf entry": "Let this machine in: a line in the server's pg_hba.conf, then SELECT pg_reload_conf().",
    "certificate verify failed": f"Name the authority of the server's certificate, with sslrootcert=FILE at the end of the address: {_SET}",
    "does not match host name": f"Name the host as the server's certificate names it: {_SET}",
    "root certificate file": "Put the authority's certificate there, or name it with sslrootcert=FILE at the end of storage.url.",
    "unsupported startup parameter": f"A cluster needs PostgreSQL itself, without PgBouncer: {_SET}",
    "server does not support SSL": "Set ssl = on in the server's postgresql.conf, or take sslmode out of storage.url.",
}
"""What refuses a connection has no code: patterns of what is said, and what helps."""
_AWAY: Final[dict[str, str]] = {
    "failed to resolve host|could not translate host name": f"Correct the host: {_SET}",
    "Connection refused|No such file or directory": f"Start PostgreSQL (sudo systemctl start postgresql), or correct host and port: {_SET}",
}
_SOMEHOW: Final = f"Start PostgreSQL, or correct its address: {_SET}. Nothing that was confirmed is lost."


def storage_error(error: Exception, where: str) -> StorageFailed | None:
    """Translate an error of the server, its disk or the connection; return None for any other."""
    hint = next((hint for kind, hint in _HINTS.items() if isinstance(error, kind)), None) or _said(error, _SAID)
    if hint is None and not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | psycopg.InternalError):
        return None
    kind = StorageAway if hint is None and _is_away(error) else StorageFailed
    hint = hint or _said(error, _AWAY) or _SOMEHOW
    return kind(f"the ledger could not be used: {_one_line(error)}", where=where, hint=hint)


def _said(error: Exception, known: dict[str, str]) -> str | None:
    said = str(error)
    return next((hint for words, hint in known.items() if re.search(words, said)), None)


def _is_away(error: Exception) -> bool:
    """Whether no server answered, or one that is only starting. What a server refuses is told with "FATAL" (libpq gives no code then)."""
    return isinstance(error, psycopg.OperationalError) and (
        "FATAL" not in str(error) or any(words in str(error) for words in _NOT_YET)
    )


def _one_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
