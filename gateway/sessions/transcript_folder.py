"""The transcripts of one agent in a folder, with an archive of compressed ones below it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from agent.transcript.stored_transcript import StoredTranscript, TranscriptStat
from agent.transcript.transcript_file import SUFFIX, TranscriptFile

if TYPE_CHECKING:
    from memory.notes.transcript_source import Transcripts


class TranscriptFolder:
    """Implements ``TranscriptStore``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.archive = folder / "archive"

    @property
    def where(self) -> str:
        """See the protocol."""
        return str(self.folder)

    def of(self, session: str) -> TranscriptFile:
        """See the protocol."""
        return TranscriptFile(self.folder / f"{session}{SUFFIX}")

    def all(self) -> list[tuple[StoredTranscript, TranscriptStat]]:
        """See the protocol."""
        found: list[tuple[StoredTranscript, TranscriptStat]] = []
        for path in self._paths():
            with suppress(FileNotFoundError):  # it was put away meanwhile
                one = TranscriptFile(path)
                found.append((one, one.stat()))
        return found

    def searched(self) -> Transcripts:
        """See the protocol."""
        from memory.notes.transcript_source import TranscriptFiles

        return TranscriptFiles(self.folder)

    def put_away(self, needed: Collection[str], before: datetime) -> int:
        """See the protocol."""
        limit = before.timestamp()
        due = sorted(
            entry.name
            for entry in _entries(self.folder, SUFFIX)
            if entry.name.removesuffix(SUFFIX) not in needed and entry.stat().st_mtime < limit
        )
        for name in due:
            self._put_away(self.folder / name)
        return len(due)

    def trim(self, most_bytes: int) -> list[str]:
        """See the protocol."""
        size = sum(entry.stat().st_size for entry in _entries(self.archive, f"{SUFFIX}.gz"))
        gone: list[str] = []
        if size <= most_bytes:  # as nearly always; there may be very many
            return gone
        stats = ((entry.stat(), entry.name) for entry in _entries(self.archive, f"{SUFFIX}.gz"))
        for _, length, name in sorted((found.st_mtime_ns, found.st_size, name) for found, name in stats):
            if size <= most_bytes:
                break
            (self.archive / name).unlink()
            size -= length
            gone.append(name)
        return gone

    def _paths(self) -> Iterator[Path]:
        for folder, suffix in ((self.folder, SUFFIX), (self.archive, f"{SUFFIX}.gz")):
            yield from (folder / entry.name for entry in _entries(folder, suffix))

    def _put_away(self, path: Path) -> None:
        """Copy durably, then remove: a crash in between leaves both, and the next run repeats the copy."""
        import gzip

        self.archive.mkdir(mode=0o700, exist_ok=True)
        times = path.stat()
        target = self.archive / f"{path.name}.gz"
        fresh = target.with_name(f".{target.name}.tmp")
        with path.open("rb") as source, fresh.open("wb") as raw:
            fresh.chmod(0o600)
            with gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as packed:
                shutil.copyfileobj(source, packed)
            raw.flush()
            os.fsync(raw.fileno())
        os.utime(fresh, ns=(times.st_atime_ns, times.st_mtime_ns))
        fresh.replace(target)
        path.unlink()


def _entries(folder: Path, suffix: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from (entry for entry in entries if entry.name.endswith(suffix))
    except FileNotFoundError:  # nothing was written there yet
        return
