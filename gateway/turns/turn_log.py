"""Binds agent, session, channel and turn to log lines; structlog is used only where it is imported already."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def bound(**names: str) -> Iterator[None]:
    """Mark every line that is logged within the block, in this task and those it starts."""
    structlog = sys.modules.get("structlog")
    if structlog is None:
        yield
        return
    with structlog.contextvars.bound_contextvars(**names):
        yield
