"""Makes commits of what changed in a workspace: one for each who changed something, by what was reported."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from agent.errors import WorkspaceFileError
from gateway.workspaces.carried_files import Scan
from gateway.workspaces.carried_record import RECORD
from gateway.workspaces.commit_stream import FILE, Entry, NewCommit, Tree, Written, blob_of
from gateway.workspaces.merging import names_of
from memory.protocol import Author

OWNER: Final = Author()


class Reported(Struct, frozen=True):
    """A change of which we know who made it. ``text``: what the file held then, where somebody else changed it afterwards."""

    path: str
    author: Author
    text: str | None = None

    @property
    def data(self) -> bytes:
        """The text as it was in the file."""
        return (self.text or "").encode("utf-8", "surrogateescape")


class AuthoredCommits:
    """The commits for one scan. ``taken`` and ``dropped`` tell afterwards what came into them: a file may change while it is read."""

    def __init__(self, agent: str, scan: Scan, read: Callable[[str], bytes], record: Callable[[], bytes | None]) -> None:
        self.taken: Tree = {}
        self.dropped: set[str] = set()
        self._agent = agent
        self._scan = scan
        self._read = read
        self._record = record

    def of(self, reported: Sequence[Reported], rest: Author, former: Sequence[Reported]) -> list[NewCommit]:
        """Return a commit for each author; ``rest`` is that of what was not reported.

        Before them is one for each of the ``former`` texts, which are no longer in the folder.
        """
        last = {one.path: one.author for one in reported}
        by_author: dict[Author, list[str]] = {}
        for path in sorted(self._scan.changed):
            by_author.setdefault(last.get(path, rest), []).append(path)
        groups = list(by_author.items()) or [(OWNER, [])]
        return [
            *(self._commit(one.author, [one.path], [Written(one.path, data=one.data)]) for one in former),
            *(self._commit(author, paths, self._changes(paths, last=author == groups[-1][0])) for author, paths in groups),
        ]

    def _commit(self, author: Author, paths: list[str], changes: Sequence[Written] | Iterator[Written]) -> NewCommit:
        who = "owner" if author.kind != "agent" else author.name or self._agent
        return NewCommit(author=who, message=_message(self._agent, author, paths), changes=changes)

    def _changes(self, paths: list[str], *, last: bool) -> Iterator[Written]:
        for path in paths:
            entry = self._scan.changed[path]
            if entry is None:
                self.dropped.add(path)
                yield Written(path)
                continue
            with contextlib.suppress(WorkspaceFileError):  # gone or changed just now: the next commit has it
                data = self._read(path)
                if blob_of(data) == entry.blob:
                    self.taken[path] = entry
                    yield Written(path, entry.mode, data=data)
        if last and (lines := self._record()) is not None:  # marks are written before what they mark, so they are read after it
            self.taken[RECORD] = Entry(FILE, blob_of(lines), len(lines))
            yield Written(RECORD, data=lines)


def _message(agent: str, author: Author, paths: list[str]) -> str:
    by = author.name if author.kind != "agent" else ""
    facts = {"Homebody-Session": author.session, "Homebody-Turn": author.turn, "Homebody-By": by}
    trailers = [f"{key}: {json.dumps(value)[1:-1]}" for key, value in facts.items() if value]
    what = names_of(paths) if paths else "the record of untrusted lines"
    return "\n".join([f"{agent}: {what}", *(["", *trailers] if trailers else []), ""])


def former_texts(reported: list[Reported]) -> list[Reported]:
    """Keep the text of a change only where somebody else changed the file afterwards; that of the last change is in the file."""
    following: dict[str, Author] = {}
    found: list[Reported] = []
    for one in reversed(reported):
        if one.path not in following:
            found.append(Reported(one.path, one.author))
        elif one.author != following[one.path] and one.text is not None:
            found.append(one)
        following[one.path] = one.author
    return found[::-1]
