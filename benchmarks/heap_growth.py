"""Finds what makes a process grow: the code that holds more than before, and the moments at which most is held for a short time.

The second matters as much: Python gives memory back by the megabyte alone, so that what all files of a home take at once, for a
moment and each day a little more, is never given back.
"""

from __future__ import annotations

import faulthandler
import gc
import re
import sys
import tempfile
import threading
import time
import tracemalloc
from pathlib import Path

_FRAMES = 5
"""Calls that lead to an allocation of which is told."""
_MOST = 25
_SECONDS = 0.0015
_STEP = 2_000
"""Blocks by which a peak must be higher than the one before, so that not each is looked at."""
_CALL = re.compile(r'File "(.*)", line (\d+) in (.*)')
_INNERMOST = 6
_WAITING = ("wait", "select", "_worker", "get", "_readable", "acquire")
"""Functions in which a thread does nothing."""


class Growth:
    """Which code holds more at the end than at a moment before, in Python's heap alone. It makes everything some three times slower."""

    def start(self) -> None:
        """Begin to note who allocates what. What was allocated before counts for nothing."""
        gc.collect()
        tracemalloc.start(_FRAMES)

    def compare_from_here(self) -> None:
        """Take what is held now as that with which the end is compared: caches are full, so that what grows is no cache."""
        gc.collect()
        self._before = tracemalloc.take_snapshot()

    def tell(self) -> None:
        """Print what has grown most since, by the calls that lead to it."""
        gc.collect()
        now = tracemalloc.take_snapshot()
        tracemalloc.stop()
        own = [tracemalloc.Filter(inclusive=False, filename_pattern=one) for one in (tracemalloc.__file__, __file__)]
        found = now.filter_traces(own).compare_to(self._before.filter_traces(own), "traceback")
        print(f"{sum(one.size_diff for one in found) / 1e6:+.2f} MB are held that were not before; most of it:")
        for one in sorted(found, key=lambda one: -one.size_diff)[:_MOST]:
            where = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(one.traceback))
            print(f"  {one.size_diff / 1000:+8,.1f} kB, {one.count_diff:+6,} of {one.count:7,}  {where}")


class Peaks:
    """The moment of each day at which most blocks of Python's heap are taken, and what threads did then. It costs a few per cent."""

    def __init__(self) -> None:
        self._highest, self._doing, self._over = 0, "", False
        threading.Thread(target=self._watch, daemon=True).start()

    def tell(self, day: int) -> None:
        """Print the highest peak since the last call, above what is held now. Threads stand where they wait for one another, too."""
        held = sys.getallocatedblocks()
        print(f"day {day}: {self._highest - held:,} blocks more than {held:,} for a moment, in\n{self._doing}", file=sys.stderr)
        self._highest = held

    def stop(self) -> None:
        """Look no more."""
        self._over = True

    def _watch(self) -> None:
        while not self._over:
            time.sleep(_SECONDS)
            if (blocks := sys.getallocatedblocks()) > self._highest + _STEP:
                self._highest, self._doing = blocks, _threads()


def _threads() -> str:
    """Return the innermost calls of all threads that do something."""
    with tempfile.TemporaryFile() as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        told = file.read().decode(errors="replace").strip().split("\n\n")
    stacks = [_CALL.findall(one)[:_INNERMOST] for one in told if not one.startswith("Current thread")]
    return "\n".join(
        "    " + " < ".join(f"{Path(place).name}:{line}" for place, line, _ in stack)
        for stack in stacks
        if stack and not stack[0][2].endswith(_WAITING)
    )
