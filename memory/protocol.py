"""What a memory is to the rest of the house."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from datetime import datetime

    from memory.audience import Audience


@dataclass(frozen=True, slots=True)
class Author:
    """Who changed a note: ``kind`` "agent" with its session and turn, or "owner" for what was changed by hand."""

    kind: str = "owner"
    name: str = ""
    session: str = ""
    turn: str = ""


class Clock(Protocol):
    """Time from outside, so that tests can turn it."""

    def now(self) -> datetime:
        """Return the current instant, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One place that answers a query. Lines are 1-based and inclusive; ``path`` is relative to the workspace."""

    path: str
    start_line: int
    end_line: int
    score: float
    snippet: str
    source: Literal["memory", "sessions"] = "memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchAnswer:
    """What a search came to. ``note`` tells in one sentence what a reader should know (stale, keyword only, nothing close)."""

    hits: tuple[Hit, ...]
    provider: str
    model: str
    fallback: str | None = None
    stale: bool = False
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """Lines of a memory file. ``cut`` says that more follows."""

    path: str
    text: str
    start_line: int
    end_line: int
    cut: bool = False


class Memory(Protocol):
    """The notes of one agent's workspace, searchable.

    Raises ``memory.errors.MemoryUnreadable`` for a path that does not exist, lies outside, or is not this audience's to see
    (the three are told apart only for the owner).
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
        """Take note that a tool is about to change ``path``, so that the history tells its change from the owner's before."""
        ...

    async def wrote(self, path: str, *, by: Author | None = None) -> None:
        """Take note that a tool just changed ``path`` (relative to the workspace): its new text is found by keyword on return.

        ``by`` goes into the history of the notes.
        """
        ...


class KeptMemory(Memory, Protocol):
    """A memory as the house keeps it for as long as it runs."""

    def start(self) -> None:
        """Begin what goes on in the background. Called once, in the event loop, before anybody asks."""
        ...

    def session_began(self) -> None:
        """Take note that a session began: a good moment to look for changes."""
        ...

    async def close(self) -> None:
        """End what goes on in the background and let everything go. Called also where ``start`` was not."""
        ...
