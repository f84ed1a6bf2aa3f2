"""When to ask a provider again, and when to leave it in peace. The only place where embedding calls are repeated."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeVar

from memory.errors import EmbeddingFailed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from memory.protocol import Clock

T = TypeVar("T")


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


QUERY_SECONDS = 60.0
"""All tries of a query embedding together: somebody is waiting for the answer."""

PASSAGE_SECONDS = 120.0
"""All tries of one call with passages."""

_TRIES = 4
_FIRST_WAIT = 0.5
_LONGEST_WAIT = 8.0
_JITTER = 0.2


def exponential_backoff(failures: int, *, first: float, longest: float) -> float:
    """Return the wait after ``failures`` earlier failures in a row: ``first`` seconds, doubled each time, up to ``longest``."""
    return min(first * 2.0 ** min(failures, 64), longest)


class Retries:
    """Repeats what fails in passing, within a time limit, and remembers when a provider asked for a longer rest.

    ``random`` returns numbers in [0, 1): waits vary by a fifth either way, so that many clients do not come back at once.
    """

    def __init__(self, clock: Clock, random: Callable[[], float]) -> None:
        self.clock = clock
        self._random = random
        self._rest_until = float("-inf")

    async def run(self, call: Callable[[float], Awaitable[T]], *, limit: float) -> T:
        """Return what ``call`` returns; it is handed the seconds that are left.

        A failure that is ``passing`` is tried again, after the wait that the provider named or else after 0.5 s, doubled each
        time. Raises the last ``EmbeddingFailed`` when the tries or the time are used up. While a provider has asked for a rest
        that is longer than the limit, every call fails at once instead of waiting for it.
        """
        started = self.clock.monotonic()
        self._refuse_while_resting(started)
        for tried in range(1, _TRIES + 1):
            left = limit - (self.clock.monotonic() - started)
            try:
                async with asyncio.timeout(max(left, 0.001)):
                    return await call(left)
            except TimeoutError:
                failure = EmbeddingFailed(f"the embedding provider did not answer within {limit:g} seconds.", passing=True)
            except EmbeddingFailed as error:
                failure = error
            note_failure(failure)
            wait = failure.retry_after if failure.retry_after is not None else self._backoff(tried)
            left = limit - (self.clock.monotonic() - started)
            if not failure.passing or tried == _TRIES or wait >= left:
                self._note_rest(failure)
                raise failure
            await self.clock.sleep(wait)
        raise AssertionError("the last try returns or raises")

    def _backoff(self, tried: int) -> float:
        return float(
            exponential_backoff(tried - 1, first=_FIRST_WAIT, longest=_LONGEST_WAIT)
            * (1 - _JITTER + 2 * _JITTER * self._random())
        )

    def _note_rest(self, failure: EmbeddingFailed) -> None:
        if failure.passing and failure.retry_after is not None:
            self._rest_until = self.clock.monotonic() + failure.retry_after

    def _refuse_while_resting(self, now: float) -> None:
        rest = self._rest_until - now
        if rest > 0:
            raise EmbeddingFailed(
                f"the embedding provider asked to be left alone for another {rest:.0f} seconds.", passing=True, retry_after=rest
            )
