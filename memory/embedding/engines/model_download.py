"""Downloads model files from a hub: resumes interrupted downloads, verifies checksums and renames the file at the end."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import hashlib
import importlib
import json
import os
import re
import shutil
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from msgspec import Struct

from memory.errors import EmbeddingFailed

if TYPE_CHECKING:
    import httpx2

_SHA256 = re.compile(r"[0-9a-f]{64}")
_PIECE = 1 << 20
_READ_SECONDS = 30.0
_FRUITLESS_TRIES = 4
"""A download fails after this many attempts in a row without a single byte."""

_SPARE = 256 << 20
"""Bytes of disk space that a download must leave free: the disk also holds the notes."""

_PARTIAL, _MISSING, _GONE = 206, 404, 416


class DownloadProgress(Protocol):
    """Callback for progress: the file's name, the bytes downloaded, and the total (None if unknown)."""

    def __call__(self, name: str, done: int, total: int | None) -> None:
        """Called from the event loop, about once per megabyte."""
        ...


class HubFile(Struct, frozen=True):
    """A file of a model hub: ``hf:owner/repo/path/file.gguf``, with ``#revision`` if it is not on main."""

    repo: str
    path: str
    revision: str = "main"

    @classmethod
    def parse(cls, uri: str) -> HubFile:
        """Read an ``hf:`` address. Raises ``EmbeddingFailed`` for any other text."""
        match = re.fullmatch(r"hf:(?://)?([\w.-]+/[\w.-]+)/([\w./ -]+?)(?:#([\w./-]+))?", uri)
        if match is None or ".." in uri.split("/"):
            raise EmbeddingFailed(f"{uri!r} is not a model address.", hint="Write it as hf:owner/repo/file.gguf.")
        return cls(match.group(1), match.group(2), match.group(3) or "main")

    def __str__(self) -> str:
        """Return the ``hf:`` address."""
        return f"hf:{self.repo}/{self.path}" + ("" if self.revision == "main" else f"#{self.revision}")

    def url(self, hub: str) -> str:
        """Return its URL at the hub."""
        return f"{hub.rstrip('/')}/{self.repo}/resolve/{quote(self.revision, safe='')}/{quote(self.path)}"

    def place(self, cache_dir: Path) -> Path:
        """Return its path on this machine."""
        folder = self.repo.replace("/", "--") + ("" if self.revision == "main" else f"--{self.revision.replace('/', '-')}")
        return cache_dir / folder / self.path


class _Expected(Struct, frozen=True):
    """Metadata of a file at the hub."""

    size: int | None
    sha256: str | None


async def download(
    file: HubFile,
    *,
    cache_dir: Path,
    hub_url: str,
    progress: DownloadProgress | None = None,
    may_be_missing: bool = False,
    pause: float = 1.0,
    free_bytes: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free,
) -> Path:
    """Return the path of ``file`` on this machine; download it if it does not exist yet.

    What was fetched so far is kept beside it as ``.part`` and continued, in this call after a broken connection, and in a later
    one. Size and SHA-256 are checked when the hub tells them. ``pause`` is the wait in seconds before a second try, doubled
    each time. Raises ``EmbeddingFailed``; a hub that has no such file is no failure when it ``may_be_missing``.
    """
    place = file.place(cache_dir)
    if await asyncio.to_thread(place.is_file):
        return place
    part = place.with_name(place.name + ".part")
    handle = await asyncio.to_thread(_open_part, part)
    try:
        http: Any = await asyncio.to_thread(importlib.import_module, "httpx2")
        client = await asyncio.to_thread(http.AsyncClient, timeout=http.Timeout(_READ_SECONDS), follow_redirects=True)
        async with client:
            download = _Download(client, file, file.url(hub_url), handle, progress)
            expected = await download.ask(pause, may_be_missing=may_be_missing)
            if expected is None:
                await asyncio.to_thread(_throw_away, handle, part)
                return place
            await asyncio.to_thread(_require_space, expected, handle, cache_dir, free_bytes)
            await download.run(expected, pause)
        await asyncio.to_thread(_check_and_name, handle, part, place, expected, file)
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
            await asyncio.to_thread(_throw_away, handle, part)
        raise EmbeddingFailed(
            f"{file} could not be written to {place.parent}: {error.strerror}.",
            hint="Free some space, or set memorySearch.local.modelCacheDir to a folder on a larger disk.",
        ) from error
    finally:
        handle.close()
    return place


