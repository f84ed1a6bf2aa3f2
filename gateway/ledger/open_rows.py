"""The rows of a ledger that the gateway is about to work on: they are read once when the file is opened, as they are read later."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import apsw

from gateway.ledger import approval_rows, hook_rows, inbox, job_columns, outbox, subagent_rows, turns, unasked
from gateway.ledger.database import Database
from gateway.ledger.schema import shape

log = logging.getLogger(__name__)

_Reader: TypeAlias = "Callable[[Any], object]"

_AT_ONCE: Final = {
    "inbox": "state IN ('waiting', 'claimed')",
    "outbox": "state IN ('ready', 'sending', 'ambiguous')",
    "turn": "state IN ('running', 'suspended')",
    "approval": "state = 'pending'",
    "approved": "TRUE",
    "cursor": "TRUE",
    "moved": "TRUE",
    "hook": "TRUE",
    "subagent": "state = 'open'",
    "job": "TRUE",
    "unasked": "state <> 'queued'",
}
"""Tables, and the condition for the rows that are read at once."""
_READERS: Final[dict[str, tuple[str, _Reader]]] = {
    "inbox": (f"SELECT {inbox.COLUMNS} FROM inbox", inbox.read_row),
    "outbox": (f"SELECT {outbox.COLUMNS} FROM outbox", outbox.read_row),
    "turn": (turns.TURN, turns.read_turn),
    "approval": (f"SELECT {approval_rows.COLUMNS} FROM approval", approval_rows.read_approval),
    "hook": (f"SELECT {hook_rows.COLUMNS} FROM hook", hook_rows.read_hook),
    "subagent": (f"SELECT {subagent_rows.COLUMNS} FROM subagent", subagent_rows.read_subagent),
    "job": (f"SELECT {job_columns.COLUMNS} FROM job", job_columns.read_job),
    "unasked": (f"SELECT {unasked.COLUMNS} FROM unasked", unasked.read_row),
}
"""How rows are read that hold more than plain values."""
_CLAIMED_BY_NOBODY = """
SELECT 1 FROM inbox WHERE state = 'claimed' AND (turn IS NULL OR turn NOT IN (SELECT id FROM turn WHERE state IN ('running', 'suspended')))
"""
_WAITS_FOR_NOTHING = """
SELECT 1 FROM turn WHERE state = 'suspended' AND id NOT IN (SELECT turn FROM approval WHERE state = 'pending' AND turn IS NOT NULL)
"""


def read_through(db: apsw.Connection, intended: apsw.Connection) -> None:
    """Read the rows that the gateway is about to work on. ``intended`` has the tables as they should be. Raises CorruptError.

    SQLite's check notices neither another name of a column, nor invalid UTF-8, nor an address that is none any more: one such row would
    keep all messages behind it from being sent, at every start anew.
    """
    try:
        if shape(db) != shape(intended):
            raise apsw.CorruptError("its tables are not those of a ledger")
        for table, condition in _AT_ONCE.items():
            for _ in db.execute(f"SELECT * FROM {table} WHERE {condition}"):
                pass
    except UnicodeDecodeError as error:
        raise apsw.CorruptError("a text in it is none") from error
    if (unreadable := unreadable_row(db)) is not None:
        raise apsw.CorruptError(unreadable)


def unreadable_row(db: Database) -> str | None:
    """Read the rows that the gateway is about to work on; return what cannot be read or be, or None."""
    for table, (query, read) in _READERS.items():
        for row in db.execute(f"{query} WHERE {_AT_ONCE[table]}"):
            try:
                read(row)
            except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
                log.exception("a row of the table %s cannot be read", table)
                return f"a row of its table {table} cannot be read"
    if db.execute(_CLAIMED_BY_NOBODY).fetchone():
        return "a message in it is being answered by no turn"
    if db.execute(_WAITS_FOR_NOTHING).fetchone():
        return "a suspended turn in it waits for no question"
    return None
