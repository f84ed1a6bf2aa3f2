"""The base of both OpenAI adapters: one streamed call, from the request's body to the whole answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, ClassVar, Protocol

from agent.events import Progress, ReplyNote, TextDelta, ThinkingDelta
from agent.messages import AssistantMessage, Failure
from agent.models import failures
from agent.models.adapters.openai_connection import Connection, expected
from agent.models.catalog.known_models import ModelFacts
from agent.models.protocol import Part, Request
from agent.models.thinking import ThinkingSupport
from agent.settings import Level


class GrowingAnswer(Protocol):
    """One answer as it grows out of what the server streams."""

    begun: bool
    """Whether anything arrived."""

    def feed(self, piece: Any) -> Iterable[TextDelta | ThinkingDelta | Progress]:
        """Take a streamed object, and return what of it may be shown."""
        ...

    def rest(self) -> Iterable[TextDelta | ThinkingDelta]:
        """Return what was held back until the end of the stream."""
        ...

    def finish(self) -> AssistantMessage:
        """Return the whole answer, or the record of a failure."""
        ...


class OpenAIModel(ABC):
    """A ``Model`` of a server that speaks one of OpenAI's APIs.

    Each call is made once, and again at once only without an option that the server refuses. When ``facts`` are assumed,
    compatible servers are asked for the window before a call until they have told it. The SDK is imported in a thread at the
    first call, not before.
    """

    path: ClassVar[str]
    """Where requests are posted, below the base URL."""
    warm_up: ClassVar[Callable[[], None]]
    """Called once in the thread that opens the connection."""

    def __init__(
        self,
        model: str,
        *,
        key: str,
        facts: ModelFacts,
        base_url: str,
        provider: str = "openai",
        label: str = "OpenAI",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.name = f"{provider}/{model}"
        self._model = model
        self._provider = provider
        self._label = label
        self._depth = ThinkingSupport(facts.thinks)
        self._asides: list[ReplyNote] = []
        self._connection = Connection(
            model, key=key, base_url=base_url, provider=provider, headers=headers, facts=facts, rehearse=type(self).warm_up
        )

    @property
    def window(self) -> int:
        """What the model can be shown, in tokens, as far as it is known."""
        return self._connection.facts.window

    @property
    def max_output(self) -> int:
        """How long one answer can be, in tokens."""
        return self._connection.facts.max_output

    @abstractmethod
    def body(self, request: Request, level: Level | None) -> dict[str, Any]:
        """Return the body to post, with a thinking level."""

    @abstractmethod
    def answer(self) -> GrowingAnswer:
        """Return an answer to which nothing was streamed yet."""

    @abstractmethod
    def streamed_type(self) -> Any:
        """Import and return the SDK's type of what is streamed."""

    def refused_beforehand(self, request: Request) -> Failure | None:
        """Return the failure of a request that is not worth sending, or None."""
        del request
        return None

    def gives_up_option(self, error: Any, wanted: Mapping[str, Any]) -> bool:
        """Give up an option of the body ``wanted`` that the server refused with ``error``; say whether there was one to give up."""
        del error, wanted
        return False

    async def stream(self, request: Request) -> AsyncIterator[Part]:
        """Stream one answer. Deltas of a stream that breaks off are void: the last thing yielded then carries the failure."""
        await self._connection.open()
        if (failure := self.refused_beforehand(request)) is not None:
            yield failures.answer_with(failure, model=self.name)
            return
        answer = self.answer()
        try:
            pieces, level = await self._begin(request)
            if word := self._depth.word(self.name, request.thinking, level):
                yield ReplyNote(word)
            while self._asides:
                yield self._asides.pop(0)
            async with pieces:
                async for piece in pieces:
                    with failures.read():
                        deltas = tuple(answer.feed(piece))
                    for delta in deltas:
                        yield delta
        except expected() as error:
            failed = self._connection.failed(error, model=self.name, label=self._label, begun=answer.begun)
            yield await self._connection.with_names(failed)
            return
        for rest in answer.rest():
            yield rest
        try:
            with failures.read():
                whole = answer.finish()
        except failures.InvalidAnswer as error:
            whole = self._connection.failed(error, model=self.name, label=self._label, begun=True)
        yield self._connection.keep(whole)

    async def close(self) -> None:
        """Close the connections. A later call opens new ones."""
        await self._connection.close()

    async def _begin(self, request: Request) -> tuple[Any, Level | None]:
        """Begin a stream, with a thinking level and options that the server takes; return it with the level."""
        import openai

        level = self._depth.pick(request.thinking)
        while True:
            wanted = self.body(request, level)
            try:
                return await self._connection.begin(self.path, wanted, self.streamed_type()), level
            except openai.APIStatusError as error:
                if self.gives_up_option(error, wanted):
                    continue
                instead = self._depth.after(error, request.thinking, level)
                if instead is None:
                    raise
                level = instead[0]