class _Download:
    """Download of one file. Call ``ask``, then ``run``."""

    def __init__(
        self, client: httpx2.AsyncClient, file: HubFile, url: str, handle: FileIO, progress: DownloadProgress | None
    ) -> None:
        self._client = client
        self._file = file
        self._url = url
        self._handle = handle
        self._progress = progress
        self._tag = _tag_file(handle)

    async def ask(self, pause: float, *, may_be_missing: bool) -> _Expected | None:
        """Request the size and, for large files, the SHA-256 (the etag of the linked file). None: there is no such file."""
        http: Any = importlib.import_module("httpx2")
        for tried in range(_FRUITLESS_TRIES):
            try:
                answer = await self._client.head(self._url, follow_redirects=False, headers={"accept-encoding": "identity"})
            except http.TransportError:
                await asyncio.sleep(pause * 2**tried)
                continue
            if may_be_missing and answer.status_code == _MISSING:
                return None
            self._refuse(answer)
            etag = (answer.headers.get("x-linked-etag") or answer.headers.get("etag") or "").strip('"')
            redirected = answer.is_redirect
            size = answer.headers.get("x-linked-size") or (None if redirected else answer.headers.get("content-length"))
            return _Expected(int(size) if size and size.isdigit() else None, etag if _SHA256.fullmatch(etag) else None)
        raise self._unreachable("it does not answer")

    async def run(self, expected: _Expected, pause: float) -> None:
        """Download until the file is complete."""
        http: Any = importlib.import_module("httpx2")
        fruitless = 0
        while not self._whole(expected):
            before = self._handle.tell()
            reason = "it sent nothing"
            try:
                if await self._once(expected):
                    return
            except http.TransportError as error:
                reason = type(error).__name__
            fruitless = 0 if self._handle.tell() > before else fruitless + 1
            if fruitless >= _FRUITLESS_TRIES:
                raise self._unreachable(reason)
            await asyncio.sleep(pause * 2**fruitless)

    async def _once(self, expected: _Expected) -> bool:
        """Make one request and write its content. Return True if the response was complete."""
        have = self._handle.seek(0, os.SEEK_END)
        headers = {"accept-encoding": "identity"}
        tag = await asyncio.to_thread(self._read_tag)
        if have:
            headers["range"] = f"bytes={have}-"
            if tag.startswith('"'):  # a weak etag must not stand in If-Range
                headers["if-range"] = tag
        async with self._client.stream("GET", self._url, headers=headers) as answer:
            if answer.status_code == _GONE:
                await asyncio.to_thread(self._begin_anew)
                return False
            self._refuse(answer)
            if answer.status_code != _PARTIAL or not answer.headers.get("content-range", "").startswith(f"bytes {have}-"):
                await asyncio.to_thread(self._begin_anew)
                await asyncio.to_thread(self._write_tag, answer.headers.get("etag", ""))
            promised = int(answer.headers.get("content-length") or 0) or None
            total = expected.size or (promised and promised + self._handle.tell())
            arrived = bytearray()
            try:
                async for piece in answer.aiter_bytes():
                    arrived += piece
                    if len(arrived) >= _PIECE:
                        await self._keep(arrived, total)
            finally:  # what came before a break is worth keeping
                await self._keep(arrived, total)
        return expected.size is None or self._whole(expected)

    async def _keep(self, arrived: bytearray, total: int | None) -> None:
        """Write the buffer to the file, and empty it."""
        if not arrived:
            return
        await asyncio.to_thread(_write_all, self._handle, bytes(arrived))
        arrived.clear()
        if self._progress is not None:
            self._progress(self._file.path, self._handle.tell(), total)

    def _whole(self, expected: _Expected) -> bool:
        return expected.size is not None and self._handle.seek(0, os.SEEK_END) >= expected.size

    def _begin_anew(self) -> None:
        self._handle.seek(0)
        self._handle.truncate()

    def _read_tag(self) -> str:
        try:
            return str(json.loads(self._tag.read_text())[self._url])
        except (OSError, ValueError, KeyError, TypeError):
            return ""

    def _write_tag(self, etag: str) -> None:
        self._tag.write_text(json.dumps({self._url: etag}))

    def _refuse(self, answer: httpx2.Response) -> None:
        status = answer.status_code
        if answer.is_error and status < 500 and status not in {408, 429}:  # noqa: PLR2004 - server errors pass
            raise EmbeddingFailed(
                f"{self._url} answered {status}: the model {self._file} cannot be downloaded.",
                hint="Check memorySearch.local.modelPath, or download the file yourself and set its path there.",
            )
        if answer.is_error or answer.headers.get("content-type", "").startswith("text/html"):
            raise EmbeddingFailed(
                f"{self._url} answered {status} without the model.",
                hint="Try again later, or check memorySearch.local.hubUrl.",
                passing=True,
            )

    def _unreachable(self, reason: str) -> EmbeddingFailed:
        return EmbeddingFailed(
            f"The download of {self._file} stopped: {reason}. The downloaded part is kept, and the next attempt continues it.",
            hint="Check the network and memorySearch.local.hubUrl.",
            passing=True,
        )


