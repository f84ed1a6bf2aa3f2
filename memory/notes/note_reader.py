"""Reads notes: whole files for the index, excerpts for tools, and all of them for an export."""

from __future__ import annotations

import codecs
import errno
import hashlib
import os
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from memory.errors import MemoryTrouble, MemoryUnreadable
from memory.notes.sources import LINK, UNREADABLE, NoteSources, Stamp, open_beneath, stamp_of
from memory.protocol import Excerpt

LARGEST_FILE = 16 * 1024 * 1024
"""Largest note that is indexed, in bytes. A larger file is probably a log or an export and would crowd out other notes."""

MOST_LINES = 400
MOST_CHARS = 12_000
_PIECE = 65_536
_SNIFF = 8_192


class NoteContent(Struct, frozen=True):
    """A whole note. ``digest`` is the SHA-256 of its bytes; ``remark`` is a warning for the owner, or ""."""

    text: str
    digest: bytes
    stamp: Stamp
    remark: str = ""


def read_note(sources: NoteSources, path: str) -> NoteContent:
    """Read a note for the index.

    Raises:
        MemoryUnreadable: it is not among the sources, gone, too long, or not text; the message names it.
    """
    placed = sources.place(path)
    if placed is None:
        raise MemoryUnreadable(f"{path} is not a note of this memory", hint="What is indexed: homebody memory status")
    try:
        with open_beneath(*placed) as file:
            stamp = stamp_of(os.fstat(file))
            if stamp.size > LARGEST_FILE:
                raise MemoryUnreadable(
                    f"{path} has {stamp.size / 1e6:.0f} MB; notes over {LARGEST_FILE / 1e6:.0f} MB are not indexed",
                    hint="split it into smaller files",
                )
            with os.fdopen(os.dup(file), "rb") as stream:
                data = stream.read(LARGEST_FILE + 1)
    except OSError as error:
        raise _unreadable(path, error) from error
    remark = "" if _is_utf(data) else f"{path} is not valid UTF-8; invalid lines were read as Windows-1252. Save it as UTF-8"
    return NoteContent(decode(data, path), hashlib.sha256(data).digest(), stamp, remark)


def decode(data: bytes, path: str) -> str:
    """Decode a note: UTF-8, or UTF-16 with a byte order mark. Lines that are not valid UTF-8 are read as Windows-1252.

    Raises:
        MemoryUnreadable: it holds zero bytes, as binary files do.
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")
    if b"\x00" in data[:_SNIFF]:
        raise MemoryUnreadable(
            f"{path} is a binary file, or UTF-16 without a byte order mark",
            hint="save it as UTF-8, or rename it so that it does not end in .md",
        )
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\n".join(map(_line, data.split(b"\n")))
    return text.replace("\x00", "\ufffd")


def _line(raw: bytes) -> str:
    """Decode one line; the five bytes that Windows-1252 does not define become U+FFFD."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("cp1252", "replace")


def _is_utf(data: bytes) -> bool:
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def read_lines(sources: NoteSources, path: str, *, from_line: int, lines: int | None) -> Excerpt:
    """Read ``lines`` lines from ``from_line`` on, at most 400 lines and 12,000 characters; files of any length can be read.

    If something is left out, the text ends with a line that says how to continue.

    Raises:
        MemoryUnreadable: it is not among the sources, gone, or not text.
    """
    placed = sources.place(path)
    if placed is None:
        raise MemoryUnreadable(f"{path} is not a note of this memory", hint="What is indexed: homebody memory status")
    try:
        with open_beneath(*placed) as file, os.fdopen(os.dup(file), "rb") as stream:
            return _excerpt(stream, path, max(1, from_line), min(lines or MOST_LINES, MOST_LINES), asked=lines)
    except OSError as error:
        raise _unreadable(path, error) from error


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
        line = decode(raw, path) if first + len(picked) == 1 else _line(raw).replace("\x00", "\ufffd")
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
    """Skip ``lines`` lines without keeping them in memory; return whether the file is that long."""
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
        text += f"\n[truncated; continue with from={last + 1}]"
    return Excerpt(path=path, text=text, start_line=first, end_line=last, cut=cut)


def _cut_in_line(picked: list[str], line: str, path: str, first: int) -> Excerpt:
    """Stop before a line that does not fit, or truncate it if it is the first."""
    if picked:
        return _done(picked, path, first, cut=True)
    text = f"{line}\n[truncated: line {first} is longer than {MOST_CHARS} characters; continue with from={first + 1}]"
    return Excerpt(path=path, text=text, start_line=first, end_line=first, cut=True)


def _unreadable(path: str, error: OSError) -> MemoryUnreadable:
    if error.errno == errno.ELOOP:
        return MemoryUnreadable(f"{path} {UNREADABLE}: {LINK}", hint="homebody memory status")
    return MemoryUnreadable(f"{path} {UNREADABLE}: {error.strerror}", hint=_hint(error, path))


def _hint(error: OSError, path: str) -> str:
    if isinstance(error, PermissionError):
        return f"chmod u+r {path}"
    return "" if isinstance(error, FileNotFoundError) else "homebody memory status"


_COPY_BYTES = 1 << 20


def export_notes(sources: NoteSources, target: Path) -> int:
    """Write every note, byte for byte, to a new zip file at ``target``, and return their number.

    Raises:
        MemoryTrouble: the file already exists, or cannot be written.
    """
    import zipfile

    count = 0
    try:
        with zipfile.ZipFile(target, "x", zipfile.ZIP_DEFLATED) as archive:
            for found in sources.walk():
                placed = sources.place(found.path)
                if found.trouble or placed is None:
                    continue
                with open_beneath(*placed) as fd, archive.open(found.path, "w", force_zip64=True) as inside:
                    while piece := os.read(fd, _COPY_BYTES):
                        inside.write(piece)
                count += 1
    except OSError as error:
        raise MemoryTrouble(
            f"the notes cannot be written to {target}: {error.strerror}", hint="choose another file name"
        ) from error
    return count
