"""Models in conversation: who answered, which there are, how deep they think, and room before a smaller window."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from agent.events import TextDelta, ThinkingDelta
from agent.messages import Failure
from agent.models import token_estimate
from agent.models.scripted import ScriptedModel
from tests.peers.anthropic import AnthropicPeer, Refuse

if TYPE_CHECKING:
    from agent.models.protocol import Request
    from tests.gateway.conftest import Street, Talk

Make = Callable[..., "Street"]
NAS = {"providers": {"nas": {"baseUrl": "http://127.0.0.1:9/v1", "models": [{"id": "qwen3", "contextWindow": 50_000}]}}}
DOWN = Failure(kind="overloaded", message="Scripted is overloaded.")


async def told(talk: Talk, text: str) -> str:
    """What a person sees in the chat after saying something."""
    before = len(talk.replies())
    facts = await talk.ask(text)
    await talk.until(lambda: len(talk.replies()) >= before + facts["chunks"])
    return talk.replies()[-1]


async def test_the_owner_is_told_once_who_stands_in_and_once_who_is_back(street: Make) -> None:
    s = street(agent={"model": {"primary": "scripted/model", "fallbacks": ["second/model"]}})
    s.model.then(DOWN, "I am back.", "Still here.")
    second = ScriptedModel(["One.", "Two."], name="second/model")
    async with s.house() as (house, talk):
        house.model_registry.put("second/model", second)
        assert await told(talk, "a") == "One.\n\n↪️ second/model answered: Scripted is overloaded."
        assert "second/model answered last" in await told(talk, "/model")
        assert "- Model: scripted/model; second/model answered last, as its fallback" in await told(talk, "/status")
        assert await told(talk, "b") == "Two.", "nothing changed, so nothing is told"
        s.clock.move(120)
        assert await told(talk, "c") == "I am back.\n\n↩️ scripted/model answers again."
        assert await told(talk, "d") == "Still here."


async def test_who_stands_in_is_remembered_over_a_restart(street: Make) -> None:
    s = street(agent={"model": {"primary": "scripted/model", "fallbacks": ["second/model"]}})
    s.model.then(DOWN, DOWN, "Back.")
    replies = []
    for _ in range(3):
        async with s.house() as (house, talk):
            house.model_registry.put("second/model", ScriptedModel(["Here."], name="second/model"))
            replies.append(await told(talk, "a"))
    assert [reply.partition("\n\n")[2] for reply in replies] == [
        "↪️ second/model answered: Scripted is overloaded.",
        "",
        "↩️ scripted/model answers again.",
    ]


async def test_the_status_tells_of_a_model_as_soon_as_it_is_chosen(street: Make) -> None:
    s = street()
    async with s.house() as (house, talk):
        house.model_registry.put("second/model", ScriptedModel(name="second/model"))
        await talk.ask("hello")
        assert "- Model: scripted/model\n" in await told(talk, "/status")
        await told(talk, "/model second")
        assert "- Model: second/model (chosen for this conversation)" in await told(talk, "/status")
        await told(talk, "/model default")
        assert "- Model: scripted/model\n" in await told(talk, "/status")


async def test_the_models_of_a_provider_are_listed_together_also_where_one_of_another_comes_between(street: Make) -> None:
    own = {"baseUrl": "http://127.0.0.1:9/v1", "models": [{"id": "one"}, {"id": "two"}]}
    s = street(
        agent={"model": {"primary": "nas/one", "fallbacks": ["box/one"]}}, models={"providers": {"nas": own, "box": own}}
    )
    async with s.house() as (_, talk):
        listed = await told(talk, "/models")
    assert [line for line in listed.splitlines() if line.startswith("**")] == ["**nas**", "**box**", "**offline**"]


async def test_thinking_is_set_for_a_conversation_and_asked_of_every_call(street: Make) -> None:
    s = street(agent={"thinkingDefault": "medium"})
    s.model.then("a", "b", "c")
    async with s.house() as (_, talk):
        await talk.ask("one")
        assert "medium (the default)" in await told(talk, "/think")
        assert "conversation: high" in await told(talk, "/think HIGH")
        await talk.ask("two")
        assert "Unknown level" in await told(talk, "/think hardest")
        await told(talk, "/think default")
        await talk.ask("three")
    assert [request.thinking for request in s.model.requests] == ["medium", "high", "medium"]


async def test_thoughts_are_shown_above_replies_where_they_are_wanted(street: Make) -> None:
    s = street()
    for _ in range(2):
        s.model.then([ThinkingDelta("Let me\nsee."), TextDelta("Yes.")])
    async with s.house() as (_, talk):
        assert await told(talk, "a") == "Yes."
        await told(talk, "/reasoning on")
        assert await told(talk, "b") == "> 💭 Let me\n> see.\n\nYes."
    assert [request.thoughts for request in s.model.requests] == [False, True]


async def test_models_are_listed_by_provider_and_chosen_by_number_or_part(street: Make) -> None:
    s = street(models=NAS, agent={"models": {"nas/qwen3": {"alias": "local"}, "scripted/model": {}}})
    async with s.house() as (house, talk):
        listed = await told(talk, "/models")
        assert "**nas**" in listed
        assert "`nas/qwen3` (local) — 50k" in listed
        assert "anthropic/" not in listed
        number = listed.partition(". `nas/qwen3`")[0].rpartition("\n")[2]
        for wanted in (number, "local", "qwen", "nas/qwen3"):
            assert await told(talk, f"/model {wanted}") == "This conversation now uses nas/qwen3.", wanted
            assert house.agents["main"].store.get("agent:main:main").model == "nas/qwen3"  # type: ignore[union-attr]
        assert "not among the models" in await told(talk, "/model ollama/llama")
        assert "✓ `nas/qwen3`" in await told(talk, "/models qw")
        assert "scripted/model" in await told(talk, "/model default")


async def test_a_switch_to_a_smaller_window_makes_room_first_while_the_larger_one_can_read_all(street: Make) -> None:
    s = street(agent={"compaction": {"memoryFlush": {"enabled": False}}})
    story = " ".join(f"On day {n} the neighbour painted fence number {n} green." for n in range(700))

    def answer(request: Request) -> str:
        last = request.messages[-1].text
        return "## Done\nThe neighbour painted many fences green, one each day." if "[Summary request]" in last else "Noted."

    s.model.reply_with(answer)
    small = ScriptedModel(lambda _request: "Here.", name="small/model", window=16_000)
    async with s.house() as (house, talk):
        house.model_registry.put("small/model", small)
        for n in range(4):
            await talk.ask(f"{n}: {story}")
        asked = len(s.model.requests)
        reply = await told(talk, "/model small/model")
        assert "now uses small/model. 🧹 Its context window is smaller" in reply
        assert len(s.model.requests) == asked + 1, "one summary, by the model that could still read everything"
        await talk.ask("and now?")
    assert len(small.requests) == 1
    assert token_estimate.weight_of_request(small.requests[0]).total < 12_000
    assert "painted many fences" in str(small.requests[0].messages)


async def test_a_switch_away_from_a_model_that_cannot_be_used_works(street: Make) -> None:
    s = street(agent={"model": "anthropic/claude-opus-5"})
    s.model.then("Here.")
    async with s.house() as (_, talk):
        assert "needs a key" in await told(talk, "hi")
        assert await told(talk, "/model scripted/model") == "This conversation now uses scripted/model."
        assert await told(talk, "hi") == "Here."


@pytest.mark.parametrize("size", [8_000, 1_000_000])
async def test_windows_of_any_size_are_kept_to(street: Make, size: int) -> None:
    s = street()
    story = " ".join(f"Neighbour {n} painted a fence." for n in range(100))

    def answer(request: Request) -> str:
        last = request.messages[-1].text
        return "## Done\nNeighbours painted many fences in the street." if "[Summary request]" in last else "Noted."

    s.model.reply_with(answer)
    s.model.window = size
    async with s.house() as (_, talk):
        for n in range(9):
            assert (await told(talk, f"{n}: {story}")).endswith("Noted.")
    assert max(token_estimate.weight_of_request(request).total + 256 for request in s.model.requests) <= size
    summaries = sum("[Summary request]" in request.messages[-1].text for request in s.model.requests)
    assert (summaries > 0) == (size < 10_000)


async def test_a_refused_key_is_unseen_while_another_one_opens_and_the_cause_is_kept(street: Make) -> None:
    peer = AnthropicPeer()
    runner = await peer.start()
    provider = {"baseUrl": peer.url, "apiKeys": ["sk-first-one", "sk-second-one"]}
    s = street(models={"providers": {"anthropic": provider}}, agent={"model": "anthropic/claude-opus-4-5"})
    peer.answer(Refuse(401, "authentication_error"))
    try:
        async with s.house() as (_, talk):
            assert await told(talk, "hi") == "Very well."
            assert await told(talk, "and again") == "Very well."
        async with s.house() as (_, talk):
            assert await told(talk, "after a restart") == "Very well."
    finally:
        await runner.cleanup()
    assert [sent["authorization"].removeprefix("Bearer ") for sent in peer.headers] == [
        "sk-first-one",
        *["sk-second-one"] * 3,
    ]
    kept = (s.root / "home" / "state" / "key-health.json").read_text()
    assert '"auth"' in kept
    assert "sk-first" not in kept
