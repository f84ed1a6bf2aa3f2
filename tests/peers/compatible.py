"""An OpenAI-compatible server on loopback that speaks in dialects: our own, since every real one speaks a single one.

It follows the types of the openai 3.52 SDK (ChatCompletionChunk, CompletionUsage) and what Ollama, vLLM, OpenRouter,
LM Studio and Gemini's compatible endpoint document of their own.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from tests.peers.failing import begin, failing, tell
from tests.peers.mood import Mood, today

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@dataclass(frozen=True)
class Chunks:
    """A stream: deltas one by one, the reason it ended, and the usage chunk. ``how`` is what goes wrong after them, if anything."""

    deltas: tuple[dict[str, Any], ...]
    finish: str | None = "stop"
    usage: dict[str, Any] | None = None
    how: str = ""
    error: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Refuse:
    """An error instead of an answer."""

    status: int
    error: Any
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Events:
    """A Responses stream, event by event. Output items that are given are put into the final event."""

    events: tuple[dict[str, Any], ...] = ()
    output: tuple[dict[str, Any], ...] = ()
    final: dict[str, Any] | None = None
    """What the final response says beyond its output; None for a stream without a final event."""
    how: str = ""
    """What goes wrong after the events, if anything."""


def words(*pieces: str, usage: dict[str, Any] | None = None) -> Chunks:
    """Return an answer of plain text."""
    return Chunks(tuple({"content": piece} for piece in pieces), usage=usage)


def said(text: str) -> Events:
    """Return a Responses answer of plain text."""
    part = {"type": "output_text", "text": text, "annotations": []}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    shown = {"type": "response.output_text.delta", "delta": text, "output_index": 0, "content_index": 0, "item_id": "msg_1"}
    return Events((shown,), output=(message,), final={})


class CompatiblePeer:
    """The server: tell it answers, then look at `requests`. ``pages`` are further JSON documents by path."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.pages: dict[str, Any] = {}
        self.fetched: list[str] = []
        self.refuses_usage_option = False
        self.root = ""
        self.mood: Mood = today()
        self.queued: deque[Chunks | Refuse | Events] = deque()
        self._released = asyncio.Event()

    @property
    def url(self) -> str:
        """The base URL to give to a client."""
        return f"{self.root}/v1"

    def answer(self, *answers: Chunks | Refuse | Events) -> None:
        """Queue answers, one for each request."""
        self.queued.extend(answers)

    def release(self) -> None:
        """Let stalled answers go."""
        self._released.set()

    async def start(self) -> web.AppRunner:
        """Serve on a free port."""
        app = web.Application(client_max_size=64_000_000, middlewares=[failing(self._day, _words)])
        app.router.add_post("/v1/chat/completions", self._completions)
        app.router.add_post("/v1/responses", self._responses)
        app.router.add_route("*", "/{path:.*}", self._page)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.root = f"http://127.0.0.1:{runner.addresses[0][1]}"
        return runner

    def _day(self, request: web.Request) -> Mood | None:
        return self.mood if request.path in {"/v1/chat/completions", "/v1/responses"} else None

    async def _page(self, request: web.Request) -> web.Response:
        self.fetched.append(request.path)
        if request.path not in self.pages:
            return web.json_response({"error": {"message": "no such page"}}, status=404)
        return web.json_response(self.pages[request.path])

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        await self.mood.late()
        body = await request.json()
        self.requests.append(copy.deepcopy(body))
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        if self.refuses_usage_option and "stream_options" in body:
            return web.json_response({"error": {"message": "Unrecognized request argument: stream_options"}}, status=400)
        answer = self.queued.popleft() if self.queued else words("Very well.")
        if isinstance(answer, Refuse):
            return web.json_response({"error": answer.error}, status=answer.status, headers=answer.headers)
        assert isinstance(answer, Chunks)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await begin(request, response)
        for delta in answer.deltas:
            await self._send(request, response, body["model"], delta, None)
        return await self._end(response, request, answer, body)

    async def _responses(self, request: web.Request) -> web.StreamResponse:
        await self.mood.late()
        body = await request.json()
        self.requests.append(copy.deepcopy(body))
        answer = self.queued.popleft() if self.queued else said("Very well.")
        if isinstance(answer, Refuse):
            return web.json_response({"error": answer.error}, status=answer.status, headers=answer.headers)
        assert isinstance(answer, Events)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await begin(request, response)
        items = [
            {"type": "response.output_item.done", "output_index": index, "item": item}
            for index, item in enumerate(answer.output)
        ]
        final = []
        if answer.final is not None:
            whole = {"id": "resp_1", "object": "response", "status": "completed", "output": list(answer.output), **answer.final}
            final = [{"type": f"response.{whole['status']}", "response": whole}]
        for event in (*answer.events, *items, *final):
            await tell(request, response, f"event: {event['type']}\ndata: {json.dumps(self.mood.more(event))}\n\n")
        await self._spoil(response, request, answer.how)
        return response

    async def _spoil(self, response: web.StreamResponse, request: web.Request, how: str) -> bool:
        """Let a stream go wrong, and say whether it did."""
        if how == "cut":
            assert request.transport is not None
            request.transport.abort()
        elif how == "garbage":
            await response.write(b"data: {not json\n\n")
        elif how == "stall":
            await self._released.wait()
        return how in {"cut", "garbage", "stall"}

    async def _end(
        self, response: web.StreamResponse, request: web.Request, answer: Chunks, body: dict[str, Any]
    ) -> web.StreamResponse:
        if await self._spoil(response, request, answer.how):
            return response
        if answer.how == "error":
            await response.write(f"data: {json.dumps({'error': answer.error})}\n\n".encode())
            return response
        if answer.how != "end":
            await self._send(request, response, body["model"], {}, answer.finish)
        if answer.usage is not None and "stream_options" in body:
            chunk = {
                "id": "c1",
                "object": "chat.completion.chunk",
                "created": 1,
                "model": "m",
                "choices": [],
                "usage": answer.usage,
            }
            await tell(request, response, f"data: {json.dumps(self.mood.more(chunk))}\n\n")
        await tell(request, response, "data: [DONE]\n\n")
        return response

    async def _send(
        self, request: web.Request, response: web.StreamResponse, model: str, delta: dict[str, Any], finish: str | None
    ) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        chunk = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": model, "choices": [choice]}
        await tell(request, response, f"data: {json.dumps(self.mood.more(chunk))}\n\n")


def _words(_: web.Request, status: int) -> dict[str, Any]:
    message = f"The server had an error while processing your request ({status})."
    return {"error": {"message": message, "type": "server_error", "param": None, "code": None}}


@pytest.fixture
async def compatible_peer() -> AsyncIterator[CompatiblePeer]:
    """Give a running peer."""
    peer = CompatiblePeer()
    runner = await peer.start()
    yield peer
    peer.release()
    await runner.cleanup()
