"""Claude through the real SDK: against aimock, and against our own peer for what aimock cannot do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from agent.events import TextDelta, ThinkingDelta
from agent.messages import Thinking, ToolCall, Usage
from agent.models.adapters.anthropic import AnthropicModel
from agent.models.catalog.known_models import ModelFacts, facts_of
from agent.models.catalog.prices import Price
from agent.models.protocol import Segment
from tests.models.conversation import READ, ask, assistant, call, hear, result, shown, user
from tests.peers.anthropic import AnthropicPeer, Break, Refuse, Say, text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from agent.messages import Message
    from tests.peers.aimock import Aimock

MODEL = "claude-sonnet-5-5"


@pytest.fixture
async def model(anthropic_peer: AnthropicPeer) -> AsyncIterator[AnthropicModel]:
    made = at(anthropic_peer.url)
    yield made
    await made.close()


def at(url: str, **facts: Any) -> AnthropicModel:
    return AnthropicModel(
        MODEL, key="test-key", facts=ModelFacts(**{"window": 200_000, "max_output": 64_000, **facts}), base_url=url
    )


async def test_a_real_conversation_with_a_tool_over_aimock(aimock: Aimock) -> None:
    aimock.answer(
        {
            "match": {"userMessage": "key", "hasToolResult": False},
            "response": {
                "content": "Let me look.",
                "toolCalls": [{"id": "toolu_1", "name": "read", "arguments": {"path": "a.md"}}],
            },
        },
        {"match": {"hasToolResult": True}, "response": {"content": "Under the blue pot."}},
    )
    made = at(aimock.anthropic_url)
    question = user("where is the key?")
    deltas, first = await hear(made, ask(question, system=(Segment(name="a", text="Be brief."),), tools=(READ,)))
    assert shown(deltas) == first.text == "Let me look."
    assert first.stop == "tools"
    assert first.calls == (ToolCall(id="toolu_1", name="read", arguments={"path": "a.md"}),)
    _, second = await hear(made, ask(question, first, result("The key is under the blue pot.", "toolu_1"), tools=(READ,)))
    assert (second.text, second.stop, second.failure) == ("Under the blue pot.", "end", None)
    assert second.model == "anthropic/claude-sonnet-5-5"
    assert [entry["headers"]["anthropic-version"] for entry in aimock.requests("/v1/messages")] == ["2026-10-21"] * 2
    await made.close()


async def test_thinking_over_aimock_is_shown_and_kept(aimock: Aimock) -> None:
    aimock.answer({"match": {"userMessage": "why"}, "response": {"content": "Because.", "reasoning": "Let me think."}})
    made = at(aimock.anthropic_url)
    deltas, answer = await hear(made, ask(user("why?")))
    assert "".join(delta.text for delta in deltas if isinstance(delta, ThinkingDelta)) == "Let me think."
    assert isinstance(answer.content[0], Thinking)
    assert answer.content[0].opaque is not None
    assert answer.content[0].opaque["type"] == "thinking"
    await made.close()


async def test_what_caches_held_is_counted(anthropic_peer: AnthropicPeer, model: AnthropicModel) -> None:
    system = (Segment(name="files", text="Be brief. " * 100, cache_mark=True),)
    first = ask(user("one"), system=system, tools=(READ,))
    _, answer = await hear(model, first)
    assert answer.usage is not None
    assert (answer.usage.cache_read, answer.usage.output) == (0, 17)
    assert answer.usage.cache_write > 250
    _, second = await hear(model, ask(user("one"), answer, user("two"), system=system, tools=(READ,)))
    assert second.usage is not None
    assert second.usage.cache_read == answer.usage.prompt
    assert second.usage.input == 0


async def test_cost_tells_hourly_writes_from_short_ones(anthropic_peer: AnthropicPeer) -> None:
    priced = at(anthropic_peer.url, price=Price(input=1, output=5, cache_read=0.1, cache_write=1.25, cache_write_1h=2))
    usage = {
        "input_tokens": 1_000_000,
        "cache_read_input_tokens": 1_000_000,
        "cache_creation_input_tokens": 2_000_000,
        "cache_creation": {"ephemeral_5m_input_tokens": 1_000_000, "ephemeral_1h_input_tokens": 1_000_000},
        "output_tokens": 1_000_000,
    }
    anthropic_peer.answer(Say(({"type": "text", "text": "ok"},), usage=usage))
    _, answer = await hear(priced, ask(user("a")))
    assert answer.usage == Usage(input=1_000_000, output=1_000_000, cache_read=1_000_000, cache_write=2_000_000, cost=9.35)
    await priced.close()


async def test_signed_thinking_goes_back_exactly_as_it_came(anthropic_peer: AnthropicPeer, model: AnthropicModel) -> None:
    thought = {"type": "thinking", "thinking": "It is a \u00e9tude…", "signature": "c2ln"}
    hidden = {"type": "redacted_thinking", "data": "b3BhcXVl"}
    use = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a"}}
    anthropic_peer.answer(Say((thought, hidden, use), stop="tool_use"))
    _, answer = await hear(model, ask(user("a"), tools=(READ,)))
    await hear(model, ask(user("a"), answer, result("ok", "toolu_1"), tools=(READ,)))
    assert anthropic_peer.requests[1]["messages"][1]["content"] == [thought, hidden, use]


@pytest.mark.parametrize(
    ("said", "stop", "failure"),
    [
        ("end_turn", "end", None),
        ("stop_sequence", "end", None),
        ("pause_turn", "end", None),
        ("max_tokens", "length", None),
        ("refusal", "refusal", "refusal"),
        ("model_context_window_exceeded", "overflow", "overflow"),
    ],
)
async def test_every_reason_to_stop_has_its_word(
    anthropic_peer: AnthropicPeer, model: AnthropicModel, said: str, stop: str, failure: str | None
) -> None:
    anthropic_peer.answer(Say(({"type": "text", "text": "so far"},), stop=said))
    _, answer = await hear(model, ask(user("a")))
    assert (answer.stop, answer.failure and answer.failure.kind, answer.text) == (stop, failure, "so far")


async def test_a_refusal_says_why(anthropic_peer: AnthropicPeer, model: AnthropicModel) -> None:
    details = {"type": "refusal", "category": "bio", "explanation": "This could do harm."}
    anthropic_peer.answer(Say((), stop="refusal", stop_details=details))
    _, answer = await hear(model, ask(user("a")))
    assert answer.failure is not None
    assert "This could do harm." in answer.failure.message


async def test_broken_arguments_are_kept_as_written(anthropic_peer: AnthropicPeer, model: AnthropicModel) -> None:
    use = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}
    anthropic_peer.answer(Say((use, {**use, "id": "toolu_2"}), stop="tool_use", raw_json={0: '{"path": "a', 1: '["a"]'}))
    _, answer = await hear(model, ask(user("a"), tools=(READ,)))
    assert [(made.arguments, made.raw) for made in answer.calls] == [(None, '{"path": "a'), (None, '["a"]')]


@pytest.mark.parametrize(
    ("refusal", "kind", "seconds"),
    [
        (Refuse(401, "authentication_error"), "auth", None),
        (Refuse(402, "billing_error"), "billing", None),
        (Refuse(400, "invalid_request_error", details={"error_code": "enforced_spend_limit_reached"}), "billing", None),
        (Refuse(403, "permission_error"), "auth", None),
        (Refuse(404, "not_found_error"), "unknown_model", None),
        (Refuse(413, "invalid_request_error"), "overflow", None),
        (Refuse(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"), "overflow", None),
        (Refuse(400, "invalid_request_error", "tools.0.name: too short"), "bad_request", None),
        (Refuse(429, "rate_limit_error", headers={"retry-after": "7"}), "rate_limit", 7.0),
        (Refuse(429, "rate_limit_error", headers={"retry-after-ms": "250"}), "rate_limit", 0.25),
        (
            Refuse(
                429,
                "rate_limit_error",
                headers={"date": "Fri, 20 Nov 2026 12:00:00 GMT", "retry-after": "Fri, 20 Nov 2026 12:00:30 GMT"},
            ),
            "rate_limit",
            30.0,
        ),
        (Refuse(429, "rate_limit_error", headers={"retry-after": "soon"}), "rate_limit", None),
        (Refuse(500, "api_error"), "overloaded", None),
        (Refuse(504, "timeout_error"), "timeout", None),
        (Refuse(529, "overloaded_error"), "overloaded", None),
    ],
)
async def test_errors_are_sorted(
    anthropic_peer: AnthropicPeer, model: AnthropicModel, refusal: Refuse, kind: str, seconds: float | None
) -> None:
    anthropic_peer.answer(refusal)
    deltas, answer = await hear(model, ask(user("a")))
    assert answer.failure is not None
    assert (answer.failure.kind, answer.failure.retry_after) == (kind, seconds)
    assert answer.stop == ("overflow" if kind == "overflow" else "error")
    assert answer.failure.hint
    assert "\n" not in answer.failure.message
    assert "test-key" not in repr(answer)
    assert deltas == []
    assert len(anthropic_peer.requests) == 1, "the SDK must not try again by itself"


@pytest.mark.parametrize(
    ("broken", "kind"),
    [
        (Break("half of", "error", "overloaded_error"), "overloaded"),
        (Break("half of", "error", "rate_limit_error"), "rate_limit"),
        (Break("half of", "error", "api_error"), "overloaded"),
        (Break("half of", "cut"), "network"),
        (Break("half of", "end"), "network"),
        (Break("", "cut"), "network"),
        (Break("", "end"), "network"),
    ],
)
async def test_half_an_answer_is_a_failure_as_a_whole(
    anthropic_peer: AnthropicPeer, model: AnthropicModel, broken: Break, kind: str
) -> None:
    anthropic_peer.answer(broken)
    deltas, answer = await hear(model, ask(user("a")))
    assert shown(deltas) == broken.text
    assert answer.failure is not None
    assert (answer.failure.kind, answer.content) == (kind, ())


async def test_a_closed_port_is_a_network_failure(unused_tcp_port: int) -> None:
    made = at(f"http://127.0.0.1:{unused_tcp_port}", assumed=False)
    _, answer = await hear(made, ask(user("a")))
    assert answer.failure is not None
    assert answer.failure.kind == "network"
    await made.close()


async def test_window_and_longest_answer_come_from_the_provider(anthropic_peer: AnthropicPeer, model: AnthropicModel) -> None:
    anthropic_peer.models[MODEL] = {"max_input_tokens": 1_000_000, "max_tokens": 128_000}
    assert (model.window, model.max_output) == (200_000, 64_000)
    await hear(model, ask(user("a"), max_output=500_000))
    assert (model.window, model.max_output) == (1_000_000, 128_000)
    assert anthropic_peer.requests[0]["max_tokens"] == 128_000


async def test_a_provider_that_does_not_tell_is_asked_once(anthropic_peer: AnthropicPeer, model: AnthropicModel) -> None:
    await hear(model, ask(user("a")))
    anthropic_peer.models[MODEL] = {"max_input_tokens": 1_000_000, "max_tokens": 128_000}
    await hear(model, ask(user("a")))
    assert model.window == 200_000


async def test_windows_of_the_settings_are_not_asked_for(anthropic_peer: AnthropicPeer) -> None:
    anthropic_peer.models[MODEL] = {"max_input_tokens": 1_000_000, "max_tokens": 128_000}
    made = at(anthropic_peer.url, assumed=False)
    await hear(made, ask(user("a")))
    assert made.window == 200_000
    await made.close()


async def test_a_stream_that_is_left_frees_the_connection(anthropic_peer: AnthropicPeer, model: AnthropicModel) -> None:
    anthropic_peer.answer(Break("half of", "stall"), text("whole"))
    stream = model.stream(ask(user("a")))
    first = await anext(aiter(stream))
    assert isinstance(first, TextDelta)
    await stream.aclose()  # type: ignore[attr-defined]  # it is a generator
    _, answer = await hear(model, ask(user("a")))
    assert answer.text == "whole"


async def test_a_closed_model_opens_again(anthropic_peer: AnthropicPeer, model: AnthropicModel) -> None:
    await hear(model, ask(user("a")))
    await model.close()
    await model.close()
    _, answer = await hear(model, ask(user("a")))
    assert answer.text == "Very well."


async def test_five_megabytes_and_broken_unicode_arrive(anthropic_peer: AnthropicPeer, model: AnthropicModel) -> None:
    await hear(model, ask(user("x" * 5_000_000 + "\ud800\x00")))
    assert len(anthropic_peer.requests[0]["messages"][0]["content"][0]["text"]) == 5_000_002


async def test_own_headers_are_sent_with_the_key(anthropic_peer: AnthropicPeer) -> None:
    made = AnthropicModel(
        MODEL, key="test-key", facts=facts_of("anthropic", MODEL), base_url=anthropic_peer.url, headers={"x-team": "home"}
    )
    await hear(made, ask(user("a"), assistant(call()), result("ok"), tools=(READ,)))
    assert anthropic_peer.headers[0]["x-team"] == "home"
    assert "test-key" in (anthropic_peer.headers[0].get("x-api-key", "") + anthropic_peer.headers[0].get("authorization", ""))
    await made.close()


async def test_what_broke_the_cache_is_logged_in_the_providers_words(
    anthropic_peer: AnthropicPeer, model: AnthropicModel, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "agent.models")
    await hear(model, replace(ask(user("hi")), cache_key="session"))
    assert "diagnostics" not in anthropic_peer.requests.pop(), "only Anthropic itself is asked"
    facts = ModelFacts(window=200_000, max_output=64_000)
    model = AnthropicModel(MODEL, key="test-key", facts=facts, base_url=anthropic_peer.url, diagnose=True)
    one, two = (Segment(name="a", text=words, cache_mark=True) for words in ("Be brief.", "Be long."))
    for system in (one, one, two):
        await hear(model, replace(ask(user("hi"), system=(system,)), cache_key="session"))
    asked = [request["diagnostics"]["previous_message_id"] for request in anthropic_peer.requests]
    assert asked == [None, "msg_1", "msg_2"]
    assert [record.getMessage() for record in caplog.records if "cache" in record.getMessage()] == [
        "the provider's prompt cache was missed: system changed (cache missed input tokens 12)"
    ]
    await model.close()


async def test_a_server_that_lets_calls_go_without_thoughts_is_asked_for_none_any_more(anthropic_peer: AnthropicPeer) -> None:
    """Each change of the wish voids the cache of the whole history."""
    model = AnthropicModel(
        "claude-haiku-4-5",
        key="k",
        facts=ModelFacts(window=100_000, max_output=20_000, assumed=False, thinks="budget"),
        base_url=anthropic_peer.url,
        provider="proxy",
    )
    said: list[Message] = []
    for turn in range(6):
        said.append(user(f"question {turn}"))
        anthropic_peer.answer(Say(({"type": "tool_use", "id": f"c{turn}", "name": "read", "input": {}},), stop="tool_use"))
        _, asked = await hear(model, ask(*said, tools=(READ,)))
        said += [asked, result("text", f"c{turn}")]
        _, told = await hear(model, ask(*said, tools=(READ,)))
        said.append(told)
    await model.close()
    wishes = ["thinking" in sent for sent in anthropic_peer.requests]
    assert wishes == [True, False, True, False, *[False] * 8]


@pytest.mark.parametrize("how", ["cut", "error", "end", "garbage"])
async def test_an_answer_that_breaks_off_keeps_what_was_told_of_its_prompt(
    model: AnthropicModel, anthropic_peer: AnthropicPeer, how: str
) -> None:
    anthropic_peer.answer(Break("The plumber comes", how))
    _, answer = await hear(model, ask(user("when?")))
    assert answer.failure is not None
    assert answer.usage is not None
    assert answer.usage.prompt > 0
