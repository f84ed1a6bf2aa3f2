"""What no API has in its answers is the server's fault, told as such, and no defect of ours."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from agent.messages import AssistantMessage, Failure
from agent.models.adapters.anthropic import AnthropicModel
from agent.models.adapters.openai_chat import OpenAIChatModel
from agent.models.adapters.openai_responses import OpenAIResponsesModel
from agent.models.adapters.sanitize import arguments_of, clean_json
from agent.models.catalog.known_models import ModelFacts
from agent.models.catalog.provider_keys import Key
from agent.models.middleware.key_rotation import HIDDEN, without_key
from tests.models.conversation import ask, hear, user
from tests.models.test_openai_chat import at
from tests.peers.compatible import Chunks
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.peers.compatible import CompatiblePeer

ODD: tuple[Any, ...] = (
    {"content": [{"type": "text", "text": "Very "}, {"type": "text", "text": "well."}]},
    {"content": ["Very well."]},
)


@pytest.mark.parametrize("delta", ODD)
async def test_content_as_a_list_of_parts_is_read(compatible_peer: CompatiblePeer, delta: dict[str, Any]) -> None:
    model = at(compatible_peer.url)
    compatible_peer.answer(Chunks((delta,)))
    _, answer = await hear(model, ask(user("a")))
    await model.close()
    assert answer.text == "Very well."


async def test_nan_in_a_tools_arguments_is_no_json(compatible_peer: CompatiblePeer) -> None:
    model = at(compatible_peer.url)
    function = {"name": "read", "arguments": '{"n": NaN}'}
    compatible_peer.answer(Chunks(({"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": function}]},)))
    _, answer = await hear(model, ask(user("a")))
    await model.close()
    assert [(one.arguments, one.raw) for one in answer.calls] == [(None, '{"n": NaN}')]
    assert [arguments_of(raw) for raw in ('{"a": Infinity}', '{"a": -Infinity}', "NaN")] == [None] * 3
    json.dumps(clean_json({"a": [float("nan"), float("inf"), 1.5]}), allow_nan=False)


STREAMS: dict[str, list[Any]] = {
    "/v1/chat/completions": [
        {"choices": "none"},
        {"choices": [{"delta": 5, "finish_reason": 7}]},
        {"choices": [{"delta": {"tool_calls": 3}}]},
        {"choices": [{"delta": {"tool_calls": [None, "x", 5, {"function": 9}]}, "finish_reason": ["a"]}]},
        {"choices": [{"delta": {"content": {"a": 1}, "reasoning": 3, "refusal": []}, "finish_reason": "stop"}], "usage": "much"},
        {"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": float("nan"), "cost": "x"}},
        [], 5, "text", None,
    ],
    "/v1/responses": [
        {"type": "response.output_text.delta", "delta": {"a": 1}},
        {"type": "response.output_item.done", "item": 3, "output_index": {"a": 1}},
        {"type": "response.completed", "response": {"output": [{"type": "message"}, 5, {"type": "function_call"}], "status": "completed"}},
        {"type": "response.completed", "response": 4},
        {"type": "error", "code": 5, "message": {"a": 1}},
        [], 5, None,
    ],
    "/v1/messages": [
        {"type": "message_start", "message": 5},
        {"type": "content_block_delta", "index": 7, "delta": {"type": "text_delta", "text": 5}},
        {"type": "content_block_start", "index": [1], "content_block": "x"},
        {"type": "message_delta", "delta": None, "usage": {"output_tokens": "many"}},
        {"type": "message_start", "message": {"usage": {"input_tokens": "x", "cache_creation": 5}}},
        [], 5, None,
    ],
}  # fmt: skip


@parametrize_some(9, ("path", "place"), [(path, place) for path, events in STREAMS.items() for place in range(len(events))])
async def test_whatever_a_server_streams_the_answer_is_data(path: str, place: int) -> None:
    event = STREAMS[path][place]

    async def serve(_: web.Request) -> web.Response:
        kind = event.get("type", "message") if isinstance(event, dict) else "message"
        text = f"event: {kind}\ndata: {json.dumps(event)}\n\n" * 2
        return web.Response(text=text, content_type="text/event-stream")

    app = web.Application()
    app.router.add_post(path, serve)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    kinds: dict[str, Callable[..., Any]] = {"messages": AnthropicModel, "responses": OpenAIResponsesModel}
    kind = kinds.get(path.rpartition("/")[2], OpenAIChatModel)
    root = f"http://127.0.0.1:{runner.addresses[0][1]}"
    facts = ModelFacts(window=100_000, max_output=4000, assumed=False)
    model = kind("m", key="k", facts=facts, base_url=root if kind is AnthropicModel else f"{root}/v1", label="The server")
    _, answer = await hear(model, ask(user("a")))
    await model.close()
    await runner.cleanup()
    assert answer.failure is None or answer.failure.hint or answer.failure.message


@pytest.mark.parametrize("text", ["Incorrect API key provided: sk-verysecret.", "sk-verysecretsk-verysecret", "no such key"])
def test_a_key_that_a_provider_repeats_is_taken_out_of_what_is_told(text: str) -> None:
    failed = AssistantMessage(content=(), model="m", stop="error", failure=Failure(kind="auth", message=text, hint="Mend it."))
    told = without_key(failed, Key("OPENAI_API_KEY", "environment", "sk-verysecret")).failure
    assert told is not None
    assert "verysecret" not in told.message
    assert (HIDDEN in told.message) == ("verysecret" in text)
    assert told.hint == "Mend it."
