"""How deep models are asked to think: levels in every API's words, refusals, and thinking blocks in the midst of tool loops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.events import ReplyNote
from agent.messages import Thinking
from agent.models.adapters.anthropic import AnthropicModel
from agent.models.adapters.anthropic_request import body as anthropic_body
from agent.models.adapters.openai_chat import OpenAIChatModel
from agent.models.adapters.openai_chat import body as chat_body
from agent.models.adapters.openai_responses import OpenAIResponsesModel
from agent.models.adapters.openai_responses import body as responses_body
from agent.models.catalog.known_models import ModelFacts, facts_of
from agent.models.thinking import LEVELS, THINKING_TOKENS, ladder, level_of
from agent.settings import Level, ModelSettings
from tests.models.conversation import READ, ask, assistant, call, hear, result, user
from tests.peers.anthropic import AnthropicPeer, Say
from tests.peers.anthropic import Refuse as Declined
from tests.peers.compatible import CompatiblePeer, Events, Refuse, words

if TYPE_CHECKING:
    from agent.events import FailedOver, Restarted, TextDelta, ThinkingDelta

SIGNED = {"type": "thinking", "thinking": "Where?", "signature": "sig"}
ASKED = {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a"}}


def claude(url: str, thinks: str = "adaptive", **more: Any) -> AnthropicModel:
    facts = ModelFacts(**{"window": 200_000, "max_output": 64_000, "assumed": False, "thinks": thinks, **more})  # type: ignore[arg-type]
    return AnthropicModel("claude-sonnet-5-5", key="k", facts=facts, base_url=url)


def chat(url: str, provider: str = "nas", thinks: str = "") -> OpenAIChatModel:
    facts = ModelFacts(window=100_000, max_output=40_000, assumed=False, thinks=thinks)  # type: ignore[arg-type]
    return OpenAIChatModel("qwen3", key="k", facts=facts, base_url=url, provider=provider)


def asides(deltas: list[TextDelta | ThinkingDelta | Restarted | ReplyNote | FailedOver]) -> list[str]:
    return [delta.text for delta in deltas if isinstance(delta, ReplyNote)]


@pytest.mark.parametrize(
    ("style", "level", "told"),
    [
        ("adaptive", None, {}),
        ("adaptive", "adaptive", {"thinking": {"type": "adaptive"}}),
        ("adaptive", "minimal", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}),
        ("adaptive", "xhigh", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "xhigh"}}),
        ("adaptive", "off", {"thinking": {"type": "disabled"}}),
        ("budget", "low", {"thinking": {"type": "enabled", "budget_tokens": 2048}}),
        ("budget", "off", {}),
    ],
)
def test_anthropics_words_for_levels(style: Any, level: Any, told: dict[str, Any]) -> None:
    made = anthropic_body(
        ask(user("a"), max_output=4000), model="m", name="anthropic/m", max_output=64_000, level=level, style=style
    )
    assert {key: made[key] for key in ("thinking", "output_config") if key in made} == told
    assert made["max_tokens"] == 4000 + THINKING_TOKENS.get(level, 0), "what is allowed for the answer stays for the answer"


@pytest.mark.parametrize(
    ("level", "word"), [("off", "none"), ("low", "low"), ("xhigh", "xhigh"), ("adaptive", None), (None, None)]
)
def test_openais_words_for_levels(level: Any, word: str | None) -> None:
    request = ask(user("a"))
    more = {"model": "m", "name": "openai/m", "max_output": 100_000, "images": True, "level": level}
    assert responses_body(request, **more).get("reasoning", {}).get("effort") == word
    assert chat_body(request, hosted_by_openai=True, **more).get("reasoning_effort") == word
    routed = chat_body(request, hosted_by_openai=False, routed=True, **more)
    assert routed.get("reasoning") == (None if word is None else {"effort": word})


@given(st.sampled_from(LEVELS))
def test_every_ladder_ends_with_saying_nothing_and_asks_for_nothing_twice(level: Level) -> None:
    steps = ladder(level)
    assert (steps[0], steps[-1], len(set(steps))) == (level, None, len(steps))


def test_levels_are_read_as_people_write_them() -> None:
    assert [level_of(text) for text in ("HIGH", " on ", "none", "max", "", None, "deep")] == [
        "high", "low", "off", "xhigh", None, None, None,
    ]  # fmt: skip
    assert set(LEVELS) == set(get_args(Level))


def test_families_are_governed_in_their_own_way_and_the_owner_knows_better() -> None:
    assert [facts_of(*name.split("/", 1)).thinks for name in ("anthropic/claude-opus-4-5", "anthropic/claude-opus-5-5")] == [
        "budget", "adaptive",
    ]  # fmt: skip
    assert (facts_of("openai", "gpt-6.1-sol").thinks, facts_of("openai", "gpt-4.1").thinks) == ("effort", "")
    assert facts_of("nas", "m").with_settings(ModelSettings(id="m", reasoning=True)).thinks == "effort"
    assert facts_of("openai", "gpt-6-sol").with_settings(ModelSettings(id="gpt-6-sol", reasoning=False)).thinks == ""
    assert facts_of("openai", "gpt-6-sol").with_settings(ModelSettings(id="gpt-6-sol")).thinks == "effort"


async def test_without_a_wish_reasoning_models_think_a_little_and_others_are_told_nothing(
    compatible_peer: CompatiblePeer, anthropic_peer: AnthropicPeer
) -> None:
    for made in (chat(compatible_peer.url, thinks="effort"), chat(compatible_peer.url)):
        await hear(made, ask(user("a")))
        await made.close()
    assert [sent.get("reasoning_effort") for sent in compatible_peer.requests] == ["low", None]
    model = claude(anthropic_peer.url)
    await hear(model, ask(user("a")))
    await model.close()
    assert anthropic_peer.requests[0]["thinking"] == {"type": "adaptive"}


async def test_a_refused_level_falls_to_the_next_lower_one_which_is_told_once_and_remembered(
    compatible_peer: CompatiblePeer,
) -> None:
    made = chat(compatible_peer.url, thinks="effort")
    wrong = {"message": "Unsupported value: 'reasoning_effort' does not support 'xhigh'. Supported values are: 'low', 'high'."}
    compatible_peer.answer(Refuse(400, wrong), words("Yes."))
    deltas, answer = await hear(made, ask(user("a"), thinking="xhigh"))
    assert (answer.text, answer.failure) == ("Yes.", None)
    [told] = asides(deltas)
    assert "“xhigh”" in told
    assert "“high”" in told
    deltas, _ = await hear(made, ask(user("a"), thinking="xhigh"))
    assert asides(deltas) == []
    assert [sent["reasoning_effort"] for sent in compatible_peer.requests] == ["xhigh", "high", "high"]
    await made.close()


async def test_a_server_that_does_not_know_the_field_is_asked_once_and_then_without(compatible_peer: CompatiblePeer) -> None:
    made = chat(compatible_peer.url)
    compatible_peer.answer(Refuse(400, {"message": "Unrecognized request argument supplied: reasoning_effort"}))
    deltas, answer = await hear(made, ask(user("a"), thinking="high"))
    assert (answer.failure, len(asides(deltas))) == (None, 1)
    await hear(made, ask(user("a"), thinking="low"))
    assert [sent.get("reasoning_effort") for sent in compatible_peer.requests] == ["high", None, None]
    await made.close()


async def test_a_refusal_about_something_else_is_no_matter_of_thinking(compatible_peer: CompatiblePeer) -> None:
    made = chat(compatible_peer.url, thinks="effort")
    compatible_peer.answer(Refuse(400, {"message": "messages: too odd"}))
    _, answer = await hear(made, ask(user("a"), thinking="high"))
    assert answer.failure is not None
    assert (answer.failure.kind, len(compatible_peer.requests)) == ("bad_request", 1)
    await made.close()


async def test_a_responses_model_falls_down_too(compatible_peer: CompatiblePeer) -> None:
    facts = ModelFacts(window=100_000, max_output=40_000, assumed=False, thinks="effort")
    made = OpenAIResponsesModel("gpt-5", key="k", facts=facts, base_url=compatible_peer.url)
    wrong = {
        "message": "Unsupported value: 'none' is not supported. Supported values are: 'minimal'.",
        "param": "reasoning.effort",
    }
    compatible_peer.answer(Refuse(400, wrong), Events(output=(), final={}))
    deltas, _ = await hear(made, ask(user("a"), thinking="off"))
    assert [sent["reasoning"]["effort"] for sent in compatible_peer.requests] == ["none", "minimal"]
    assert len(asides(deltas)) == 1
    await made.close()


@pytest.mark.parametrize(
    ("style", "message", "then"),
    [
        ("adaptive", "adaptive thinking is not supported on this model", {"type": "enabled", "budget_tokens": 16_384}),
        ("budget", "thinking.type.enabled is not supported for this model. Use adaptive.", {"type": "adaptive"}),
    ],
)
async def test_claude_is_asked_in_the_other_way_when_it_refuses_one(
    anthropic_peer: AnthropicPeer, style: str, message: str, then: dict[str, Any]
) -> None:
    made = claude(anthropic_peer.url, style)
    anthropic_peer.answer(Declined(400, "invalid_request_error", message))
    deltas, answer = await hear(made, ask(user("a"), thinking="high", max_output=4000))
    assert (answer.failure, asides(deltas)) == (None, [])
    assert anthropic_peer.requests[1]["thinking"] == then
    await made.close()


async def test_what_the_provider_says_of_a_model_goes_before_the_guess(anthropic_peer: AnthropicPeer) -> None:
    yes, no = {"supported": True}, {"supported": False}
    types = {"adaptive": no, "enabled": yes, "disabled": yes, "between_tools": no}
    levels = dict.fromkeys(("low", "medium", "high", "max"), yes)
    capable = {
        **dict.fromkeys(("batch", "citations", "code_execution", "pdf_input", "structured_outputs"), yes),
        "context_management": no,
        "effort": {**yes, **levels},
        "image_input": no,
        "server_tools": {**no, "web_search": no, "web_fetch": no},
        "thinking": {**yes, "types": types},
    }
    anthropic_peer.models["claude-sonnet-5-5"] = {"max_input_tokens": 500_000, "max_tokens": 9_000, "capabilities": capable}
    made = claude(anthropic_peer.url, assumed=True)
    await hear(made, ask(user("a"), thinking="low", max_output=4000))
    assert anthropic_peer.requests[0]["thinking"] == {"type": "enabled", "budget_tokens": 2048}
    assert (made.window, made.max_output) == (500_000, 9_000)
    await made.close()


async def test_thinking_between_tools_goes_back_as_it_came_with_a_budget(anthropic_peer: AnthropicPeer) -> None:
    made = claude(anthropic_peer.url, "budget")
    second = {"type": "tool_use", "id": "t2", "name": "read", "input": {"path": "b"}}
    anthropic_peer.answer(Say((SIGNED, ASKED), stop="tool_use"), Say((second,), stop="tool_use"))
    said = [user("a")]
    for number in ("t1", "t2"):
        _, answer = await hear(made, ask(*said, tools=(READ,), thinking="low"))
        assert answer.failure is None
        said += [answer, result("ok", number)]  # type: ignore[list-item]  # messages of every role
    _, answer = await hear(made, ask(*said, tools=(READ,), thinking="low"))
    assert answer.failure is None
    blocks = [message["content"] for message in anthropic_peer.requests[2]["messages"] if message["role"] == "assistant"]
    assert blocks == [[SIGNED, ASKED], [second]]
    assert all(sent["thinking"]["type"] == "enabled" for sent in anthropic_peer.requests)
    await made.close()


async def test_a_loop_begun_by_another_model_goes_on_without_a_budget(anthropic_peer: AnthropicPeer) -> None:
    made = claude(anthropic_peer.url, "budget")
    foreign = assistant(Thinking(text="hm", opaque={"type": "reasoning"}), call(), model="openai/gpt-6.1-sol")
    _, answer = await hear(made, ask(user("a"), foreign, result("ok"), tools=(READ,), thinking="high"))
    assert answer.failure is None
    assert "thinking" not in anthropic_peer.requests[0]
    _, answer = await hear(made, ask(user("a"), foreign, result("ok"), assistant("Done."), user("b"), thinking="high"))
    assert (answer.failure, anthropic_peer.requests[1]["thinking"]["type"]) == (None, "enabled")
    await made.close()


def test_a_budget_leaves_room_for_the_answer_or_is_left_out() -> None:
    for longest in (1, 1024, 2047, 2048, 5_000, 64_000):
        made = anthropic_body(ask(user("a")), model="m", name="anthropic/m", max_output=longest, level="xhigh", style="budget")
        budget = made.get("thinking", {}).get("budget_tokens")
        assert budget is None or 1024 <= budget <= made["max_tokens"] - 1024
        assert (budget is None) == (longest < 2048)


async def test_thoughts_that_somebody_reads_are_asked_for_in_words_and_not_again_where_that_is_not_understood(
    anthropic_peer: AnthropicPeer,
) -> None:
    say = [Say(({"type": "text", "text": "Yes."},)) for _ in range(4)]
    wrong = Declined(400, "invalid_request_error", "thinking.adaptive.display: Extra inputs are not permitted")
    anthropic_peer.answer(*say[:2], wrong, *say[2:])
    model = claude(anthropic_peer.url)
    for thoughts in (False, True, True, True):
        deltas, _ = await hear(model, ask(user("a"), thinking="low", thoughts=thoughts))
        assert asides(deltas) == []
    plain, shown = {"type": "adaptive"}, {"type": "adaptive", "display": "summarized"}
    assert [sent["thinking"] for sent in anthropic_peer.requests] == [plain, shown, shown, plain, plain]
    assert {sent["output_config"]["effort"] for sent in anthropic_peer.requests} == {"low"}
    await model.close()
