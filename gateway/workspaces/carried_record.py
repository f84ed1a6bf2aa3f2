"""Takes the record of untrusted lines along with a workspace, so that whoever takes it over trusts no line more."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import PurePosixPath
from typing import Final, Protocol, TypeAlias

from gateway.base.errors import StorageFailed
from gateway.workspaces.commit_stream import Tree, blob_of
from gateway.workspaces.merging import Beside

RECORD: Final = ".homebody/untrusted.jsonl"
"""The path of the record in the repository. It is never a file of the workspace."""
LOST: Final = "exec:ended_with_its_gateway"
"""The source of what a command may have written that a gateway was killed with."""
Contents: TypeAlias = "Callable[[Iterable[str]], dict[str, bytes]]"


class Record(Protocol):
    """What is used of ``agent.tools.untrusted_files.UntrustedFiles``."""

    def lines(self) -> bytes:
        """Return the record as it is kept."""
        ...

    def take_in(self, lines: bytes) -> None:
        """Add lines that another machine recorded. Raises OSError."""
        ...

    def record_unfinished(self, paths: Iterable[PurePosixPath]) -> None:
        """Record what commands that have not ended wrote to these files. Raises OSError."""
        ...

    def mark_whole(self, path: PurePosixPath, sources: Iterable[str]) -> None:
        """Record that nothing in a file can be trusted. Raises OSError."""
        ...

    def copied(self, path: PurePosixPath, copy: PurePosixPath) -> None:
        """Record that what is known of one file holds for another version of it, too. Raises OSError."""
        ...


class CarriedRecord:
    """The record here and in the repository. Lines are added on both sides and never removed. Without ``record`` there is none here."""

    def __init__(self, record: Record | None) -> None:
        self._record = record

    def ahead_of(self, tree: Tree, contents: Contents) -> bytes | None:
        """Return what is in the repository with what is here; None where the repository has all of it."""
        there, here = tree.get(RECORD), self._record.lines() if self._record is not None else b""
        if there is None or not here:
            return here or None
        if there.blob == blob_of(here):
            return None
        data = union(contents([there.blob])[there.blob], here)
        return None if there.blob == blob_of(data) else data

    def joined(self, trees: Iterable[Tree], contents: Contents) -> bytes | None:
        """Return what several commits have, and what is here."""
        blobs = [tree[RECORD].blob for tree in trees if RECORD in tree]
        found = contents(blobs)
        data = b""
        for blob in blobs:
            data = union(data, found[blob])
        return union(data, self._record.lines() if self._record is not None else b"") or None

    def take_in(self, tree: Tree, contents: Contents) -> None:
        """Add what a commit has to what is here, before files of that commit are written. Raises StorageFailed."""
        there = tree.get(RECORD)
        if there is not None and there.plain:
            self._write(lambda record: record.take_in(contents([there.blob])[there.blob]))

    def committed(self, paths: Iterable[str]) -> None:
        """Record what commands that still run wrote to files that are being committed, after these were read. Raises StorageFailed."""
        self._write(lambda record: record.record_unfinished(map(PurePosixPath, paths)))

    def doubt(self, paths: Iterable[str]) -> None:
        """Record that nothing in these files can be trusted: a command whose end nobody saw may have written them. Raises StorageFailed."""

        def mark(record: Record) -> None:
            for path in paths:
                record.mark_whole(PurePosixPath(path), [LOST])

        self._write(mark)

    def copied(self, beside: Beside) -> None:
        """What is untrusted in a file is so in its other version. Raises StorageFailed."""
        self._write(lambda record: record.copied(PurePosixPath(beside.path), PurePosixPath(beside.kept_as)))

    def _write(self, work: Callable[[Record], object]) -> None:
        if self._record is None:
            return
        try:
            work(self._record)
        except OSError as error:
            raise StorageFailed.from_os(error, "record which lines are untrusted", RECORD) from error


def union(one: bytes, two: bytes) -> bytes:
    """Return the lines of one text, and those of the other that it lacks."""
    known = set(one.splitlines())
    lines = [*one.splitlines(), *(line for line in two.splitlines() if line not in known)]
    return b"".join(line + b"\n" for line in lines if line)


def without_record(tree: Tree) -> Tree:
    """Return what of a tree is files of the workspace."""
    return {path: entry for path, entry in tree.items() if path != RECORD}
