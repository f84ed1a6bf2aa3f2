"""Version store of the notes: an append-only log of changes, and the texts before and after each. It is not a git repository.

<folder>/log.jsonl          one line per change: number, time, path, who, hashes before and after
<folder>/texts/ab/cdef...   the texts, compressed and stored once, named by their hash
<folder>/lock               locked by the process that appends
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import threading
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from memory.errors import MemoryConflict, MemoryTrouble
from memory.path_table import PathTable
from memory.protocol import Author

BY_OWNER = Author()
_UNDO_OF = "undo of "
_MANY = 64
"""Texts above which all disks are synced at once, as at the first look at many notes."""


class TextMissing(MemoryTrouble):
    """Raised where the text of a version is gone from the store: after a loss of power, say."""


class Version(Struct, frozen=True):
    """One change. ``before`` and ``after`` are hashes of texts; None means that the note did not, or does not, exist.

    Logs of older releases may contain the same number several times, written by two processes at once. ``same`` then counts
    them from 1 in log order; it is 0 for a unique number, and is not stored.
    """

    number: int
    at: str
    path: str
    before: str | None
    after: str | None
    author: Author = BY_OWNER
    same: int = 0

    @property
    def name(self) -> str:
        """The name that commands use: the number, followed by ``.same`` if the number is not unique."""
        return f"{self.number}.{self.same}" if self.same else str(self.number)


class VersionStore:
    """Append-only, safe for several threads and processes: a writer holds a lock and has read everything before it appends.

    A log line is written after the texts it refers to. What an agent changed or an undo made is synced, with all texts kept before; other
    changes of the owner, whose files are on the disk already, are synced with the next of those.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.RLock()
        self._held = False
        self._unsynced: dict[Path, None] = {}
        """Texts and folders that were made since the last sync; more than ``_MANY`` of them stand for all."""
        self._forget()

    @contextmanager
    def exclusively(self) -> Iterator[None]:
        """Hold the lock against other threads and processes. May be nested.

        Raises:
            OSError: the lock file cannot be made.
        """
        with self._lock:
            if self._held:
                yield
                return
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX)
                self._held = True
                yield
            finally:
                self._held = False
                os.close(fd)

    @property
    def size(self) -> int:
        """The size of the log in bytes, which grows with each change; 0 before the first. Blocking."""
        try:
            return (self._folder / "log.jsonl").stat().st_size
        except OSError:
            return 0

    def record(self, path: str, text: str | None, *, at: datetime, author: Author = BY_OWNER) -> Version | None:
        """Record the current text of a file (None if deleted); return the new version, or None if nothing changed.

        The text before the change is the one recorded last, so record the owner's change before the agent's next one.
        """
        with self.exclusively():
            self._load()
            before = self._last(path)
            after = None if text is None else self._keep(text)
            if before == after:
                return None
            number = self._highest + 1
            version = Version(number, at.isoformat(timespec="seconds"), path, before, after, author)
            durably = author != BY_OWNER
            if durably:
                self._sync_texts()
            self._append(version, durably=durably)
            return version

    def versions(self, path: str | None = None) -> list[Version]:
        """Return all changes, or those of one file, newest first."""
        with self._lock:
            return [version for version in reversed(self._all()) if path is None or version.path == path]

    def version(self, name: int | str) -> Version:
        """Return one change by its number, or by its name ("12.2") where several have that number.

        Raises:
            MemoryTrouble: no change has that name, or several have that number.
        """
        number, _, same = str(name).partition(".")
        if not number.isdecimal() or (same and not same.isdecimal()):
            raise MemoryTrouble(f"{name!r} is not a version number", hint="The changes and their numbers: homebody memory log")
        with self._lock:
            found = [version for version in self._all() if version.number == int(number)]
        chosen = [one for one in found if int(same) == one.same] if same else found
        if not chosen:
            raise MemoryTrouble(f"there is no version {name}", hint="The changes and their numbers: homebody memory log")
        if len(chosen) > 1:
            listed = "; ".join(f"{one.name} by the {one.author.kind} in {one.path} at {one.at}" for one in chosen)
            raise MemoryTrouble(
                f"version {name} is ambiguous; it names {len(chosen)} changes: {listed}",
                hint=f"Use one of these names, for example {chosen[0].name}.",
            )
        return chosen[0]

    def text(self, digest: str | None) -> str | None:
        """Return the text with a hash; None for None.

        Raises:
            MemoryTrouble: the text is missing from the store.
        """
        if digest is None:
            return None
        try:
            return zlib.decompress(self._place(digest).read_bytes()).decode("utf-8", "surrogatepass")
        except (OSError, zlib.error) as error:
            raise TextMissing(
                f"a text of the note history is gone from {self._folder}: {error.strerror if isinstance(error, OSError) else error}",
                hint="Nothing brings it back but a backup (homebody backup list). The note itself and other versions are not affected.",
            ) from error

    def diff(self, version: Version) -> str:
        """Return a change as a unified diff."""
        before, after = (self._text_of(version, digest) or "" for digest in (version.before, version.after))
        import difflib

        rows = difflib.unified_diff(
            before.splitlines(),
            after.splitlines(),
            version.path,
            version.path,
            f"before {version.name}",
            version.at,
            lineterm="",
        )
        return "\n".join(rows)

    def _text_of(self, version: Version, digest: str | None) -> str | None:
        try:
            return self.text(digest)
        except TextMissing as error:
            which = "after" if digest == version.after else "before"
            raise TextMissing(
                f"the text {which} version {version.name} of {version.path} is gone from the note history", hint=error.hint
            ) from error

    def missing(self, *, only_after: bool = False) -> list[Version]:
        """Return the changes of which a text is gone (``only_after``: the one after them), oldest first. Blocking."""
        with self._lock:
            there = {digest for folder in (self._folder / "texts").glob("??") for digest in _digests(folder)}
            return [one for one in self._all() if not {one.after if only_after else one.before, one.after} - {None} <= there]

    def undone(self, version: Version, now: str | None) -> str | None:
        """Return the text ``now`` with one change undone; later changes of other lines stay.

        Raises:
            MemoryConflict: the same lines were changed again later.
        """
        before, after = (self._text_of(version, digest) for digest in (version.before, version.after))
        if now == after:
            return before
        merged = revert_change((before or "").split("\n"), (after or "").split("\n"), (now or "").split("\n"))
        if merged is None:
            raise MemoryConflict(
                f"{version.path} was changed in the same lines since version {version.name}",
                hint=f"Undo the later versions first; homebody memory log {version.path} lists them.",
            )
        return "\n".join(merged)

    def blame(self, path: str) -> Iterator[tuple[str, Version | None]]:
        """Yield each line of a note as last recorded, with the change that added it.

        Lines of a change whose text is gone (``missing``) count as those of the next one.
        """
        import difflib

        lines: list[tuple[str, Version | None]] = []
        for version in reversed(self.versions(path)):
            try:
                new = (self.text(version.after) or "").splitlines()
            except TextMissing:
                continue
            match = difflib.SequenceMatcher(None, [line for line, _ in lines], new, autojunk=False)
            kept: dict[int, Version | None] = {}
            for a, b, size in match.get_matching_blocks():
                kept.update({b + offset: lines[a + offset][1] for offset in range(size)})
            lines = [(line, kept.get(number, version)) for number, line in enumerate(new)]
        yield from lines

    def _last(self, path: str) -> str | None:
        """Return the hash of the text that was recorded last of a file; None where there is none."""
        for place in self._places.find(path):
            with (self._folder / "log.jsonl").open("rb") as log:
                log.seek(place)
                version = _parsed(log.readline())
            if version is None or version.path != path:  # another path has the same hash
                return next((one.after for one in self.versions(path)), None)
            return version.after
        return None

    def _forget(self) -> None:
        self._places = PathTable()
        """Where in the log the last change of each file is."""
        self._highest = 0
        self._read = 0
        self._file = (0, 0)

    def _load(self) -> None:
        """Read what was appended since the last call, and note where it is; a line cut off by a crash is skipped.

        The changes themselves are not kept: there are more of them each day, and only people ask for them.
        """
        try:
            log = (self._folder / "log.jsonl").open("rb")
        except FileNotFoundError:
            self._forget()
            return
        with log:
            status = os.fstat(log.fileno())
            if (status.st_dev, status.st_ino) != self._file or status.st_size < self._read:  # a backup was restored
                self._forget()
                self._file = (status.st_dev, status.st_ino)
            if status.st_size > self._read:
                log.seek(self._read)
                for line in log:
                    version = _parsed(line)
                    if version is None and not line.endswith(b"\n"):
                        break  # another process is writing it, or a crash cut it off
                    place, self._read = self._read, self._read + len(line)
                    if version is not None:
                        self._places.put(version.path, place, *self._places.find(version.path))
                        self._highest = max(self._highest, version.number)

    def _all(self) -> list[Version]:
        """Return all changes, oldest first, numbers that several have told apart."""
        try:
            log = (self._folder / "log.jsonl").read_bytes()
        except FileNotFoundError:
            return []
        versions = [version for line in log.splitlines() if (version := _parsed(line)) is not None]
        shared = {number: 0 for number, count in Counter(version.number for version in versions).items() if count > 1}
        for place, version in enumerate(versions if shared else ()):
            if version.number in shared:
                shared[version.number] += 1
                versions[place] = replace(version, same=shared[version.number])
        return versions

    def _append(self, version: Version, *, durably: bool) -> None:
        fields = to_builtins(version)
        del fields["same"]
        data = json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        fd = os.open(self._folder / "log.jsonl", os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(fd).st_size
            torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
            data = b"\n" * torn + data
            if os.write(fd, data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._folder))
            if durably:
                os.fsync(fd)
        finally:
            os.close(fd)
        if durably and not size:
            _sync(self._folder)

    def _sync_texts(self) -> None:
        if len(self._unsynced) > _MANY:
            os.sync()
        else:
            for path in self._unsynced:
                with suppress(FileNotFoundError):
                    _sync(path)
        self._unsynced.clear()

    def _keep(self, text: str) -> str:
        data = text.encode("utf-8", "surrogatepass")
        digest = hashlib.sha256(data).hexdigest()
        place = self._place(digest)
        if not _is_kept(place):
            made = [place, place.parent, *(() if place.parent.exists() else (place.parent.parent, self._folder))]
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            half = place.with_name(f"{place.name}.{os.getpid()}.half")
            with half.open("wb") as file:
                file.write(zlib.compress(data, 6))
            half.replace(place)
            if len(self._unsynced) <= _MANY:
                self._unsynced |= dict.fromkeys(made)
        return digest

    def _place(self, digest: str) -> Path:
        return self._folder / "texts" / digest[:2] / digest[2:]


