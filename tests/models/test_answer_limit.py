"""Answers that do not end are ended: too long ones, and those that go round in a loop."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.events import TextDelta, ThinkingDelta
from agent.messages import AssistantMessage, Text, Usage
from agent.models.adapters.anthropic import AnthropicModel
from agent.models.adapters.openai_chat import OpenAIChatModel
from agent.models.adapters.openai_responses import OpenAIResponsesModel
from agent.models.catalog.known_models import ModelFacts
from agent.models.middleware.answer_limit import CHARS_A_TOKEN, MOST_CHARS, SPAN, Repetition, bounded, shortened
from agent.models.scripted import ScriptedModel
from tests.models.conversation import ask, hear, shown, user
from tests.peers.anthropic import Say
from tests.peers.anthropic import text as claude_says
from tests.peers.compatible import Chunks, said, words

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from agent.models.protocol import Part, Request
    from tests.peers.anthropic import AnthropicPeer
    from tests.peers.compatible import CompatiblePeer

WORDS = ("sorry", "well", "yes", "no", "the", "house", "is", "blue", "你好", "Grüße")
SORRY = "I'm sorry. I'msorry. I'm sorry, "
LINES = "".join(f"Line {n} tells of another day. " for n in range(150_000))
"""Four million characters of which no two lines are alike."""


class Bounded:
    """A model behind the bounds, as the agent asks it."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def stream(self, request: Request) -> AsyncIterator[Part]:
        return bounded(self.model, request)


def at(kind: Callable[..., Any], url: str) -> Any:
    return kind("m", key="k", facts=ModelFacts(window=100_000, max_output=4000, assumed=False), base_url=url, provider="custom")


@pytest.mark.parametrize("kind", [OpenAIChatModel, OpenAIResponsesModel, AnthropicModel])
async def test_an_answer_far_longer_than_allowed_is_cut_whoever_gives_it(
    compatible_peer: CompatiblePeer, anthropic_peer: AnthropicPeer, kind: Callable[..., Any]
) -> None:
    pieces = [LINES[n : n + 4000] for n in range(0, 3_000_000, 4000)]
    compatible_peer.answer(words(*pieces) if kind is OpenAIChatModel else said(LINES[:3_000_000]))
    anthropic_peer.answer(claude_says(LINES[:3_000_000]))
    model = at(kind, anthropic_peer.url if kind is AnthropicModel else compatible_peer.url)
    deltas, answer = await hear(Bounded(model), ask(user("go on for ever"), max_output=1000))  # type: ignore[arg-type]
    await model.close()
    assert (answer.stop, answer.failure) == ("length", None)
    assert answer.text == LINES[: CHARS_A_TOKEN * 1000]
    assert LINES.startswith(shown(deltas))
    assert len(shown(deltas)) == CHARS_A_TOKEN * 1000


@pytest.mark.parametrize("kind", [OpenAIChatModel, AnthropicModel])
async def test_endless_arguments_of_a_tool_are_ended_and_told(
    compatible_peer: CompatiblePeer, anthropic_peer: AnthropicPeer, kind: Callable[..., Any]
) -> None:
    text = '{"text": "' + LINES[:2_000_000] + '"}'
    function = {"name": "write", "arguments": text}
    compatible_peer.answer(Chunks(({"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": function}]},)))
    block = {"type": "tool_use", "id": "a", "name": "write", "input": {"text": LINES[:2_000_000]}}
    anthropic_peer.answer(Say((block,), stop="tool_use"))
    model = at(kind, anthropic_peer.url if kind is AnthropicModel else compatible_peer.url)
    _, answer = await hear(Bounded(model), ask(user("write"), max_output=1000))  # type: ignore[arg-type]
    await model.close()
    assert answer.failure is not None
    assert "more than 8,000 characters" in answer.failure.message
    assert answer.calls == ()


async def test_three_megabytes_do_not_fill_the_memory() -> None:
    model = ScriptedModel(lambda _: [TextDelta(LINES[n : n + 50]) for n in range(0, 3_000_000, 50)])
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        _, answer = await hear(Bounded(model), ask(user("x"), max_output=8192))  # type: ignore[arg-type]
        grown = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert len(answer.text) == CHARS_A_TOKEN * 8192
    assert grown < 20_000_000, "what the script itself holds is most of it"


async def test_the_absolute_bound_holds_whatever_is_allowed() -> None:
    model = ScriptedModel(lambda _: [TextDelta(LINES[:2_000_000])])
    _, answer = await hear(Bounded(model), ask(user("x"), max_output=10_000_000))  # type: ignore[arg-type]
    assert len(answer.text) == MOST_CHARS


async def test_a_loop_is_ended_in_the_stream_and_only_its_first_round_is_kept() -> None:
    model = ScriptedModel(lambda _: [TextDelta("Let me see. "), *[TextDelta(SORRY)] * 500])
    deltas, answer = await hear(Bounded(model), ask(user("x"), max_output=8192))  # type: ignore[arg-type]
    assert answer.stop == "repeated"
    assert answer.text == "Let me see. I'm sorry."
    assert len(shown(deltas)) < 800


