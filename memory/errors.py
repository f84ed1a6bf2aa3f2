"""Errors of memory.

MemoryTrouble
├── MemoryUnreadable    a path that does not exist, lies outside, or must not be seen by this audience
├── MemoryConflict      a change that was made already, or whose lines were changed meanwhile
├── EmbeddingFailed     an embedder returned no vectors; search uses keywords only
└── IndexBroken         the index file cannot be used
    └── IndexBusy       another process writes to it; what it holds can be searched meanwhile
"""

from __future__ import annotations


class MemoryTrouble(Exception):
    """Base of all errors of memory. ``hint`` is the command or step that fixes it, or an empty string."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class MemoryUnreadable(MemoryTrouble):
    """Raised for a path that does not exist, lies outside the memory, or must not be seen by this audience."""


class MemoryConflict(MemoryTrouble):
    """Raised when something cannot be done as the notes are now: it was done already, or the same lines were changed meanwhile."""


class EmbeddingFailed(MemoryTrouble):
    """Raised by an embedder. ``passing`` means that the failure is transient; ``retry_after`` is in seconds.

    ``about_text`` means that one of the texts caused it; the others can still be embedded without it.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        passing: bool = False,
        retry_after: float | None = None,
        about_text: bool = False,
    ) -> None:
        super().__init__(message, hint=hint)
        self.passing = passing
        self.retry_after = retry_after
        self.about_text = about_text


class IndexBroken(MemoryTrouble):
    """Raised when the index file cannot be used."""

    about_storage = True


class IndexBusy(IndexBroken):
    """Raised when something cannot be written now, as another process has been writing to the index for long."""
