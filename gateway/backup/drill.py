"""A drill: restores a backup into a scratch folder, opens it with the code that the gateway runs, and compares all of it.

What is restored is compared with what the backup says of itself and, where the home that it is from is at hand, with that: whatever was
there when the backup was made must be in it.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from agent.errors import AgentError
from agent.transcript.transcript import Transcript
from agent.transcript.transcript_file import TranscriptFile
from gateway.backup.age_encryption import Keys
from gateway.backup.comparison import Original, changed_by_restore, compare, digest_at, entries_in
from gateway.backup.extraction import Checked, Progress
from gateway.backup.manifest import HOME, LEDGER, WORKSPACE
from gateway.backup.restoring import Target, restore
from gateway.base.clock import SystemClock
from gateway.base.errors import HomebodyError
from gateway.base.paths import Paths
from gateway.ledger.open_ledger import open_file
from gateway.ledger.snapshot import jobs_of
from gateway.sessions.store import sessions_in
from memory.notes.version_store import VersionStore

_OPEN: Final = ("ready", "sending", "ambiguous")
_COUNTED: Final = ("transcripts", "entries", "notes", "sessions", "jobs", "files")


@dataclass
class Report:
    """What a drill found. ``counts`` are what was restored and compared; ``differences`` are in words, one for each thing that differs."""

    file: str
    made: str = ""
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_COUNTED, 0))
    compared_with_home: bool = False
    differences: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return asdict(self)


def drill(
    path: Path,
    keys: Keys,
    scratch: Path,
    *,
    env: Mapping[str, str],
    now: datetime,
    original: Original | None = None,
    progress: Progress = lambda _files, _bytes: None,
) -> Report:
    """Try a backup out in a new folder below ``scratch``, which is deleted again. Blocking.

    Raises:
        BackupUnusable, StorageFailed: it cannot be restored at all.
    """
    folder = Path(tempfile.mkdtemp(prefix="homebody-drill-", dir=scratch))
    try:
        target = Target(paths=Paths(folder / "home"), workspaces=folder / WORKSPACE)
        restored = restore(path, keys, target, env=env, now=now, progress=progress)
        opened = _Opened(Report(str(path)), restored.checked, folder)
        opened.files()
        if original is not None:
            opened.report.compared_with_home = True
            opened.report.differences += compare(original, restored.checked, folder)
        asyncio.run(opened.opened())
        return opened.report
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Opened:
    """What was restored, opened and compared with what the backup says of itself."""

    def __init__(self, report: Report, checked: Checked, folder: Path) -> None:
        self.report = report
        self._manifest = checked.manifest
        self._folder = folder
        self._home = folder / "home"
        report.made = checked.head.made
        report.left_out = checked.manifest.left_out

    def place(self, path: str) -> Path:
        """Return where a file of the backup was restored."""
        return self._folder.joinpath(*path.split("/"))

    def files(self) -> None:
        """Compare every file on the disk with what the backup says."""
        for path, wanted in self._manifest.files.items():
            self._count("files")
            self._count("notes", path.startswith(WORKSPACE) and path.endswith(".md"))
            if changed_by_restore(path):
                continue
            found = digest_at(self.place(path))
            if found is None:
                self._differs(f"{path} is missing")
            elif found != wanted.sha256:
                self._differs(f"{path} is not what was backed up")

    async def opened(self) -> None:
        """Open all of it with the code that the gateway runs, and compare sessions, transcripts and jobs."""
        for agent, wanted in self._manifest.sessions.items():
            await self._sessions(agent, wanted)
        for path in self._manifest.files:
            if path.endswith(".jsonl") and "/sessions/" in path and path.startswith(f"{HOME}/agents/"):
                await self._transcript(path)
        for history in sorted(self._home.glob("memory/*.history")):
            try:
                VersionStore(history).versions()
            except Exception as error:  # noqa: BLE001  (whatever it fails with, this history is of no use)
                self._differs(f"the history of the notes {history.name} cannot be read: {error}")
        await self._ledger()

    async def _sessions(self, agent: str, wanted: Mapping[str, str]) -> None:
        store = sessions_in(Paths(self._home).sessions(agent), SystemClock())
        try:
            await store.load()
        except HomebodyError as error:
            self._differs(f"the sessions of {agent} cannot be read: {error}")
            return
        found = {record.key: record.session for record in store.all()}
        self._count("sessions", len(wanted))
        for key, session in wanted.items():
            if found.get(key) != session:
                self._differs(f"the session {key} of {agent} is {found.get(key, 'missing')} instead of {session}")

    async def _transcript(self, path: str) -> None:
        self._count("transcripts")
        self._count("entries", len(entries_in(self.place(path).read_bytes())))
        try:
            transcript = await Transcript.load(TranscriptFile(self.place(path)), SystemClock())
        except AgentError as error:
            self._differs(f"{path} cannot be opened: {error}")
            return
        if transcript.torn:
            self._differs(f"{path} ends within an entry")

    async def _ledger(self) -> None:
        place = self.place(LEDGER)
        if LEDGER not in self._manifest.files:
            return
        try:
            ledger = await open_file(place, SystemClock())
        except HomebodyError as error:
            self._differs(f"the ledger cannot be opened: {error}")
            return
        if ledger.warning is not None:
            self._differs(f"the ledger was damaged: {ledger.warning}")
        tally = await ledger.tally()
        if tally.waiting or tally.running or tally.suspended or any(tally.outbox.get(state) for state in _OPEN):
            self._differs("the restored ledger would go on with messages by itself")
        await ledger.close()
        found = jobs_of(place)
        self._count("jobs", len(self._manifest.jobs))
        for job, digest in self._manifest.jobs.items():
            if found.get(job) != digest:
                self._differs(f"the job {job} is {'missing' if job not in found else 'not what was backed up'}")

    def _count(self, what: str, number: int = 1) -> None:
        self.report.counts[what] += number

    def _differs(self, what: str) -> None:
        self.report.differences.append(what)
