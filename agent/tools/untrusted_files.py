"""Which files of a workspace hold untrusted text: by where they lie, and by a record of what was written while such text was in view.

The record is kept line by line, as hashes: a note that the owner writes in too stays trusted but for the lines that came from outside,
and whoever rewrites a line vouches for it. It lies outside the workspace, so that no tool can change it.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path, PurePosixPath
from typing import Final, Protocol

from agent.taint import merged, source
from agent.tools.packed_marks import NAME, WHOLE, Marks, PackedMarks
from agent.tools.skill_files import SkillFiles
from agent.tools.untrusted_record import append, line_of, lines_of, loaded, rewrite
from agent.tools.workspace_changes import GIT
from agent.transcript.stored_transcript import StoredTranscript
from memory.audience import INBOX

MOST_LINES: Final = 2000
"""A longer text is recorded as a whole."""
_TIMES: Final = 1000
"""How many of the latest times of recording are told apart; commands, for which they are asked, seldom run for long."""
_TAINT: Final = b'"taint":["'
"""What the line of an entry holds that has untrusted sources (``agent.messages.Taint``)."""
_OUR_FOLDERS: Final = frozenset({INBOX, "memory", "memory/peers", "memory/groups", "skills"})
"""Folders of notes, of received files, of guests, groups and skills: they have names of ours."""
_SKILLS: Final = "skills"
_IN_SKILL: Final = 2
"""Parts of the path of a skill's folder."""


class Unfinished(Protocol):
    """What commands that have not ended changed, which the record does not say yet. False where none runs. All methods block."""

    @property
    def running(self) -> Mapping[str, object]:
        """The commands that have not ended, by name."""
        ...

    def __bool__(self) -> bool: ...

    def checked_once(self) -> AbstractContextManager[None]:
        """Look once for all questions within what has come within reach of commands that had nothing untrusted there."""
        ...

    def marks(self, path: PurePosixPath, text: str | None = None) -> Marks:
        """Return what is to be said of a file or folder, or of ``text`` that was read out of it just now."""
        ...

    def below(self, folder: PurePosixPath) -> Mapping[PurePosixPath, Marks]:
        """Return what is to be said of a folder, or a file, and of all below it."""
        ...


