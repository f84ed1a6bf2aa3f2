"""Opens the ledger that the settings name. Nothing outside of this part names an engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from agent.timing import Clock
from gateway.ledger.protocol import Ledger

LEDGER: Final = "ledger.sqlite"
"""The name of the ledger's file in the folder of the state."""


async def open_ledger(state: Path, clock: Clock, *, committed: Callable[[float], None] = lambda _: None) -> Ledger:
    """Open the ledger or make it. The caller holds the state lock. ``committed`` is told the seconds of each commit.

    Chunks that were being sent when the last process died become ambiguous. Raises StorageFailed.
    """
    return await open_file(state / LEDGER, clock, committed=committed)


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
