"""Measures what a turn costs when the conversation is long, through the real SDKs and over HTTP.

    python benchmarks/history.py            all three APIs
    python benchmarks/history.py chat       one of them: chat, responses or messages

A server in a process of its own answers at once, so that its work is not counted. Printed are the CPU time of a turn (all threads
of the process together) and its time by the clock, medians of twenty, at histories of 1, 100, 400 and 1,000 messages, and the
longest step on the event loop in ten further turns, in CPU time of its thread: reading that clock twice a step costs time of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Self

from channels.live import Done
from gateway.app.dependencies import Dependencies
from gateway.app.gateway import Gateway
from gateway.base.clock import SystemClock
from gateway.base.paths import Paths
from gateway.settings.root import Settings

APIS = {"chat": "openai-completions", "responses": "openai-responses", "messages": "anthropic-messages"}
LENGTHS = (1, 100, 400, 1000)
TURNS = 20
TIMED_TURNS = 10
BAR = 1.6
SENTENCE = "The plumber comes on Thursday at nine, and the spare key lies under the blue pot by the door. "


def say(name: str, figure: str, bar: str = "") -> None:
    print(f"{name:52} {figure:>12}   {bar}")


def _events(*events: dict) -> bytes:
    named = (f"event: {event['type']}\n" if "type" in event else "" for event in events)
    return "".join(f"{name}data: {json.dumps(event)}\n\n" for name, event in zip(named, events, strict=True)).encode()


def _chat() -> bytes:
    base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    said = {**base, "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Noted."}, "finish_reason": None}]}
    end = {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    used = {**base, "choices": [], "usage": {"prompt_tokens": 3000, "completion_tokens": 2, "total_tokens": 3002}}
    return _events(said, end, used) + b"data: [DONE]\n\n"


def _responses() -> bytes:
    part = {"type": "output_text", "text": "Noted.", "annotations": []}
    message = {"id": "m1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    delta = {"type": "response.output_text.delta", "delta": "Noted.", "output_index": 0, "content_index": 0, "item_id": "m1"}
    usage = {"input_tokens": 3000, "output_tokens": 2, "total_tokens": 3002}
    final = {"id": "r", "object": "response", "status": "completed", "output": [message], "usage": usage}
    return _events(delta, {"type": "response.completed", "response": final})


def _messages() -> bytes:
    usage = {"input_tokens": 3000, "output_tokens": 1}
    begun = {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "m", "usage": usage}
    return _events(
        {"type": "message_start", "message": {**begun, "stop_reason": None, "stop_sequence": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Noted."}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    )


async def serve() -> None:
    """Answer every request with a short stream in the language of its path. The port is printed first."""
    answers = {b"/chat/completions": _chat(), b"/responses": _responses(), b"/v1/messages": _messages()}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                line, _, fields = head.partition(b"\r\n")
                lengths = [one for one in fields.lower().split(b"\r\n") if one.startswith(b"content-length:")]
                await reader.readexactly(int(lengths[0].partition(b":")[2]) if lengths else 0)
                body = next((text for end, text in answers.items() if line.split()[1].partition(b"?")[0].endswith(end)), None)
                status = b"404 Not Found" if body is None else b"200 OK"
                told = body or b"{}"
                kind = b"application/json" if body is None else b"text/event-stream"
                writer.write(
                    b"HTTP/1.1 %s\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n%s" % (status, kind, len(told), told)
                )
                await writer.drain()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=2**26)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


class Longest:
    """The longest step on the event loop while this is entered, in seconds of CPU time."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._plain = asyncio.Handle._run

    def __enter__(self) -> Self:
        plain = self._plain

        def timed(handle: asyncio.Handle) -> None:
            began = time.thread_time()
            plain(handle)
            self.seconds = max(self.seconds, time.thread_time() - began)

        asyncio.Handle._run = timed
        return self

    def __exit__(self, *error: object) -> None:
        asyncio.Handle._run = self._plain


async def measure(label: str, port: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        model = {"id": "m", "contextWindow": 2_000_000, "maxTokens": 4000, "cost": {}}
        provider = {"baseUrl": f"http://127.0.0.1:{port}", "apiKey": "sk-bench", "api": APIS[label], "models": [model]}
        settings = Settings.model_validate(
            {
                "agents": {"defaults": {"model": "bench/m", "workspace": str(root / "workspace"), "userTimezone": "UTC"}},
                "models": {"providers": {"bench": provider}},
                "budgets": {"enabled": False},
            }
        )
        on = Dependencies(settings=settings, paths=Paths(root / "state"), env={}, clock=SystemClock(), random=random.Random(1))
        house = await Gateway.open(on)
        running = asyncio.ensure_future(house.run())
        link = house.terminal.attach("bench")
        frames = link.frames()
        asked, first = 0, 0.0

        async def turn() -> None:
            nonlocal asked
            await link.say(f"{asked}: " + SENTENCE * 5, key=str(asked), hints={"session": "bench"})
            async for frame in frames:
                if isinstance(frame, Done) and frame.key == str(asked):
                    break
            asked += 1

        for length in LENGTHS:
            while asked * 2 < length + (20 if length == 1 else 0):  # the first turns import and connect
                await turn()
            cpu, wall = [], []
            for _ in range(TURNS):
                began = time.process_time(), time.perf_counter()
                await turn()
                cpu.append((time.process_time() - began[0]) * 1000)
                wall.append((time.perf_counter() - began[1]) * 1000)
            with Longest() as longest:
                for _ in range(TIMED_TURNS):
                    await turn()
            middle = statistics.median(cpu)
            first = first or middle
            bar = f"at most {BAR} times the first" if length == 400 else ""
            say(
                f"{label}: CPU of a turn, {length:,} messages before",
                f"{middle:.1f} ms",
                f"{middle / first:.2f}x  {bar}".rstrip(),
            )
            say("    by the clock", f"{statistics.median(wall):.1f} ms")
            say("    longest step on the event loop", f"{longest.seconds * 1000:.1f} ms", "at most 50 ms")
        await link.close()
        house.stop()
        await running
        await house.close()


async def main(labels: list[str]) -> None:
    server = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "serve", stdout=asyncio.subprocess.PIPE, env=os.environ
    )
    try:
        assert server.stdout is not None
        port = int(await server.stdout.readline())
        for label in labels:
            await measure(label, port)
    finally:
        server.terminate()
        await server.wait()


if __name__ == "__main__":
    asyncio.run(serve() if sys.argv[1:] == ["serve"] else main(sys.argv[1:] or list(APIS)))
