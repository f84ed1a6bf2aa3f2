"""Opens the index file of an agent, replaces it if it is damaged, and says what errors of SQLite mean."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from memory.errors import IndexBroken, IndexBusy
from memory.settings import MemorySettings

if TYPE_CHECKING:
    from memory.store.index import Index
    from memory.store.sqlite.index_database import AllowedFeatures


class IndexFile:
    """Implements ``IndexEngine``. SQLite is loaded when the file is opened."""

    patience = None

    def __init__(self, path: Path, settings: MemorySettings, parts: AllowedFeatures | None = None) -> None:
        self._path = path
        self._settings = settings
        self._parts = parts
        self._opened: tuple[int, int] | None = None

    def open(self, now: datetime) -> tuple[Index, str]:
        """See the protocol."""
        from memory.store.sqlite.sqlite_index import SqliteIndex

        index = SqliteIndex.open(self._path, self._settings, now=now, parts=self._parts)
        self._opened = self._file()
        return index, index.database.notice

    def is_gone(self) -> bool:
        """See the protocol: the file was deleted, or there is another one in its place."""
        return self._file() != self._opened

    def put_away(self, index: Index, error: Exception, now: datetime) -> str:
        """See the protocol. The file is renamed."""
        from memory.store.sqlite.index_database import set_aside

        index.close()
        aside = set_aside(self._path, now)
        return f"The memory index was damaged (SQLite: {error}); it was renamed to {aside.name} and is being rebuilt."

    def _file(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def failures(self) -> tuple[type[Exception], ...]:
        """See the protocol."""
        import apsw

        return (apsw.Error,)

    def can_be_opened_anew(self, error: Exception) -> bool:
        """See the protocol."""
        import apsw

        return isinstance(error, apsw.CorruptError | apsw.NotADBError)

    def refusal(self, error: Exception) -> IndexBroken | None:
        """See the protocol."""
        import apsw

        if isinstance(error, apsw.FullError):
            return IndexBroken(
                f"the disk of {self._path} is full; search uses the last indexed state", hint="free some disk space"
            )
        if isinstance(error, apsw.BusyError):
            from memory.store.sqlite.index_database import BUSY_SECONDS

            return IndexBusy(
                f"another process has been writing to the memory index {self._path} for more than {BUSY_SECONDS} seconds",
                hint="Try again in a minute; if that does not help: homebody restart",
            )
        if isinstance(error, apsw.ReadOnlyError | apsw.CantOpenError | apsw.IOError):
            return IndexBroken(
                f"the memory index {self._path} cannot be written (SQLite: {error})", hint="homebody memory status"
            )
        return None
