"""Compares what was restored with the home that it is from: whatever was there when the backup was made must be in it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from agent.transcript.entries import Entry, InvalidEntry, decode
from gateway.backup.contents import Found, Sources, walk
from gateway.backup.creation import APPENDED, records_in
from gateway.backup.extraction import Checked
from gateway.backup.manifest import HOME, LEDGER
from gateway.base.paths import JSON_NAME, YAML_NAME
from gateway.ledger.snapshot import jobs_of

MARGIN: Final = timedelta(seconds=60)
"""What is younger than this when the backup is made may have been in memory alone."""
_CHANGED_BY_RESTORE: Final = (LEDGER, f"{HOME}/{YAML_NAME}", f"{HOME}/{JSON_NAME}")
_WATCHED: Final = f"{HOME}/state/mail/watched/"
_CHUNK: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """The home that a backup is from. ``ledger`` and ``conversations`` write copies to a path, as for a backup."""

    sources: Sources
    ledger: Callable[[Path], bool]
    conversations: Callable[[Path], bool] = lambda _agents: False


def changed_by_restore(path: str) -> bool:
    """Return whether a restore changes a file, so that it is compared by its content alone, or not at all."""
    return path in _CHANGED_BY_RESTORE or path.startswith(_WATCHED)


def compare(original: Original, checked: Checked, restored: Path) -> list[str]:
    """Return what is at home and not as it should be in what was ``restored``, in words. Blocking."""
    work = _Comparison(original, checked, restored)
    return [*work.files(), *work.sessions(), *work.jobs()]


def entries_in(data: bytes) -> list[Entry]:
    """Return the valid entries of a transcript."""
    found: list[Entry] = []
    for line in data.splitlines():
        with suppress(InvalidEntry):
            found.append(decode(line))
    return found


def digest_at(path: Path) -> str | None:
    """Return the digest of a file; None where there is none. Blocking."""
    try:
        with path.open("rb") as file:
            return _digest_of(file.fileno())
    except OSError:
        return None


class _Comparison:
    def __init__(self, original: Original, checked: Checked, restored: Path) -> None:
        self._sources = original.sources
        self._copy_ledger = original.ledger
        self._agents = restored / "original-agents"
        self._elsewhere = original.conversations(self._agents)
        self._manifest = checked.manifest
        self._before = datetime.fromisoformat(checked.head.made) - MARGIN
        self._restored = restored

    def files(self) -> Iterator[str]:
        """Compare transcripts, and files that did not change since."""
        for place in walk(self._sources, Found()):
            if changed_by_restore(place.path) or "/sessions/sessions.json" in place.path:
                continue
            with suppress(OSError), place.opened() as descriptor:
                if place.path.endswith(".jsonl") and "/sessions/" in place.path:
                    yield from self._transcript(place.path, descriptor)
                else:
                    yield from self._file(place.path, descriptor)

        for file in sorted(self._agents.rglob("*.jsonl")):
            with file.open("rb") as opened:
                path = f"{HOME}/agents/{file.relative_to(self._agents).as_posix()}"
                yield from self._transcript(path, opened.fileno())

    def _file(self, path: str, descriptor: int) -> Iterator[str]:
        if os.fstat(descriptor).st_ctime >= self._before.timestamp():
            return
        wanted = self._manifest.files.get(path)
        if wanted is None:
            if path not in self._manifest.left_out:
                yield f"{path} is at home and not in the backup"
        elif not path.endswith(APPENDED) and _digest_of(descriptor) != wanted.sha256:
            yield f"{path} did not change at home since, and is another one in the backup"

    def _transcript(self, path: str, descriptor: int) -> Iterator[str]:
        data = b"".join(_chunks(descriptor))
        older = [entry.id for entry in entries_in(data) if entry.at < self._before]
        try:
            stored = self._restored.joinpath(*path.split("/")).read_bytes()
        except OSError:
            if older:
                yield f"{path} is at home and not in the backup"
            return
        if not data.startswith(stored):
            yield f"{path} is no beginning of the transcript at home"
        kept = {entry.id for entry in entries_in(stored)}
        if lost := [entry for entry in older if entry not in kept]:
            yield f"{path} lacks {len(lost)} entries that were there, such as {lost[0]}"

    def sessions(self) -> Iterator[str]:
        """Compare the sessions that existed by then."""
        agents = self._agents if self._elsewhere else self._sources.home / "agents"
        for folder in sorted(agents.glob("*/sessions")):
            stored = self._manifest.sessions.get(folder.parent.name, {})
            for key, record in records_in(folder).items():
                if key not in stored and record.started < self._before:
                    yield f"the session {key} of {folder.parent.name} is at home and not in the backup"

    def jobs(self) -> Iterator[str]:
        """Compare the jobs that existed by then."""
        copy = self._restored / "original.sqlite"
        if self._copy_ledger(copy):
            for job, about in jobs_of(copy).items():
                created = int(about.partition(":")[0]) / 1_000_000
                if job not in self._manifest.jobs and created < self._before.timestamp():
                    yield f"the job {job} is at home and not in the backup"
            copy.unlink()


def _digest_of(descriptor: int) -> str:
    digest = hashlib.sha256()
    for chunk in _chunks(descriptor):
        digest.update(chunk)
    return digest.hexdigest()


def _chunks(descriptor: int) -> Iterator[bytes]:
    os.lseek(descriptor, 0, os.SEEK_SET)
    while data := os.read(descriptor, _CHUNK):
        yield data
