"""An Anthropic Messages API on loopback that counts: our own, because no third-party one reports what caches held.

It follows the types of the anthropic 2.11 SDK (Message, RawMessageStreamEvent, ModelInfo, ErrorResponse). It checks what the
real one checks and a fake usually forgets (roles take turns, results right behind their calls, no blank text, unique ids, at
most four cache marks), keeps a prompt cache by marked prefixes as the real one does, and can fail in every way that a test
tells it to: `status` errors, an error event in mid-stream, a cut connection, a silence.
"""

from __future__ import annotations

import asyncio
import copy
import json
import re
from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from tests.peers.failing import begin, failing, tell
from tests.peers.mood import Mood, today

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MOST_MARKS = 4


@dataclass(frozen=True)
class Say:
    """An answer: blocks as the API gives them (text, thinking with signature, tool_use), and why it ended."""

    blocks: tuple[dict[str, Any], ...]
    stop: str = "end_turn"
    stop_details: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None
    raw_json: dict[int, str] = field(default_factory=dict)
    """What is streamed as a tool's input instead of its JSON, by block number."""


@dataclass(frozen=True)
class Refuse:
    """An error instead of an answer."""

    status: int
    type: str
    message: str = "told to fail"
    headers: dict[str, str] = field(default_factory=dict)
    details: dict[str, Any] | None = None


@dataclass(frozen=True)
class Break:
    """An answer that begins with some text and goes wrong: "error" event, "cut" connection, "garbage", an early "end", or "stall"."""

    text: str
    how: str
    error_type: str = "overloaded_error"


def text(words: str) -> Say:
    """Return an answer of plain text."""
    return Say(({"type": "text", "text": words},))


