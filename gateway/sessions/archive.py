"""Archive of old transcripts: compressed into ``archive/``, deleted only when they use too much disk space."""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Collection
from datetime import datetime
from pathlib import Path


class Archive:
    """The archive of one agent's sessions. Blocking; raises OSError as it comes."""

    def __init__(self, sessions: Path) -> None:
        self._sessions = sessions
        self.folder = sessions / "archive"

    def put_away(self, needed: Collection[str], before: datetime) -> int:
        """Compress the transcripts of all sessions but the ``needed`` that were last written before an instant; say how many."""
        count = 0
        for path in sorted(self._sessions.glob("*.jsonl")):
            if path.stem not in needed and path.stat().st_mtime < before.timestamp():
                self._put_away(path)
                count += 1
        return count

    def trim(self, most_bytes: int) -> list[str]:
        """Delete the oldest archived transcripts until the rest fits; return the names of what was deleted."""
        if not self.folder.is_dir():
            return []
        kept = sorted(((path.stat(), path) for path in self.folder.glob("*.jsonl.gz")), key=lambda found: found[0].st_mtime)
        size = sum(found.st_size for found, _ in kept)
        gone = []
        for found, path in kept:
            if size <= most_bytes:
                break
            path.unlink()
            size -= found.st_size
            gone.append(path.name)
        return gone

    def _put_away(self, path: Path) -> None:
        """Copy durably, then remove: a crash in between leaves both, and the next run makes the copy again."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        times = path.stat()
        target = self.folder / f"{path.name}.gz"
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
