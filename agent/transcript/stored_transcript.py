"""Where the lines of a transcript are kept: in a file, or in a database."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Final, NamedTuple, Protocol

HEAD_BYTES: Final = 240
"""A line begins with its kind and id, which are shorter than that but for ids of foreign programs."""


class TranscriptStat(NamedTuple):
    """The length of a transcript in bytes, when it was last written, and what changes where it is replaced by another one."""

    size: int
    written_ns: int
    identity: tuple[int, ...]


class Contents(NamedTuple):
    """What whoever goes on with a transcript reads of it: how all lines begin, and from some line on all of each.

    ``heads`` has at least the first ``HEAD_BYTES`` of every line, without its end. ``whole`` returns the lines from one number to before
    another. ``torn`` is where a torn end was set aside, "" where there was none.
    """

    size: int
    heads: Sequence[bytes]
    whole: Callable[[int, int], Sequence[bytes]]
    torn: str = ""

    @classmethod
    def of(cls, data: bytes, torn: str = "") -> Contents:
        """Return those of a transcript that was read already."""
        lines = data.split(b"\n")[:-1]
        return cls(len(data), lines, lambda first, end: lines[first:end], torn)


class StoredTranscript(Protocol):
    """The lines of one session's transcript. Reading sees what was appended before. All methods block, and raise OSError.

    A place is the byte at which a line begins, as if the lines were one file: it is the same wherever they are kept.
    """

    @property
    def session(self) -> str:
        """The id of the session."""
        ...

    @property
    def where(self) -> str:
        """Where it is kept, in words for people."""
        ...

    @property
    def archived(self) -> bool:
        """Whether it was put away: nothing is appended any more."""
        ...

    def exists(self) -> bool:
        """Return whether there is such a transcript."""
        ...

    def stat(self) -> TranscriptStat:
        """Return what shows changes. Raises FileNotFoundError where there is no such transcript."""
        ...

    def contents(self, now: datetime) -> Contents:
        """Return what there is, for whoever goes on with it; nothing where there is no such transcript. A torn end is set aside."""
        ...

    def lines(self, start: int = 0) -> Iterator[bytes]:
        """Yield the lines from a place on, each with its end; the last may lack it while it is being written."""
        ...

    def lines_at(self, places: Sequence[int]) -> list[bytes]:
        """Return the lines at some places, which are in order."""
        ...

    def lines_backwards(self, before: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Yield the lines before a place, the last first, each with its own place and without its end."""
        ...

    def append(self, data: bytes) -> int:
        """Add whole lines durably and return the length after them. It is as it was where that fails."""
        ...

    def replace(self, data: bytes, *, aside: str = "") -> str:
        """Put other lines in place of all that are there; it counts as written when it was before.

        ``aside`` is an ending of a name under which the former lines are kept; returns where they are, "" where they are not.
        """
        ...
