"""Reading notes: whole files for the index, a few lines for whoever asked, whatever the bytes are."""

from __future__ import annotations

import codecs
import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memory.errors import MemoryUnreadable
from memory.protocol import Excerpt
from memory.sources import Sources, Stamp, open_beneath, stamp_of

if TYPE_CHECKING:
    from typing import BinaryIO

LARGEST_FILE = 16 * 1024 * 1024
"""Bytes of a note that is still indexed. A longer one is a log or an export, and would crowd out everything else."""

MOST_LINES = 400
MOST_CHARS = 12_000
_PIECE = 65_536
_SNIFF = 8_192


@dataclass(frozen=True, slots=True)
class Content:
    """A whole note. ``digest`` is the SHA-256 of its bytes."""

    text: str
    digest: bytes
    stamp: Stamp


def read_whole(sources: Sources, path: str) -> Content:
    """Read a note for the index.

    Raises:
        MemoryUnreadable: it is not among the sources, gone, too long, or not text; the message names it.
    """
    placed = sources.place(path)
    if placed is None:
        raise MemoryUnreadable(f"{path} is not one of the memory's files", mend="homebody memory status")
    try:
        with open_beneath(*placed) as file:
            stamp = stamp_of(os.fstat(file))
            if stamp.size > LARGEST_FILE:
                raise MemoryUnreadable(
                    f"{path} has {stamp.size / 1e6:.0f} MB; notes over {LARGEST_FILE / 1e6:.0f} MB are not indexed",
                    mend="split it into smaller files",
                )
            with os.fdopen(os.dup(file), "rb") as stream:
                data = stream.read(LARGEST_FILE + 1)
    except OSError as error:
        raise MemoryUnreadable(f"{path} cannot be read: {error.strerror}", mend=_mend(error, path)) from error
    return Content(decode(data, path), hashlib.sha256(data).digest(), stamp)


def decode(data: bytes, path: str) -> str:
    """Turn the bytes of a note into text: UTF-8, or UTF-16 by its mark. Bytes that are no characters become U+FFFD.

    Raises:
        MemoryUnreadable: it holds zero bytes, as binary files do.
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")
    if b"\x00" in data[:_SNIFF]:
        raise MemoryUnreadable(f"{path} is a binary file, not Markdown", mend="give it another ending than .md")
    return data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace").replace("\x00", "\ufffd")


def read_lines(sources: Sources, path: str, *, from_line: int, lines: int | None) -> Excerpt:
    """Read ``lines`` lines from ``from_line`` on, at most 400 lines and 12,000 characters; files of any length can be read.

    Where something is left out, the text ends with a line that says how to go on.

    Raises:
        MemoryUnreadable: it is not among the sources, gone, or not text.
    """
    placed = sources.place(path)
    if placed is None:
        raise MemoryUnreadable(f"{path} is not one of the memory's files", mend="homebody memory status")
    try:
        with open_beneath(*placed) as file, os.fdopen(os.dup(file), "rb") as stream:
            return _excerpt(stream, path, max(1, from_line), min(lines or MOST_LINES, MOST_LINES), asked=lines)
    except OSError as error:
        raise MemoryUnreadable(f"{path} cannot be read: {error.strerror}", mend=_mend(error, path)) from error


def _excerpt(stream: BinaryIO, path: str, first: int, count: int, *, asked: int | None) -> Excerpt:
    head = stream.read(2)
    if head in {codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE}:
        return _utf16_excerpt(head + stream.read(LARGEST_FILE), path, first, count, asked=asked)
    stream.seek(0)
    if not _skip(stream, first - 1):
        return Excerpt(path=path, text="", start_line=first, end_line=first - 1)
    picked: list[str] = []
    room = MOST_CHARS
    while len(picked) < count:
        raw = stream.readline(4 * room + 4)
        if not raw:
            return _done(picked, path, first)
        line = decode(raw, path) if first + len(picked) == 1 else raw.decode("utf-8", "replace").replace("\x00", "\ufffd")
        whole = raw.endswith(b"\n") or not stream.peek(1)  # type: ignore[attr-defined]  # fdopen gives a BufferedReader
        line = line.rstrip("\n").removesuffix("\r")
        if len(line) > room or not whole:
            return _cut_in_line(picked, line[:room], path, first)
        picked.append(line)
        room -= len(line) + 1
        if room <= 0:
            break
    more = bool(stream.peek(1))  # type: ignore[attr-defined]  # the same
    return _done(picked, path, first, cut=more and (asked is None or len(picked) < asked))


def _utf16_excerpt(data: bytes, path: str, first: int, count: int, *, asked: int | None) -> Excerpt:
    rows = decode(data, path).split("\n")
    picked: list[str] = []
    room = MOST_CHARS
    for row in rows[first - 1 : first - 1 + count]:
        line = row.removesuffix("\r")
        if len(line) > room:
            return _cut_in_line(picked, line[:room], path, first)
        picked.append(line)
        room -= len(line) + 1
    more = first - 1 + len(picked) < len(rows)
    return _done(picked, path, first, cut=more and (asked is None or len(picked) < asked))


def _skip(stream: BinaryIO, lines: int) -> bool:
    """Move behind the first ``lines`` lines without holding any of them; say whether the file is that long."""
    while lines:
        piece = stream.readline(_PIECE)
        if not piece:
            return False
        lines -= piece.endswith(b"\n")
    return True


def _done(picked: list[str], path: str, first: int, *, cut: bool = False) -> Excerpt:
    last = first + len(picked) - 1
    text = "\n".join(picked)
    if cut:
        text += f"\n[cut here; go on with from={last + 1}]"
    return Excerpt(path=path, text=text, start_line=first, end_line=last, cut=cut)


def _cut_in_line(picked: list[str], line: str, path: str, first: int) -> Excerpt:
    """End before a line that does not fit, or within it when it is the first one."""
    if picked:
        return _done(picked, path, first, cut=True)
    text = f"{line}\n[cut here: line {first} is longer than {MOST_CHARS} characters; go on with from={first + 1}]"
    return Excerpt(path=path, text=text, start_line=first, end_line=first, cut=True)


def _mend(error: OSError, path: str) -> str:
    if isinstance(error, PermissionError):
        return f"chmod u+r {path}"
    return "" if isinstance(error, FileNotFoundError) else "homebody memory status"
