"""The files of a backup as a compressed tar stream, in the format that ``tar xz`` reads too.

Own framing because Python's tarfile, given a forged stream, reads headers of any length into memory, and takes links and devices. Only
plain files are written and accepted; links and empty folders are in the manifest.
"""

from __future__ import annotations

import os
import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Final, Protocol

from gateway.base.errors import BackupUnusable

CHUNK: Final = 256 * 1024
LEVEL: Final = 3
"""Of zlib: nearly as small as the usual level for text, in half the time."""
_BLOCK: Final = tarfile.BLOCKSIZE
_LONGEST_NAME: Final = 16 * 1024
_GZIP: Final = 31
_ZEROS: Final = bytes(_BLOCK)


class Writes(Protocol):
    """The part of a file that is needed here."""

    def write(self, data: bytes, /) -> object:
        """Write all of it."""
        ...


class ArchiveWriter:
    """Writes files, one after another, into ``target``. ``size`` is what was written so far, compressed."""

    def __init__(self, target: Writes) -> None:
        self._target = target
        self._packer = zlib.compressobj(LEVEL, zlib.DEFLATED, _GZIP)

    def add(self, path: str, size: int, mode: int, changed_at: int, chunks: Iterator[bytes]) -> None:
        """Write one file, whose ``chunks`` have ``size`` bytes altogether."""
        info = tarfile.TarInfo(path)
        info.size, info.mode, info.mtime = size, mode & 0o777, max(0, changed_at)
        self._put(info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape"))
        written = 0
        for chunk in chunks:
            self._put(chunk)
            written += len(chunk)
        assert written == size, f"{path}: {written} bytes instead of {size}"
        self._put(bytes(-size % _BLOCK))

    def close(self) -> None:
        """Write the end of the archive."""
        self._put(_ZEROS * 2)
        self._target.write(self._packer.flush())

    def _put(self, data: bytes) -> None:
        if packed := self._packer.compress(data):
            self._target.write(packed)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedFile:
    """A file that is being read. ``chunks`` must be used up."""

    path: str
    size: int
    mode: int
    changed_at: int
    chunks: Iterator[bytes]


class ArchiveReader:
    """Reads the files in order."""

    def __init__(self, source: IO[bytes], where: str) -> None:
        self._source = source
        self._where = where
        self._unpacker = zlib.decompressobj(_GZIP)
        self._ready = bytearray()

    def read_all(self, take: Callable[[ArchivedFile], None]) -> None:
        """Read to the end, and pass each file to ``take``. Raises BackupUnusable for a stream that is cut off, damaged or not ours."""
        name = ""
        while (block := self._exactly(_BLOCK)) != _ZEROS:
            try:
                info = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
            except tarfile.HeaderError as error:
                raise self._damaged(f"a header in it cannot be read ({error})") from error
            if info.type == tarfile.GNUTYPE_LONGNAME:
                if name or info.size > _LONGEST_NAME:
                    raise self._damaged("a name in it is too long")
                name = os.fsdecode(self._exactly(info.size).rstrip(b"\0"))
                self._exactly(-info.size % _BLOCK)
                continue
            if info.type not in {tarfile.REGTYPE, tarfile.AREGTYPE} or info.size < 0:
                raise self._damaged(f"it has an entry that is no plain file: {name or info.name!r}")
            path, chunks = name or info.name, self._chunks(info.size)
            take(ArchivedFile(path=path, size=info.size, mode=info.mode, changed_at=int(info.mtime), chunks=chunks))
            self._exactly(-info.size % _BLOCK)
            name = ""
        self._exactly(_BLOCK)
        self._end()

    def _chunks(self, size: int) -> Iterator[bytes]:
        while size:
            chunk = self._exactly(min(size, CHUNK))
            size -= len(chunk)
            yield chunk

    def _exactly(self, size: int) -> bytes:
        while len(self._ready) < size:
            more = self._more()
            if not more and self._unpacker.eof:
                raise self._damaged("it is cut off")
            self._ready += more
        data = bytes(self._ready[:size])
        del self._ready[:size]
        return data

    def _more(self) -> bytes:
        """Unpack the next piece, which is bounded however well it was packed."""
        try:
            if self._unpacker.eof:
                return b""
            packed = self._unpacker.unconsumed_tail or self._source.read(CHUNK // 4)
            data = self._unpacker.decompress(packed, CHUNK)
        except zlib.error as error:
            raise self._damaged(f"its compressed bytes are damaged ({error})") from error
        if not packed and not data and not self._unpacker.eof:
            raise self._damaged("it is cut off")
        return data

    def _end(self) -> None:
        """See to it that nothing follows, so that the checksum of the compressed stream was reached."""
        while not self._unpacker.eof:
            if self._more().strip(b"\0"):
                raise self._damaged("there is more behind its end")
        if self._unpacker.unused_data or self._source.read(1):
            raise self._damaged("there is more behind its end")

    def _damaged(self, what: str) -> BackupUnusable:
        return BackupUnusable(
            f"this backup cannot be used: {what}", where=self._where, hint="Take another copy: homebody backup list"
        )
