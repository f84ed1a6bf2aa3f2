"""Whose a process's memory is: Python's, SQLite's, the rest of the C heap's, or of files that are mapped. On Linux with glibc."""

from __future__ import annotations

import ctypes
import os
import re
import sys
import tempfile
from pathlib import Path

import apsw

PYTHON, ARENAS, SQLITE, HEAP, FREE, FILES = (
    "Python, MB",
    "free in Python's arenas, MB",
    "SQLite, MB",
    "C heap, MB",
    "free in the C heap, MB",
    "mapped files, MB",
)
SHARES = (PYTHON, ARENAS, SQLITE, HEAP, FREE, FILES)
"""Objects of up to 512 bytes are Python's; larger ones are in the C heap, with what extensions and libraries allocate."""


class Mallinfo(ctypes.Structure):
    """What mallinfo2(3) returns."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ["arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"]
    ]


def python_heap() -> tuple[int, int]:
    """Return the bytes that Python's small objects take, and those of the arenas that they lie in."""
    with tempfile.TemporaryFile() as file:
        sys.stderr.flush()
        usual = os.dup(2)
        try:
            os.dup2(file.fileno(), 2)  # it can only be printed
            sys._debugmallocstats()
        finally:
            os.dup2(usual, 2)
            os.close(usual)
        file.seek(0)
        text = file.read().decode()
    used = re.search(r"# bytes in allocated blocks\s*=\s*([\d,]+)", text)
    arenas = re.search(r"\n\d+ arenas \* \d+ bytes/arena\s*=\s*([\d,]+)", text)
    return tuple(int(found[1].replace(",", "")) if found else 0 for found in (used, arenas))  # type: ignore[return-value]


def shares() -> dict[str, float]:
    """Return the megabytes of each share."""
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = Mallinfo
    heap, sqlite, (used, arenas) = mallinfo(), apsw.memory_used(), python_heap()
    mapped = int(Path("/proc/self/status").read_text(encoding="ascii").partition("RssFile:")[2].split()[0]) * 1024
    found = used, arenas - used, sqlite, heap.uordblks + heap.hblkhd - sqlite, heap.fordblks, mapped
    return {name: value / 2**20 for name, value in zip(SHARES, found, strict=True)}
