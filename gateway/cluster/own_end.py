"""What becomes of turns whose gateway ended itself as its leases had ended: that is no crash, and no fault of their messages.

Its process leaves its name in the folder of its gateway before it starts again, and the next one tells the database. That may be after
another gateway went on with the turns, and counted them as interrupted: it is taken back then.
"""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gateway.cluster.lease_tables import write_lock_of

if TYPE_CHECKING:
    from psycopg import AsyncConnection

    Connection = AsyncConnection[tuple[Any, ...]]

log = logging.getLogger(__name__)

FILE: Final = "ended"
UNCOUNTED: Final = 10
"""So many interruptions of one turn do not count. A message may be their reason after all: a turn that holds a gateway up, say."""
_TAKE_BACK: Final = """
WITH gone AS (DELETE FROM cluster_gateway WHERE name = ANY(%s) RETURNING name)
UPDATE inbox SET attempts = greatest(coalesce(attempts, 0) - 1, 0) WHERE state = 'claimed' AND turn IN (
    SELECT t.id FROM turn t JOIN cluster_holder h ON h.token = 'agent:' || t.agent
    WHERE t.state = 'running' AND t.suspended_at IS NULL AND t.attempt <= %s AND (
        h.gateway IN (SELECT name FROM gone)
        OR (h.former IN (SELECT name FROM gone) AND t.started_at < extract(epoch FROM h.since) * 1000000)
    )
)
"""
"""Of agents that nobody took over, the next holder will count one interruption; of the others, the present one has counted it, or will."""


def leave_end(local: Path, name: str) -> None:
    """Note that this process ends itself. Blocks for a moment; where it cannot be noted, it counts as a crash."""
    with contextlib.suppress(OSError), (local / FILE).open("a", encoding="ascii") as file:
        file.write(f"{name}\n")


async def take_back(connection: Connection, schema: str, local: Path) -> None:
    """Have the database know of former processes of this gateway that ended themselves: once for each.

    It is called before this one holds anything.
    """
    names = _ended(local)
    if not names:
        return
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (write_lock_of(schema),))
        done = await connection.execute(_TAKE_BACK, (names, UNCOUNTED))
    if done.rowcount:
        log.info("messages that were interrupted as this gateway ended itself, which does not count: %d", done.rowcount)
    with contextlib.suppress(OSError):
        (local / FILE).unlink()


def _ended(local: Path) -> list[str]:
    with contextlib.suppress(OSError, UnicodeError):
        return (local / FILE).read_text(encoding="ascii").split()
    return []
