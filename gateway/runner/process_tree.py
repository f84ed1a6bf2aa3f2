"""The processes below a process: finding them, ending them, and what they use. Linux; elsewhere only process groups are known.

Imports the standard library alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Collection, Iterable
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PAGE = os.sysconf("SC_PAGE_SIZE")
_linux = sys.platform == "linux"
_libc = ctypes.CDLL(None, use_errno=True)


def become_subreaper() -> None:
    """Be the parent of every process below this one whose own parent ends, so that none can leave the tree."""
    if _linux:
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent(parent: int, number: int = signal.SIGKILL) -> None:
    """Get a signal when the parent ends; end at once where it is gone already. It survives exec."""
    if _linux:
        _libc.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def descendants(root: int, besides: Collection[int] = ()) -> list[int]:
    """Return the processes below ``root``, parents first. Those in ``besides``, and all below them, are left out."""
    found: list[int] = []
    waiting = [root]
    while waiting:
        for child in _children(waiting.pop()):
            if child not in besides:
                found.append(child)
                waiting.append(child)
    return found


def memory_of(pids: Iterable[int]) -> int:
    """Return the bytes of memory that processes have for themselves, without what they share."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = _read(f"/proc/{pid}/statm").split()
            total += max(0, int(fields[1]) - int(fields[2])) * _PAGE
    return total


def send(pids: Iterable[int], number: int) -> None:
    """Send a signal to processes. Those that are gone, or belong to somebody else, are passed over."""
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def send_to_group(leader: int, number: int) -> None:
    """Send a signal to a process group, where it still exists."""
    with contextlib.suppress(OSError):
        os.killpg(leader, number)


def _children(pid: int) -> list[int]:
    """Return the children of a process. The kernel may pass over one while others end: look again until there is none."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in _names(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                found += map(int, _read(f"/proc/{pid}/task/{task}/children").split())
    return found if _HAS_CHILDREN else _children_by_parent(pid)


def _children_by_parent(pid: int) -> list[int]:
    """The same where the kernel was built without lists of children: every process is asked for its parent."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for name in filter(str.isdigit, _names("/proc")):
            with contextlib.suppress(OSError, ValueError, IndexError):
                if int(_read(f"/proc/{name}/stat").rpartition(b")")[2].split()[1]) == pid:
                    found.append(int(name))
    return found


def _names(folder: str) -> list[str]:
    with os.scandir(folder) as found:
        return [entry.name for entry in found]


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        pieces = []
        while piece := os.read(descriptor, 65_536):
            pieces.append(piece)
        return b"".join(pieces)
    finally:
        os.close(descriptor)


_HAS_CHILDREN = Path(f"/proc/self/task/{os.getpid()}/children").exists()
