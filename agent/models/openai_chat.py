"""Chat completions: OpenAI, and every server that speaks as it does (Ollama, OpenRouter, vLLM, LM Studio, LiteLLM, Gemini)."""

from __future__ import annotations

import asyncio
import importlib
from typing import TYPE_CHECKING, Any

from agent.models import failures
from agent.models.limits import ask_limits
from agent.models.openai_answer import ChatAnswer
from agent.models.openai_wire import body

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from agent.events import TextDelta, ThinkingDelta
    from agent.messages import AssistantMessage
    from agent.models.catalog import Facts
    from agent.models.protocol import Request

_CONNECT_SECONDS = 10.0
_SILENCE_SECONDS = 600.0
"""The longest silence that the HTTP client bears; shorter limits are ``agent.models.patience``'s business."""


class OpenAIChatModel:
    """A Model of a server that speaks chat completions. Each call is tried once (twice where the server refuses an option).

    ``provider`` "openai" means OpenAI itself. When ``facts`` are assumed, compatible servers are asked for the window before a
    call until they have told it. The SDK is imported in a thread at the first call, not before.
    """

    def __init__(
        self,
        model: str,
        *,
        key: str,
        facts: Facts,
        base_url: str,
        provider: str = "openai",
        label: str = "OpenAI",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.name = f"{provider}/{model}"
        self.window = facts.window
        self.max_output = facts.max_output
        self._model = model
        self._provider = provider
        self._facts = facts
        self._label = label
        self._base_url = base_url
        self._settings = {"api_key": key, "base_url": base_url, "default_headers": dict(headers or {})}
        self._client: Any = None
        self._opening = asyncio.Lock()
        self._takes_usage_option = True

    async def stream(self, request: Request) -> AsyncIterator[TextDelta | ThinkingDelta | AssistantMessage]:
        """Stream one answer. Deltas of a stream that breaks off are void: the last thing yielded then carries the failure."""
        client = await self._open()
        wanted = body(
            request,
            model=self._model,
            name=self.name,
            max_output=self.max_output,
            images=self._facts.images,
            hosted_by_openai=self._provider == "openai",
        )
        answer = ChatAnswer(self.name, self._label, self._facts.price)
        try:
            async with await self._begin(client, wanted) as chunks:
                async for chunk in chunks:
                    for delta in answer.feed(chunk):
                        yield delta
        except _expected() as error:
            yield failures.failed(error, model=self.name, label=self._label)
            return
        for delta in answer.rest():
            yield delta
        yield answer.finish()

    async def close(self) -> None:
        """Close the connections. A later call opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _begin(self, client: Any, wanted: dict[str, Any]) -> Any:
        """Start a stream that reports usage at its end, or without when the server refuses to be asked; that is remembered."""
        create = client.chat.completions.create
        if self._takes_usage_option:
            try:
                return await create(**wanted, stream=True, stream_options={"include_usage": True})
            except importlib.import_module("openai").APIStatusError as error:
                if not _refuses_usage_option(error):
                    raise
            self._takes_usage_option = False
        return await create(**wanted, stream=True)

    async def _open(self) -> Any:
        async with self._opening:
            if self._client is None:
                self._client = await asyncio.to_thread(self._connect)
            if self._facts.assumed and self._provider not in {"openai", "google"}:
                await self._ask_limits()
            return self._client

    def _connect(self) -> Any:
        """Import the SDK and make a client: a second or so of work, done in a thread."""
        openai = importlib.import_module("openai")
        limits = openai.Timeout(_SILENCE_SECONDS, connect=_CONNECT_SECONDS)
        client = openai.AsyncOpenAI(**self._settings, max_retries=0, timeout=limits)
        importlib.import_module("openai.resources.chat")  # the SDK would import it on first use, on the event loop
        return client

    async def _ask_limits(self) -> None:
        self._facts = await ask_limits(self._get_json, self._provider, self._base_url, self._model, self._facts)
        self.window = self._facts.window
        self.max_output = self._facts.max_output

    async def _get_json(self, url: str, post: Mapping[str, Any] | None = None) -> Any:
        """Fetch JSON with the client's own key and headers; None when there is none to be had."""
        options = {"cast_to": object, "options": {"timeout": 2.0}}
        try:
            if post is None:
                return await self._client.get(url, **options)
            return await self._client.post(url, body=dict(post), **options)
        except _expected():
            return None


def _expected() -> tuple[type[Exception], ...]:
    """What a call may raise: the SDK's errors, transport errors, and an answer that is not JSON."""
    openai, httpx2 = importlib.import_module("openai"), importlib.import_module("httpx2")
    return openai.OpenAIError, httpx2.TransportError, httpx2.InvalidURL, httpx2.StreamError, ValueError


def _refuses_usage_option(error: Any) -> bool:
    told = f"{error.message} {error.body}"
    return error.status_code in {400, 422} and ("stream_options" in told or "include_usage" in told)
