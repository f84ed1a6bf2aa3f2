"""What can go wrong with memory.

MemoryTrouble
├── MemoryUnreadable    a path that is missing, outside, or not this audience's to see
├── EmbeddingFailed     an embedding provider gave no vectors; search goes on by keyword
└── IndexBroken         the index file cannot be used; it is set aside and rebuilt
"""

from __future__ import annotations


class MemoryTrouble(Exception):
    """Base of this room. ``hint`` is the command or step that puts it right, or an empty string."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class MemoryUnreadable(MemoryTrouble):
    """Raised for a path that does not exist, lies outside the memory, or is not this audience's to see."""


class EmbeddingFailed(MemoryTrouble):
    """Raised by an embedder. ``passing`` says that trying again later may help; ``retry_after`` is in seconds.

    ``about_text`` says that one of the texts is to blame: the others may still be embedded, each by itself.
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
