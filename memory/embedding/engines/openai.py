"""Embeddings by OpenAI or any OpenAI-compatible server.

Ollama, for example, needs no key::

    memorySearch:
      provider: openai
      model: embeddinggemma            # after `ollama pull embeddinggemma`
      remote:
        baseUrl: http://localhost:11434/v1

vLLM, llama.cpp's server, LM Studio, LiteLLM and OpenRouter are configured in the same way, most of them with ``remote.apiKey``.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from memory.embedding.endpoint import Endpoint, connection_failure, failure_from_status
from memory.embedding.identity import fingerprint
from memory.embedding.inputs import clean_input, prompted, split_into_calls
from memory.embedding.retry import PASSAGE_SECONDS, QUERY_SECONDS, Retries, loading_client
from memory.embedding.vector_checks import unit_vectors
from memory.errors import EmbeddingFailed

if TYPE_CHECKING:
    import openai

DEFAULT_MODEL = "text-embedding-3-small"

_MAX_TEXT_TOKENS = 8_000
"""OpenAI's embedding models read 8,191 tokens of a text and refuse a longer one."""

_KEYLESS = "none"
"""The SDK requires a key; local servers ignore it."""


class OpenAIEmbedder:
    """One embedding model behind ``POST {base}/embeddings``. The SDK is loaded in a thread on the first call."""

    provider = "openai"

    def __init__(self, *, model: str, endpoint: Endpoint, retries: Retries, dimensions: int | None = None) -> None:
        self.model = model
        self.endpoint = endpoint
        self.fingerprint = fingerprint(
            self.provider, model, base_url=endpoint.base_url, dimensions=dimensions, headers=endpoint.headers
        )
        # OpenAI takes 2,048 texts and 300,000 tokens a call; smaller calls keep an answer near 2 MB. Others take far less.
        self.max_batch_tokens, self.max_batch_texts = (60_000, 256) if endpoint.official else (8_000, 64)
        self.dimensions = dimensions
        self.retries = retries
        self._client: openai.AsyncOpenAI | None = None
        self._opening = asyncio.Lock()

    async def embed(self, texts: Sequence[str], *, purpose: Literal["query", "passage"]) -> list[list[float]]:
        """Return one unit-length vector per text, in order, with as many calls as that takes."""
        ready = [(None, self.wire_text(text, purpose)) for text in texts]
        limit = QUERY_SECONDS if purpose == "query" else PASSAGE_SECONDS
        vectors: list[list[float]] = []
        for group in split_into_calls(ready, max_tokens=self.max_batch_tokens, max_texts=self.max_batch_texts):
            call = partial(self._call, [text for _, text in group])
            vectors += await self.retries.run(call, limit=limit)
        return vectors

    async def close(self) -> None:
        """Release connections."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    def wire_text(self, text: str, purpose: Literal["query", "passage"]) -> str:
        """Return ``text`` in the form that is sent to this model."""
        return clean_input(prompted(text, model=self.model, purpose=purpose), max_tokens=_MAX_TEXT_TOKENS)

    async def client(self) -> openai.AsyncOpenAI:
        """Return the SDK's client, created on the first call. Its own retries are off; ``Retries`` does them."""
        async with self._opening:
            if self._client is None:
                with loading_client():
                    self._client = await asyncio.to_thread(self._open)
            return self._client

    def failure(self, error: Exception) -> EmbeddingFailed:
        """Return the failure for an exception of the SDK."""
        sdk = importlib.import_module("openai")
        if isinstance(error, sdk.APIStatusError):
            body = error.body if isinstance(error.body, dict) else {}
            return failure_from_status(
                error.status_code,
                detail=str(body.get("message") or error.message),
                code=str(error.code or ""),
                headers=dict(error.response.headers),
                now=self.retries.clock.now(),
                endpoint=self.endpoint,
                model=self.model,
            )
        if isinstance(error, sdk.APIConnectionError):  # time-outs are of this kind
            return connection_failure(error, self.endpoint)
        reason = "text or a web page instead of the API's JSON" if isinstance(error, AttributeError) else str(error)
        return EmbeddingFailed(
            f"{self._who} returned no usable answer: {reason}",
            hint="Check that memorySearch.remote.baseUrl ends where /embeddings begins (often in /v1).",
            passing=True,
        )

    @property
    def _who(self) -> str:
        return f"{self.model} at {self.endpoint.host}"

    def _open(self) -> openai.AsyncOpenAI:
        sdk: Any = importlib.import_module("openai")

        async def key() -> str:
            return self.endpoint.key() or _KEYLESS

        client: openai.AsyncOpenAI = sdk.AsyncOpenAI(
            api_key=key, base_url=self.endpoint.base_url, default_headers=dict(self.endpoint.headers), max_retries=0
        )
        # what the SDK imports at first use is imported here, and not on the event loop; it unpacks vectors with numpy
        importlib.import_module("numpy")
        _ = client.embeddings.create, client.platform_headers()
        return client

    async def _call(self, batch: list[str], left: float) -> list[list[float]]:
        client = await self.client()
        sdk: Any = importlib.import_module("openai")
        asked: dict[str, Any] = {"dimensions": self.dimensions} if self.dimensions else {}
        try:
            answer = await client.embeddings.create(model=self.model, input=batch, timeout=left, **asked)
            raw = [item.embedding for item in sorted(answer.data, key=lambda item: item.index)]
        except (sdk.OpenAIError, ValueError, TypeError, AttributeError) as error:
            # the SDK returns a body that is not the expected JSON as a string or an incomplete object
            raise self.failure(error) from error
        return await unit_vectors(raw, count=len(batch), dims=self.dimensions, who=self._who)