def _open_part(part: Path) -> FileIO:
    """Open and lock the unfinished file."""
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        handle = open(part, "a+b", buffering=0)  # noqa: SIM115, PTH123 - closed by fetch
    except OSError as error:
        raise EmbeddingFailed(
            f"{part.parent} cannot be written: {error.strerror}.",
            hint="Set memorySearch.local.modelCacheDir to another folder.",
        ) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        handle.close()
        raise EmbeddingFailed(f"Another process is already downloading {part.stem}.", passing=True) from error
    return handle


def _write_all(handle: FileIO, content: bytes) -> None:
    """Write all of the data: an unbuffered file may accept only a part of it."""
    left = memoryview(content)
    while left:
        left = left[handle.write(left) :]


def _tag_file(handle: FileIO) -> Path:
    """Return the file with the etag of an unfinished download: it is only resumed if the hub still has the same file."""
    return Path(f"{handle.name}.etag")


def _require_space(expected: _Expected, handle: FileIO, folder: Path, free_bytes: Callable[[Path], int]) -> None:
    missing = (expected.size or 0) - handle.seek(0, os.SEEK_END)
    free = free_bytes(folder)
    if missing > 0 and free < missing + _SPARE:
        raise EmbeddingFailed(
            f"The model needs {missing >> 20} MB in {folder}, where {free >> 20} MB are free (256 MB must stay free).",
            hint="Free some space, or set memorySearch.local.modelCacheDir to a folder on a larger disk.",
        )


def _check_and_name(handle: FileIO, part: Path, place: Path, expected: _Expected, file: HubFile) -> None:
    size = handle.seek(0, os.SEEK_END)
    handle.seek(0)
    digest = hashlib.file_digest(handle, "sha256").hexdigest()
    if (expected.size is not None and size != expected.size) or digest != (expected.sha256 or digest):
        _throw_away(handle, part)
        raise EmbeddingFailed(
            f"The download of {file} is damaged: its size or checksum differs from the hub's. It was deleted.",
            hint="Try again.",
            passing=True,
        )
    os.fsync(handle.fileno())
    part.replace(place)
    _tag_file(handle).unlink(missing_ok=True)


def _throw_away(handle: FileIO, part: Path) -> None:
    handle.truncate(0)
    part.unlink(missing_ok=True)
    _tag_file(handle).unlink(missing_ok=True)
