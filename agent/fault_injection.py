"""Fault injection for tests: kills the process just before or just after a durable step.

``HOMEBODY_FAULT=after-accept:2`` in the environment kills the process with SIGKILL when it reaches that step for the second time.
The steps are ``transcript`` (an entry appended), ``sessions`` (a change of sessions.json), ``keep_result`` (what was paid for is
kept), ``keep_file`` (a file to send is kept), and every function of the ledger by its
name (``accept``, ``claim``, ``begin_call``, ``end_call``, ``finish``, ``sending``, ``sent``, ...). Without the variable a step
costs one comparison. ``tests/fire`` uses it besides kills at system calls, and alone where strace is missing.
"""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable, Iterator
from typing import Literal

VARIABLE = "HOMEBODY_FAULT"

armed = False
"""Whether anything may happen at all: what runs for every message asks this first."""
_armed: tuple[str, int, Iterator[int], Callable[[], None]] | None = None


def die() -> None:
    """End the process as a crash does: nothing is finished, flushed or told."""
    os.kill(os.getpid(), signal.SIGKILL)


def arm(place: str, act: Callable[[], None] = die) -> None:
    """Have ``act`` called at ``place``, such as ``before-finish:1``; nowhere when it is empty. Raises ValueError for nonsense."""
    global _armed, armed
    name, _, count = place.partition(":")
    _armed = (name, int(count or 1), itertools.count(1), act) if place else None
    armed = _armed is not None


def point(moment: Literal["before", "after"], step: str) -> None:
    """Kill the process here if this step is armed."""
    if _armed is None:
        return
    name, wanted, counter, act = _armed
    if name == f"{moment}-{step}" and next(counter) == wanted:
        act()


arm(os.environ.get(VARIABLE, ""))
