"""Batch embedding at Gemini: upload a file of requests, poll the operation, download a file of answers."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from memory.embedding.batch.protocol import BatchStatus
from memory.embedding.endpoint import connection_failure
from memory.embedding.engines.gemini import GeminiEmbedder
from memory.embedding.retry import PASSAGE_SECONDS
from memory.errors import EmbeddingFailed

T = TypeVar("T")

_PORTION = 256
_ERRORS_FROM = 400
_STATUS = {
    "SUCCEEDED": "completed",
    "FAILED": "failed",
    "EXPIRED": "expired",
    "CANCELLED": "cancelled",
}


class GeminiBatches:
    """Batch jobs of one Gemini embedder (``BatchService``), after the public REST reference (v1beta)."""

    max_requests = 50_000
    max_tokens = 1_000_000
    """Keeps a job's file near 4 MB; the service takes files up to 2 GB, but queues a limited number of tokens per account."""

    def __init__(self, embedder: GeminiEmbedder) -> None:
        self.embedder = embedder
        self.failures = 0

    async def submit(self, token: str, passages: Sequence[tuple[str, str]]) -> str:
        """Upload the requests and start the job. A retry first checks whether the first attempt succeeded."""
        content = await asyncio.to_thread(self._jsonl, passages)
        tried = False

        async def once(left: float) -> str:
            nonlocal tried
            if tried and (job := await self._find(token, left)):
                return job
            tried = True
            file = await self._upload(token, content, left)
            batch = {"displayName": token, "inputConfig": {"fileName": file}}
            path = f"models/{self.embedder.model}:asyncBatchEmbedContent"
            answer = await self.embedder.send("POST", path, timeout=left, json={"batch": batch})
            return str(answer.json()["name"])

        return await self._try(once)

    async def find(self, token: str) -> str | None:
        """Look through the account's jobs."""
        return await self._try(lambda left: self._find(token, left))

    async def state(self, job: str) -> BatchStatus:
        """Return the state of the job."""

        async def once(left: float) -> BatchStatus:
            answer = await self.embedder.send("GET", job, timeout=left)
            return _state(answer.json())

        return await self._try(once)

    async def results(self, state: BatchStatus) -> AsyncIterator[list[tuple[str, list[float] | None]]]:
        """Stream the answer file, a few hundred lines at a time."""
        http: Any = importlib.import_module("httpx2")
        client = await self.embedder.client()
        for file in state.files:
            url = self._beside("download", f"{file}:download")
            try:
                async with client.stream(
                    "GET", url, params={"alt": "media"}, headers=self.embedder.auth_headers(url), timeout=PASSAGE_SECONDS
                ) as answer:
                    if answer.status_code >= _ERRORS_FROM:
                        raise self.embedder.failure(answer.status_code, await answer.aread(), answer.headers)
                    lines: list[str] = []
                    async for line in answer.aiter_lines():
                        lines.append(line)
                        if len(lines) >= _PORTION:
                            yield await asyncio.to_thread(_read, lines)
                            lines = []
                    yield await asyncio.to_thread(_read, lines)
            except http.TransportError as error:
                raise connection_failure(error, self.embedder.endpoint) from error

    async def cancel(self, job: str) -> None:
        """Cancel the job."""
        await self._try(lambda left: self.embedder.send("POST", f"{job}:cancel", timeout=left))

    async def discard(self, job: str, state: BatchStatus) -> None:
        """Delete the job and its files."""
        for path in (*state.litter, job):
            await self._try(partial(self._delete, path))

    def _jsonl(self, passages: Sequence[tuple[str, str]]) -> bytes:
        lines = (json.dumps({"key": key, "request": self.embedder.wire_request(text, "passage")}) for key, text in passages)
        return "\n".join(lines).encode() + b"\n"

    async def _upload(self, token: str, content: bytes, left: float) -> str:
        """Use the resumable protocol in its two steps: announce, then send all of it."""
        begun = await self.embedder.send(
            "POST",
            self._beside("upload", "files"),
            timeout=left,
            headers={
                "X-Goog-Upload-Protocol": "resumable",
                "X-Goog-Upload-Command": "start",
                "X-Goog-Upload-Header-Content-Length": str(len(content)),
                "X-Goog-Upload-Header-Content-Type": "application/jsonl",
            },
            json={"file": {"displayName": token}},
        )
        sent = await self.embedder.send(
            "POST",
            begun.headers["x-goog-upload-url"],
            timeout=left,
            headers={"X-Goog-Upload-Offset": "0", "X-Goog-Upload-Command": "upload, finalize"},
            content=content,
        )
        return str(sent.json()["file"]["name"])

    async def _find(self, token: str, left: float) -> str | None:
        answer = await self.embedder.send("GET", "batches", timeout=left, params={"pageSize": "100"})
        for operation in answer.json().get("operations") or []:
            if (operation.get("metadata") or {}).get("displayName") == token:
                return str(operation["name"])
        return None

    async def _delete(self, path: str, left: float) -> None:
        await self.embedder.send("DELETE", path, timeout=left)

    def _beside(self, service: str, path: str) -> str:
        """Files are up- and downloaded beside the API: https://host/upload/v1beta/... for https://host/v1beta/..."""
        root, _, version = self.embedder.endpoint.base_url.rpartition("/")
        return f"{root}/{service}/{version}/{path}"

    async def _try(self, call: Callable[[float], Awaitable[T]]) -> T:
        async def once(left: float) -> T:
            try:
                return await call(left)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                where = f"{self.embedder.model} at {self.embedder.endpoint.host}"
                raise EmbeddingFailed(f"The batch service of {where} returned no usable answer.", passing=True) from error

        return await self.embedder.retries.run(once, limit=PASSAGE_SECONDS)


def _state(operation: dict[str, Any]) -> BatchStatus:
    """Read a long-running operation: ``metadata`` is the batch, ``response`` (once done) its output, ``error`` its end."""
    batch = operation.get("metadata") or {}
    output = operation.get("response") or batch.get("output") or {}
    output = output.get("output") or output
    state = str(batch.get("state", "")).removeprefix("BATCH_STATE_")
    status: Any = _STATUS.get(state, "running")
    error = operation.get("error") or {}
    if status == "running" and operation.get("done"):
        status = "failed" if error else "completed"
    files = tuple(file for file in (output.get("responsesFile"),) if file)
    config = batch.get("inputConfig") or {}
    sent = tuple(file for file in (config.get("fileName"),) if file)
    return BatchStatus(status=status, reason=str(error.get("message", ""))[:300], files=files, litter=(*sent, *files))


def _read(lines: Sequence[str]) -> list[tuple[str, list[float] | None]]:
    """Read answer lines. A line without a usable answer counts as a failed request; one without a key is skipped."""
    found: list[tuple[str, list[float] | None]] = []
    for line in lines:
        try:
            fields = json.loads(line)
            key = str(fields["key"])
        except (ValueError, KeyError, TypeError):
            continue
        try:
            found.append((key, fields["response"]["embedding"]["values"]))
        except (KeyError, TypeError):
            found.append((key, None))
    return found
