"""Trees and commits as values, and commits as `git fast-import` reads them."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final, TypeAlias

from msgspec import Struct

FILE: Final = "100644"
PROGRAM: Final = "100755"


class Entry(Struct, frozen=True, gc=False):
    """What a tree says of one path: its mode, the name of its content, and the bytes of that.

    There are as many as files, and a collection that looks through all of them stops every thread.
    """

    mode: str
    blob: str
    size: int = 0

    @property
    def plain(self) -> bool:
        """Whether it is a file, and no link or repository."""
        return self.mode in {FILE, PROGRAM}


Tree: TypeAlias = "dict[str, Entry]"
"""The paths of a commit. Names that are not UTF-8 are as ``os.fsdecode`` gives them."""


class Written(Struct, frozen=True, gc=False):
    """A path as a commit changes it: ``entry`` with its content named, or ``data`` with it; neither removes the path."""

    path: str
    mode: str = FILE
    blob: str = ""
    data: bytes | None = None


class NewCommit(Struct, frozen=True, kw_only=True):
    """A commit to be made. ``author`` is a name, from which an address follows."""

    author: str
    message: str
    changes: Sequence[Written] | Iterable[Written]


def commit_stream(commits: Sequence[NewCommit], parents: Sequence[str], at: datetime, ref: str) -> Iterator[bytes]:
    """Yield what makes commits, each on the one before it and the first on ``parents``, and prints the name of the last."""
    stamp = f"{int(at.timestamp())} +0000"
    yield b"feature done\n"
    for number, one in enumerate(commits, start=1):
        yield f"commit {ref}\nmark :{number}\n".encode()
        who = f"{_plain(one.author)} <{re.sub(r'[^A-Za-z0-9._-]+', '-', one.author)[:60]}@homebody.invalid>"
        yield f"author {who} {stamp}\ncommitter Homebody <gateway@homebody.invalid> {stamp}\n".encode()
        yield _data(one.message.encode("utf-8", "replace"))
        first = parents if number == 1 else (f":{number - 1}",)
        yield "".join(f"{word} {parent}\n" for word, parent in zip(("from", "merge"), first, strict=False)).encode()
        for change in one.changes:
            yield from _change(change)
    yield f"get-mark :{len(commits)}\ndone\n".encode()


def blob_of(data: bytes) -> str:
    """Return the name that git gives a content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _change(change: Written) -> Iterator[bytes]:
    name = b'"' + os.fsencode(change.path).replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'
    if change.data is not None:
        yield b"M " + change.mode.encode() + b" inline " + name + b"\n"
        yield _data(change.data)
    elif change.blob:
        yield f"M {change.mode} {change.blob} ".encode() + name + b"\n"
    else:
        yield b"D " + name + b"\n"


def _data(content: bytes) -> bytes:
    return b"data %d\n" % len(content) + content + b"\n"


def _plain(name: str) -> str:
    return re.sub(r"[<>\s]+", " ", name).strip()[:80] or "somebody"
