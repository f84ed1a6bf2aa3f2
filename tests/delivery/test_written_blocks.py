"""Answers that are sent in blocks while they are written: everything once, in order, and nothing that should not be read."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import random
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.events import TextDelta, ThinkingDelta
from agent.messages import AssistantMessage, Failure, ToolCall, UserMessage
from agent.models.middleware.model_retry import RetryMiddleware
from agent.models.scripted import Stall
from agent.transcript.entries import Said, SentPart, decode
from agent.transcript.history_view import CUT_OFF
from tests.models.conftest import anthropic_peer, compatible_peer
from tests.patience import PATIENCE
from tests.peers.anthropic import Break
from tests.peers.anthropic import text as claude_says
from tests.peers.compatible import Chunks
from tests.peers.compatible import words as openai_says
from tests.peers.phone import Village

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from agent.models.protocol import Request
    from gateway.app.gateway import Gateway
    from tests.peers.anthropic import AnthropicPeer
    from tests.peers.compatible import CompatiblePeer
    from tests.peers.phone import Phone

    Make = Callable[..., Village]

__all__ = ["anthropic_peer", "compatible_peer"]
CHUNK = {"minChars": 30, "maxChars": 100}
FIRST = "The first paragraph of an answer, which is long enough.\n\n"
SECOND = "The second paragraph of it, which is long enough too.\n\n"
LAST = "And an end."


def streamed(root: Path, **agent: Any) -> Village:
    defaults = {
        "workspace": str(root / "workspace"),
        "userTimezone": "UTC",
        "model": "scripted/model",
        "blockStreamingDefault": "on",
        "blockStreamingChunk": CHUNK,
    }
    more = {key: agent.pop(key) for key in ("messages", "models", "channels") if key in agent}
    return Village(root, agents={"defaults": defaults | agent}, **more)


@pytest.fixture
def village(tmp_path: Path) -> Make:
    return lambda **agent: streamed(tmp_path, **agent)


def letters(text: str) -> list[Any]:
    return [TextDelta(letter) for letter in text]


def entries(v: Village) -> list[Any]:
    files = v.root.glob("home/agents/main/sessions/*.jsonl")
    return [decode(line).body for path in files for line in path.read_bytes().splitlines()]


def answers(v: Village) -> list[tuple[str, str]]:
    return [
        (one.message.stop, one.message.text)
        for one in entries(v)
        if isinstance(one, Said) and isinstance(one.message, AssistantMessage)
    ]


async def settled(house: Gateway) -> None:
    await house.lanes.quiet()
    await house.delivery.settled()


async def test_paragraphs_arrive_while_the_answer_is_written_and_the_rest_at_its_end(village: Make) -> None:
    v, gate = village(), asyncio.Event()
    v.model.then([*letters(FIRST + SECOND + "And"), Stall(gate), *letters(" an end.")])
    async with v.house() as (house, phone):
        await phone.say("go")
        await phone.until(lambda: phone.texts() == [FIRST, SECOND])
        assert [one.text for one in entries(v) if isinstance(one, SentPart)] == [FIRST, SECOND]
        gate.set()
        await settled(house)
        assert phone.texts() == [FIRST, SECOND, LAST]
        assert phone.drafts == []
    assert answers(v) == [("end", FIRST + SECOND + LAST)]


async def test_an_answer_that_is_sent_to_its_last_word_has_no_rest(village: Make) -> None:
    v, gate = village(), asyncio.Event()
    v.model.then([*letters(FIRST + SECOND + "\n"), Stall(gate)], "Again.")
    async with v.house() as (house, phone):
        await phone.say("go")
        await phone.until(lambda: len(phone.sent) == 1)
        while len(phone.sent) < 2:
            v.clock.move(2)
            await asyncio.sleep(0.01)
        gate.set()
        await settled(house)
        await phone.say("and?")
        await phone.until(lambda: "Again." in phone.texts())
        assert [text.strip() for text in phone.texts()] == [FIRST.strip(), SECOND.strip(), "Again."]


async def test_after_a_pause_what_ends_with_a_sentence_is_sent_and_half_a_sentence_waits(village: Make) -> None:
    v, gate = village(blockStreamingCoalesce={"minChars": 10, "idleMs": 500}), asyncio.Event()
    v.model.then([*letters("Let me look. And th"), Stall(gate), *letters("en.")])
    async with v.house() as (house, phone):
        await phone.say("go")
        while not phone.sent:
            await asyncio.sleep(0.002)
            v.clock.move(0.2)
        assert phone.texts() == ["Let me look. "]
        gate.set()
        await settled(house)
        assert phone.texts() == ["Let me look. ", "And then."]


@pytest.mark.parametrize(
    "said",
    ["NO_REPLY", "`NO_REPLY`\n\n" + FIRST * 3, "[[reply_to_current]] NO_REPLY " + FIRST * 3, FIRST * 2 + LAST + "\nNO_REPLY"],
)
async def test_no_part_of_no_reply_is_ever_sent(village: Make, said: str) -> None:
    v = village(blockStreamingCoalesce={"minChars": 1, "idleMs": 50})
    v.model.then([ThinkingDelta("a thought. " * 30), *letters(said)], "Well.")
    async with v.house() as (house, phone):
        moving = asyncio.ensure_future(_move(v))
        await phone.say("go")
        await settled(house)
        await phone.say("and?")
        await phone.until(lambda: "Well." in phone.texts())
        moving.cancel()
        spoken = "".join(phone.texts())
        assert not re.search("NO|REPLY|_|thought|reply_to", spoken)
        assert ("The first" in spoken) == said.startswith("The first")


async def _move(v: Village) -> None:
    while True:
        await asyncio.sleep(0.001)
        v.clock.move(0.05)


async def test_only_the_first_block_is_shown_as_a_reply_and_none_shows_a_tag(village: Make) -> None:
    v = village()
    v.model.then(letters(f"[[reply_to_current]] {FIRST}{SECOND}{LAST}"))
    async with v.house() as (house, phone):
        said = await phone.say("go", group="g")
        await settled(house)
        await phone.until(lambda: len(phone.sent) == 3)
        assert [one.text.strip() for one in phone.sent] == [FIRST.strip(), SECOND.strip(), LAST]
        assert [one.reply_to for one in phone.sent] == [said.message_id, None, None]


async def test_what_is_said_before_tools_is_sent_to_its_end_before_they_run(village: Make) -> None:
    v, gate = village(messages={"blockStreaming": {"minChars": 5}}), asyncio.Event()
    call = ToolCall(id="c", name="list", arguments={})
    v.model.then([*letters(FIRST + "Then I look."), call], [Stall(gate), TextDelta(LAST)])
    async with v.house() as (house, phone):
        await phone.say("go")
        await phone.until(lambda: phone.texts() == [FIRST, "Then I look."])
        gate.set()
        await settled(house)
        assert phone.texts() == [FIRST, "Then I look.", LAST]


async def test_a_turn_that_ends_for_want_of_calls_does_not_repeat_what_it_said(village: Make) -> None:
    v = village(messages={"blockStreaming": {"minChars": 5}}, limits={"maxToolCalls": 1})
    v.model.then(
        *([*letters(f"{number}: {FIRST}"), ToolCall(id=f"c{number}", name="list", arguments={})] for number in range(6))
    )
    async with v.house() as (house, phone):
        await phone.say("go")
        await settled(house)
        said = "".join(phone.texts())
        assert "too many tool calls" in said
        assert all(said.count(f"{number}: The first") <= 1 for number in range(6))


async def test_the_line_about_a_fresh_conversation_comes_before_the_first_block(village: Make) -> None:
    v = village()
    v.model.reply_with(lambda request: "NO_REPLY" if request.background else letters(FIRST + LAST))
    async with v.house() as (house, phone):
        await phone.say("hello")
        await settled(house)
        agent = house.agents["main"]
        record = agent.store.all()[0]
        await agent.renew(record, house.router.audience(record.key), "daily")
        await phone.say("go")
        await settled(house)
        await phone.until(lambda: len(phone.sent) == 5)
        assert [text[:5] for text in phone.texts()][2:] == ["🌅 New", FIRST[:5], LAST[:5]]


# -- what breaks off --------------------------------------------------------------------------------------------------------


def continuing(answer: str) -> Callable[[Request], str]:
    """Say what is missing of an answer: a model that sees what it said, goes on behind it."""

    def rest(request: Request) -> str:
        said = "".join(one.text for one in request.messages if isinstance(one, AssistantMessage))
        assert answer.startswith(said), (answer, said)
        last = request.messages[-1]
        assert isinstance(last, UserMessage)
        assert (CUT_OFF in last.text) == bool(said)
        return answer[len(said) :]

    return rest


BROKEN = Failure(kind="network", message="the line broke")


def patiently(v: Village) -> RetryMiddleware:
    """The model, whose failures are tried again as those of real ones are."""
    return RetryMiddleware(v.model, clock=v.clock, random=random.Random(7))


@pytest.mark.parametrize("patient", [False, True])
async def test_a_stream_that_breaks_after_a_block_is_gone_on_with_and_not_repeated(village: Make, *, patient: bool) -> None:
    v, gate = village(), asyncio.Event()
    rest = continuing(FIRST + SECOND + LAST)
    v.model.then([*letters(FIRST + "The sec"), Stall(gate), BROKEN])
    v.model.reply_with(rest)
    if patient:
        v.model = patiently(v)
    async with v.house() as (house, phone):
        await phone.say("go")
        await phone.until(lambda: phone.texts() == [FIRST])
        gate.set()
        moving = asyncio.ensure_future(_move(v))
        await settled(house)
        moving.cancel()
        assert "".join(phone.texts()) == FIRST + SECOND + LAST
    assert answers(v) == [("cut", FIRST), ("end", SECOND + LAST)]


async def test_a_stream_that_breaks_before_its_first_block_is_repeated(village: Make) -> None:
    v = village()
    v.model.then([*letters("Half a"), BROKEN], FIRST + LAST)
    v.model = patiently(v)
    async with v.house() as (house, phone):
        moving = asyncio.ensure_future(_move(v))
        await phone.say("go")
        await settled(house)
        moving.cancel()
        assert "".join(phone.texts()) == FIRST + LAST
    assert answers(v) == [("end", FIRST + LAST)]


async def test_a_model_that_always_breaks_off_is_given_up_at_last(village: Make) -> None:
    v = village()
    gates: list[asyncio.Event] = []

    def broken(request: Request) -> Any:
        gates.append(asyncio.Event())
        return [*letters(f"{len(gates)}: {FIRST}"), Stall(gates[-1]), BROKEN]

    v.model.reply_with(broken)
    async with v.house() as (house, phone):
        moving = asyncio.ensure_future(_move(v))
        await phone.say("go")
        for number in range(1, 7):
            await phone.until(lambda number=number: len(phone.sent) == number)
            gates[-1].set()
        await settled(house)
        moving.cancel()
        assert len(gates) == 6
        assert phone.texts()[-1].startswith("⚠️ scripted/model broke off its answer 6 times.")
        assert [text[0] for text in phone.texts()[:6]] == list("123456")


async def test_what_stop_leaves_of_an_answer_is_what_was_sent_of_it(village: Make) -> None:
    v = village()
    v.model.then([*letters(FIRST + "The sec"), Stall()], "Good.")
    async with v.house() as (house, phone):
        await phone.say("go")
        await phone.until(lambda: phone.texts() == [FIRST])
        await phone.say("/stop")
        await settled(house)
        await phone.say("and now?")
        await phone.until(lambda: "Good." in phone.texts())
        assert FIRST.strip() in v.seen()
        assert "The sec" not in v.seen()
    assert answers(v)[0] == ("cut", FIRST)


LONG = (
    "".join(f"Paragraph {number} of the answer is here.\n\n" for number in range(6)) + "```py\n" + "x = 1\n" * 30 + "```\nEnd."
)


@settings(max_examples=6, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(0, 60), max_size=2), st.booleans(), st.integers(1, 40))
def test_wherever_it_breaks_everything_is_said_once(pauses: list[int], gently: bool, often: int) -> None:
    asyncio.run(lives(pauses, gently=gently, often=often))


async def lives(pauses: list[int], *, gently: bool, often: int) -> None:
    """Close the house in the midst of an answer, and let streams break by chance."""
    with tempfile.TemporaryDirectory() as folder:
        v, dice = streamed(Path(folder)), random.Random(often)
        left = [0 if gently else 2]

        def answer(request: Request) -> Any:
            said = plain("".join(one.text for one in request.messages if isinstance(one, AssistantMessage)))
            assert plain(LONG).startswith(said)
            at = next(end for end in range(len(LONG) + 1) if plain(LONG[:end]) == said)
            opened = "```py\n" if LONG[:at].count("```") % 2 else ""
            rest = letters(opened + LONG[at:].lstrip("\n"))
            if left[0] and len(rest) > 50:
                left[0] -= 1
                return [*rest[: dice.randrange(len(rest))], BROKEN]
            return rest

        v.model.reply_with(answer)
        v.model = patiently(v)
        seen: dict[str, str] = {}
        for number, pause in enumerate([*pauses, None]):
            async with v.house() as (house, phone):
                moving = asyncio.ensure_future(_move(v))
                if number == 0:
                    await phone.say("go")
                if pause is None:
                    await house.lanes.quiet()
                    async with asyncio.timeout(PATIENCE):
                        while (await house.ledger.tally()).outbox.get("ready", 0):  # noqa: ASYNC110
                            await asyncio.sleep(0.002)
                    await house.delivery.settled()
                else:
                    for _ in range(pause):
                        await asyncio.sleep(0.0005)
                    await house.lanes.drain(0)
                moving.cancel()
            seen |= {one.key: one.text for one in phone.sent}
        said = [text for text in seen.values() if "I was restarted" not in text]
        assert plain("".join(said)) == plain(LONG), said


def plain(text: str) -> str:
    """The words of a text, without blanks and the lines that open and close code."""
    return "".join(re.sub(r"```(py)?", "", text).split())


# -- the real SDKs ----------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def real(root: Path, url: str, api: str) -> AsyncIterator[tuple[Village, Gateway, Phone]]:
    await asyncio.to_thread(importlib.import_module, "anthropic" if "anthropic" in api else "openai.resources.chat")
    provider = {
        "baseUrl": url,
        "apiKey": "none",
        "api": api,
        "models": [{"id": "m", "contextWindow": 50_000, "maxTokens": 1000}],
    }
    agent = {"model": "peer/m", "memorySearch": {"enabled": False}, "skipBootstrap": True}
    v = streamed(root, **agent, models={"mode": "replace", "providers": {"peer": provider}})
    async with v.house() as (house, phone):
        yield v, house, phone


async def test_openai_is_asked_to_go_on_from_what_was_sent(tmp_path: Path, compatible_peer: CompatiblePeer) -> None:
    compatible_peer.answer(Chunks(({"content": FIRST}, {"content": "The sec"}), how="stall"), openai_says(SECOND, LAST))
    async with real(tmp_path, compatible_peer.url, "openai-completions") as (v, house, phone):
        await phone.say("go")
        await phone.until(lambda: phone.texts() == [FIRST])
        compatible_peer.release()
        moving = asyncio.ensure_future(_move(v))
        await settled(house)
        moving.cancel()
        assert "".join(phone.texts()) == FIRST + SECOND + LAST
        *_, said, note = compatible_peer.requests[-1]["messages"]
        assert (said["role"], said["content"], note["role"]) == ("assistant", FIRST, "user")
        assert "broke off" in str(note["content"])


async def test_claude_is_asked_to_go_on_from_what_was_sent(tmp_path: Path, anthropic_peer: AnthropicPeer) -> None:
    anthropic_peer.answer(Break(FIRST + "The sec", "stall"), claude_says(SECOND + LAST))
    async with real(tmp_path, anthropic_peer.url, "anthropic-messages") as (v, house, phone):
        await phone.say("go")
        await phone.until(lambda: phone.texts() == [FIRST])
        anthropic_peer.release()
        moving = asyncio.ensure_future(_move(v))
        await settled(house)
        moving.cancel()
        assert "".join(phone.texts()) == FIRST + SECOND + LAST
        *_, said, note = anthropic_peer.requests[-1]["messages"]
        assert (said["role"], note["role"]) == ("assistant", "user")
        assert FIRST.strip() in str(said["content"]).replace("\\n", "\n")
        assert "broke off" in str(note["content"])
