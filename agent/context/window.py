"""The context window: the sizes at which memory is flushed and history is compacted."""

from __future__ import annotations

from msgspec import Struct

from agent.settings import CompactionSettings

LEAST_TALK = 1000
"""Tokens of conversation that a window must hold beside the instructions and tools to be of use: a few short turns."""
_USABLE = 0.7
"""Share of a small window that lies below the flush line: all but a quarter and a fifth of that."""


def least_window(fixed: int) -> int:
    """Return the smallest window of use, in tokens, where instructions and tools take ``fixed`` of it."""
    return -int(-(fixed + LEAST_TALK) / _USABLE // 100) * 100


class Window(Struct, frozen=True):
    """A context window and what is kept free of it, in tokens.

    With the reserve in force R = max(reserveTokens, reserveTokensFloor), at most a quarter of the window, and the soft
    threshold S, at most a fifth of R: flush from ``size - R - S`` on, compact above ``size - R``. A 200,000 window with the
    defaults flushes at 176,000. The flush line always lies below the compaction line, whatever the settings.
    """

    size: int
    reserve: int
    soft: int

    @classmethod
    def of(cls, size: int, settings: CompactionSettings) -> Window:
        """Work the lines out for a window of ``size`` tokens."""
        reserve = min(max(settings.reserve_tokens, settings.reserve_tokens_floor), size // 4)
        return cls(size, reserve, min(settings.memory_flush.soft_threshold_tokens, reserve // 5))

    @property
    def flush_at(self) -> int:
        """Flush when the context is this large or larger."""
        return self.size - self.reserve - self.soft

    @property
    def compact_above(self) -> int:
        """Compact when the context is larger than this."""
        return self.size - self.reserve