class AnthropicPeer:
    """The server: tell it answers, then look at `requests`."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.models: dict[str, dict[str, Any]] = {}
        self.url = ""
        self.queued: deque[Say | Refuse | Break] = deque()
        self.mood: Mood = today()
        self._cached: dict[str, int] = {}
        self._released = asyncio.Event()

    def answer(self, *answers: Say | Refuse | Break) -> None:
        """Queue answers, one for each request."""
        self.queued.extend(answers)

    async def start(self) -> web.AppRunner:
        """Serve on a free port."""
        bad_day = failing(lambda request: self.mood if request.path == "/v1/messages" else None, words_of)
        app = web.Application(client_max_size=64_000_000, middlewares=[bad_day])
        app.router.add_post("/v1/messages", self._messages)
        app.router.add_get("/v1/models/{id}", self._model)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        return runner

    def release(self) -> None:
        """Let stalled answers go."""
        self._released.set()

    async def _model(self, request: web.Request) -> web.Response:
        info = self.models.get(request.match_info["id"])
        if info is None:
            return error_answer(404, "not_found_error", "model: unknown")
        base = {
            "type": "model",
            "id": request.match_info["id"],
            "display_name": "A model",
            "created_at": "2026-01-01T00:00:00Z",
        }
        return web.json_response({**base, "lifecycle": "active", **info})

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        await self.mood.late()
        body = await request.json()
        self.requests.append(copy.deepcopy(body))
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        if wrong := fault(body):
            return error_answer(400, "invalid_request_error", wrong)
        answer = self.queued.popleft() if self.queued else text("Very well.")
        if isinstance(answer, Refuse):
            return error_answer(answer.status, answer.type, answer.message, answer.headers, answer.details)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "request-id": "req_1"})
        await begin(request, response)
        usage = self._count(body)
        if isinstance(answer, Break):
            return await self._break(response, request, answer, usage)
        begun, *more = events(answer, usage, body["model"])
        begun["message"] |= {"id": f"msg_{len(self.requests)}", "diagnostics": self._diagnosed(body)}
        for event in (begun, *more):
            await self._send(request, response, event)
        return response

    def _diagnosed(self, body: dict[str, Any]) -> dict[str, Any] | None:
        """Compare with the request whose answer is named, as far as its system text goes."""
        named = (body.get("diagnostics") or {}).get("previous_message_id")
        former = next((one for n, one in enumerate(self.requests, 1) if f"msg_{n}" == named), None)
        if former is None or former.get("system") == body.get("system"):
            return None
        return {"cache_miss_reason": {"type": "system_changed", "cache_missed_input_tokens": 12}}

    async def _break(
        self, response: web.StreamResponse, request: web.Request, answer: Break, usage: dict[str, Any]
    ) -> web.StreamResponse:
        begun = list(events(text(answer.text), usage, "m"))
        for event in begun[: -3 if answer.text else 1]:
            await self._send(request, response, event)
        if answer.how == "error":
            await self._send(
                request, response, {"type": "error", "error": {"type": answer.error_type, "message": "Overloaded"}}
            )
        elif answer.how == "cut":
            assert request.transport is not None
            request.transport.abort()
        elif answer.how == "garbage":
            await response.write(b"event: content_block_delta\ndata: {not json\n\n")
        elif answer.how == "stall":
            await self._released.wait()
        return response

    async def _send(self, request: web.Request, response: web.StreamResponse, event: dict[str, Any]) -> None:
        await tell(request, response, frame(self.mood.more(event)))

    def _count(self, body: dict[str, Any]) -> dict[str, Any]:
        """Count as the API does: the longest beginning that is in the cache is read, the rest up to the last mark is written."""
        prefix, read = "", 0
        marks: dict[str, int] = {}
        for block in _blocks(body):
            marked = block.pop("cache_control", None)
            prefix += json.dumps(block, sort_keys=True)
            read = max(read, self._cached.get(prefix, 0))
            if marked:
                marks[prefix] = tokens(prefix)
        longest = max(marks.values(), default=0)
        self._cached.update(marks)
        return {
            "input_tokens": tokens(prefix) - max(longest, read),
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": max(0, longest - read),
        }


def tokens(words: str) -> int:
    """Count in fours."""
    return len(words) // 4


def _blocks(body: dict[str, Any]) -> list[dict[str, Any]]:
    body = copy.deepcopy(body)
    said = [{**block, "_role": message["role"]} for message in body["messages"] for block in message["content"]]
    return [*body.get("tools", []), *body.get("system", []), *said]


def events(answer: Say, usage: dict[str, Any], model: str) -> list[dict[str, Any]]:
    """Return the stream's events: the text in two pieces, so that joining is tested."""
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": model, "stop_reason": None}
    made: list[dict[str, Any]] = [
        {
            "type": "message_start",
            "message": {**message, "stop_sequence": None, "usage": {**usage, "output_tokens": 1, **(answer.usage or {})}},
        }
    ]
    for index, block in enumerate(answer.blocks):
        made += _block_events(index, block, answer.raw_json.get(index))
    final = {"output_tokens": 17, **(answer.usage or {})}
    delta = {"stop_reason": answer.stop, "stop_sequence": None, "stop_details": answer.stop_details}
    return [*made, {"type": "message_delta", "delta": delta, "usage": final}, {"type": "message_stop"}]


def _block_events(index: int, block: dict[str, Any], raw: str | None) -> list[dict[str, Any]]:
    kind = block["type"]
    empty = {"text": {"text": ""}, "thinking": {"thinking": "", "signature": ""}, "tool_use": {"input": {}}}.get(kind, {})
    pieces: list[dict[str, Any]] = []
    if kind == "text":
        pieces = [{"type": "text_delta", "text": half} for half in _halves(block["text"])]
    elif kind == "thinking":
        pieces = [{"type": "thinking_delta", "thinking": half} for half in _halves(block["thinking"])]
        pieces.append({"type": "signature_delta", "signature": block["signature"]})
    elif kind == "tool_use":
        written = json.dumps(block["input"]) if raw is None else raw
        pieces = [{"type": "input_json_delta", "partial_json": half} for half in _halves(written)]
    return [
        {"type": "content_block_start", "index": index, "content_block": {**block, **empty}},
        *({"type": "content_block_delta", "index": index, "delta": piece} for piece in pieces),
        {"type": "content_block_stop", "index": index},
    ]


