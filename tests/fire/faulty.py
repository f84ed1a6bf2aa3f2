"""The predictable model with what goes wrong at providers. A fault lasts until it is taken back."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from aiohttp import web

from tests.fire.model import PredictableModel

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Fault = Callable[[web.Request, bytes], Awaitable[web.StreamResponse]]

_DELTA = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}


def _frame(delta: dict[str, object], finish: str | None = None) -> bytes:
    return f"data: {json.dumps({**_DELTA, 'choices': [{'index': 0, 'delta': delta, 'finish_reason': finish}]})}\n\n".encode()


class FaultyModel(PredictableModel):
    """``fault`` answers in the place of the model as long as it is set; ``left`` says for how many more requests, None for all."""

    def __init__(self) -> None:
        super().__init__()
        self.fault: Fault | None = None
        self.left: int | None = None

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        fault = self.fault
        if fault is None or self.left == 0:
            return await super()._answer(request)
        self.calls += 1
        if self.left is not None:
            self.left -= 1
        return await fault(request, await request.read())


def status(code: int, message: str = "no", **headers: str) -> Fault:
    """An error in the provider's words."""

    async def answer(_request: web.Request, _raw: bytes) -> web.StreamResponse:
        body = {
            "error": {"message": message, "type": "error", "code": "context_length_exceeded" if "context" in message else None}
        }
        return web.json_response(body, status=code, headers={name.replace("_", "-"): value for name, value in headers.items()})

    return answer


def stream(*frames: bytes, then: str = "end") -> Fault:
    """Some frames of an answer, and then ``silence``, ``cut`` (the connection is dropped) or ``end``."""

    async def answer(request: web.Request, _raw: bytes) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for frame in frames:
            await response.write(frame)
        await _then(request, then)
        return response

    return answer


async def silence(request: web.Request, _raw: bytes) -> web.StreamResponse:
    """Not even a header."""
    await _then(request, "silence")
    return web.Response()


async def hang_up(request: web.Request, _raw: bytes) -> web.StreamResponse:
    """The connection is dropped before any answer, as by a server that restarts."""
    await _then(request, "cut")
    return web.Response()


async def page(_request: web.Request, _raw: bytes) -> web.StreamResponse:
    """A page for people with status 200, as captive portals give."""
    return web.Response(text="<html>Please log in</html>", content_type="text/html")


async def _then(request: web.Request, what: str) -> None:
    if what == "cut" and request.transport is not None:
        request.transport.abort()
    if what == "silence":
        await asyncio.get_running_loop().create_future()  # cancelled when the client goes away, or the server closes


HALF_A_CALL = _frame(
    {"tool_calls": [{"index": 0, "id": "e1", "type": "function", "function": {"name": "edit", "arguments": '{"pa'}}]}
)
WORDS = _frame({"content": "well, "})
FAULTS: dict[str, Fault] = {
    "429": status(429, "slow down"),
    "429, come back in two seconds": status(429, "slow down", Retry_After="2"),
    "429, come back in an hour": status(429, "slow down", Retry_After="3600"),
    "500": status(500),
    "503": status(503),
    "529": status(529, "overloaded"),
    "400": status(400, "something is wrong with it"),
    "401": status(401, "no such key"),
    "402": status(402, "no money"),
    "413": status(413, "too large"),
    "too long for the window": status(400, "This model's maximum context length is 4096 tokens"),
    "hangs up": hang_up,
    "never begins": silence,
    "begins and says nothing": stream(then="silence"),
    "falls silent in the middle": stream(WORDS, then="silence"),
    "only keeps the line open": stream(b": keep-alive\n\n" * 3, then="silence"),
    "cut in the middle of words": stream(WORDS, then="cut"),
    "cut within a character": stream(WORDS[:-8] + "é".encode()[:1], then="cut"),
    "cut in the middle of a call": stream(HALF_A_CALL, then="cut"),
    "ends in the middle of a call": stream(HALF_A_CALL, b"data: [DONE]\n\n"),
    "ends without saying so": stream(WORDS),
    "garbage for JSON": stream(b"data: {'oops\n\n", b"data: [DONE]\n\n"),
    "JSON of another shape": stream(b'data: {"choices": "many", "usage": [1]}\n\n', b"data: [DONE]\n\n"),
    "nested without end": stream(b"data: " + b"[" * 100_000 + b"\n\n"),
    "an empty answer": stream(_frame({}, "stop"), b"data: [DONE]\n\n"),
    "nothing at all": stream(b"data: [DONE]\n\n"),
    "a page for people": page,
}