async def test_a_loop_in_thought_is_ended_and_told() -> None:
    model = ScriptedModel(lambda _: [ThinkingDelta("But wait, is that so? ")] * 500)
    _, answer = await hear(Bounded(model), ask(user("x"), max_output=8192))  # type: ignore[arg-type]
    assert answer.failure is not None
    assert "repeat itself while it was thinking" in answer.failure.message


async def test_a_loop_that_comes_whole_is_shortened_too() -> None:
    whole = AssistantMessage(
        content=(Text(text="So. " + SORRY * 100),), model="m", stop="length", usage=Usage(input=9, output=9)
    )
    _, answer = await hear(Bounded(ScriptedModel(lambda _: whole)), ask(user("x"), max_output=8192))  # type: ignore[arg-type]
    assert (answer.stop, answer.text) == ("repeated", "So. I'm sorry.")


GOOD = (
    LINES[:20_000],
    "| a | b |\n|---|---|\n" + "".join(f"| {n} | {n * n} |\n" for n in range(400)),
    "```\n" + "\n".join(f"    value_{n} = compute({n})" for n in range(300)) + "\n```",
    "A line:\n" + "-" * 200 + "\nand " + "ha" * 100 + "!",
    "".join(f"{n}. I must not chatter in class.\n" for n in range(1, 200)),
    "0, " * 500,
    "\n".join(["    " * depth + "}" for depth in range(30, 0, -1)]),
    "Hey Jude, don't make it bad, take a sad song\n" * 25,
    "La la la la, la la la la\nHey hey hey\n\n" * 12,
    "Zeros:\n```\n" + "\n".join([",".join(["0"] * 50)] * 50) + "\n```\n",
    "Bits:\n~~~\n" + "01" * 2000 + "\n~~~",
    "| day | task |\n|---|---|\n" + "| every day | nothing to do |\n" * 300,
    "| | |\n|---|---|\n" + "|   |   |\n" * 500,
)


@pytest.mark.parametrize("text", GOOD)
def test_lists_tables_code_and_lines_are_no_loops(text: str) -> None:
    seen = Repetition()
    assert not any(seen.feed(text[n : n + 7]) for n in range(0, len(text), 7))
    assert shortened(text) == text


@given(
    before=st.text(max_size=400),
    words_=st.lists(
        st.sampled_from(WORDS),
        min_size=2,
        max_size=9,
        unique=True,
    ),
    size=st.integers(1, 50),
)
def test_every_loop_of_words_is_found_wherever_it_begins(before: str, words_: list[str], size: int) -> None:
    unit = " ".join(words_) + ". "
    text = before + unit * 100
    seen = Repetition()
    found = any(seen.feed(text[n : n + size]) for n in range(0, len(text), size))
    letters = len("".join(filter(str.isalnum, unit)))
    if 5 <= letters <= 80 and len(set("".join(filter(str.isalnum, unit)).casefold())) >= 4:
        assert found
        kept = shortened(text)
        assert text.startswith(kept)
        assert len(kept) <= len(before) + 2 * len(unit)


@given(st.text(max_size=2000))
def test_what_is_shortened_is_a_beginning_and_is_not_shortened_again(text: str) -> None:
    kept = shortened(text)
    assert text.startswith(kept)
    assert shortened(kept) == kept
    assert len(text) >= SPAN or kept == text


@pytest.mark.parametrize("times", [40, 150])
async def test_a_line_that_the_person_asked_for_is_written_as_often_as_it_is_wanted(times: int) -> None:
    lines = "".join(f"{'I will not talk in class.'}\n" for _ in range(times))
    model = ScriptedModel(lambda _: [TextDelta(lines[n : n + 50]) for n in range(0, len(lines), 50)])
    wish = user(f"write “I will not talk in class” {times} times")
    _, answer = await hear(Bounded(model), ask(wish, max_output=8192))  # type: ignore[arg-type]
    assert (answer.stop, answer.text) == ("end", lines)
    _, answer = await hear(Bounded(model), ask(user("hello"), max_output=8192))  # type: ignore[arg-type]
    assert (answer.stop, answer.text) == ("repeated", "I will not talk in class.")


async def test_code_that_goes_on_without_end_is_cut_and_closed() -> None:
    text = "So:\n```\n" + "0 0 0 0\n" * 10_000
    model = ScriptedModel(lambda _: [TextDelta(text[n : n + 500]) for n in range(0, len(text), 500)])
    _, answer = await hear(Bounded(model), ask(user("x"), max_output=60_000))  # type: ignore[arg-type]
    assert answer.stop == "repeated"
    assert answer.text.count("```") in {0, 2}
    assert answer.text.startswith("So:")
    assert len(answer.text) < 100
