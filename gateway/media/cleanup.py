"""Deletes old received files from the ``inbox`` folders, and temporary files left by a crash."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import Final

from agent.errors import WorkspaceFileError
from agent.tools.workspace_sandbox import Stamp, WorkspaceSandbox
from gateway.settings.messages import AttachmentSettings
from memory.audience import INBOX

log = logging.getLogger(__name__)

_OURS: Final = re.compile(r"[0-9a-f]{16}-[0-9]+-.+")
"""File names that ``gateway.media.incoming`` creates; no other file is deleted."""
_LEFT_AFTER: Final = timedelta(days=1)


def sweep_inboxes(enclosure: WorkspaceSandbox, settings: AttachmentSettings, now: datetime) -> int:
    """Delete expired files, then the oldest while the total size is too large; return how many. Does blocking I/O."""
    found = sorted((stamp.modified_ns, str(path), stamp.size) for path, stamp in _received(enclosure))
    held, gone = sum(size for _, _, size in found), 0
    oldest = (now - timedelta(days=settings.keep_days)).timestamp() * 1e9 if settings.keep_days else 0
    for modified, path, size in found:
        if modified >= oldest and (not settings.keep_bytes or held <= settings.keep_bytes):
            break
        if _removed(enclosure, PurePosixPath(path), size):
            held, gone = held - size, gone + 1
    return gone


def sweep_incoming(folder: Path, now: datetime) -> None:
    """Delete unfinished downloads of an earlier process. Does blocking I/O."""
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        if now.timestamp() - path.stat().st_mtime > _LEFT_AFTER.total_seconds():
            path.unlink(missing_ok=True)


def _received(enclosure: WorkspaceSandbox) -> Iterator[tuple[PurePosixPath, Stamp]]:
    for folder in _inboxes(enclosure):
        for entry in enclosure.scan(folder):
            if entry.kind == "file" and _OURS.fullmatch(entry.name):
                stamp = enclosure.stamp(folder / entry.name)
                if stamp is not None:
                    yield folder / entry.name, stamp


def _inboxes(enclosure: WorkspaceSandbox) -> Iterator[PurePosixPath]:
    parents = [PurePosixPath()]
    for kind in ("groups", "peers"):
        above = PurePosixPath("memory", kind)
        if enclosure.kind(above) == "folder":
            parents += [above / entry.name for entry in enclosure.scan(above) if entry.kind == "folder"]
    yield from (parent / INBOX for parent in parents if enclosure.kind(parent / INBOX) == "folder")


def _removed(enclosure: WorkspaceSandbox, path: PurePosixPath, size: int) -> bool:
    try:
        enclosure.remove(path, expected=enclosure.read(path, limit=size).data)
    except WorkspaceFileError as trouble:
        log.warning("an old file could not be deleted: %s", trouble)
        return False
    return True
