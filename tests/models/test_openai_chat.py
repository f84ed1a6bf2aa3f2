"""Chat completions through the real SDK: against aimock, and against our own peer for the dialects of other servers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from agent.events import ThinkingDelta
from agent.messages import Thinking, ToolCall, Usage
from agent.models.adapters.openai_chat import OpenAIChatModel
from agent.models.catalog.known_models import ModelFacts
from agent.models.catalog.prices import Price
from tests.models.conversation import READ, ask, hear, result, shown, user
from tests.peers.compatible import Chunks, CompatiblePeer, Refuse, words

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.peers.aimock import Aimock


@pytest.fixture
async def model(compatible_peer: CompatiblePeer) -> AsyncIterator[OpenAIChatModel]:
    made = at(compatible_peer.url)
    yield made
    await made.close()


def at(url: str, *, provider: str = "custom", **facts: Any) -> OpenAIChatModel:
    known = ModelFacts(**{"window": 100_000, "max_output": 4_000, "assumed": False, **facts})
    return OpenAIChatModel("m-1", key="test-key", facts=known, base_url=url, provider=provider, label="The server")


def piece(index: int | None, **more: Any) -> dict[str, Any]:
    """A piece of a tool call, as a delta."""
    function = {name: more.pop(name) for name in ("name", "arguments") if name in more}
    at_index = {} if index is None else {"index": index}
    return {"tool_calls": [{**at_index, "type": "function", "function": function, **more}]}


async def test_a_real_conversation_with_a_tool_over_aimock(aimock: Aimock) -> None:
    aimock.answer(
        {
            "match": {"userMessage": "key", "hasToolResult": False},
            "response": {"toolCalls": [{"id": "call_1", "name": "read", "arguments": {"path": "a.md"}}]},
        },
        {"match": {"hasToolResult": True}, "response": {"content": "Under the blue pot."}},
    )
    made = at(aimock.openai_url, provider="openai")
    _, first = await hear(made, ask(user("where is the key?"), tools=(READ,), cache_key="s1"))
    assert first.calls == (ToolCall(id="call_1", name="read", arguments={"path": "a.md"}),)
    assert first.stop == "tools"
    assert first.usage is not None
    assert first.usage.input > 0
    deltas, second = await hear(made, ask(user("where is the key?"), first, result("Blue pot.", "call_1"), tools=(READ,)))
    assert shown(deltas) == second.text == "Under the blue pot."
    assert (second.stop, second.model) == ("end", "openai/m-1")
    assert aimock.requests("/v1/chat/completions")[0]["body"]["prompt_cache_key"] == "s1"
    await made.close()


async def test_the_wrong_key_and_overflow_over_aimock(aimock: Aimock) -> None:
    made = at(aimock.openai_url, provider="openai")
    aimock.fail_next(401, "Incorrect API key provided: test-key", error_type="invalid_request_error")
    _, answer = await hear(made, ask(user("a")))
    assert answer.failure is not None
    assert answer.failure.kind == "auth"
    assert "test-key" not in repr(answer)
    await made.close()


async def test_cached_tokens_are_taken_out_of_the_input(compatible_peer: CompatiblePeer) -> None:
    made = at(compatible_peer.url, price=Price(input=1, output=10, cache_read=0.5))
    told = {
        "prompt_tokens": 3_000_000,
        "completion_tokens": 1_000_000,
        "total_tokens": 4_000_000,
        "prompt_tokens_details": {"cached_tokens": 2_000_000},
    }
    compatible_peer.answer(words("ok", usage=told))
    _, answer = await hear(made, ask(user("a")))
    assert answer.usage == Usage(input=1_000_000, output=1_000_000, cache_read=2_000_000, cost=12.0)
    await made.close()


@pytest.mark.parametrize(
    ("told", "usage"),
    [
        (None, None),
        ({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}, None),
        ({"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}, Usage(input=9, output=2)),
        (
            {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11, "prompt_cache_hit_tokens": 4},
            Usage(input=5, output=2, cache_read=4),
        ),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 2,
                "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3},
            },
            Usage(input=2, output=2, cache_read=4, cache_write=3),
        ),
        (
            {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 400}},
            Usage(input=9, output=2),
        ),
        ({"prompt_tokens": 9, "completion_tokens": 2, "cost": 0.25}, Usage(input=9, output=2, cost=0.25)),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 2,
                "cost": 0.25,
                "is_byok": True,
                "cost_details": {"upstream_inference_cost": 5.0},
            },
            Usage(input=9, output=2, cost=5.25),
        ),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 2,
                "cost": 0.25,
                "is_byok": False,
                "cost_details": {"upstream_inference_cost": 0.2},
            },
            Usage(input=9, output=2, cost=0.25),
        ),
    ],
)
async def test_usage_in_every_dialect(
    compatible_peer: CompatiblePeer, model: OpenAIChatModel, told: dict[str, Any] | None, usage: Usage | None
) -> None:
    compatible_peer.answer(words("ok", usage=told))
    _, answer = await hear(model, ask(user("a")))
    assert answer.usage == usage


async def test_a_server_that_refuses_to_report_usage_is_asked_without_and_only_once(
    compatible_peer: CompatiblePeer, model: OpenAIChatModel
) -> None:
    compatible_peer.refuses_usage_option = True
    answers = [(await hear(model, ask(user("a"))))[1] for _ in range(2)]
    assert [(answer.text, answer.usage) for answer in answers] == [("Very well.", None)] * 2
    assert ["stream_options" in sent for sent in compatible_peer.requests] == [True, False, False]


@pytest.mark.parametrize(
    ("deltas", "calls"),
    [
        pytest.param(
            (
                piece(0, id="a", name="read", arguments=""),
                piece(0, arguments='{"path": '),
                piece(1, id="b", name="write", arguments="{}"),
                piece(0, arguments='"x"}'),
            ),
            [("a", "read", {"path": "x"}), ("b", "write", {})],
            id="by index, interleaved",
        ),
        pytest.param(
            (piece(0, id="a", name="read", arguments="{}"), piece(0, id="b", name="read", arguments='{"n": 1}')),
            [("a", "read", {}), ("b", "read", {"n": 1})],
            id="every call has index 0",
        ),
        pytest.param(
            (piece(None, name="read", arguments='{"n": 1}'), piece(None, name="read", arguments='{"n": 2}')),
            [("call_1", "read", {"n": 1}), ("call_2", "read", {"n": 2})],
            id="neither index nor id",
        ),
        pytest.param(
            (piece(None, id="a", name="read", arguments=""), piece(None, arguments='{"n":'), piece(None, arguments="1}")),
            [("a", "read", {"n": 1})],
            id="no index, pieces in order",
        ),
        pytest.param(
            (piece(0, id="a", name="read", arguments='{"n"'), piece(0, id="a", name="read", arguments=":1}")),
            [("a", "read", {"n": 1})],
            id="name and id in every piece",
        ),
        pytest.param(
            (piece(0, id="a", name="read", arguments="{}"), piece(1, id="a", name="read", arguments="{}")),
            [("a", "read", {}), ("a_2", "read", {})],
            id="the same id twice",
        ),
        pytest.param(
            (piece(0, id="a", name="read", arguments={"n": 1}),), [("a", "read", {"n": 1})], id="arguments as an object"
        ),
        pytest.param((piece(0, id="a", name="read"),), [("a", "read", {})], id="no arguments at all"),
    ],
)
async def test_tool_calls_in_every_dialect(
    compatible_peer: CompatiblePeer, model: OpenAIChatModel, deltas: tuple[dict[str, Any], ...], calls: list[Any]
) -> None:
    compatible_peer.answer(Chunks(deltas, finish="stop"))
    _, answer = await hear(model, ask(user("a"), tools=(READ,)))
    assert [(made.id, made.name, made.arguments) for made in answer.calls] == calls
    assert answer.stop == "tools"


@pytest.mark.parametrize("raw", ['{"path": "a', "[1]", '"text"', "{'path': 'a'}", "null"])
async def test_broken_arguments_are_kept_as_written(compatible_peer: CompatiblePeer, model: OpenAIChatModel, raw: str) -> None:
    compatible_peer.answer(Chunks((piece(0, id="a", name="read", arguments=raw),), finish="tool_calls"))
    _, answer = await hear(model, ask(user("a"), tools=(READ,)))
    assert answer.calls == (ToolCall(id="a", name="read", arguments=None, raw=raw),)


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_reasoning_is_shown_apart_and_goes_back_with_calls(
    compatible_peer: CompatiblePeer, model: OpenAIChatModel, field: str
) -> None:
    compatible_peer.answer(Chunks(({field: "Let me "}, {field: "see."}, piece(0, id="a", name="read", arguments="{}"))))
    deltas, answer = await hear(model, ask(user("a"), tools=(READ,)))
    assert [delta.text for delta in deltas if isinstance(delta, ThinkingDelta)] == ["Let me ", "see."]
    assert answer.text == ""
    await hear(model, ask(user("a"), answer, result("ok", "a"), tools=(READ,)))
    assert compatible_peer.requests[1]["messages"][1][field] == "Let me see."


async def test_signatures_of_calls_go_back_with_them(compatible_peer: CompatiblePeer, model: OpenAIChatModel) -> None:
    signed = {"extra_content": {"google": {"thought_signature": "c2ln"}}}
    compatible_peer.answer(Chunks((piece(0, id="a", name="read", arguments="{}", **signed),)))
    _, answer = await hear(model, ask(user("a"), tools=(READ,)))
    await hear(model, ask(user("a"), answer, result("ok", "a"), tools=(READ,)))
    assert compatible_peer.requests[1]["messages"][1]["tool_calls"][0]["extra_content"] == signed["extra_content"]


@pytest.mark.parametrize(
    ("pieces", "thought", "said"),
    [
        (("<think>", "hm", "</think>", "\n\nYes."), "hm", "Yes."),
        (("\n<thi", "nk>h", "m</th", "ink>Yes."), "hm", "Yes."),
        (("<think>a < b</think>Yes.",), "a < b", "Yes."),
        (("<thin air",), "", "<thin air"),
        (("Yes <think>no</think>",), "", "Yes <think>no</think>"),
        (("<think>never closed",), "never closed", ""),
        (("<th",), "", "<th"),
    ],
)
async def test_thinking_in_tags_at_the_beginning_is_no_text(
    compatible_peer: CompatiblePeer, model: OpenAIChatModel, pieces: tuple[str, ...], thought: str, said: str
) -> None:
    compatible_peer.answer(words(*pieces))
    deltas, answer = await hear(model, ask(user("a")))
    assert answer.text == shown(deltas) == said
    assert "".join(part.text for part in answer.content if isinstance(part, Thinking)) == thought


@pytest.mark.parametrize(
    ("finish", "stop", "failure"),
    [
        ("stop", "end", None),
        ("length", "length", None),
        ("eos", "end", None),
        ("tool_calls", "end", None),
        ("content_filter", "refusal", "refusal"),
        ("error", "error", "overloaded"),
    ],
)
async def test_every_reason_to_stop_has_its_word(
    compatible_peer: CompatiblePeer, model: OpenAIChatModel, finish: str, stop: str, failure: str | None
) -> None:
    compatible_peer.answer(Chunks(({"content": "so far"},), finish=finish))
    _, answer = await hear(model, ask(user("a")))
    assert (answer.stop, answer.failure and answer.failure.kind) == (stop, failure)


async def test_a_refusal_in_words_is_a_refusal(compatible_peer: CompatiblePeer, model: OpenAIChatModel) -> None:
    compatible_peer.answer(Chunks(({"refusal": "I will not."},)))
    deltas, answer = await hear(model, ask(user("a")))
    assert (shown(deltas), answer.stop, answer.failure and answer.failure.kind) == ("I will not.", "refusal", "refusal")


@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        (Refuse(401, {"message": "no", "code": "invalid_api_key"}), "auth"),
        (Refuse(402, {"message": "Insufficient credits", "code": 402}), "billing"),
        (Refuse(429, {"message": "You exceeded your current quota", "code": "insufficient_quota"}), "billing"),
        (Refuse(429, {"message": "slow", "code": "rate_limit_exceeded"}, {"retry-after": "3"}), "rate_limit"),
        (Refuse(404, {"message": "model 'm-1' not found", "type": "not_found_error"}), "unknown_model"),
        (Refuse(400, {"message": "no", "code": "model_not_found"}), "unknown_model"),
        (Refuse(400, {"message": "no", "code": "context_length_exceeded"}), "overflow"),
        (Refuse(400, {"message": "This model's maximum context length is 8192 tokens."}), "overflow"),
        (Refuse(400, {"message": "the request exceeds the available context size"}), "overflow"),
        (Refuse(413, {"message": "too large"}), "overflow"),
        (Refuse(400, {"message": "bad"}), "bad_request"),
        (Refuse(400, "just text"), "bad_request"),
        (Refuse(500, {"message": "oops"}), "overloaded"),
        (Refuse(502, None), "overloaded"),
        (Refuse(503, {"message": "loading model"}), "overloaded"),
        (Refuse(504, {"message": "slow"}), "timeout"),
    ],
)
async def test_errors_are_sorted(compatible_peer: CompatiblePeer, model: OpenAIChatModel, refusal: Refuse, kind: str) -> None:
    compatible_peer.answer(refusal)
    _, answer = await hear(model, ask(user("a")))
    assert answer.failure is not None
    assert answer.failure.kind == kind
    assert answer.failure.hint
    assert len(compatible_peer.requests) == 1, "the SDK must not try again by itself"
    assert answer.failure.retry_after == (3.0 if refusal.headers else None)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, {"message": "registry.ollama.ai/library/gemma:2b does not support tools", "type": "api_error"}),
        (400, {"message": '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'}),
        (404, {"message": "No endpoints found that support tool use.", "code": 404}),
    ],
)
async def test_a_model_without_tools_is_named_as_such(
    compatible_peer: CompatiblePeer, model: OpenAIChatModel, status: int, error: dict[str, Any]
) -> None:
    compatible_peer.answer(Refuse(status, error))
    _, answer = await hear(model, ask(user("a"), tools=(READ,)))
    assert answer.failure is not None
    assert "cannot use tools" in answer.failure.message
    assert "homebody config set agents.defaults.model" in answer.failure.hint


@pytest.mark.parametrize(
    ("broken", "kind"),
    [
        (Chunks(({"content": "half"},), how="cut"), "network"),
        (Chunks(({"content": "half"},), how="end"), "network"),
        (Chunks(({"content": "half"},), how="error", error={"message": "no", "code": "server_error"}), "overloaded"),
        (Chunks(({"content": "half"},), how="error", error={"message": "no", "code": 429}), "rate_limit"),
        (Chunks(({"content": "half"},), how="error", error={"message": "no", "code": 502}), "overloaded"),
        (Chunks(({"content": "half"},), how="error", error={"message": "maximum context length is 8"}), "overflow"),
    ],
)
async def test_half_an_answer_is_a_failure_as_a_whole(
    compatible_peer: CompatiblePeer, model: OpenAIChatModel, broken: Chunks, kind: str
) -> None:
    compatible_peer.answer(broken)
    deltas, answer = await hear(model, ask(user("a")))
    assert shown(deltas) == "half"
    assert answer.failure is not None
    assert (answer.failure.kind, answer.content) == (kind, ())


@pytest.mark.parametrize(
    ("provider", "page", "document", "window"),
    [
        ("vllm", "/v1/models", {"data": [{"id": "m-1", "max_model_len": 40_960}]}, 40_960),
        ("openrouter", "/v1/models", {"data": [{"id": "m-1", "context_length": 262_144}]}, 262_144),
        (
            "lmstudio",
            "/api/v0/models",
            {"data": [{"id": "m-1", "loaded_context_length": 16_384, "max_context_length": 99}]},
            16_384,
        ),
        ("ollama", "/api/ps", {"models": [{"name": "m-1:latest", "context_length": 8_192}]}, 8_192),
        ("custom", "/v1/models", {"data": [{"id": "m-1"}]}, 100_000),
        ("custom", "/v1/models", ["not", "a", "list", "of", "models"], 100_000),
    ],
)
async def test_the_server_is_asked_for_the_window(
    compatible_peer: CompatiblePeer, provider: str, page: str, document: Any, window: int
) -> None:
    compatible_peer.pages[page] = document
    made = at(compatible_peer.url, provider=provider, assumed=True)
    await hear(made, ask(user("a")))
    assert made.window == window
    await made.close()


async def test_the_window_of_an_ollama_model_is_corrected_once_it_is_loaded(compatible_peer: CompatiblePeer) -> None:
    compatible_peer.pages["/api/show"] = {
        "model_info": {"qwen3.context_length": 262_144},
        "capabilities": ["completion", "tools"],
    }
    made = at(compatible_peer.url, provider="ollama", assumed=True)
    await hear(made, ask(user("a")))
    assert made.window == 32_768
    compatible_peer.pages["/api/ps"] = {"models": [{"name": "m-1", "context_length": 4_096}]}
    await hear(made, ask(user("a")))
    assert made.window == 4_096
    asked = len(compatible_peer.fetched)
    await hear(made, ask(user("a")))
    assert len(compatible_peer.fetched) == asked, "once known, it is not asked for again"
    await made.close()


async def test_ollama_is_never_sent_what_it_would_cut_without_a_word(compatible_peer: CompatiblePeer) -> None:
    compatible_peer.pages["/api/ps"] = {"models": [{"name": "m-1", "context_length": 4_096}]}
    made = at(compatible_peer.url, provider="ollama", assumed=True)
    _, answer = await hear(made, ask(user("word " * 8_000)))
    assert answer.failure is not None
    assert (answer.failure.kind, answer.stop) == ("overflow", "overflow")
    assert "OLLAMA_CONTEXT_LENGTH" in answer.failure.hint
    assert compatible_peer.requests == []
    await made.close()


async def test_a_page_that_is_no_api_is_told_as_such(compatible_peer: CompatiblePeer, model: OpenAIChatModel) -> None:
    compatible_peer.answer(Chunks((), how="end"))
    _, answer = await hear(model, ask(user("a")))
    assert answer.failure is not None
    assert "did not answer in the form of its API" in answer.failure.message


async def test_a_server_that_never_tells_is_not_asked_for_ever(compatible_peer: CompatiblePeer) -> None:
    made = at(compatible_peer.url, assumed=True)
    for _ in range(7):
        await hear(made, ask(user("a")))
    assert Counter(compatible_peer.fetched) == {"/v1/models": 4, "/props": 4}
    await made.close()


async def test_openai_is_told_how_long_to_keep_prompts_until_it_refuses(compatible_peer: CompatiblePeer) -> None:
    made = at(compatible_peer.url, cache_rule="24h")
    compatible_peer.answer(words("ok"), Refuse(400, {"message": "prompt_cache_retention is not supported"}), words("still ok"))
    assert [(await hear(made, ask(user("a"))))[1].text for _ in range(2)] == ["ok", "still ok"]
    assert [sent.get("prompt_cache_retention") for sent in compatible_peer.requests] == ["24h", "24h", None]
    await made.close()
