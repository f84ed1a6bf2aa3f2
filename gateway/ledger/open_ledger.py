"""Opens the ledger that the settings name. Nothing outside of this part names an engine."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from agent.timing import Clock
from gateway.base.errors import StorageFailed
from gateway.base.installation import how_to_add
from gateway.ledger.protocol import Ledger
from gateway.settings.storage_settings import StorageSettings

LEDGER: Final = "ledger.sqlite"
"""The name of the ledger's file in the folder of the state."""


async def open_ledger(
    state: Path, storage: StorageSettings, clock: Clock, *, committed: Callable[[float], None] = lambda _: None
) -> Ledger:
    """Open the ledger or make it. The caller holds the state lock. ``committed`` is told the seconds of each commit.

    Chunks that were being sent when the last process died become ambiguous.

    Raises:
        StorageFailed: it cannot be used, or what it needs is not installed.
    """
    if storage.url is None:
        _refuse_moved(state / LEDGER)
        return await open_file(state / LEDGER, clock, committed=committed)
    need_driver()
    from gateway.ledger.postgres.ledger import PostgresLedger

    if (state / LEDGER).exists():  # of before the move, or from a backup: which of them goes on is for the owner to say
        raise StorageFailed(
            "the settings name PostgreSQL, and there is a ledger in this file, too",
            where=str(state / LEDGER),
            hint="Take it along with `homebody storage migrate --to postgresql`, or move the file away to go on without it.",
        )
    return await PostgresLedger.open(storage.url.get_secret_value(), clock, schema=storage.schema_name, committed=committed)


def _refuse_moved(path: Path) -> None:
    """Raise StorageFailed where the ledger went to PostgreSQL and did not come back: its copies here are of before."""
    moved = sorted(path.parent.glob(f"{LEDGER}.moved-*Z"))
    if moved and not path.exists():
        raise StorageFailed(
            "the ledger was moved to PostgreSQL, and the settings name no database",
            where=str(path),
            hint="Set storage.url again, and run `homebody storage migrate --to file` to have it back. To go on with what it was "
            f"at the move: mv {moved[-1]} {path}",
        )


def need_driver() -> None:
    """Raise StorageFailed where the extra is not installed that PostgreSQL needs."""
    if find_spec("psycopg") is None:
        raise StorageFailed(
            "PostgreSQL needs the extra homebody[postgres], which is not installed",
            where="storage.url",
            hint=how_to_add("postgres"),
        )


async def open_file(path: Path, clock: Clock, *, committed: Callable[[float], None] = lambda _: None) -> Ledger:
    """Open the ledger in an SQLite file, whatever the settings name. Raises StorageFailed."""
    from gateway.ledger.sqlite import SqliteLedger

    return await SqliteLedger.open(path, clock, committed=committed)


def ledger_gone(where: str) -> str:
    """Return the warning for a home that has sessions but no ledger."""
    return (
        f"There are sessions, but the ledger of messages is gone and {where} was begun anew. What waited for an answer, and which replies "
        "were not sent yet, is unknown: whoever got no answer should write again. People who were let in by a pairing code must ask anew. "
        "If there is a copy of the file: stop the gateway, put it in this place, and start again."
    )
