"""The history of the notes: every change an agent made, with what was there before, kept apart from the owner's own git.

<folder>/log.jsonl          one line a change: number, time, path, who, hashes before and after
<folder>/texts/ab/cdef...   the texts, compressed, each once, named by their hash
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import threading
import zlib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from memory.errors import MemoryTrouble

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Author:
    """Who changed a note: ``kind`` "agent" with its session and turn, or "owner" for what was changed by hand."""

    kind: str = "owner"
    name: str = ""
    session: str = ""
    turn: str = ""


OWN_HAND = Author()


@dataclass(frozen=True, slots=True)
class Version:
    """One change. ``before`` and ``after`` are hashes of texts; None means that there was, or is, no such note."""

    number: int
    at: str
    path: str
    before: str | None
    after: str | None
    author: Author = OWN_HAND


class Journal:
    """Append-only and thread-safe.

    A line is written after the texts that it names. An agent's change is synced to disk; an owner's is there already.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._versions: list[Version] | None = None
        self._heads: dict[str, str | None] = {}

    def record(self, path: str, text: str | None, *, at: datetime, author: Author = OWN_HAND) -> Version | None:
        """Note what a file holds now (None: it is gone); return the version, or None when nothing changed.

        What was there before is what was last recorded. So an owner's change must be recorded before an agent's next one.
        """
        with self._lock:
            versions = self._load()
            before = self._heads.get(path)
            after = None if text is None else self._keep(text, durably=author.kind != OWN_HAND.kind)
            if before == after:
                return None
            version = Version(len(versions) + 1, at.isoformat(timespec="seconds"), path, before, after, author)
            self._append(version, durably=author.kind != OWN_HAND.kind)
            versions.append(version)
            self._heads[path] = after
            return version

    def versions(self, path: str | None = None) -> list[Version]:
        """Return all changes, or those of one file, newest first."""
        with self._lock:
            return [version for version in reversed(self._load()) if path is None or version.path == path]

    def version(self, number: int) -> Version:
        """Return one change.

        Raises:
            MemoryTrouble: there is none of that number.
        """
        with self._lock:
            versions = self._load()
            if not 1 <= number <= len(versions):
                raise MemoryTrouble(f"there is no version {number}", mend="homebody memory log")
            return versions[number - 1]

    def text(self, digest: str | None) -> str | None:
        """Return a text that a version names; None for None.

        Raises:
            MemoryTrouble: it was taken away from the journal.
        """
        if digest is None:
            return None
        try:
            return zlib.decompress(self._place(digest).read_bytes()).decode("utf-8", "surrogatepass")
        except (OSError, zlib.error) as error:
            raise MemoryTrouble(
                f"the journal {self._folder} lacks a text it names: {error}", mend="homebody memory log"
            ) from error

    def diff(self, version: Version) -> str:
        """Return what a change did, as a unified diff."""
        before, after = self.text(version.before) or "", self.text(version.after) or ""
        rows = difflib.unified_diff(
            before.splitlines(),
            after.splitlines(),
            version.path,
            version.path,
            f"before {version.number}",
            version.at,
            lineterm="",
        )
        return "\n".join(rows)

    def undone(self, version: Version, now: str | None) -> str | None:
        """Return what a note is to hold when one change is taken back from ``now``; later changes of other lines stay.

        Raises:
            MemoryTrouble: the lines it changed were changed again since.
        """
        before, after = self.text(version.before), self.text(version.after)
        if now == after:
            return before
        merged = _take_back((before or "").split("\n"), (after or "").split("\n"), (now or "").split("\n"))
        if merged is None:
            raise MemoryTrouble(
                f"{version.path} was changed in the same lines since version {version.number}",
                mend=f"homebody memory log {version.path}: undo the later ones first",
            )
        return "\n".join(merged)

    def blame(self, path: str) -> Iterator[tuple[str, Version | None]]:
        """Yield each line of a note as last recorded, with the change that brought it."""
        lines: list[tuple[str, Version | None]] = []
        for version in reversed(self.versions(path)):
            new = (self.text(version.after) or "").splitlines()
            match = difflib.SequenceMatcher(None, [line for line, _ in lines], new, autojunk=False)
            kept: dict[int, Version | None] = {}
            for a, b, size in match.get_matching_blocks():
                kept.update({b + offset: lines[a + offset][1] for offset in range(size)})
            lines = [(line, kept.get(number, version)) for number, line in enumerate(new)]
        yield from lines

    def _load(self) -> list[Version]:
        """Read the log, once; a line that was torn by a crash is passed over, and the next is written behind it."""
        if self._versions is not None:
            return self._versions
        self._versions = []
        log = self._folder / "log.jsonl"
        for line in log.read_text("utf-8", "replace").splitlines() if log.exists() else ():
            try:
                raw = json.loads(line)
                version = Version(**{**raw, "author": Author(**raw["author"])})
            except (ValueError, TypeError, KeyError):
                version = Version(len(self._versions) + 1, "", "", None, None)
            self._versions.append(version)
            self._heads[version.path] = version.after
        return self._versions

    def _append(self, version: Version, *, durably: bool) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        log = self._folder / "log.jsonl"
        fd = os.open(log, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(fd).st_size
            torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
            os.write(fd, b"\n" * torn + json.dumps(asdict(version), ensure_ascii=False).encode("utf-8", "replace") + b"\n")
            if durably:
                os.fsync(fd)
        finally:
            os.close(fd)

    def _keep(self, text: str, *, durably: bool) -> str:
        data = text.encode("utf-8", "surrogatepass")
        digest = hashlib.sha256(data).hexdigest()
        place = self._place(digest)
        if not place.exists():
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            half = place.with_name(f"{place.name}.{os.getpid()}.half")
            with half.open("wb") as file:
                file.write(zlib.compress(data, 6))
                file.flush()
                if durably:
                    os.fsync(file.fileno())
            half.replace(place)
        return digest

    def _place(self, digest: str) -> Path:
        return self._folder / "texts" / digest[:2] / digest[2:]


def _take_back(before: list[str], after: list[str], now: list[str]) -> list[str] | None:
    """Undo the step from ``before`` to ``after`` in ``now``: each changed run of lines is found again where it lies today."""
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
