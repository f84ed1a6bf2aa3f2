"""The base of both OpenAI adapters: the SDK's client for one server, and one streamed call, from the request's body to the whole answer."""

from __future__ import annotations

import asyncio
import importlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, ClassVar, Protocol

from msgspec import structs
from msgspec.structs import replace

from agent.events import Progress, ReplyNote, TextDelta, ThinkingDelta
from agent.messages import AssistantMessage, Failure
from agent.models import failures
from agent.models.adapters import warm_up
from agent.models.adapters.request_json import encoded, whole_url
from agent.models.adapters.settled_entries import SettledEntries
from agent.models.catalog.discovery import names_of
from agent.models.catalog.known_models import PROVIDERS, ModelFacts
from agent.models.catalog.server_limits import ask_limits
from agent.models.protocol import Part, Request
from agent.models.thinking import ThinkingSupport
from agent.settings import Level

CACHE_RULE = "prompt_cache_retention"
"""The option of both APIs that says how long a prompt may be kept."""


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
        self._settled = SettledEntries()
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

    @property
    def sees_pictures(self) -> bool:
        """Whether the model is shown pictures, as far as it is known."""
        return self._connection.facts.images

    @abstractmethod
    def body(self, request: Request, level: Level | None) -> dict[str, Any]:
        """Return the body to post, with a thinking level."""

    @abstractmethod
    def answer(self) -> GrowingAnswer:
        """Return an answer to which nothing was streamed yet."""

    def refused_beforehand(self, request: Request) -> Failure | None:
        """Return the failure of a request that is not worth sending, or None."""
        del request
        return None

    def gives_up_option(self, error: Any, wanted: Mapping[str, Any]) -> bool:
        """Give up an option of the body ``wanted`` that the server refused with ``error``; say whether there was one to give up."""
        refused = error.status_code in {400, 422} and CACHE_RULE in f"{error.message} {error.body}"
        if not refused or CACHE_RULE not in wanted:
            return False
        self._connection.facts = structs.replace(self._connection.facts, cache_rule=None)
        self._asides.append(
            ReplyNote(
                f"⚠️ {self._label} does not take `{wanted[CACHE_RULE]}` for prompts of {self.name}: how long it keeps them is its own rule "
                f"(models.providers.{self._provider}.promptCacheRetention)."
            )
        )
        return True

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
                return await self._connection.begin(self.path, wanted), level
            except openai.APIStatusError as error:
                if self.gives_up_option(error, wanted):
                    continue
                instead = self._depth.after(error, request.thinking, level)
                if instead is None:
                    raise
                level = instead[0]


_CONNECT_SECONDS = 10.0
_SILENCE_SECONDS = 600.0
"""The longest silence that the HTTP client bears; shorter limits are ``agent.models.middleware.model_retry``'s business."""
_LOOK_UP_SECONDS = 2.0
_MOST_QUESTIONS = 4
"""How often a server is asked about its model: Ollama knows only once it is loaded, and many others never."""
_MOST_NAMES = 8
_NEVER_TELL = frozenset({"openai", "google"})
"""Providers whose lists of models say nothing of windows."""


class Connection:
    """Opens on first use. ``facts`` are what is known of the model; compatible servers are asked for more until they told it."""

    def __init__(
        self,
        model: str,
        *,
        key: str,
        base_url: str,
        provider: str,
        headers: Mapping[str, str] | None,
        facts: ModelFacts,
        rehearse: Callable[[], None],
    ) -> None:
        """``rehearse`` is called once in the thread that opens, after the SDK is there."""
        self.facts = facts
        self._model = model
        self._provider = provider
        self._base_url = base_url
        elsewhere = provider in _NEVER_TELL and base_url.rstrip("/") != PROVIDERS[provider].base_url
        self._kind = "custom" if elsewhere else provider
        self._settings: dict[str, Any] = {"api_key": key, "base_url": base_url, "default_headers": dict(headers or {})}
        self._rehearse = rehearse
        self._client: Any = None
        self._asked = 0
        self._opening = asyncio.Lock()

    async def open(self) -> Any:
        """Return the client."""
        async with self._opening:
            if self._client is None:
                self._client = await asyncio.to_thread(self._connect)
            if self.facts.assumed and self._kind not in _NEVER_TELL and self._asked < _MOST_QUESTIONS:
                self._asked += 1
                self.facts = await ask_limits(self._get_json, self._kind, self._base_url, self._model, self.facts)
            return self._client

    def failed(self, error: Exception, *, model: str, label: str, begun: bool) -> AssistantMessage:
        """Return the answer that records a failure, after ``keep``."""
        return self.keep(failures.failed(error, model=model, label=label, begun=begun))

    async def with_names(self, answer: AssistantMessage) -> AssistantMessage:
        """Let a failure over a model that is not there name those that are, where the server is one that tells."""
        if answer.failure is None or answer.failure.kind != "unknown_model" or self._kind in _NEVER_TELL:
            return answer
        names = names_of(await self._get_json(f"{self._base_url.rstrip('/')}/models"))
        if not names or self._model in names:
            return answer
        more = " …" if len(names) > _MOST_NAMES else ""
        hint = (
            f"There is: {', '.join(names[:_MOST_NAMES])}{more}. "
            f"Choose one: homebody config set agents.defaults.model {self._provider}/{names[0]}"
        )
        return replace(answer, failure=replace(answer.failure, hint=hint))

    def keep(self, answer: AssistantMessage) -> AssistantMessage:
        """Return the answer. A window that its failure names is kept, if it is smaller than what was known."""
        window = answer.failure.window if answer.failure else None
        if window is not None and window < self.facts.window:
            self.facts = structs.replace(self.facts, window=window, max_output=min(self.facts.max_output, window))
        return answer

    async def begin(self, path: str, wanted: Mapping[str, Any]) -> Any:
        """Post a request body as it is, and return the SDK's stream of what the server sends, as JSON. Raises what the SDK raises.

        The SDK's own ``create`` methods walk over every field of every message first, on the event loop, to rename none: at a
        thousand messages that is half a second of CPU time a call.
        """
        import openai

        client = await self.open()
        return await client.post(
            whole_url(client, path),
            content=encoded({**wanted, "stream": True}),
            cast_to=object,
            stream=True,
            stream_cls=openai.AsyncStream[object],
        )

    async def close(self) -> None:
        """Close the connections. A later call opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _connect(self) -> Any:
        """Import the SDK and make a client: a second or so of work, done in a thread."""
        with warm_up.loading():
            import openai

            from agent.models.adapters.sdk_transport import client_for

            self._rehearse()
        limits = openai.Timeout(_SILENCE_SECONDS, connect=_CONNECT_SECONDS)
        return openai.AsyncOpenAI(**self._settings, max_retries=0, timeout=limits, http_client=client_for(openai))

    async def _get_json(self, url: str, post: Mapping[str, Any] | None = None) -> Any:
        """Fetch JSON with the client's own key and headers; None when there is none to be had."""
        options = {"cast_to": object, "options": {"timeout": _LOOK_UP_SECONDS}}
        try:
            if post is None:
                return await self._client.get(url, **options)
            return await self._client.post(url, body=dict(post), **options)
        except expected():
            return None


def expected() -> tuple[type[Exception], ...]:
    """What a call may raise: the SDK's errors, transport errors, and an answer that is not JSON, or is nested without end."""
    import openai

    httpx2 = importlib.import_module("httpx2")  # the SDK's own HTTP client
    return openai.OpenAIError, httpx2.TransportError, httpx2.InvalidURL, httpx2.StreamError, ValueError, RecursionError
