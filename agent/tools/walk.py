"""Going through the folders of a workspace, with the eyes of one audience."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import PurePosixPath

from agent.errors import WorkspaceFileError
from agent.tools.file_tool_context import FileToolContext
from agent.tools.os_errors import no_such_file
from agent.tools.workspace_sandbox import Entry
from memory.audience import Audience


def walk(
    desk: FileToolContext, start: PurePosixPath, audience: Audience, *, depth: int
) -> Iterator[tuple[PurePosixPath, Entry]]:
    """Yield what lies at or below ``start``, by name, ``depth`` folders deep; a folder comes before what is in it.

    Raises WorkspaceFileNotFound when nothing stands at ``start``; a folder further down that cannot be read is passed over.
    """
    kind = desk.enclosure.kind(start)
    if kind is None:
        raise no_such_file(start)
    if kind == "folder":
        yield from _below(desk, start, audience, depth)
        return
    stamp = desk.enclosure.stamp(start)
    yield start, Entry(start.name, kind, stamp.size if stamp else 0)


def _below(
    desk: FileToolContext, folder: PurePosixPath, audience: Audience, depth: int
) -> Iterator[tuple[PurePosixPath, Entry]]:
    for entry in desk.enclosure.scan(folder):
        path = folder / entry.name
        if not desk.visible(path, audience):
            continue
        yield path, entry
        if entry.kind == "folder" and depth > 1:
            with contextlib.suppress(WorkspaceFileError):  # removed meanwhile, no permission, or a link was put in its place
                yield from _below(desk, path, audience, depth - 1)