class UntrustedFiles:
    """The record of one agent's workspace. Safe to use from several threads; all methods may block.

    ``path`` is where it is kept; None keeps it in memory. ``sessions`` returns a transcript of the agent. ``mark`` returns once the
    record is on disk: it is called before the file is written, so that a crash between the two leaves no untrusted line without its mark.
    ``skills`` tells which skills the owner approved: the text of others is untrusted, and that of approved ones is the owner's.
    Ask after what is judged was read: a command that runs (``unfinished``) may write at any moment.
    """

    def __init__(
        self,
        path: Path | None = None,
        sessions: Callable[[str], StoredTranscript] | None = None,
        skills: SkillFiles | None = None,
    ) -> None:
        self.skills = skills
        self.unfinished: Unfinished | None = None
        self.changes = 0
        """Counts the changes of the record: what was asked at the same count is answered in the same way, while no command runs."""
        self._own: dict[str, set[str]] = {}
        self._path = path
        self._sessions = sessions
        self._lock = threading.Lock()
        self._marks: PackedMarks | None = None if path else PackedMarks()
        self._times: list[tuple[int, int]] = []
        """When something was recorded by this process, and since when it may have been there."""

    def mark(self, path: PurePosixPath, text: str, sources: Iterable[str], *, named: bool = False) -> None:
        """Record that ``text`` is written to ``path`` while text from ``sources`` is in view. ``named``: so was its name chosen.

        Raises OSError where the record cannot be written.
        """
        marks = dict(self.marks_for(text, merged(sources)))
        if named:
            marks[NAME] = merged(sources)
        self.add([(path, marks)])

    def mark_whole(self, path: PurePosixPath, sources: Iterable[str], *, named: bool = True) -> None:
        """Record that nothing in a file can be trusted, such as one that a command made. Raises OSError."""
        self.add([(path, dict.fromkeys((WHOLE, NAME) if named else (WHOLE,), merged(sources)))])

    def marks_for(self, text: str, sources: tuple[str, ...]) -> Marks:
        """Return the marks of a text whose lines are all untrusted."""
        lines = {digest for line in text.splitlines() if (digest := _digest(line))}
        return dict.fromkeys({WHOLE} if len(lines) > MOST_LINES else sorted(lines), sources)

    def marks_of(self, path: PurePosixPath) -> Marks:
        """Return what is known of a file, by the record or by where it lies; nothing of commands that have not ended."""
        if _lies_outside(path) or self._skill(path):
            return dict.fromkeys((WHOLE, NAME), self.of(path))
        return dict(self._recorded(path))

    def holding(self, folders: Iterable[PurePosixPath]) -> list[bool]:
        """Say of each folder whether it, or its name, is untrusted, or a file is that lies in it and not deeper."""
        known = self._read()
        paths = {*known.newest(), *known.newest(named=True)}
        places = {*paths, *(str(PurePosixPath(path).parent) for path in paths)}
        return [str(folder).casefold() in places or bool(_lies_outside(folder / "any")) for folder in folders]

    def vouch(self, path: PurePosixPath, text: str) -> None:
        """Record that the lines of ``text`` are a trusted person's own words, whoever wrote them to ``path`` before. Raises OSError."""
        self.own_lines(path, text.splitlines())
        known = self._read()
        marks = known[str(path).casefold()]
        lines = {digest for line in text.splitlines() if (digest := _digest(line)) in marks}
        with self._lock:
            if lines:
                if self._path is not None:
                    append(self._path, line_of(str(path), sorted(lines), ()))
                known.remove(str(path).casefold(), lines)
                self.changes += 1

    def rename_sources(self, renamed: Callable[[str], str]) -> None:
        """Rename the sources in the record, and write it anew where one has another name then. Raises OSError."""
        known = self._read()
        with self._lock:
            former = dict(known.items())
            fresh = {
                path: {key: tuple(map(renamed, sources)) for key, sources in marks.items()} for path, marks in former.items()
            }
            if fresh == former:
                return
            if self._path is not None:
                rewrite(self._path, fresh.items())
            known.replace(fresh)
            self.changes += 1

    def lines(self) -> bytes:
        """Return the record as it is kept, for another machine that takes the workspace over."""
        with self._lock:
            try:
                return self._path.read_bytes() if self._path is not None else b""
            except FileNotFoundError:
                return b""

    def take_in(self, lines: bytes) -> None:
        """Add lines that another machine recorded (``lines``), and copy nothing twice. Raises OSError."""
        if self._path is None:
            return
        here = self.lines()
        known = set(here.splitlines())
        new = [line for line in lines.splitlines() if line and line not in known]
        if not new:
            return
        with self._lock:
            torn = bool(here) and not here.endswith(b"\n")
            append(self._path, b"\n" * torn + b"\n".join([*new, b""]))
            self._marks = None
            self.changes += 1

    def record_unfinished(self, paths: Iterable[PurePosixPath]) -> None:
        """Record what commands that have not ended wrote to these files: another machine is about to get them. Raises OSError."""
        if self.unfinished:
            with self.unfinished.checked_once():
                self.add([(path, marks) for path in paths if (marks := self.unfinished.marks(path))])

    def copied(self, path: PurePosixPath, copy: PurePosixPath) -> None:
        """Record that what is known of one file holds for another version of it, too. Raises OSError."""
        self.add([(copy, self.marks_of(path))])

    def own_lines(self, path: PurePosixPath, lines: Iterable[str]) -> None:
        """Take note of lines that are written to a note with nothing untrusted in view: no command that runs is taken for their author."""
        if self.unfinished:
            with self._lock:
                self._own.setdefault(str(path).casefold(), set()).update(lines)

    def own_lines_of(self, path: PurePosixPath) -> Collection[str]:
        """Return the lines that were written to a note with nothing untrusted in view while commands run."""
        with self._lock:
            return frozenset(self._own.get(str(path).casefold(), ()))

    def forget_own_lines(self) -> None:
        """Forget them: no command runs any more."""
        with self._lock:
            self._own.clear()

    def of(self, path: PurePosixPath, text: str | None = None) -> tuple[str, ...]:
        """Return the sources of the untrusted text in a file, or in ``text`` out of it; empty where all of it can be trusted.

        The first source is the file itself.
        """
        if kind := _lies_outside(path):
            return (source(kind, str(path)),)
        if (skill := self._skill(path)) is not None:
            return (skill,) if skill else ()
        marks = self._of(path, text)
        if text is None or WHOLE in marks:
            found = [sources for key, sources in marks.items() if key != NAME]
        else:
            found = [marks[digest] for line in text.splitlines() if (digest := _digest(line)) in marks]
        return (_itself(path), *merged(*found)) if found else ()

    def of_name(self, path: PurePosixPath) -> tuple[str, ...]:
        """Return the sources that may have chosen the name of a file or folder."""
        if str(path).casefold() in _OUR_FOLDERS:
            return ()
        if kind := _lies_outside(path):
            return (source(kind, str(path)),)
        return self._of(path).get(NAME, ())

    def of_path(self, path: PurePosixPath) -> tuple[str, ...]:
        """Return the sources that may have chosen a name on the way to a file, its own included."""
        return merged(*(self.of_name(one) for one in (path, *path.parents) if one.parts))

    def of_session(self, name: str) -> tuple[str, ...]:
        """Return the session itself as a source where untrusted text was in view in it. ``name`` is its id, or that with ``.jsonl``."""
        session = name.removesuffix(".jsonl")
        if self._sessions is None or PurePosixPath(name).name != name:
            return (source("session", session),)
        try:
            tainted = any(_TAINT in line for line in self._sessions(session).lines())
        except OSError:
            tainted = True
        return (source("session", session),) if tainted else ()

    def below(self, folder: PurePosixPath) -> tuple[str, ...]:
        """Return the files at or below a folder in which the record names something, as sources, the newest first."""
        start = PurePosixPath(str(folder).casefold())
        known = [*self._unrecorded(folder, _holds), *map(PurePosixPath, self._read().newest())]
        found = [_itself(path) for path in known if (path == start or start in path.parents) and self._skill(path) != ""]
        skills = self.skills.in_workspace() if self.skills is not None else {}
        near = [one for path, one in sorted(skills.items()) if path == start or start in path.parents or path in start.parents]
        return tuple(dict.fromkeys((*found, *filter(None, near))))

    def first_since(self, since: int) -> int | None:
        """Return since when something may have been there that this process recorded at or after a time; None where it recorded nothing.

        In nanoseconds, and not before ``since``.
        """
        return min((max(there, since) for recorded, there in self._times if recorded >= since), default=None)

    @contextmanager
    def checked_once(self) -> Iterator[None]:
        """Look at the commands that run once for all that is asked within, which was read before. Not to be held over an ``await``."""
        if self.unfinished:
            with self.unfinished.checked_once():
                yield
        else:
            yield

    def names(self, folder: PurePosixPath, *, deep: bool) -> tuple[str, ...]:
        """Return what has an untrusted name, as sources, the newest first: a path, what lies in it, and with ``deep`` all below."""
        if kind := _lies_outside(folder):
            return (source(kind, str(folder)),)
        start = PurePosixPath(str(folder).casefold())
        known = [*self._unrecorded(folder, _is_named), *map(PurePosixPath, self._read().newest(named=True))]
        found = [
            _itself(path)
            for path in known
            if path == start or (start in path.parents if deep else path.parent == start and path.name != GIT)
        ]
        return tuple(dict.fromkeys(found))

    def of_elsewhere(self, path: Path) -> str | None:
        """Return the source of a file outside of the workspace, "" where it is one of an approved skill; None for any other."""
        return None if self.skills is None else self.skills.outside(path)

    def _skill(self, path: PurePosixPath) -> str | None:
        """Return the source of the skill in the workspace that a path belongs to, "" for an approved one; None for any other path."""
        if self.skills is None or len(path.parts) < _IN_SKILL or path.parts[0].casefold() != _SKILLS:
            return None
        wanted = str(path).casefold()
        return next(
            (one for folder, one in self.skills.in_workspace().items() if f"{wanted}/".startswith(f"{folder}/".casefold())),
            None,
        )

    def _unrecorded(self, folder: PurePosixPath, wanted: Callable[[Marks], bool]) -> list[PurePosixPath]:
        """Return the paths below a folder of which commands that run have something to say."""
        if not self.unfinished:
            return []
        with self.unfinished.checked_once():
            found = self.unfinished.below(folder)
        return [PurePosixPath(str(path).casefold()) for path, marks in found.items() if wanted(marks)]

    def trusted(self, path: PurePosixPath, text: str) -> tuple[str, tuple[str, ...]]:
        """Return ``text`` out of a file without its untrusted lines, and the sources of those."""
        marks = self._of(path, text)
        if not marks:
            return text, ()
        kept, left = [], []
        for line in text.splitlines(keepends=True):
            found = marks.get(WHOLE) or marks.get(_digest(line))
            if found and line.strip():
                left.append(found)
            else:
                kept.append(line)
        return "".join(kept), merged(*left)

    def _of(self, path: PurePosixPath, text: str | None = None) -> Marks:
        recorded = self._recorded(path)
        if not self.unfinished:
            return recorded
        with self.unfinished.checked_once():
            return joined([recorded, self.unfinished.marks(path, text)])

    def _recorded(self, path: PurePosixPath) -> Marks:
        return self._read()[str(path).casefold()]

    def add(self, found: Iterable[tuple[PurePosixPath, Marks]], *, since: int | None = None) -> None:
        """Record marks of files, all with one write. What is known of a file already stays as it is. Raises OSError.

        ``since`` is when the first of it may have been written, in nanoseconds; now if omitted.
        """
        known = self._read()
        with self._lock:
            fresh: list[tuple[str, Marks]] = []
            for path, marks in found:
                name, former = str(path), known[str(path).casefold()]
                if new := {key: sources for key, sources in marks.items() if key not in former}:
                    fresh.append((name, new))
            if fresh and self._path is not None:
                append(self._path, b"".join(line for name, new in fresh for line in lines_of(name, new)))
            if fresh:
                now = time.time_ns()
                self._times.append((now, now if since is None else since))
                if len(self._times) > _TIMES:  # what two that are long past say together is said by the later one
                    (_, first), (recorded, there) = self._times[:2]
                    self._times[:2] = [(recorded, min(first, there))]
            for name, added in fresh:
                known.add(name.casefold(), added)
            self.changes += 1

    def _read(self) -> PackedMarks:
        if self._marks is None:
            with self._lock:
                if self._marks is None:
                    assert self._path is not None
                    self._marks = loaded(self._path)
        return self._marks


