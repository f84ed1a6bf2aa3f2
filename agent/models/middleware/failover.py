"""Failover: when a model fails, the next one of the owner's list is asked, and the failed one is not used for a while.

Only for failures that another model may not have (``FAILOVER_KINDS``): never for a malformed request, a conversation that is
too long, or a refusal. The cooldown of a failed model grows (``agent.models.middleware.cooldown``); after it the owner's first
choice is used again. ``AssistantMessage.model`` says which model answered.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

from msgspec import Struct
from msgspec.structs import replace

from agent.events import FailedOver, Restarted
from agent.messages import AssistantMessage, Failure, FailureKind
from agent.models.middleware.cooldown import cooldown_seconds
from agent.models.middleware.model_middleware import ForwardedCall, ModelMiddleware
from agent.models.protocol import Model, Part, Request
from agent.timing import Clock

FAILOVER_KINDS: frozenset[FailureKind] = frozenset(
    {"auth", "billing", "rate_limit", "overloaded", "timeout", "network", "unknown_model"}
)
"""Failures for which the next model is asked."""


class _Record(Struct):
    """Failures of a model in a row, the end of its cooldown (in the clock's monotonic seconds), and the last reason."""

    failures: int = 0
    until: float = 0.0
    reason: str = ""


class FailoverMiddleware(ModelMiddleware):
    """Several models as one, first choice first. Name and limits are those of the first."""

    def __init__(self, models: Sequence[Model], *, clock: Clock) -> None:
        if not models:
            raise ValueError("there must be at least one model")
        super().__init__(models[0])
        self._models = tuple(models)
        self._clock = clock
        self._records = [_Record() for _ in models]

    async def stream(self, request: Request) -> AsyncIterator[Part]:
        """Stream the answer of the first model that gives one; of failures, the first choice's own is told."""
        first: AssistantMessage | None = None
        for index in self._order():
            model = self._models[index]
            if index:
                yield FailedOver(model.name, self.name, self._records[0].reason)
            call = ForwardedCall(model, request)
            async with aclosing(call.parts()) as parts:
                async for part in parts:
                    yield part
            answer = call.answer
            if answer.failure is None or answer.failure.kind not in FAILOVER_KINDS:
                self._records[index] = _Record()
                yield answer
                return
            self._lay_to_rest(index, answer.failure)
            if call.shown or answer.usage is not None:
                yield Restarted(answer.failure.message, usage=answer.usage)
            first = first or replace(answer, usage=None)  # what it used was told of just now
        assert first is not None
        yield first

    async def close(self) -> None:
        """Close them all."""
        for model in self._models:
            await model.close()

    def _order(self) -> list[int]:
        """Those that do not rest, in the owner's order; when all do, all of them, the soonest awake first."""
        now = self._clock.monotonic()
        awake = [index for index, record in enumerate(self._records) if record.until <= now]
        return awake or sorted(range(len(self._models)), key=lambda index: self._records[index].until)

    def _lay_to_rest(self, index: int, failure: Failure) -> None:
        record = self._records[index]
        record.failures += 1
        record.reason = failure.message
        record.until = self._clock.monotonic() + cooldown_seconds(failure, record.failures)
