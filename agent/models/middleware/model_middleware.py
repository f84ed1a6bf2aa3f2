"""The base of middleware: a ``Model`` around another ``Model``.

Middleware overrides ``stream`` and hands on every ``Part`` that it does not know. The order in which it is put together is
written down in ``gateway.models.model_stack``.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import cast

from agent.events import FailedOver, Progress, ReplyNote
from agent.messages import AssistantMessage
from agent.models.protocol import Model, Part, Request

_UNSEEN = (ReplyNote, Progress, FailedOver)
"""Parts that show nothing of an answer: nothing has to be taken back after them."""


class ModelMiddleware:
    """Forwards everything to the model within. Subclasses override what they change."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.name = model.name

    @property
    def inner(self) -> Model:
        """The model that this one wraps."""
        return self._model

    @property
    def window(self) -> int:
        """Its context window, in tokens; it may become known only with the first call."""
        return self._model.window

    @property
    def max_output(self) -> int:
        """Its longest answer, in tokens."""
        return self._model.max_output

    def stream(self, request: Request) -> AsyncIterator[Part]:
        """Stream the answer of the model within."""
        return self._model.stream(request)

    async def close(self) -> None:
        """Close the model within."""
        await self._model.close()


class ForwardedCall:
    """One call of a model. Iterate over ``parts`` to the end; then ``answer`` is there, and ``shown`` says whether deltas came."""

    def __init__(self, model: Model, request: Request) -> None:
        self._stream = cast("AsyncGenerator[Part, None]", model.stream(request))  # every model's stream is a generator
        self._answer: AssistantMessage | None = None
        self.shown = False

    @property
    def answer(self) -> AssistantMessage:
        """The answer, which came last."""
        assert self._answer is not None, "a model's stream ends with its answer"
        return self._answer

    async def parts(self) -> AsyncGenerator[Part, None]:
        """Yield everything but the answer. The model's stream is closed however this ends."""
        async with aclosing(self._stream) as parts:
            async for part in parts:
                if isinstance(part, AssistantMessage):
                    self._answer = part
                else:
                    self.shown = self.shown or not isinstance(part, _UNSEEN)
                    yield part
