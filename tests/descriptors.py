"""A process that may open few files and connections more, for the process that runs the tests."""

from __future__ import annotations

import os
import resource
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def open_descriptors() -> set[int]:
    """Return those of this process, without the one that looks."""
    return {int(entry.name) for entry in Path("/proc/self/fd").iterdir() if entry.exists()}


@contextmanager
def free_descriptors(number: int) -> Iterator[None]:
    """Let this process open so many more than it has open now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(open_descriptors())
    gaps = [os.dup(0)]
    while gaps[-1] <= highest:
        gaps.append(os.dup(0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (gaps[-1] + 1 + number, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for gap in gaps:
            os.close(gap)
