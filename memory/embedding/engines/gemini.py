"""Embeddings by Google's Gemini API over HTTP (v1beta), which has different modes for queries and passages."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from memory.embedding.endpoint import Endpoint, connection_failure, failure_from_status, google_retry_delay
from memory.embedding.identity import fingerprint
from memory.embedding.inputs import clean_input, split_into_calls
from memory.embedding.retry import PASSAGE_SECONDS, QUERY_SECONDS, Retries, loading_client
from memory.embedding.vector_checks import unit_vectors
from memory.errors import EmbeddingFailed

if TYPE_CHECKING:
    import httpx2

DEFAULT_MODEL = "gemini-embedding-001"

DEFAULT_DIMENSIONS = 768
"""The model gives 3,072 numbers unless told otherwise. Google's table of MTEB scores has 68.16 there and 67.99 at 768, for a
quarter of the space and of the search time."""

_MAX_TEXT_TOKENS = 2_000
"""gemini-embedding-001 reads 2,048 tokens."""

_MAX_TEXTS = 100
"""The API's own limit of requests in one :batchEmbedContents."""

_ERRORS_FROM = 400
_TASKS = {"query": "RETRIEVAL_QUERY", "passage": "RETRIEVAL_DOCUMENT"}


class GeminiEmbedder:
    """One Gemini embedding model. The key is sent in a header and never in the URL, which may be logged."""

    provider = "gemini"

    def __init__(self, *, model: str, endpoint: Endpoint, retries: Retries, dimensions: int | None = None) -> None:
        self.model = model.removeprefix("models/")
        self.endpoint = endpoint
        self.dimensions = dimensions or DEFAULT_DIMENSIONS
        self.fingerprint = fingerprint(
            self.provider, self.model, base_url=endpoint.base_url, dimensions=self.dimensions, headers=endpoint.headers
        )
        self.max_batch_tokens, self.max_batch_texts = 20_000, _MAX_TEXTS
        self.retries = retries
        self._client: httpx2.AsyncClient | None = None
        self._opening = asyncio.Lock()

    async def embed(self, texts: Sequence[str], *, purpose: Literal["query", "passage"]) -> list[list[float]]:
        """Return one unit-length vector per text, in order, with as many calls as that takes."""
        ready = [(None, text) for text in texts]
        limit = QUERY_SECONDS if purpose == "query" else PASSAGE_SECONDS
        vectors: list[list[float]] = []
        for group in split_into_calls(ready, max_tokens=self.max_batch_tokens, max_texts=self.max_batch_texts):
            call = partial(self._call, [self.wire_request(text, purpose) for _, text in group])
            vectors += await self.retries.run(call, limit=limit)
        return vectors

    async def close(self) -> None:
        """Release connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    def wire_request(self, text: str, purpose: Literal["query", "passage"]) -> dict[str, Any]:
        """Return an EmbedContentRequest for one text."""
        return {
            "model": f"models/{self.model}",
            "content": {"parts": [{"text": clean_input(text, max_tokens=_MAX_TEXT_TOKENS)}]},
            "taskType": _TASKS[purpose],
            "outputDimensionality": self.dimensions,
        }

    async def send(self, method: str, url: str, *, timeout: float, **what: Any) -> httpx2.Response:  # noqa: ASYNC109
        """Make one request; ``url`` may be relative to the base address. Raises ``EmbeddingFailed`` for every other outcome than 2xx."""
        http: Any = importlib.import_module("httpx2")
        client = await self.client()
        address = url if "://" in url else f"{self.endpoint.base_url}/{url}"
        headers = {**self.auth_headers(address), **what.pop("headers", {})}
        try:
            answer = await client.request(method, address, headers=headers, timeout=timeout, **what)
        except http.TransportError as error:
            raise connection_failure(error, self.endpoint) from error
        if answer.status_code >= _ERRORS_FROM:
            raise self.failure(answer.status_code, answer.content, answer.headers)
        return answer

    async def client(self) -> httpx2.AsyncClient:
        """Return the HTTP client, created in a thread on the first call: reading certificates is slow."""
        async with self._opening:
            if self._client is None:
                with loading_client():
                    http: Any = await asyncio.to_thread(importlib.import_module, "httpx2")
                    made: httpx2.AsyncClient = await asyncio.to_thread(http.AsyncClient)
                self._client = made
            return self._client

    def auth_headers(self, address: str) -> dict[str, str]:
        """Return the headers that every request carries. The key goes to the endpoint's own host only."""
        if urlsplit(address).netloc != urlsplit(self.endpoint.base_url).netloc:
            return {}
        key = self.endpoint.key()
        return {**({"x-goog-api-key": key} if key else {}), **self.endpoint.headers}

    def failure(self, status: int, body: bytes, headers: Mapping[str, str]) -> EmbeddingFailed:
        """Return the failure for an error response. Google's own shape is ``{"error": {code, message, status, details}}``."""
        try:
            fields = json.loads(body)
            error = fields["error"] if isinstance(fields, dict) and isinstance(fields.get("error"), dict) else {}
        except ValueError:
            error = {}
        return failure_from_status(
            status,
            detail=str(error.get("message") or ""),
            code=next((str(d["reason"]) for d in error.get("details") or [] if isinstance(d, dict) and "reason" in d), ""),
            headers={**google_retry_delay(error), **headers},
            now=self.retries.clock.now(),
            endpoint=self.endpoint,
            model=self.model,
        )

    async def _call(self, requests: list[dict[str, Any]], left: float) -> list[list[float]]:
        single = len(requests) == 1
        action = "embedContent" if single else "batchEmbedContents"
        body = requests[0] if single else {"requests": requests}
        answer = await self.send("POST", f"models/{self.model}:{action}", timeout=left, json=body)
        try:
            fields = answer.json()
            raw = [item["values"] for item in ([fields["embedding"]] if single else fields["embeddings"])]
        except (ValueError, KeyError, TypeError) as error:
            raise EmbeddingFailed(
                f"{self.model} at {self.endpoint.host} returned no usable answer.",
                hint="Check that memorySearch.remote.baseUrl ends in /v1beta.",
                passing=True,
            ) from error
        return await unit_vectors(raw, count=len(requests), dims=self.dimensions, who=f"{self.model} at {self.endpoint.host}")