def _halves(words: str) -> list[str]:
    return [words[: len(words) // 2], words[len(words) // 2 :]]


def frame(event: dict[str, Any]) -> str:
    """Return an event as it stands in a stream."""
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"


def words_of(_: web.Request, status: int) -> dict[str, Any]:
    kind, message = ("api_error", "Internal server error") if status == 500 else ("overloaded_error", "Overloaded")
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


def error_answer(
    status: int, kind: str, message: str, headers: dict[str, str] | None = None, details: dict[str, Any] | None = None
) -> web.Response:
    error = {"type": kind, "message": message, **({"details": details} if details else {})}
    return web.json_response({"type": "error", "error": error, "request_id": "req_1"}, status=status, headers=headers)


def fault(body: dict[str, Any]) -> str | None:
    """Say what the API would refuse in a request; None when nothing."""
    messages = body["messages"]
    if not messages or messages[0]["role"] != "user":
        return "messages: first message must use the user role"
    if any(one["role"] == other["role"] for one, other in pairwise(messages)):
        return "messages: roles must alternate"
    marks = json.dumps(body).count('"cache_control"')
    if marks > MOST_MARKS:
        return f"at most {MOST_MARKS} blocks may have cache_control, found {marks}"
    return _fault_in_calls(messages) or _fault_in_text(body) or _fault_in_thinking(body)


def _fault_in_calls(messages: list[dict[str, Any]]) -> str | None:
    seen: set[str] = set()
    open_calls: list[str] = []
    for message in messages:
        blocks = message["content"]
        if message["role"] == "user":
            results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
            leading = [block for block in blocks[: len(results)] if block["type"] == "tool_result"]
            if results != open_calls or len(leading) != len(results):
                return f"tool_use ids {open_calls} were answered by tool_result ids {results}"
            open_calls = []
        else:
            open_calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
            if seen & set(open_calls) or len(set(open_calls)) != len(open_calls):
                return "tool_use ids must be unique"
            if any(not re.fullmatch(r"[a-zA-Z0-9_-]+", name) for name in open_calls):
                return "tool_use.id: must match ^[a-zA-Z0-9_-]+$"
            seen.update(open_calls)
    return None


def _fault_in_text(body: dict[str, Any]) -> str | None:
    inner = [part for message in body["messages"] for block in message["content"] for part in (block, *_parts(block))]
    texts = [block["text"] for block in (*body.get("system", []), *inner) if block["type"] == "text"]
    if any(not words.strip() for words in texts):
        return "text content blocks must contain non-whitespace text"
    return None


def _fault_in_thinking(body: dict[str, Any]) -> str | None:
    thinking, messages = body.get("thinking") or {}, body["messages"]
    if thinking.get("type") != "enabled":
        return None
    if not 1024 <= thinking["budget_tokens"] < body["max_tokens"]:
        return "thinking.enabled.budget_tokens: must be at least 1024 and less than max_tokens"
    spoken = [n for n, one in enumerate(messages) if all(block["type"] != "tool_result" for block in one["content"])]
    last = max(n for n in spoken if messages[n]["role"] == "user")
    first = next((one["content"][0]["type"] for one in messages[last:] if one["role"] == "assistant"), "thinking")
    if first not in {"thinking", "redacted_thinking"}:
        return "When `thinking` is enabled, a final `assistant` message must start with a thinking block"
    return None


def _parts(block: dict[str, Any]) -> list[dict[str, Any]]:
    content = block.get("content", [])
    return content if isinstance(content, list) else []


@pytest.fixture
async def anthropic_peer() -> AsyncIterator[AnthropicPeer]:
    """Give a running peer."""
    peer = AnthropicPeer()
    runner = await peer.start()
    yield peer
    peer.release()
    await runner.cleanup()
