"""A disk that takes nothing more, for the process that runs the tests."""

from __future__ import annotations

import resource
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def no_file_may_grow() -> Iterator[None]:
    """Refuse every write that makes a file of this process longer."""
    with no_file_may_hold_more_than(0):
        yield


@contextmanager
def no_file_may_hold_more_than(size: int) -> Iterator[None]:
    """Take what fits into so many bytes of a file and refuse the rest: the last write that is taken is taken in part."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
