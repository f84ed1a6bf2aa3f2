"""Translates errors of the operating system into messages that a model and an owner can act on."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import PurePosixPath

from agent.errors import PathNotAllowed, WorkspaceFileError, WorkspaceFileNotFound, WorkspaceNotWritable

_WORDS: dict[int, tuple[type[WorkspaceFileError], str, str]] = {
    errno.ENOSPC: (WorkspaceNotWritable, "was not changed: the disk is full", "free some space, then try again"),
    errno.EDQUOT: (WorkspaceNotWritable, "was not changed: the disk quota is used up", "free some space, then try again"),
    errno.EFBIG: (
        WorkspaceNotWritable,
        "was not changed: it would be larger than files may be here",
        "write a new file instead",
    ),
    errno.EROFS: (WorkspaceNotWritable, "was not changed: the workspace is read-only", "make the workspace writable"),
    errno.EACCES: (WorkspaceNotWritable, "may not be touched by this program", "check who owns the workspace folder"),
    errno.EPERM: (WorkspaceNotWritable, "may not be touched by this program", "check who owns the workspace folder"),
    errno.EEXIST: (WorkspaceFileError, "exists already", ""),
    errno.EISDIR: (PathNotAllowed, "is a folder", "use list to see what is in it"),
    errno.ELOOP: (PathNotAllowed, "is a link, and links are not followed", ""),
    errno.ENAMETOOLONG: (PathNotAllowed, "has a name that is too long", ""),
    errno.ENXIO: (PathNotAllowed, "is not a plain file (a pipe, socket or device)", ""),
}


def no_such_file(path: PurePosixPath | str) -> WorkspaceFileNotFound:
    """Say that a file is missing, in the one form that is also used for what an audience may not see."""
    return WorkspaceFileNotFound(f"{path}: no such file here; list shows what there is")


@contextlib.contextmanager
def translated(path: PurePosixPath) -> Iterator[None]:
    """Turn an OSError about ``path`` into the WorkspaceFileError that says what to do."""
    try:
        yield
    except OSError as error:
        raise _trouble(error, path) from error


def _trouble(error: OSError, path: PurePosixPath) -> WorkspaceFileError:
    if error.errno in {errno.ENOENT, errno.ENOTDIR}:
        return no_such_file(path)
    kind, what, hint = _WORDS.get(error.errno or 0, (WorkspaceFileError, f"cannot be used: {error.strerror or error}", ""))
    return kind(f"{path} {what}", hint=hint)
