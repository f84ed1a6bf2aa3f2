"""Makes a backup: the ledger's copy first, then sessions, transcripts and the rest, each file at one moment of its own.

What belongs together is copied in the order in which it can only be newer than what refers to it. So a backup is what a crash would have
left, which Homebody can start from.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from agent import fault_injection
from gateway.backup import backup_folder as folders
from gateway.backup import outside_files
from gateway.backup.age_encryption import Lock, writing
from gateway.backup.contents import WORK, Found, NotAPlainFileError, Place, Sources, walk
from gateway.backup.manifest import HEAD, HOME, LEDGER, MANIFEST, Head, Manifest, StoredFile, to_bytes
from gateway.backup.tar_archive import CHUNK, ArchiveWriter
from gateway.backup.versions import state_versions
from gateway.base.atomic_file import sync
from gateway.base.errors import StorageFailed
from gateway.ledger.snapshot import jobs_of, strip_secrets
from gateway.sessions.sessions_file import Damaged, SessionFile, SessionRecord

APPENDED: Final = (".jsonl", ".json.changes")
"""Files that only grow: what is copied ends with the last whole line."""
_SMALL: Final = 4 * 1024 * 1024
"""Files up to this size are read whole, and again if they were written to meanwhile."""
_TRIES: Final = 3
_SESSION_FILES: Final = ("sessions.json", "sessions.json.changes", "sessions.json.prev", "sessions.json.changes.prev")
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What to back up and how. ``ledger`` writes a copy of the ledger to a path, and returns whether there is one.

    ``conversations`` writes sessions and transcripts as files below a folder, as in ``agents``, where they are not files of the home.

    ``settings_text``: what to store instead of the settings file, by its path in the backup. ``progress`` is called with the files and
    bytes done so far. ``elsewhere`` are files with secrets outside of the home, by what the settings call them.
    """

    sources: Sources
    target: Path
    lock: Lock
    made: datetime
    ledger: Callable[[Path], bool]
    conversations: Callable[[Path], bool] = lambda _agents: False
    settings_text: tuple[str, bytes] | None = None
    elsewhere: Mapping[str, Path] = field(default_factory=dict)
    progress: Progress = lambda _files, _bytes: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A backup that was made."""

    path: Path
    size: int
    head: Head
    manifest: Manifest


def create(wish: Wish) -> Made:
    """Make a backup. Nothing half is left when it fails, and other backups stay. Blocking.

    Raises:
        StorageFailed: a disk is full or unreadable.
    """
    folder, work = wish.target.parent, wish.sources.home / "state" / WORK
    unfinished = folders.unfinished_name(wish.target)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folders.clear_unfinished(folder)
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True, mode=0o700)
        try:
            return _written(wish, unfinished, work)
        finally:
            unfinished.unlink(missing_ok=True)
            shutil.rmtree(work, ignore_errors=True)
    except OSError as error:
        raise StorageFailed.from_os(error, "make the backup (earlier ones are unchanged)", folder) from error


def _written(wish: Wish, unfinished: Path, work: Path) -> Made:
    making = _Making(wish, work)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        with writing(file, wish.lock) as sink:
            making.fill(sink)
        file.flush()
        os.fsync(file.fileno())
    fault_injection.point("before", "backup_rename")
    unfinished.rename(wish.target)
    sync(wish.target.parent)
    fault_injection.point("after", "backup_rename")
    return Made(path=wish.target, size=wish.target.stat().st_size, head=making.head, manifest=making.manifest)


class _Making:
    """One backup while it is made."""

    def __init__(self, wish: Wish, work: Path) -> None:
        self._wish = wish
        self._work = work
        self._found = Found()
        self._bytes = 0
        sources = wish.sources
        name = secrets.token_hex(8)
        self.head = Head(
            id=name,
            made=wish.made.isoformat(timespec="seconds"),
            homebody=version("homebody"),
            secrets=not sources.without_secrets,
            state=state_versions(),
        )
        workspaces = {agent: str(folder) for agent, folder in sources.workspaces.items()}
        self.manifest = Manifest(id=name, home=str(sources.home), profile=sources.profile, workspaces=workspaces)

    def fill(self, sink: Any) -> None:
        """Write everything into ``sink``."""
        self._archive = ArchiveWriter(sink)
        self._put(HEAD, to_bytes(self.head))
        self._add_ledger()
        self._add_sessions()
        if self._wish.settings_text is not None:
            path, text = self._wish.settings_text
            self._keep(path, self._put(path, text))
        for name, file in self._wish.elsewhere.items():
            self._add_outside(name, file)
        for place in walk(self._wish.sources, self._found):
            if place.path not in self.manifest.files:
                self._add(place)
                self._wish.progress(len(self.manifest.files), self._bytes)
            fault_injection.point("after", "backup_file")
        self.manifest.links, self.manifest.folders = self._found.links, self._found.folders
        self.manifest.left_out = {path: why for path, why in self._found.left_out.items() if path not in self.manifest.files}
        self._put(MANIFEST, to_bytes(self.manifest))
        self._archive.close()

    def _add_ledger(self) -> None:
        place = self._work / "ledger.sqlite"
        fault_injection.point("before", "backup_ledger")
        if not self._wish.ledger(place):
            return
        fault_injection.point("after", "backup_ledger")
        if self._wish.sources.without_secrets:
            strip_secrets(place)
        self.manifest.jobs = jobs_of(place)
        with place.open("rb") as file:
            self._keep(LEDGER, self._stream(LEDGER, file.fileno(), os.fstat(file.fileno()).st_size, 0o600, changed=False))
        place.unlink()

    def _add_sessions(self) -> None:
        """Add the files of sessions, which are replaced together: those of one moment."""
        agents, elsewhere = self._wish.sources.home / "agents", self._work / "agents"
        if self._wish.conversations(elsewhere):
            agents = elsewhere
        for sessions in sorted(agents.glob("*/sessions")):
            copies = self._work / "sessions"
            copies.mkdir()
            for name, data in _of_one_moment(sessions).items():
                path = f"{HOME}/agents/{sessions.parent.name}/sessions/{name}"
                (copies / name).write_bytes(data)
                self._keep(path, self._put(path, data))
            self.manifest.sessions[sessions.parent.name] = {key: record.session for key, record in records_in(copies).items()}
            shutil.rmtree(copies)
        for copy in sorted(elsewhere.rglob("*")):
            stored = f"{HOME}/agents/{copy.relative_to(elsewhere).as_posix()}"
            if copy.is_file() and stored not in self.manifest.files:
                with copy.open("rb") as file:
                    about = os.fstat(file.fileno())
                    self._keep(stored, self._stream(stored, file.fileno(), about.st_size, about.st_mode, changed=False))
                self._wish.progress(len(self.manifest.files), self._bytes)
        shutil.rmtree(elsewhere, ignore_errors=True)

    def _add_outside(self, name: str, path: Path) -> None:
        """Add a file with a secret that lies elsewhere."""
        if self._wish.sources.without_secrets:
            self._found.left_out[str(path)] = "secrets"
            return
        stored = f"{HOME}/{outside_files.FOLDER}/{outside_files.stored_name(name)}"
        try:
            data = outside_files.read(path)
        except OSError as error:
            self._found.left_out[str(path)] = f"a secret outside of the home that cannot be read: {error.strerror}"
            return
        self._keep(stored, self._put(stored, data))

    def _add(self, place: Place) -> None:
        try:
            with place.opened() as descriptor:
                about = os.fstat(descriptor)
                if about.st_size > _SMALL:
                    size = _whole_lines(descriptor, about.st_size) if place.name.endswith(APPENDED) else about.st_size
                    self._keep(place.path, self._stream(place.path, descriptor, size, about.st_mode, changed=True))
                    return
                try:
                    data, changed = _steady(descriptor, place.name)
                except OSError as error:
                    self._found.left_out[place.path] = f"it cannot be read: {error.strerror}"
                    return
            self._keep(place.path, self._put(place.path, data, about.st_mode, int(about.st_mtime), changed=changed))
        except (FileNotFoundError, NotAPlainFileError):
            self._found.left_out[place.path] = "it vanished meanwhile"
        except PermissionError as error:
            self._found.left_out[place.path] = f"it cannot be read: {error.strerror}"

    def _keep(self, path: str, file: StoredFile) -> None:
        self.manifest.files[path] = file

    def _put(self, path: str, data: bytes, mode: int = 0o600, at: int = 0, *, changed: bool = False) -> StoredFile:
        self._archive.add(path, len(data), mode, at, iter((data,)))
        self._bytes += len(data)
        return StoredFile(len(data), hashlib.sha256(data).hexdigest(), mode & 0o777, changed)

    def _stream(self, path: str, descriptor: int, size: int, mode: int, *, changed: bool) -> StoredFile:
        """Copy a large file; what it loses meanwhile becomes zeros. ``changed``: it may be written to."""
        before, digest, lacking = os.fstat(descriptor), hashlib.sha256(), 0

        def chunks() -> Iterator[bytes]:
            nonlocal lacking
            left = size
            while left:
                data = b""
                with suppress(OSError):  # a bad place on the disk
                    data = os.read(descriptor, min(CHUNK, left))
                if not data:
                    data = bytes(min(CHUNK, left))
                    lacking += len(data)
                left -= len(data)
                digest.update(data)
                self._bytes += len(data)
                yield data
                self._wish.progress(len(self.manifest.files), self._bytes)

        os.lseek(descriptor, 0, os.SEEK_SET)
        self._archive.add(path, size, mode, int(before.st_mtime), chunks())
        after = os.fstat(descriptor)
        moved = (before.st_mtime_ns, before.st_size) != (after.st_mtime_ns, after.st_size)
        torn = changed and bool(lacking or (moved and not path.endswith(APPENDED)))
        return StoredFile(size, digest.hexdigest(), mode & 0o777, torn)


def records_in(folder: Path) -> dict[str, SessionRecord]:
    """Return the sessions of an agent by key, as the gateway would read them; none where nothing can be read. Blocking."""
    file = SessionFile(folder)
    with suppress(Damaged, OSError):
        return file.read()
    with suppress(Damaged, OSError):
        return file.read_previous()
    return {}


def _of_one_moment(folder: Path) -> dict[str, bytes]:
    """Read the files of sessions, as they were while the main one was not replaced."""
    for _ in range(20):
        main = folder / _SESSION_FILES[0]
        before = _stamp(main)
        found: dict[str, bytes] = {}
        for name in _SESSION_FILES:
            with suppress(FileNotFoundError):
                data = (folder / name).read_bytes()
                found[name] = data[: data.rfind(b"\n") + 1] if name.endswith(".changes") else data
        if _stamp(main) == before:
            break
    return found


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        about = path.stat()
    except FileNotFoundError:
        return None
    return about.st_ino, about.st_mtime_ns, about.st_size


def _steady(descriptor: int, name: str) -> tuple[bytes, bool]:
    """Read a small file; return its bytes, and whether it was written to meanwhile each time."""
    for _ in range(_TRIES):
        before = os.fstat(descriptor)
        os.lseek(descriptor, 0, os.SEEK_SET)
        data = b"".join(iter(lambda: os.read(descriptor, CHUNK), b""))
        after = os.fstat(descriptor)
        if name.endswith(APPENDED):
            return data[: data.rfind(b"\n") + 1], False
        if (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size) and len(data) == after.st_size:
            return data, False
    return data, True


def _whole_lines(descriptor: int, size: int) -> int:
    """Return where the last whole line of a large file ends."""
    at = size
    while at > 0:
        begin = max(0, at - CHUNK)
        found = os.pread(descriptor, at - begin, begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        at = begin
    return 0
