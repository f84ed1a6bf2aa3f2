"""Writes what others changed into a workspace. What somebody changes at the same moment is joined with it, or both are kept."""

from __future__ import annotations

import contextlib
import logging
import os
import stat
from collections.abc import Callable, MutableMapping
from datetime import date
from pathlib import Path, PurePosixPath
from typing import Final

from agent.errors import StaleFile, WorkspaceFileError, WorkspaceFileNotFound
from agent.tools.workspace_sandbox import WorkspaceSandbox
from gateway.workspaces.commit_stream import PROGRAM, blob_of
from gateway.workspaces.merging import Beside, Lines, beside_names

log = logging.getLogger(__name__)

_TRIES: Final = 5


class FolderWriter:
    """Changes files of one workspace through the sandbox that its tools use, so that they and we never write one file at once.

    ``unapplied`` keeps what could not be written: the name of the content that the folder had ("": none), and why. ``lines`` joins texts,
    ``beside`` is told of each version that is about to be put beside another one. All methods block.
    """

    def __init__(
        self,
        sandbox: WorkspaceSandbox,
        unapplied: MutableMapping[str, tuple[str, str]],
        *,
        lines: Lines,
        day: Callable[[], date],
        beside: Callable[[Beside], None],
    ) -> None:
        self._sandbox = sandbox
        self._unapplied = unapplied
        self._lines = lines
        self._day = day
        self._beside = beside

    def write(self, path: str, before: bytes | None, after: bytes | None, mode: str = "") -> None:
        """Change a file from ``before`` into ``after``; None stands for no file. What cannot be written is noted and not raised."""
        self._unapplied.pop(path, None)
        try:
            self._patiently(path, before, after)
            if after is not None:
                _make_program(self._sandbox.root, path, program=mode == PROGRAM)
        except (WorkspaceFileError, OSError) as error:
            self._unapplied[path] = ("" if before is None else blob_of(before), str(error))
            log.warning("%s was not brought up to date: %s", path, error)

    def _patiently(self, path: str, before: bytes | None, after: bytes | None) -> None:
        for _ in range(_TRIES):
            with contextlib.suppress(StaleFile):
                self._swap(path, before, after)
                return
        raise WorkspaceFileError(f"{path} is changed all the time")

    def _swap(self, path: str, before: bytes | None, after: bytes | None) -> None:
        place, now = PurePosixPath(path), self._now(path)
        if now == after:
            return
        if after is None:
            if now is not None and now == before:
                self._sandbox.remove(place, expected=now)
                _remove_empty(self._sandbox.root, place.parent)
        elif now is None:
            self._sandbox.create(place, after)
        elif now == before:
            self._sandbox.replace(place, after, expected=now)
        elif before is not None and b"\0" not in now + after and (text := self._lines(before, now, after)) is not None:
            self._sandbox.replace(place, text, expected=now)
        else:
            self._put_beside(path, after)

    def _put_beside(self, path: str, theirs: bytes) -> None:
        for name in beside_names(path, self._day()):
            there = self._now(name)
            if there == theirs:
                return
            if there is None:
                self._beside(Beside(path, name))
                self._sandbox.create(PurePosixPath(name), theirs)
                return

    def _now(self, path: str) -> bytes | None:
        try:
            return self._sandbox.read(PurePosixPath(path)).data
        except WorkspaceFileNotFound:
            return None


def _make_program(root: Path, path: str, *, program: bool) -> None:
    """Set or clear the right of a file's owner to run it. A path with a link in it is left as it is."""
    place = root / path
    if os.path.realpath(place) == str(place):
        mode = place.stat().st_mode
        wanted = mode | stat.S_IXUSR if program else mode & ~(stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        if wanted != mode:
            place.chmod(wanted)


def _remove_empty(root: Path, folder: PurePosixPath) -> None:
    """Remove a folder that holds nothing any more, and those above it."""
    while folder.parts:
        place = root / folder
        if place.resolve() != place:
            return
        try:
            place.rmdir()
        except OSError:
            return
        folder = folder.parent
