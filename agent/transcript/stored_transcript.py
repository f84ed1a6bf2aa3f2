"""Where the lines of a transcript are kept: in a file, or in a database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol


class TranscriptStat(NamedTuple):
    """The length of a transcript in bytes, when it was last written, and what changes where it is replaced by another one."""

    size: int
    written_ns: int
    identity: tuple[int, ...]


class Contents(NamedTuple):
    """All of a transcript, and where a torn end was set aside, "" where there was none."""

    data: bytes
    torn: str = ""


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
        """Return everything, for whoever goes on with it; nothing where there is no such transcript. A torn end is set aside."""
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
