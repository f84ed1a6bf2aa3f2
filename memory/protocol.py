"""Protocols and values of a memory: what the agent and the gateway use, and what other packages implement."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from memory.audience import Audience


class Author(Struct, frozen=True):
    """Who changed a note: ``kind`` "agent" with its session and turn, or "owner" for what was changed by hand."""

    kind: str = "owner"
    name: str = ""
    session: str = ""
    turn: str = ""


Recorded: TypeAlias = "Callable[[str, Author, str | None], None]"
"""Is told of a change: the path of the file, who changed it, and its text, None where that is not at hand or the file is gone."""


class Clock(Protocol):
    """Source of time; tests pass their own."""

    def now(self) -> datetime:
        """Return the current instant, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class Hit(Struct, frozen=True, kw_only=True):
    """One search result. Lines are 1-based and inclusive; ``path`` is relative to the workspace.

    ``pieces`` are first and last line of each run of lines in ``snippet``, where it has not all from the first to the last: there,
    "[… line 20]" stands between them. Empty: it has all.
    """

    path: str
    start_line: int
    end_line: int
    score: float
    snippet: str
    source: Literal["memory", "sessions"] = "memory"
    pieces: tuple[tuple[int, int], ...] = ()


class SearchAnswer(Struct, frozen=True, kw_only=True):
    """Answer to a search. ``note`` is a remark for the reader, or None (results are stale, keyword only, nothing relevant).

    ``nearest``: where nothing is relevant by the words of the query, lines that are nearly as near it in meaning as answers are. They may
    answer it in other words or in another language, or be about something else: whoever reads them has to judge.
    """

    hits: tuple[Hit, ...]
    provider: str
    model: str
    fallback: str | None = None
    stale: bool = False
    note: str | None = None
    nearest: tuple[Hit, ...] = ()


class Excerpt(Struct, frozen=True, kw_only=True):
    """Lines of a memory file. ``cut`` means that more lines follow."""

    path: str
    text: str
    start_line: int
    end_line: int
    cut: bool = False


class Memory(Protocol):
    """The notes of one agent's workspace, searchable.

    Raises ``memory.errors.MemoryUnreadable`` for a path that does not exist, lies outside, or is not this audience's to see
    (only the owner gets different messages for the three).
    """

    async def search(
        self, query: str, *, audience: Audience, max_results: int | None = None, min_score: float | None = None
    ) -> SearchAnswer:
        """Find passages. Never waits for a sync; works without an embedder."""
        ...

    async def get(self, path: str, *, audience: Audience, from_line: int = 1, lines: int | None = None) -> Excerpt:
        """Read lines of one memory file."""
        ...

    async def writing(self, path: str) -> None:
        """Called before a tool changes ``path``, so that the history separates its change from earlier ones by the owner.

        Also of files of prompts, which are no notes: a memory without a history of them does nothing.
        """
        ...

    async def wrote(self, path: str, *, by: Author | None = None) -> None:
        """Called after a tool changed ``path`` (relative to the workspace). Keyword search finds the new text on return.

        ``by`` is recorded in the history of the notes.
        """
        ...


class KeptMemory(Memory, Protocol):
    """A memory with background work, kept open while the gateway runs."""

    def start(self) -> None:
        """Start background work. Called once, in the event loop, before any search."""
        ...

    def session_began(self) -> None:
        """Called when a session begins: a good moment to look for changes."""
        ...

    async def close(self) -> None:
        """Stop background work and release all resources. Also called if ``start`` was not."""
        ...
