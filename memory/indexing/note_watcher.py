"""Watches the folders of notes and transcripts for changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from contextlib import aclosing
from pathlib import Path

from memory.indexing.folder_watch import changes
from memory.notes.sources import NoteSources, is_note
from memory.notes.transcript_source import QUIET_SECONDS
from memory.protocol import Clock
from memory.settings import SyncSettings

log = logging.getLogger(__name__)

_LOOK_AGAIN_SECONDS = 30.0
"""How often files are checked while watching fails; also the longest back-off before the watch is restarted."""
_FIRST_BACK_OFF_SECONDS = 1.0
_STEP = 500
"""Milliseconds between two looks at what the kernel reported, which wake a thread, at rest too."""
_UNREADABLE_NAME = "Unable to decode path"
"""What watchfiles says of a changed file whose name is not UTF-8."""
_STEADY_SECONDS = 60.0
"""The back-off is reset after a watch that lasted this long."""


class NoteWatcher:
    """Calls ``touched`` when a note changes, and ``due`` after the debounce time and at each interval.

    ``grown`` is called with the names of transcripts in ``sessions`` that changed, and with None every ten minutes and whenever others
    may have changed, too; with ``follows`` the former alone, without a folder.
    """

    def __init__(
        self,
        sources: NoteSources,
        settings: SyncSettings,
        clock: Clock,
        *,
        touched: Callable[[], None],
        due: Callable[[], None],
        tell: Callable[[str], None],
        sessions: Path | None = None,
        follows: bool = False,
        grown: Callable[[Collection[str] | None], None] = lambda _: None,
    ) -> None:
        self._sources = sources
        self._settings = settings
        self._clock = clock
        self._touched = touched
        self._due = due
        self._tell = tell
        self._sessions = sessions
        self._follows = follows or sessions is not None
        self._grown = grown
        self._told = False
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start watching. Calling it again has no effect."""
        if self._tasks:
            return
        if self._settings.watch:
            self._tasks.append(asyncio.create_task(self._watch_notes()))
        if self._settings.interval_minutes > 0:
            self._tasks.append(asyncio.create_task(self._every_so_often(self._settings.interval_minutes * 60, self._due)))
        if self._follows:
            self._tasks.append(asyncio.create_task(self._every_so_often(QUIET_SECONDS, lambda: self._grown(None))))
            if self._settings.watch and self._sessions is not None:
                self._tasks.append(asyncio.create_task(self._watch(self._sessions)))

    async def close(self) -> None:
        """Stop watching."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    async def _every_so_often(self, seconds: float, call: Callable[[], None]) -> None:
        while True:
            await self._clock.sleep(seconds)
            call()

    async def _watch_notes(self) -> None:
        """Watch, anew where a folder of ``extraPaths`` was renamed: the kernel goes on telling of the one that was there."""
        if len(self._sources.roots) == 1:
            await self._watch()
            return
        moved = False
        while True:
            places = await asyncio.to_thread(self._sources.places)
            watch = asyncio.create_task(self._watch(failed=moved))
            try:
                while places == await asyncio.to_thread(self._sources.places):
                    await self._clock.sleep(_LOOK_AGAIN_SECONDS)
            finally:
                watch.cancel()
                await asyncio.wait([watch])
            moved = True

    async def _watch(self, sessions: Path | None = None, *, failed: bool = False) -> None:
        """Watch until cancelled. A watch that fails is restarted after a back-off, followed by one full check.

        A changed file whose name is not UTF-8 ends a watch too. That is no fault: the check finds the change, and names the file.
        """
        back_off = _FIRST_BACK_OFF_SECONDS
        while True:
            folders = await asyncio.to_thread(self._folders, sessions)
            if not folders:
                failed = True
                await self._clock.sleep(_LOOK_AGAIN_SECONDS)
                if sessions is None:
                    self._touched()
                continue
            began = self._clock.monotonic()
            try:
                await self._watch_folders(folders, ".jsonl" if sessions else "", look_first=failed)
            except (asyncio.CancelledError, KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:  # noqa: BLE001 - Rust's panics are no Exception
                named = _UNREADABLE_NAME in str(error)
                if not named:
                    self._tell_failure(error)
            else:
                named = False  # ended without an error
            failed = True
            if named or self._clock.monotonic() - began >= _STEADY_SECONDS:
                back_off = _FIRST_BACK_OFF_SECONDS
            await self._clock.sleep(back_off)
            back_off = min(back_off * 2, _LOOK_AGAIN_SECONDS)

    async def _watch_folders(self, folders: list[Path], ending: str, *, look_first: bool) -> None:
        from watchfiles import Change

        def wanted(change: object, path: str) -> bool:
            if ending or is_note(path.rsplit("/", 1)[-1]):
                return path.endswith(ending)
            if change == Change.modified or not self._sources.may_hold_notes(path):
                return False
            return change == Change.deleted or Path(path).is_dir()  # of a folder that is moved nothing else is told

        def changed(paths: Collection[str] | None = None) -> None:
            if not ending:
                self._touched()
                self._due()
            elif paths is None:
                self._grown(None)
            elif names := {path.name for path in map(Path, paths) if path.parent in folders}:  # not of those that were archived
                self._grown(names)

        quiet = self._settings.watch_debounce_ms
        watch = changes(
            folders,
            wanted,
            debounce=max(quiet, 50),
            step=min(max(quiet, 50), _STEP),
            begun=changed if look_first else lambda: None,  # so that no change is missed in between
        )
        async with aclosing(watch):
            async for paths in watch:
                changed(paths)

    def _tell_failure(self, error: BaseException) -> None:
        """Log every failure, and tell the owner about the first."""
        log.warning("watching the memory notes failed and is restarted: %s: %s", type(error).__name__, error)
        if not self._told:
            self._tell(
                f"Memory notes cannot be watched for changes ({error}). Until that works again, they are checked "
                f"every {_LOOK_AGAIN_SECONDS:g} seconds."
            )
        self._told = True

    def _folders(self, sessions: Path | None) -> list[Path]:
        wanted = self._sources.watched() if sessions is None else [sessions]
        return [folder for folder in wanted if folder.is_dir()]
