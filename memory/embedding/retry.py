"""Retries of embedding calls, with back-off, and the progress of a call for whoever awaits it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from memory.errors import EmbeddingFailed
from memory.protocol import Clock

T = TypeVar("T")


class CallProgress:
    """Progress of one embedding call. ``loading`` is true while the client is being created; ``failure`` is the last attempt's.

    ``changed`` is set when ``loading`` changes.
    """

    def __init__(self) -> None:
        self.loading = False
        self.failure: EmbeddingFailed | None = None
        self.changed = asyncio.Event()

    def set_loading(self, *, loading: bool) -> None:
        """Record whether the client is being created."""
        self.loading = loading
        self.changed.set()


CURRENT_CALL: ContextVar[CallProgress | None] = ContextVar("CURRENT_CALL", default=None)
"""The call that is awaited in this task, if any."""


@contextmanager
def loading_client() -> Iterator[None]:
    """Mark the time in which a client is created and no request is running."""
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
    """Record that an attempt failed; there may be further attempts."""
    if (attempt := CURRENT_CALL.get()) is not None:
        attempt.failure = failure


QUERY_SECONDS = 60.0
"""Time limit for all attempts of embedding a query; somebody is waiting for the answer."""

PASSAGE_SECONDS = 120.0
"""Time limit for all attempts of one call with passages."""

_TRIES = 4
_FIRST_WAIT = 0.5
_LONGEST_WAIT = 8.0
_JITTER = 0.2


def exponential_backoff(failures: int, *, first: float, longest: float) -> float:
    """Return the wait after ``failures`` earlier failures in a row: ``first`` seconds, doubled each time, up to ``longest``."""
    return min(first * 2.0 ** min(failures, 64), longest)


class Retries:
    """Retries transient failures within a time limit, and respects a longer wait that the provider asked for.

    ``random`` returns numbers in [0, 1): waits vary by 20 % either way, so that many clients do not retry at the same time.
    """

    def __init__(self, clock: Clock, random: Callable[[], float]) -> None:
        self.clock = clock
        self._random = random
        self._rest_until = float("-inf")

    async def run(self, call: Callable[[float], Awaitable[T]], *, limit: float) -> T:
        """Return what ``call`` returns; it is passed the remaining seconds.

        A transient failure (``passing``) is retried after the wait that the provider asked for, or after 0.5 s, doubled each
        time. Raises the last ``EmbeddingFailed`` when attempts or time are used up. While a provider has asked for a wait that
        is longer than the limit, every call fails immediately.
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
                f"the embedding provider accepts no calls for another {rest:.0f} seconds.", passing=True, retry_after=rest
            )
