"""Warms up the SDKs in a thread, so that the first real answer does not block the event loop.

Both SDKs import and build a part of themselves with the first call. A made-up answer is read in the thread that opens a connection,
with the SDK's synchronous client over an in-process transport, as JSON: parsers of the SDKs' own types are not built.
"""

from __future__ import annotations

import gc
import importlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_BASE = "http://rehearsal.invalid"
_MESSAGE: dict[str, Any] = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "content": [],
    "model": "m",
    "stop_reason": None,
    "stop_sequence": None,
}
_ANTHROPIC: tuple[dict[str, Any], ...] = (
    {"type": "message_start", "message": {**_MESSAGE, "usage": {"input_tokens": 1, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 1}},
    {"type": "message_stop"},
)
_CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
_CALL = {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
_CHAT: tuple[dict[str, Any], ...] = (
    {**_CHUNK, "choices": [{"index": 0, "delta": {"content": "x", "tool_calls": [_CALL]}, "finish_reason": "stop"}]},
    {**_CHUNK, "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}},
)
_ITEM = {
    "id": "i",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "x", "annotations": []}],
}
_USAGE = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2, "input_tokens_details": {"cached_tokens": 0}}
_RESPONSES: tuple[dict[str, Any], ...] = (
    {"type": "response.output_text.delta", "delta": "x", "output_index": 0, "content_index": 0, "item_id": "i"},
    {"type": "response.output_item.done", "output_index": 0, "item": _ITEM},
    {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": [_ITEM], "usage": _USAGE}},
)


@contextmanager
def loading() -> Iterator[None]:
    """Load an SDK without the garbage collector looking through it, which takes up to 100 ms at a time and stops every thread.

    What was loaded stays for good, so it is set aside afterwards: later collections do not look through it either.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if collecting:
            gc.enable()


def anthropic_messages() -> None:
    """Play an answer of the Messages API."""
    import anthropic

    with anthropic.Anthropic(api_key="none", base_url=_BASE, max_retries=0, http_client=_player(_ANTHROPIC)) as client:
        _ = client.models  # a module of its own
        stream = client.post("/v1/messages", content=b"{}", cast_to=object, stream=True, stream_cls=anthropic.Stream[object])
        for _ in stream:
            pass


def chat_completions() -> None:
    """Play an answer of chat completions."""
    _openai("/chat/completions", _CHAT)


def responses() -> None:
    """Play an answer of the Responses API."""
    _openai("/responses", _RESPONSES)


def _openai(path: str, events: tuple[dict[str, Any], ...]) -> None:
    """Play an answer the way ``agent.models.adapters.openai_model`` asks for one."""
    import openai

    with openai.OpenAI(api_key="none", base_url=_BASE, max_retries=0, http_client=_player(events)) as client:
        stream = client.post(path, content=b"{}", cast_to=object, stream=True, stream_cls=openai.Stream[object])
        for _ in stream:
            pass


def _player(events: tuple[dict[str, Any], ...]) -> Any:
    """Return an HTTP client that answers with these events, whatever is asked, without a network."""
    httpx2 = importlib.import_module("httpx2")
    text = "".join(f"event: {event.get('type', 'message')}\ndata: {json.dumps(event)}\n\n" for event in events)
    answer = httpx2.Response(200, headers={"content-type": "text/event-stream"}, text=text)
    return httpx2.Client(transport=httpx2.MockTransport(lambda _request: answer), trust_env=False)
