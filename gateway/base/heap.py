"""Keeps the memory of a process that runs for months small."""

from __future__ import annotations

import contextlib
import ctypes
import linecache
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_ARENA_MAX: Final = -8
"""Parameters of mallopt(3)."""
_TRIM_BYTES: Final = 65_536
_ARENAS: Final = 2


def keep_heap_small() -> None:
    """Have the C library use few heaps and give back what is free at their end. Call it before threads are started.

    By default each thread gets a heap of its own, and heaps keep what they once needed: 4 of 84 MB at rest. Without glibc nothing is
    changed.
    """
    with contextlib.suppress(OSError, AttributeError):  # a C library without mallopt
        library = ctypes.CDLL(None)
        library.mallopt(_M_ARENA_MAX, _ARENAS)
        library.mallopt(_M_TRIM_THRESHOLD, _TRIM_BYTES)


def give_back() -> None:
    """Give back what is free within heaps, too, and lines of source code that were read for the log. Blocks for some milliseconds."""
    linecache.clearcache()
    with contextlib.suppress(OSError, AttributeError):  # a C library without malloc_trim
        ctypes.CDLL(None).malloc_trim(0)
