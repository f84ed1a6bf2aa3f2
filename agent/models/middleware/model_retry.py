"""Retries with backoff, and time-outs, around any model. Nothing else retries.

Transient failures (``failures.TRANSIENT``) are retried; others are returned at once. A stream that breaks off is repeated from
the beginning: a Restarted event voids what was shown. An empty answer to a person counts as a failure and is retried. The
backoff doubles with each attempt and has jitter. Retry-After is obeyed instead, once and up to a bound; a longer one is
returned as a failure, so that the owner can decide.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from agent.characters import is_blank
from agent.events import FailedOver, Progress, ReplyNote, Restarted
from agent.messages import AssistantMessage, Failure, UserMessage
from agent.models.failures import TRANSIENT, answer_with, cut
from agent.models.middleware.model_middleware import ModelMiddleware
from agent.models.protocol import Model, Part, Request
from agent.models.thinking import THINKING_TOKENS
from agent.timing import Clock


class Random(Protocol):
    """The part of ``random.Random`` that is used."""

    def uniform(self, a: float, b: float, /) -> float:
        """Return a number between a and b."""
        ...


class RetryLimits(Struct, frozen=True, kw_only=True):
    """Time-outs and backoff in seconds, and the number of attempts. A local model may need minutes before its first token.

    ``thinking`` is in tokens a second: the wait for the first byte grows by the thinking budget divided by it.
    """

    first_byte: float = 180.0
    idle: float = 90.0
    thinking: float = 40.0
    total: float = 600.0
    tries: int = 3
    first_wait: float = 1.0
    longest_wait: float = 30.0
    longest_retry_after: float = 60.0


class RetryMiddleware(ModelMiddleware):
    """Adds time-outs and retries to another model.

    ``total`` bounds all attempts together.
    """

    def __init__(self, model: Model, *, clock: Clock, random: Random, limits: RetryLimits | None = None) -> None:
        super().__init__(model)
        self._clock = clock
        self._random = random
        self._limits = limits or RetryLimits()

    async def stream(self, request: Request) -> AsyncIterator[Part]:
        """Stream one answer, as often as it takes within the limits."""
        deadline = self._clock.monotonic() + self._limits.total
        obeyed = False
        for attempt in range(1, self._limits.tries + 1):
            shown = False
            async with aclosing(self._once(request, deadline)) as parts:
                async for part in parts:
                    if isinstance(part, AssistantMessage):
                        answer = _with_empty_as_failure(part, request)
                    else:
                        shown = shown or not isinstance(part, (ReplyNote, FailedOver))
                        yield part
            failure = answer.failure
            wait = self._wait(failure, attempt, obeyed=obeyed)
            if failure is None or wait is None or self._clock.monotonic() + wait >= deadline:
                yield answer
                return
            obeyed = obeyed or failure.retry_after is not None
            if shown or answer.usage is not None:
                yield Restarted(failure.message, wait, answer.usage)
            await self._clock.sleep(wait)

    def _wait(self, failure: Failure | None, attempt: int, *, obeyed: bool) -> float | None:
        """Return how long to wait before the next try, or None when there is to be none."""
        if failure is None or failure.kind not in TRANSIENT or attempt == self._limits.tries:
            return None
        if failure.retry_after is not None:
            return None if obeyed or failure.retry_after > self._limits.longest_retry_after else failure.retry_after
        longest = min(self._limits.longest_wait, self._limits.first_wait * 2 ** (attempt - 1))
        return self._random.uniform(longest / 2, longest)

    async def _once(self, request: Request, deadline: float) -> AsyncGenerator[Part, None]:
        """One try. A task reads the model, and another watches its pace; whichever ends first decides."""
        arrived: asyncio.Queue[Part | None] = asyncio.Queue()
        pace = _Pace(self._clock, self._limits, deadline, self._model.name, THINKING_TOKENS.get(request.thinking, 0))
        reader = asyncio.create_task(_read(self._model.stream(request), pace, arrived))
        reader.add_done_callback(lambda _: arrived.put_nowait(None))
        watcher = asyncio.create_task(pace.watch(arrived))
        try:
            while (part := await arrived.get()) is not None:
                yield part
                if isinstance(part, AssistantMessage):
                    return
            reader.result()  # raises what the model raised, which is a defect
            yield cut(model=self._model.name, label=self._model.name)
        finally:
            reader.cancel()
            watcher.cancel()
            await asyncio.gather(reader, watcher, return_exceptions=True)


def _with_empty_as_failure(answer: AssistantMessage, request: Request) -> AssistantMessage:
    """Treat an empty answer to a person as a transient failure.

    Behind a tool's result, or behind an answer that was cut off, it may mean that all is said.
    """
    *_, former, last = (None, None, *request.messages)
    all_said = isinstance(former, AssistantMessage) and former.stop == "cut"
    asked = isinstance(last, UserMessage) and not request.background and not all_said
    if not asked or answer.failure is not None or answer.calls or not is_blank(answer.text) or answer.stop != "end":
        return answer
    failure = Failure(
        kind="overloaded",
        message=f"{answer.model} gave an empty answer.",
        hint="Say it again, or choose another model with /model.",
    )
    return replace(answer_with(failure, model=answer.model), usage=answer.usage)


async def _read(parts: AsyncIterator[Part], pace: _Pace, arrived: asyncio.Queue[Part | None]) -> None:
    async for part in parts:
        pace.beat()
        if not isinstance(part, Progress):
            arrived.put_nowait(part)


class _Pace:
    """The idle time-out of one attempt. ``thoughts`` is the thinking budget in tokens."""

    def __init__(self, clock: Clock, limits: RetryLimits, deadline: float, model: str, thoughts: int = 0) -> None:
        self._first = limits.first_byte + thoughts / limits.thinking
        self._clock = clock
        self._limits = limits
        self._deadline = deadline
        self._model = model
        self._begun = False
        self._last = clock.monotonic()

    def beat(self) -> None:
        """Something arrived."""
        self._begun = True
        self._last = self._clock.monotonic()

    async def watch(self, arrived: asyncio.Queue[Part | None]) -> None:
        """Wait until the silence has been too long, and put the failure into the queue."""
        while (left := self._due() - self._clock.monotonic()) > 0:
            await self._clock.sleep(min(left, self._limits.idle))  # what is allowed is less as soon as it has begun
        arrived.put_nowait(answer_with(self._failure(), model=self._model))

    def _due(self) -> float:
        allowed = self._limits.idle if self._begun else self._first
        return min(self._last + allowed, self._deadline)

    def _failure(self) -> Failure:
        if self._clock.monotonic() >= self._deadline:
            message = f"{self._model} did not finish within {self._limits.total:g} seconds."
        elif self._begun:
            message = f"{self._model} sent nothing for {self._limits.idle:g} seconds in the middle of its answer."
        else:
            message = f"{self._model} did not begin to answer within {self._first:g} seconds."
        return Failure(
            kind="timeout", message=message, hint="Try again; a local model may need a smaller context or a faster machine."
        )
