"""A scripted model: a test double that is part of the package."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from msgspec.structs import replace

from agent.errors import ScriptExhausted
from agent.events import TextDelta, ThinkingDelta
from agent.messages import AssistantMessage, Failure, Text, Thinking, ToolCall, Usage
from agent.models import token_estimate
from agent.models.protocol import Request


@dataclass(frozen=True, slots=True)
class Stall:
    """A pause in mid-stream: until ``until`` is set, or endless."""

    until: asyncio.Event | None = None


Part: TypeAlias = TextDelta | ThinkingDelta | ToolCall | Stall | Failure | AssistantMessage
"""One thing that a scripted stream does. A Failure or an AssistantMessage ends it."""

Answer: TypeAlias = "str | Part | Sequence[Part]"
"""One scripted answer. Plain text streams word by word; deltas followed by a Failure are a stream that was cut."""

Answerer: TypeAlias = "Callable[[Request], Answer]"
"""Computes the answer to a request."""


class ScriptedModel:
    """A Model whose answers are given beforehand, in order, or computed by a function of the request.

    ``then`` queues further answers, ``reply_with`` sets the function that answers once the queue is empty. Every request is kept
    in ``requests``, also those that were cancelled or failed. Usage that an answer does not bring is estimated. Raises ScriptExhausted
    when asked with an empty queue and no function: a test that gets there has found something.
    """

    def __init__(
        self,
        answers: Iterable[Answer] | Answerer = (),
        *,
        name: str = "scripted/model",
        window: int = 200_000,
        max_output: int = 8_192,
        sees_pictures: bool = True,
    ) -> None:
        self.sees_pictures = sees_pictures
        self.name = name
        self.window = window
        self.max_output = max_output
        self.requests: list[Request] = []
        self.closed = False
        self._answerer: Answerer | None = answers if callable(answers) else None
        self._queue: deque[Answer] = deque() if callable(answers) else deque(answers)

    @property
    def left(self) -> int:
        """How many queued answers were not used yet."""
        return len(self._queue)

    def then(self, *answers: Answer) -> None:
        """Put further answers at the end of the queue."""
        self._queue.extend(answers)

    def reply_with(self, answerer: Answerer) -> None:
        """Compute the answers with this function from the next request on; answers still in the queue come first."""
        self._answerer = answerer

    async def stream(self, request: Request) -> AsyncIterator[TextDelta | ThinkingDelta | AssistantMessage]:
        """Play the next answer."""
        self.requests.append(request)
        said: list[TextDelta | ThinkingDelta | ToolCall] = []
        for part in _parts(self._next(request)):
            if isinstance(part, AssistantMessage):
                yield self._finished(part, request)
                return
            if isinstance(part, Failure):
                yield self._failed(part)
                return
            if isinstance(part, Stall):
                await (part.until or asyncio.Event()).wait()
                continue
            said.append(part)
            if not isinstance(part, ToolCall):
                yield part
            await asyncio.sleep(0)
        yield self._finished(_composed(said, self.name), request)

    async def close(self) -> None:
        """Take note."""
        self.closed = True

    def _next(self, request: Request) -> Answer:
        if self._queue:
            return self._queue.popleft()
        if self._answerer is not None:
            return self._answerer(request)
        raise ScriptExhausted(f"{self.name} was asked {len(self.requests)} times and its script has no answer left.")

    def _failed(self, failure: Failure) -> AssistantMessage:
        return AssistantMessage(
            content=(), model=self.name, stop="overflow" if failure.kind == "overflow" else "error", failure=failure
        )

    def _finished(self, message: AssistantMessage, request: Request) -> AssistantMessage:
        if message.usage is not None or message.failure is not None:
            return message
        return replace(
            message,
            usage=Usage(input=token_estimate.weight_of_request(request).total, output=token_estimate.weight_of(message).total),
        )


def _parts(answer: Answer) -> Iterator[Part]:
    if isinstance(answer, str):
        yield from (TextDelta(piece) for piece in re.findall(r"\S+\s*|\s+", answer))
    elif isinstance(answer, Part):
        yield from _of_message(answer) if isinstance(answer, AssistantMessage) else (answer,)
    else:
        yield from answer


def _of_message(message: AssistantMessage) -> Iterator[Part]:
    """Show what a whole message says before the message itself, as a provider would."""
    for block in message.content:
        if isinstance(block, Text):
            yield TextDelta(block.text)
        elif isinstance(block, Thinking):
            yield ThinkingDelta(block.text)
    yield message


def _composed(said: Sequence[TextDelta | ThinkingDelta | ToolCall], model: str) -> AssistantMessage:
    """Join runs of deltas into blocks."""
    blocks: list[Text | Thinking | ToolCall] = []
    for part in said:
        last = blocks[-1] if blocks else None
        if isinstance(part, ToolCall):
            blocks.append(part)
        elif isinstance(part, TextDelta):
            blocks[-1:] = [Text(text=last.text + part.text)] if isinstance(last, Text) else [*blocks[-1:], Text(text=part.text)]
        elif isinstance(last, Thinking):
            blocks[-1] = Thinking(text=last.text + part.text)
        else:
            blocks.append(Thinking(text=part.text))
    calls = any(isinstance(block, ToolCall) for block in blocks)
    return AssistantMessage(content=tuple(blocks), model=model, stop="tools" if calls else "end")
