"""The ledger in an SQLite file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import apsw

from agent.timing import Clock
from gateway.base.errors import StorageFailed
from gateway.ledger.database import Engine
from gateway.ledger.ledger_backup import LedgerBackup
from gateway.ledger.ledger_file import closing, connect
from gateway.ledger.ledger_store import LedgerStore, new_id
from gateway.ledger.sqlite_engine import SqliteEngine
from gateway.ledger.thread import LedgerConnection, LedgerThread


class SqliteLedger(LedgerStore):
    """Implements ``Ledger``.

    ``path`` is the file; ``warning`` is what the owner should know when a damaged file was set aside at the start.
    """

    def __init__(self, connection: LedgerConnection, path: Path, changes: int, warning: str | None = None) -> None:
        super().__init__(connection, str(path), warning)
        self.path = path
        self._backup = LedgerBackup(connection, path, changes)

    @classmethod
    async def open(
        cls,
        path: Path,
        clock: Clock,
        *,
        new_id: Callable[[], str] = new_id,
        committed: Callable[[float], None] = lambda _: None,
    ) -> SqliteLedger:
        """Open ``state/ledger.sqlite`` or make it. The caller holds the state lock. ``committed`` is told the seconds of each commit.

        Chunks that were being sent when the last process died become ambiguous. Raises StorageFailed.
        """
        first: list[tuple[int, str | None]] = []

        def opened() -> Engine:
            found = connect(path, new_id(), clock.now())
            first.append((-1 if found.changed else found.db.total_changes(), found.warning))
            return SqliteEngine(found.db, found.marking, str(path))

        thread = LedgerThread(opened, str(path), committed)
        await thread.start()
        return cls(LedgerConnection(thread, clock, new_id), path, *first[0])

    async def took_any(self) -> bool:
        """See the protocol."""
        query = "SELECT 1 FROM sqlite_sequence WHERE name = 'inbox' AND seq > 0"
        return await self._connection.run(lambda db: db.execute(query).fetchone()) is not None

    async def backup(self) -> Path | None:
        """See the protocol."""
        return await self._backup.make()

    async def leave_no_trace(self) -> None:
        """Leave nothing of what was removed: rewrite the file, empty its log, and replace all copies by a new one. What fails is logged."""

        def work(engine: SqliteEngine) -> None:
            engine.set_synced(synced=True)
            engine.marking.empty()

        await self._connection.run_outside(work)
        await self._backup.renew()

    async def copy_to(self, place: Path) -> None:
        """See the protocol."""
        try:
            await self._backup.copy_to(place)
        except OSError as error:
            raise StorageFailed.from_os(error, "copy the ledger", place) from error
        except apsw.Error as error:
            raise StorageFailed(f"the ledger could not be copied: {error}", where=str(place)) from error

    async def close(self) -> None:
        """See the protocol."""
        await super().close()
        await asyncio.to_thread(closing, self.path)
