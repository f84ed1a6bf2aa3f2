"""The Responses API through the real SDK: against aimock, and against our own peer for what aimock cannot do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from openai.types.responses import response_create_params
from pydantic import TypeAdapter

from agent.events import ReplyNote, ThinkingDelta
from agent.messages import Image, Thinking, ToolCall, Usage
from agent.models.adapters.openai_responses import OpenAIResponsesModel, body
from agent.models.catalog.known_models import ModelFacts
from agent.models.protocol import Segment
from tests.models.conversation import READ, ask, assistant, call, hear, requests, result, shown, user
from tests.peers.compatible import CompatiblePeer, Events, Refuse
from tests.properties import examples

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from agent.models.protocol import Request
    from tests.peers.aimock import Aimock

NAME = "openai/gpt-6.1-terra"
REASONING = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "Let me see."}],
    "encrypted_content": "c2ln",
}
CALL = {
    "id": "fc_1",
    "type": "function_call",
    "call_id": "call_1",
    "name": "read",
    "arguments": '{"path": "a"}',
    "status": "completed",
}


def said(text: str, kind: str = "output_text") -> dict[str, Any]:
    part = (
        {"type": "refusal", "refusal": text} if kind == "refusal" else {"type": "output_text", "text": text, "annotations": []}
    )
    return {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}


@pytest.fixture
async def model(compatible_peer: CompatiblePeer) -> AsyncIterator[OpenAIResponsesModel]:
    made = at(compatible_peer.url)
    yield made
    await made.close()


def at(url: str) -> OpenAIResponsesModel:
    facts = ModelFacts(window=100_000, max_output=4_000, assumed=False)
    return OpenAIResponsesModel("gpt-6.1-terra", key="test-key", facts=facts, base_url=url)


def translated(request: Request, *, name: str = NAME) -> dict[str, Any]:
    return body(request, model="m", name=name, max_output=4000, images=True)


async def test_a_real_conversation_with_a_tool_over_aimock(aimock: Aimock) -> None:
    aimock.answer(
        {
            "match": {"userMessage": "key", "hasToolResult": False},
            "response": {"toolCalls": [{"id": "call_1", "name": "read", "arguments": {"path": "a.md"}}]},
        },
        {"match": {"hasToolResult": True}, "response": {"content": "Under the blue pot."}},
    )
    made = at(aimock.openai_url)
    _, first = await hear(made, ask(user("where is the key?"), tools=(READ,)))
    assert (first.stop, first.calls) == ("tools", (ToolCall(id="call_1", name="read", arguments={"path": "a.md"}),))
    deltas, second = await hear(made, ask(user("where is the key?"), first, result("Blue pot.", "call_1"), tools=(READ,)))
    assert shown(deltas) == second.text == "Under the blue pot."
    assert (second.stop, second.model) == ("end", NAME)
    assert aimock.requests("/v1/responses")
    await made.close()


async def test_nothing_is_kept_at_the_provider(compatible_peer: CompatiblePeer, model: OpenAIResponsesModel) -> None:
    compatible_peer.answer(Events(output=(said("Yes."),), final={}))
    system = (Segment(name="a", text="Be brief."), Segment(name="b", text="Be kind."))
    await hear(model, ask(user("hi"), system=system, tools=(READ,), cache_key="s1"))
    [sent] = compatible_peer.requests
    assert (sent["store"], sent["include"], sent["prompt_cache_key"]) == (False, ["reasoning.encrypted_content"], "s1")
    assert sent["instructions"] == "Be brief.\n\nBe kind."
    assert (sent["tools"][0]["name"], sent["tools"][0]["strict"]) == ("read", False)


async def test_how_long_prompts_are_kept_is_said_until_openai_refuses(compatible_peer: CompatiblePeer) -> None:
    facts = ModelFacts(window=100_000, max_output=4_000, assumed=False, cache_rule="in_memory")
    made = OpenAIResponsesModel("gpt-5.5", key="test-key", facts=facts, base_url=compatible_peer.url)
    refusal = Refuse(400, {"message": "'prompt_cache_retention' must be 24h for this model"})
    compatible_peer.answer(refusal, *(Events(output=(said("Yes."),), final={}) for _ in range(2)))
    heard = [(await hear(made, ask(user("a"))))[0] for _ in range(2)]
    assert [sent.get("prompt_cache_retention") for sent in compatible_peer.requests] == ["in_memory", None, None]
    assert [[type(part) for part in deltas] for deltas in heard] == [[ReplyNote], []]
    await made.close()


async def test_reasoning_is_shown_and_goes_back_as_it_came(
    compatible_peer: CompatiblePeer, model: OpenAIResponsesModel
) -> None:
    thought = {"type": "response.reasoning_summary_text.delta", "delta": "Let me see.", "summary_index": 0, "output_index": 0}
    compatible_peer.answer(Events((thought,), output=(REASONING, CALL), final={}), Events(output=(said("Done."),), final={}))
    deltas, answer = await hear(model, ask(user("a"), tools=(READ,)))
    assert deltas == [ThinkingDelta("Let me see.")]
    assert answer.content[0] == Thinking(text="Let me see.", opaque=REASONING)
    await hear(model, ask(user("a"), answer, result("ok", "call_1"), tools=(READ,)))
    kinds = [item["type"] for item in compatible_peer.requests[1]["input"]]
    assert kinds == ["message", "reasoning", "function_call", "function_call_output"]
    assert compatible_peer.requests[1]["input"][1] == REASONING


async def test_cached_tokens_are_taken_out_of_the_input(compatible_peer: CompatiblePeer, model: OpenAIResponsesModel) -> None:
    usage = {
        "input_tokens": 100,
        "output_tokens": 7,
        "total_tokens": 107,
        "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
    }
    compatible_peer.answer(Events(output=(said("Yes."),), final={"usage": usage}), Events(output=(said("Yes."),), final={}))
    usages = [(await hear(model, ask(user("a"))))[1].usage for _ in range(2)]
    assert usages == [Usage(input=10, output=7, cache_read=60, cache_write=30), None]


@pytest.mark.parametrize(
    ("events", "stop", "failure"),
    [
        (Events(output=(said("Yes."),), final={}), "end", None),
        (Events(output=(CALL,), final={}), "tools", None),
        (
            Events(output=(said("Ye"),), final={"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}),
            "length",
            None,
        ),
        (
            Events(output=(said("Ye"),), final={"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}),
            "refusal",
            "refusal",
        ),
        (Events(output=(said("No.", "refusal"),), final={}), "refusal", "refusal"),
        (Events(final={"status": "failed", "error": {"code": "server_error", "message": "oops"}}), "error", "overloaded"),
        (
            Events(final={"status": "failed", "error": {"code": "rate_limit_exceeded", "message": "slow"}}),
            "error",
            "rate_limit",
        ),
        (Events(({"type": "error", "code": "context_length_exceeded", "message": "too long"},)), "overflow", "overflow"),
        (Events((), output=(said("half"),)), "error", "network"),
    ],
)
async def test_every_end_has_its_word(
    compatible_peer: CompatiblePeer, model: OpenAIResponsesModel, events: Events, stop: str, failure: str | None
) -> None:
    compatible_peer.answer(events)
    _, answer = await hear(model, ask(user("a"), tools=(READ,)))
    assert (answer.stop, answer.failure and answer.failure.kind) == (stop, failure)
    assert failure in {None, "refusal"} or answer.content == ()


async def test_errors_are_sorted(compatible_peer: CompatiblePeer, model: OpenAIResponsesModel) -> None:
    compatible_peer.answer(Refuse(401, {"message": "no", "code": "invalid_api_key"}))
    _, answer = await hear(model, ask(user("a")))
    assert answer.failure is not None
    assert answer.failure.kind == "auth"


async def test_broken_arguments_are_kept_as_written(compatible_peer: CompatiblePeer, model: OpenAIResponsesModel) -> None:
    compatible_peer.answer(Events(output=({**CALL, "arguments": '{"path"'},), final={}))
    _, answer = await hear(model, ask(user("a"), tools=(READ,)))
    assert answer.calls == (ToolCall(id="call_1", name="read", arguments=None, raw='{"path"'),)


@given(requests)
@settings(max_examples=examples(150))
def test_whatever_was_said_every_call_has_its_result_and_nothing_is_empty(request: Request) -> None:
    sent = translated(request)
    waiting: list[str] = []
    for item in sent["input"]:
        if item["type"] == "function_call_output":
            assert item["call_id"] == waiting.pop(0)
        elif item["type"] == "function_call":
            waiting.append(item["call_id"])
        else:
            assert not waiting
            assert item["type"] == "message"
            assert item["content"]
    assert not waiting
    made = [item["call_id"] for item in sent["input"] if item["type"] == "function_call"]
    assert len(set(made)) == len(made)


@given(requests)
@settings(max_examples=examples(25))
def test_the_sdks_own_types_take_it(request: Request) -> None:
    sent = translated(request)
    adapter = TypeAdapter(response_create_params.ResponseCreateParamsNonStreaming)
    assert drained(adapter.validate_python(sent))["model"] == "m"


def drained(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: drained(item) for key, item in value.items()}
    return [drained(item) for item in value] if isinstance(value, Iterable) and not isinstance(value, str) else value


def test_reasoning_of_another_model_or_without_what_it_led_to_is_left_out() -> None:
    thought = Thinking(text="hm", opaque=REASONING)
    other = translated(ask(user("a"), assistant(thought, "Yes.", model="openai/gpt-6-sol"), user("b")))
    last = translated(ask(user("a"), assistant("Yes.", thought, model=NAME), user("b")))
    for sent in (other, last):
        assert [item["type"] for item in sent["input"]] == ["message"] * 3


def test_pictures_of_tools_stand_in_their_results() -> None:
    picture = Image(media_type="image/png", data="aGk=")
    sent = translated(ask(user("look", picture), assistant(call()), result("ok", images=(picture,))))
    assert [part["type"] for part in sent["input"][0]["content"]] == ["input_text", "input_image"]
    assert [part["type"] for part in sent["input"][2]["output"]] == ["input_text", "input_image"]


def test_too_short_an_answer_is_not_asked_for() -> None:
    assert translated(ask(user("a"), max_output=1))["max_output_tokens"] == 16


async def test_thoughts_that_somebody_reads_are_asked_for_in_words_and_all_goes_back_unchanged(
    compatible_peer: CompatiblePeer, model: OpenAIResponsesModel
) -> None:
    delta = {"type": "response.reasoning_summary_text.delta", "item_id": "rs_1", "output_index": 0}
    thoughts = (
        delta | {"delta": "Let me see.", "summary_index": 0},
        {"type": "response.reasoning_summary_part.added", "item_id": "rs_1", "output_index": 0, "summary_index": 1}
        | {"part": {"type": "summary_text", "text": ""}},
        delta | {"delta": "It is a key.", "summary_index": 1},
    )
    item = REASONING | {"summary": [{"type": "summary_text", "text": text} for text in ("Let me see.", "It is a key.")]}
    compatible_peer.answer(Events(thoughts, output=(item, CALL), final={}), Events(output=(said("Done."),), final={}))
    deltas, answer = await hear(model, ask(user("a"), tools=(READ,), thinking="medium", thoughts=True))
    assert "".join(delta.text for delta in deltas if isinstance(delta, ThinkingDelta)) == "Let me see.\n\nIt is a key."
    assert answer.content[0] == Thinking(text="Let me see.\n\nIt is a key.", opaque=item)
    await hear(model, ask(user("a"), answer, result("ok", "call_1"), tools=(READ,), thinking="medium"))
    first, second = compatible_peer.requests
    assert (first["reasoning"], second["reasoning"]) == ({"effort": "medium", "summary": "auto"}, {"effort": "medium"})
    assert second["input"][1] == item
    assert (second["store"], second["include"]) == (False, ["reasoning.encrypted_content"])


async def test_an_account_that_gets_no_thoughts_is_answered_without_and_told_once(
    compatible_peer: CompatiblePeer, model: OpenAIResponsesModel
) -> None:
    refused = {"message": "Your organization must be verified to generate reasoning summaries.", "param": "reasoning.summary"}
    compatible_peer.answer(Refuse(400, refused), *[Events(output=(said("Yes."),), final={})] * 2)
    first, answer = await hear(model, ask(user("a"), thinking="low", thoughts=True))
    again, _ = await hear(model, ask(user("b"), thinking="low", thoughts=True))
    assert ([type(part).__name__ for part in first], again, answer.text) == (["ReplyNote"], [], "Yes.")
    assert [sent["reasoning"] for sent in compatible_peer.requests] == [
        {"effort": "low", "summary": "auto"},
        {"effort": "low"},
        {"effort": "low"},
    ]


def test_nobody_is_asked_for_thoughts_who_does_not_think() -> None:
    assert body(ask(user("a")), model="m", name=NAME, max_output=4000, images=True, level="off", summary=True)["reasoning"] == {
        "effort": "none"
    }
