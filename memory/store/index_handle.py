"""Handle of an index file: opens it on first use, and replaces it if it is damaged."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from memory.errors import IndexBroken
from memory.protocol import Clock
from memory.settings import MemorySettings
from memory.store.database import AllowedFeatures
from memory.store.index import Index
from memory.store.index_thread import IndexThread

T = TypeVar("T")


class IndexHandle:
    """Opens an index file and runs work on its thread.

    ``tell`` takes sentences for the owner; ``on_rebuild`` is called after a damaged index was replaced by an empty one.
    """

    def __init__(
        self,
        store: Path,
        settings: MemorySettings,
        clock: Clock,
        *,
        agent: str,
        tell: Callable[[str], None],
        on_rebuild: Callable[[], None],
        parts: AllowedFeatures | None = None,
    ) -> None:
        self.thread = IndexThread(f"memory of {agent}")
        self._store = store
        self._settings = settings
        self._clock = clock
        self._tell = tell
        self._renewed = on_rebuild
        self._parts = parts
        self._opened: Index | None = None
        self._opening = asyncio.Lock()

    async def index(self) -> Index:
        """Return the index, opened if it is not yet."""
        async with self._opening:
            if self._opened is None:
                self._opened = await self.thread.run(self._open)
                if self._opened.database.told:
                    self._tell(self._opened.database.told)
            return self._opened

    async def run(self, work: Callable[[Index], T]) -> T:
        """Run ``work`` on the index, ahead of background work."""

        async def on_thread() -> T:
            index = await self.index()
            return await self.thread.run(lambda: work(index))

        return await self.recovering(on_thread)

    async def run_until_done(self, step: Callable[[], bool]) -> None:
        """Repeat a background step until it returns False; searches run in between."""
        more = True
        while more:
            more = await self.thread.run(step, urgent=False)

    async def recovering(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run ``work``; if the file turns out to be damaged, rename it and run ``work`` again on a new one.

        Raises:
            IndexBroken: the disk is full, or the file cannot be written.
        """
        import apsw

        try:
            return await work()
        except (apsw.CorruptError, apsw.NotADBError) as error:
            await self._set_aside(str(error))
        except apsw.FullError as error:
            raise IndexBroken(
                f"the disk of {self._store} is full; search uses the last indexed state", hint="free some disk space"
            ) from error
        except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.IOError, apsw.BusyError) as error:
            raise IndexBroken(
                f"the memory index {self._store} cannot be written (SQLite: {error})", hint="homebody memory status"
            ) from error
        return await work()

    async def close(self) -> None:
        """Close the file and end the thread."""
        await self.thread.close(lambda: self._opened.close() if self._opened else None)

    def _open(self) -> Index:
        from memory.store.index import Index

        return Index.open(self._store, self._settings, now=self._clock.now(), parts=self._parts)

    async def _set_aside(self, reason: str) -> None:
        from memory.store.database import set_aside

        async with self._opening:
            broken, self._opened = self._opened, None
            if broken is None:
                return

            def put_away() -> Path:
                broken.close()
                return set_aside(self._store, self._clock.now())

            aside = await self.thread.run(put_away)
        self._tell(f"The memory index was damaged (SQLite: {reason}); it was renamed to {aside.name} and is being rebuilt.")
        self._renewed()