def _digests(folder: Path) -> Iterator[str]:
    return (folder.name + path.name for path in folder.iterdir() if _is_kept(path))


def _is_kept(path: Path) -> bool:
    """Whether a text is there. A loss of power may leave an empty file of it; a compressed one has bytes always."""
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _parsed(line: bytes) -> Version | None:
    """Return the change in a log line, or None for an invalid line."""
    try:
        raw = json.loads(line)
        return Version(**{**raw, "number": int(raw["number"]), "author": Author(**raw["author"]), "same": 0})
    except (ValueError, TypeError, KeyError):
        return None


def undo_author(version: Version) -> Author:
    """Return the author of the change that undoes a version."""
    return Author(BY_OWNER.kind, f"{_UNDO_OF}{version.name}")


def undone_by(newest_first: Iterable[Version]) -> dict[str, Version]:
    """Return by name each version that is undone, with the version that undid it. One whose undo was undone itself is not among them."""
    found: dict[str, Version] = {}
    for one in newest_first:
        if one.author.kind == BY_OWNER.kind and one.author.name.startswith(_UNDO_OF) and one.name not in found:
            found.setdefault(one.author.name.removeprefix(_UNDO_OF), one)
    return found


def revert_change(before: list[str], after: list[str], now: list[str]) -> list[str] | None:
    """Undo the change from ``before`` to ``after`` in ``now``, or return None if a changed line was changed again."""
    import difflib

    today = difflib.SequenceMatcher(None, after, now, autojunk=False)
    places = {a + offset: b + offset for a, b, size in today.get_matching_blocks() for offset in range(size)}
    places[len(after)] = len(now)
    result = list(now)
    for tag, i1, i2, j1, j2 in reversed(difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()):
        if tag == "equal":
            continue
        found = [places.get(j) for j in range(j1, j2)] or [places.get(j1)]
        if None in found or [n for n in found if n is not None] != list(range(found[0] or 0, (found[0] or 0) + len(found))):
            return None
        start = found[0] or 0
        result[start : start + (j2 - j1)] = before[i1:i2]
    return result
