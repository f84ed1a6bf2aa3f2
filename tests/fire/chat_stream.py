"""What a model server streams in the language of chat completions, a piece at a time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aiohttp import web


async def say(response: web.StreamResponse, delta: dict[str, Any], reason: str | None) -> None:
    """Write one chunk; ``reason`` says why the answer ends with it."""
    choices = [{"index": 0, "delta": delta, "finish_reason": reason}]
    frame = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices}
    await response.write(f"data: {json.dumps(frame)}\n\n".encode())


async def end(response: web.StreamResponse) -> None:
    """Write the end of an answer."""
    await say(response, {}, "stop")
    await response.write(b"data: [DONE]\n\n")