def joined(found: Iterable[Marks]) -> Marks:
    """Return marks of one file together: what several say of the same lines has the sources of all of them."""
    known: dict[str, tuple[str, ...]] = {}
    for marks in found:
        for key, sources in marks.items():
            known[key] = merged(known[key], sources) if key in known else sources
    return known


def _holds(marks: Marks) -> bool:
    return any(key != NAME for key in marks)


def _is_named(marks: Marks) -> bool:
    return NAME in marks


def _lies_outside(path: PurePosixPath) -> str:
    """Return the kind of source that a file is by where it lies: received files, and notes of guests and groups."""
    parts = tuple(part.casefold() for part in path.parts)
    if parts[:1] == (INBOX,):
        return "file"
    if parts[:1] == ("memory",) and parts[1:2] in {("peers",), ("groups",)}:
        return "file" if INBOX in parts[2:] else "note"
    return ""


def _itself(path: PurePosixPath) -> str:
    return source("note" if path.suffix.casefold() == ".md" else "file", str(path))


def _digest(line: str) -> str:
    """Return what a line is known by; empty for one without a letter or figure."""
    plain = line.strip()
    if not any(map(str.isalnum, plain)):
        return ""
    return hashlib.blake2b(plain.encode("utf-8", "replace"), digest_size=8).hexdigest()
