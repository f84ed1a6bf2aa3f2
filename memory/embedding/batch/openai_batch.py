"""Batch embedding at OpenAI: upload a file of requests, poll the job, download a file of answers within a day."""

from __future__ import annotations

import asyncio
import base64
import importlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from memory.embedding.batch.protocol import BatchStatus
from memory.embedding.engines.openai import OpenAIEmbedder
from memory.embedding.retry import PASSAGE_SECONDS

if TYPE_CHECKING:
    import openai

T = TypeVar("T")

_PORTION = 256
_MARK = "homebody_batch"
_OK = 200
_FINAL = frozenset({"completed", "failed", "expired", "cancelled"})


class OpenAIBatches:
    """Batch jobs of one OpenAI embedder (``BatchService``)."""

    max_requests = 50_000
    """The service's own limit, for requests and for texts in them."""

    max_tokens = 1_000_000
    """The smallest accounts may have 3,000,000 tokens queued: two jobs at once fit, with room for a low estimate."""

    def __init__(self, embedder: OpenAIEmbedder) -> None:
        self.embedder = embedder
        self.failures = 0

    async def submit(self, token: str, passages: Sequence[tuple[str, str]]) -> str:
        """Upload the requests and start the job. A retry first checks whether the first attempt succeeded."""
        content = await asyncio.to_thread(self._jsonl, passages)
        tried = False

        async def once(client: openai.AsyncOpenAI, left: float) -> str:
            nonlocal tried
            if tried and (found := await self._find(client, token, left)):
                return found
            tried = True
            file = await client.files.create(file=(f"{token}.jsonl", content), purpose="batch", timeout=left)
            job = await client.batches.create(
                completion_window="24h",
                endpoint="/v1/embeddings",
                input_file_id=file.id,
                metadata={_MARK: token},
                timeout=left,
            )
            return job.id

        return await self._try(once)

    async def find(self, token: str) -> str | None:
        """Look through the account's jobs, newest first."""
        return await self._try(lambda client, left: self._find(client, token, left))

    async def state(self, job: str) -> BatchStatus:
        """Return the state of the job."""
        batch = await self._try(lambda client, left: client.batches.retrieve(job, timeout=left))
        messages = [
            error.message for error in (batch.errors.data if batch.errors and batch.errors.data else []) if error.message
        ]
        files = tuple(file for file in (batch.output_file_id, batch.error_file_id) if file)
        status: Any = batch.status if batch.status in _FINAL else "running"
        return BatchStatus(status=status, reason="; ".join(messages)[:300], files=files, litter=(batch.input_file_id, *files))

    async def results(self, state: BatchStatus) -> AsyncIterator[list[tuple[str, list[float] | None]]]:
        """Stream the answer file and the error file, a few hundred lines at a time: together they may be large."""
        client = await self.embedder.client()
        sdk: Any = importlib.import_module("openai")
        http: Any = importlib.import_module("httpx2")
        for file in state.files:
            try:
                async with client.files.with_streaming_response.content(file, timeout=PASSAGE_SECONDS) as answer:
                    lines: list[str] = []
                    async for line in answer.iter_lines():
                        lines.append(line)
                        if len(lines) >= _PORTION:
                            yield await asyncio.to_thread(_read, lines)
                            lines = []
                    yield await asyncio.to_thread(_read, lines)
            except (sdk.OpenAIError, http.TransportError) as error:
                raise self.embedder.failure(error) from error

    async def cancel(self, job: str) -> None:
        """Cancel the job, which may take minutes."""
        await self._try(lambda client, left: client.batches.cancel(job, timeout=left))

    async def discard(self, job: str, state: BatchStatus) -> None:  # noqa: ARG002 - jobs themselves cannot be deleted here
        """Delete the request, answer and error files."""
        for file in state.litter:
            await self._try(partial(_delete, file))

    def _jsonl(self, passages: Sequence[tuple[str, str]]) -> bytes:
        asked: dict[str, Any] = {"model": self.embedder.model, "encoding_format": "base64"}
        if self.embedder.dimensions:
            asked["dimensions"] = self.embedder.dimensions
        lines = (
            json.dumps(
                {
                    "custom_id": key,
                    "method": "POST",
                    "url": "/v1/embeddings",
                    "body": {**asked, "input": self.embedder.wire_text(text, "passage")},
                }
            )
            for key, text in passages
        )
        return "\n".join(lines).encode() + b"\n"

    async def _find(self, client: openai.AsyncOpenAI, token: str, left: float) -> str | None:
        page = await client.batches.list(limit=100, timeout=left)
        return next((job.id for job in page.data if (job.metadata or {}).get(_MARK) == token), None)

    async def _try(self, call: Callable[[openai.AsyncOpenAI, float], Awaitable[T]]) -> T:
        client = await self.embedder.client()
        await asyncio.to_thread(lambda: (client.files.create, client.batches.create))  # the SDK imports them at first touch
        sdk: Any = importlib.import_module("openai")

        async def once(left: float) -> T:
            try:
                return await call(client, left)
            except (sdk.OpenAIError, ValueError, TypeError, AttributeError) as error:
                raise self.embedder.failure(error) from error

        return await self.embedder.retries.run(once, limit=PASSAGE_SECONDS)


async def _delete(file: str, client: openai.AsyncOpenAI, left: float) -> None:
    await client.files.delete(file, timeout=left)


def _read(lines: Sequence[str]) -> list[tuple[str, list[float] | None]]:
    """Read answer lines. A line without a usable answer counts as a failed request; one without an id is skipped."""
    found: list[tuple[str, list[float] | None]] = []
    for line in lines:
        try:
            fields = json.loads(line)
            key = str(fields["custom_id"])
        except (ValueError, KeyError, TypeError):
            continue
        try:
            answer = fields["response"]
            found.append((key, _vector(answer["body"]["data"][0]["embedding"]) if answer["status_code"] == _OK else None))
        except (KeyError, TypeError, IndexError, ValueError):
            found.append((key, None))
    return found


def _vector(embedding: str | list[float]) -> list[float]:
    import numpy as np

    if isinstance(embedding, str):
        numbers: list[float] = np.frombuffer(base64.b64decode(embedding), dtype="<f4").tolist()
        return numbers
    return embedding
