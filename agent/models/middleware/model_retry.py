"""Waiting, giving up and trying again: around any model, in one place, so that nothing is retried twice over.

What passes (see ``failures.PASSING``) is tried again; what does not is handed on at once. A stream that broke off after its
first words is repeated from the beginning: the words already shown are taken back with one Restarted event, and the new
answer is streamed in their place. An answer that says nothing at all to a person is none, and is asked for again. Waiting
doubles with each try and is scattered, so that many sessions do not come back together; what a provider asks for with
Retry-After is obeyed instead, once, and only up to a bound: a longer wait is the owner's to decide about, so the failure is
handed on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

from agent.characters import is_blank
from agent.events import FailedOver, Progress, ReplyNote, Restarted
from agent.messages import AssistantMessage, Failure, UserMessage
from agent.models.failures import TRANSIENT, answer_with, cut
from agent.models.middleware.model_middleware import ModelMiddleware
from agent.models.protocol import Model, Part, Request
from agent.models.thinking import thinking_tokens
from agent.timing import Clock


class Random(Protocol):
    """Chance, as ``random.Random`` gives it."""

    def uniform(self, a: float, b: float, /) -> float:
        """Return a number between a and b."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryLimits:
    """How patient to be, in seconds. A local model may take minutes to read a long prompt before its first word.

    ``thinking`` is how many tokens of thought a model that is asked to think is given a second for: it may think in silence.
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
    """A Model that bears with another one.

    ``total`` bounds all tries together. Time is the clock's alone, so that tests can turn it by hand.
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
                        answer = _heard(part, request)
                    else:
                        shown = shown or not isinstance(part, (ReplyNote, FailedOver))
                        yield part
            failure = answer.failure
            wait = self._wait(failure, attempt, obeyed=obeyed)
            if failure is None or wait is None or self._clock.monotonic() + wait >= deadline:
                yield answer
                return
            obeyed = obeyed or failure.retry_after is not None
            if shown:
                yield Restarted(failure.message, wait)
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
        pace = _Pace(self._clock, self._limits, deadline, self._model.name, thinking_tokens(request.thinking))
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


def _heard(answer: AssistantMessage, request: Request) -> AssistantMessage:
    """Take an empty answer to a person for a failure that may pass.

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
    return answer_with(failure, model=answer.model)


async def _read(parts: AsyncIterator[Part], pace: _Pace, arrived: asyncio.Queue[Part | None]) -> None:
    async for part in parts:
        pace.beat()
        if not isinstance(part, Progress):
            arrived.put_nowait(part)


class _Pace:
    """How long the model has been silent, and how long it may be. ``thoughts`` is the room for thinking that it was given."""

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
            message = f"{self._model} fell silent in the middle of its answer for {self._limits.idle:g} seconds."
        else:
            message = f"{self._model} said nothing for {self._first:g} seconds."
        return Failure(
            kind="timeout", message=message, hint="Try again; a local model may need a smaller context or a faster machine."
        )
