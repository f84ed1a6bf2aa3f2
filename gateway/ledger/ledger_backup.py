"""Periodic copies of the ledger's file, made while it is in use, and what is read from them when the file itself is lost."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import apsw

from gateway.base.atomic_file import sync
from gateway.base.errors import StorageFailed
from gateway.ledger.schema import APPLICATION_ID, STEPS
from gateway.ledger.sqlite_engine import SqliteEngine
from gateway.ledger.thread import LedgerConnection

if TYPE_CHECKING:
    from gateway.ledger.raw_tables import Row

log = logging.getLogger(__name__)

KEPT: Final = 3
"""The newest copies that are kept."""
PAGES: Final = 1000
"""Pages copied at a time; other calls to the ledger run in between."""
_CACHE_KIB: Final = 200
"""What SQLite keeps of a copy in memory while it is written: each page is needed once."""
_NUMBER: Final = re.compile(r"\.copy-(\d{6,})$")


def copies_of(path: Path) -> list[Path]:
    """Return the copies of a ledger, newest first. They are numbered, so that a clock that is set back changes no order."""
    return sorted((one for one in path.parent.glob(f"{path.name}.copy-*") if _number(one)), key=_number, reverse=True)


def _number(copy: Path) -> int:
    found = _NUMBER.search(copy.name)
    return int(found[1]) if found else 0


class LedgerBackup:
    """Makes copies of an open ledger. ``changes`` is how many rows its connection had changed when the newest copy was made."""

    def __init__(self, connection: LedgerConnection, path: Path, changes: int) -> None:
        self._connection = connection
        self._path = path
        self._copied = changes
        self._lock = asyncio.Lock()

    async def make(self) -> Path | None:
        """Make a copy, unless nothing changed since the last one; return it. What fails is logged, and older copies stay."""
        async with self._lock:
            try:
                return await self._make()
            except apsw.CorruptError as error:
                log.error("the ledger is damaged: %s. Restart the gateway: it recovers what can be read.", error)  # noqa: TRY400
            except (StorageFailed, OSError, apsw.Error) as error:
                log.warning("the ledger could not be copied: %s", error)
            return None

    async def renew(self) -> None:
        """Make a copy and delete all older ones, which hold what was removed since. Where it fails, they stay."""
        older = await asyncio.to_thread(copies_of, self._path)
        self._copied = -1
        if await self.make() is not None:
            for one in older:
                await asyncio.to_thread(one.unlink, missing_ok=True)

    async def copy_to(self, place: Path) -> None:
        """Make a copy at ``place``, whatever changed, and check it. Raises StorageFailed, OSError, apsw.Error; nothing is left then."""
        async with self._lock:
            try:
                await self._copy(place)
                await asyncio.to_thread(_verify, place)
            except BaseException:  # also when cancelled
                await asyncio.to_thread(_delete, place)
                raise

    async def _make(self) -> Path | None:
        changes = await self._connection.run_outside(_total_changes)
        existing = await asyncio.to_thread(copies_of, self._path)
        if existing and changes == self._copied:
            return None
        number = 1 + max((_number(copy) for copy in existing), default=0)
        place = self._path.with_name(f"{self._path.name}.copy-{number:06}")
        unfinished = self._path.with_name(f"{self._path.name}.copy.part")
        try:
            await self._copy(unfinished)
            await asyncio.to_thread(_keep, unfinished, place, existing[KEPT - 1 :])
        finally:
            await asyncio.to_thread(_delete, unfinished)
        self._copied = changes
        return place

    async def _copy(self, place: Path) -> None:
        copying = _Copying(place)
        try:
            await self._connection.run_outside(copying.begin)
            while not await self._connection.run_outside(copying.step):
                pass
        finally:
            with contextlib.suppress(StorageFailed):  # a ledger that is closed has ended the copying
                await self._connection.run_outside(copying.end)


class _Copying:
    """One copy in progress. ``begin`` and ``step`` run on the ledger's thread, outside of transactions."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._target: apsw.Connection | None = None
        self._backup: Any = None

    def begin(self, engine: SqliteEngine) -> None:
        _delete(self._place)
        os.close(os.open(self._place, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        self._target = apsw.Connection(str(self._place))
        self._target.pragma("journal_mode", "OFF")  # a copy that is not finished is thrown away
        self._target.pragma("synchronous", "OFF")
        self._target.pragma("cache_size", -_CACHE_KIB)
        self._backup = self._target.backup("main", engine.db, "main")

    def step(self, _engine: SqliteEngine) -> bool:
        """Copy some pages; return whether that was all. What is written to the ledger meanwhile is copied too."""
        return bool(self._backup.step(PAGES))

    def end(self, engine: SqliteEngine) -> None:
        if self._backup is not None:
            self._backup.close(force=True)
        if self._target is not None:
            self._target.close()
        engine.db.pragma("shrink_memory")  # its cache is full of pages that nobody else asks for


def _total_changes(engine: SqliteEngine) -> int:
    return engine.db.total_changes()


def _keep(unfinished: Path, place: Path, too_many: list[Path]) -> None:
    """Verify a copy, give it its name, and delete those that are too many. Raises CorruptError for a copy that is damaged. Blocking."""
    _verify(unfinished)
    unfinished.replace(place)
    sync(place.parent)
    for old in too_many:
        old.unlink(missing_ok=True)


def _verify(unfinished: Path) -> None:
    """Check a copy and sync it. Raises CorruptError for one that is damaged. Blocking."""
    db = apsw.Connection(str(unfinished))
    try:
        db.pragma("locking_mode", "EXCLUSIVE")
        db.pragma("journal_mode", "DELETE")  # the copy needs no log beside it
        finding = db.pragma("integrity_check", 1)
    finally:
        db.close()
    if finding != "ok":
        raise apsw.CorruptError(str(finding))
    sync(unfinished)


def _delete(unfinished: Path) -> None:
    for side in ("", "-wal", "-journal"):
        unfinished.with_name(unfinished.name + side).unlink(missing_ok=True)


def newest_copy(path: Path) -> tuple[Path, dict[str, list[Row]]] | None:
    """Return the newest copy that is whole, with its rows; None when there is none. Blocking.

    No row is ``sure``: what happened after the copy was made is unknown.
    """
    for copy in copies_of(path):
        with contextlib.suppress(apsw.Error, OSError, UnicodeDecodeError):
            return copy, _rows(copy)
        log.warning("%s cannot be read", copy)
    return None


def _rows(copy: Path) -> dict[str, list[Row]]:
    from gateway.ledger.raw_tables import SHAPES

    db = apsw.Connection(str(copy), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        if db.pragma("application_id") != APPLICATION_ID or db.pragma("user_version") not in range(1, len(STEPS) + 1):
            raise apsw.NotADBError("it is no ledger of this version or an earlier one")
        if (finding := db.pragma("integrity_check", 1)) != "ok":
            raise apsw.CorruptError(str(finding))
        return {table: _read(db, table) for table in SHAPES}
    finally:
        db.close()


def _read(db: apsw.Connection, table: str) -> list[Row]:
    """Read a table. Columns that are newer than the copy are NULL."""
    from gateway.ledger.raw_tables import SHAPES, Row

    wanted = [column.partition(":")[0] for column in SHAPES[table].split()]
    present = {str(name) for (name,) in db.execute("SELECT name FROM pragma_table_info(?)", (table,))}
    columns = [name if name in present else "NULL" for name in wanted]
    found = db.execute(f"SELECT {', '.join(columns)} FROM {table}") if present else ()
    return [Row(dict(zip(wanted, values, strict=True)), sure=False) for values in found]
