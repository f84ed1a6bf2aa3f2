"""What a call to an embedder is busy with, for whoever waits for it."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memory.errors import EmbeddingFailed


class CallProgress:
    """``loading`` is true while this process makes its own client; ``failure`` is that of the last try, if it failed.

    ``changed`` is set when ``loading`` changes.
    """

    def __init__(self) -> None:
        self.loading = False
        self.failure: EmbeddingFailed | None = None
        self.changed = asyncio.Event()

    def set_loading(self, *, loading: bool) -> None:
        """Take note whether the client is being made."""
        self.loading = loading
        self.changed.set()


CURRENT_CALL: ContextVar[CallProgress | None] = ContextVar("CURRENT_CALL", default=None)
"""The attempt that somebody follows in this task."""


@contextmanager
def loading_client() -> Iterator[None]:
    """Mark the time in which a client is made and no request is out."""
    attempt = CURRENT_CALL.get()
    if attempt is None:
        yield
        return
    attempt.set_loading(loading=True)
    try:
        yield
    finally:
        attempt.set_loading(loading=False)


def note_failure(failure: EmbeddingFailed) -> None:
    """Take note that a try failed; there may be more."""
    if (attempt := CURRENT_CALL.get()) is not None:
        attempt.failure = failure
