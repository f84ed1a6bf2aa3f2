"""Key rotation: when a key is rejected or exhausted, the provider's next key is tried at once."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing

from msgspec.structs import replace

from agent.events import Restarted
from agent.messages import AssistantMessage, Failure
from agent.models.catalog.provider_keys import Key
from agent.models.failures import answer_with
from agent.models.middleware.key_health import ROTATING_KINDS, KeyHealth
from agent.models.middleware.model_middleware import ForwardedCall, ModelMiddleware
from agent.models.protocol import Model, Part, Request

log = logging.getLogger(__name__)

HIDDEN = "[secret]"
TOO_LATE = Failure(kind="bad_request", message="It was not sent: its time was over when its turn came.")
SHORTEST = 6
"""A shorter key stands for none (``none``), or could be any word."""


class KeyRotationMiddleware(ModelMiddleware):
    """One model of a provider with several keys.

    ``keys`` is called before each call, so that added and removed keys count at once; ``make`` returns the adapter for a key, once a
    key. ``fixed`` says that the owner gave the keys an order. ``answered`` is called with the adapter that gave an answer.
    """

    def __init__(
        self,
        keys: Callable[[], Sequence[Key]],
        make: Callable[[Key], Model],
        health: KeyHealth,
        *,
        fixed: Callable[[], bool] = lambda: True,
        answered: Callable[[Model], Awaitable[None]] | None = None,
    ) -> None:
        self._answered = answered
        self._keys = keys
        self._make = make
        self._health = health
        self._fixed = fixed
        self._models: dict[str, Model] = {}
        super().__init__(self._of(keys()[0]))

    async def stream(self, request: Request) -> AsyncIterator[Part]:
        """Stream the answer of the first key that is accepted; of refusals, the last one is told."""
        refusal: AssistantMessage | None = None
        for key in self._health.order(self._keys(), self.name, request.cache_key, fixed=self._fixed()):
            model = self._of(key)
            if request.useful_until is not None and self._health.is_over(request.useful_until):
                refusal = answer_with(TOO_LATE, model=self.name)
                break
            self._health.begun(key, self.name, request.cache_key)
            call = ForwardedCall(model, request)
            async with aclosing(call.parts()) as parts:
                async for part in parts:
                    yield part
            answer = without_key(call.answer, key)
            self._model, refusal = model, answer
            if answer.failure is None:
                await self._health.worked(key, self.name)
                if self._answered is not None:
                    await self._answered(model)
                break
            if answer.failure.kind not in ROTATING_KINDS:
                break
            log.warning("the key %s was rejected for %s: %s", key.label, self.name, answer.failure.message)
            await self._health.failed(key, self.name, answer.failure)
            if call.shown or answer.usage is not None:
                yield Restarted(answer.failure.message, usage=answer.usage)
                refusal = replace(answer, usage=None)
        assert refusal is not None, "there is a key, or the model could not have been made"
        yield refusal

    async def close(self) -> None:
        """Close the connections of every key."""
        for model in self._models.values():
            await model.close()

    def _of(self, key: Key) -> Model:
        if key.id not in self._models:
            self._models[key.id] = self._make(key)
        return self._models[key.id]


def without_key(answer: AssistantMessage, key: Key) -> AssistantMessage:
    """Take the key out of what a provider says of a failure: some repeat the very header that they refuse."""
    if answer.failure is None or len(key.secret) < SHORTEST:
        return answer
    message = answer.failure.message.replace(key.secret, HIDDEN)
    return replace(answer, failure=replace(answer.failure, message=message))
