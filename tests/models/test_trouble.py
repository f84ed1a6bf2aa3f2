"""Everything that goes wrong at a provider, through the real SDKs and all that stands around a model in the house."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from agent.events import Progress, Restarted
from agent.models.adapters.anthropic import AnthropicModel
from agent.models.adapters.openai_chat import OpenAIChatModel
from agent.models.adapters.openai_responses import OpenAIResponsesModel
from agent.models.catalog.known_models import ModelFacts
from agent.models.catalog.provider_keys import Key
from agent.models.failures import TRANSIENT
from agent.models.middleware.failover import FailoverMiddleware
from agent.models.middleware.key_health import KeyHealth
from agent.models.middleware.key_rotation import KeyRotationMiddleware
from agent.models.middleware.model_retry import RetryLimits, RetryMiddleware
from agent.models.scripted import ScriptedModel
from gateway.base.clock import ManualClock
from tests.models.conversation import NOON, ask, hear, shown, user
from tests.peers import anthropic, compatible
from tests.peers.mood import Mood
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from agent.messages import AssistantMessage
    from agent.models.protocol import Model
    from tests.peers.anthropic import AnthropicPeer
    from tests.peers.compatible import CompatiblePeer

LIMITS = RetryLimits(first_byte=30, idle=20, total=300, tries=3, first_wait=1, longest_wait=8, longest_retry_after=20)
KEY = Key("a key", "settings", "k")
PLAIN = ModelFacts(window=100_000, max_output=4_000, assumed=False)
APIS = ("messages", "completions", "responses")


@dataclass
class Bench:
    """One API with its peer: ``trouble`` makes an answer that goes wrong, ``fine`` one that does not."""

    api: str
    peer: Any
    clock: ManualClock

    def model(self, health: KeyHealth | None = None) -> KeyRotationMiddleware:
        kinds: dict[str, Callable[..., Model]] = {
            "messages": AnthropicModel,
            "completions": OpenAIChatModel,
            "responses": OpenAIResponsesModel,
        }

        def make(key: Key) -> Model:
            return kinds[self.api]("m", key=key.secret, facts=PLAIN, base_url=self.peer.url, provider="p", label="The provider")

        return KeyRotationMiddleware(lambda: [KEY], make, health or KeyHealth(self.clock))

    def refuse(self, status: int, kind: str, message: str = "told to fail", **headers: str) -> Any:
        if self.api == "messages":
            return anthropic.Refuse(status, kind, message, headers=headers)
        return compatible.Refuse(status, {"message": message, "type": kind, "code": kind}, headers=headers)

    def broken(self, how: str) -> Any:
        if self.api == "messages":
            return anthropic.Break("Half of", how)
        if self.api == "completions":
            return replace(compatible.words("Half", " of"), how=how)
        return compatible.Events(compatible.said("Half of").events, how=how)

    @property
    def asked(self) -> int:
        return len(self.peer.requests)


@pytest.fixture(params=APIS)
def bench(request: pytest.FixtureRequest, anthropic_peer: AnthropicPeer, compatible_peer: CompatiblePeer) -> Bench:
    return Bench(request.param, anthropic_peer if request.param == "messages" else compatible_peer, ManualClock(NOON))


async def turned(clock: ManualClock, work: Coroutine[Any, Any, Any], step: float = 2.0) -> Any:
    """Do the work; the clock is turned only while nothing has come over the wire for a moment."""
    task = asyncio.ensure_future(work)
    while not task.done():
        for _ in range(50):  # what is on its way within this process arrives, however slow the machine
            await asyncio.sleep(0)
        await asyncio.wait([task], timeout=0.03)
        if not task.done():
            clock.move(step)
    return task.result()


async def outcome(bench: Bench, *answers: Any, step: float = 2.0) -> tuple[list[Any], AssistantMessage]:
    within = bench.model()
    model = RetryMiddleware(within, clock=bench.clock, random=Random(3), limits=LIMITS)
    await hear(within, ask(user("loading the SDK takes its own time")))
    bench.peer.requests.clear()
    bench.peer.answer(*answers)
    try:
        heard: tuple[list[Any], AssistantMessage] = await turned(bench.clock, hear(model, ask(user("a"))), step)
        return heard
    finally:
        await model.close()


@pytest.mark.parametrize(("status", "kind"), [(429, "rate_limit_error"), (500, "api_error"), (529, "overloaded_error")])
async def test_what_passes_is_asked_again_and_answered(bench: Bench, status: int, kind: str) -> None:
    deltas, answer = await outcome(bench, bench.refuse(status, kind))
    assert (answer.text, answer.failure, bench.asked) == ("Very well.", None, 2)
    assert shown(deltas) == "Very well."


@pytest.mark.parametrize(
    ("status", "kind", "message", "sorted_as"),
    [
        (400, "invalid_request_error", "messages.3: odd", "bad_request"),
        (400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum", "overflow"),
        (400, "invalid_request_error", "Your credit balance is too low to access the API", "billing"),
        (401, "authentication_error", "invalid key", "auth"),
        (404, "not_found_error", "no such model", "unknown_model"),
    ],
)
async def test_what_does_not_pass_is_told_at_once_and_asked_once(
    bench: Bench, status: int, kind: str, message: str, sorted_as: str
) -> None:
    _, answer = await outcome(bench, bench.refuse(status, kind, message))
    assert answer.failure is not None
    assert (answer.failure.kind, bench.asked) == (sorted_as, 1)
    assert answer.failure.hint


@pytest.mark.parametrize("how", ["cut", "garbage", "end", "stall"])
async def test_half_an_answer_is_taken_back_and_the_whole_step_repeated(bench: Bench, how: str) -> None:
    deltas, answer = await outcome(bench, bench.broken(how), step=6.0)
    assert (answer.text, answer.failure, bench.asked) == ("Very well.", None, 2)
    [at] = [n for n, delta in enumerate(deltas) if isinstance(delta, Restarted)]
    assert shown(deltas[:at])
    assert shown(deltas[at:]) == "Very well.", "nothing of the half is kept"


async def test_a_stream_that_breaks_off_each_time_is_told_as_such(bench: Bench) -> None:
    _, answer = await outcome(bench, *[bench.broken("cut")] * 3)
    assert answer.failure is not None
    assert (answer.failure.kind, bench.asked) == ("network", 3)
    assert "broke off in the middle" in answer.failure.message, "it can be reached, so the address is not to be doubted"


async def test_a_server_that_says_nothing_is_given_up_and_the_connection_freed(bench: Bench) -> None:
    silent = anthropic.Break("", "stall") if bench.api == "messages" else bench.broken("stall")
    if bench.api != "messages":
        silent = replace(silent, **({"deltas": ()} if bench.api == "completions" else {"events": ()}))
    _, answer = await outcome(bench, *[silent] * 3, step=10.0)
    assert answer.failure is not None
    assert (answer.failure.kind, bench.asked) == ("timeout", 3)


async def test_a_wait_that_was_asked_for_is_kept_once_at_one_level(bench: Bench) -> None:
    began = bench.clock.monotonic()
    wait = bench.refuse(429, "rate_limit_error", **{"retry-after": "15"})
    _, answer = await outcome(bench, wait, wait, wait, step=1.0)
    assert answer.failure is not None
    assert (answer.failure.kind, answer.failure.retry_after, bench.asked) == ("rate_limit", 15.0, 2), (
        "the SDK never tries by itself"
    )
    assert 15 <= bench.clock.monotonic() - began < 25


async def test_a_malformed_request_rests_nobody_and_moves_nobody(bench: Bench) -> None:
    health = KeyHealth(bench.clock)
    second = ScriptedModel(name="second/model")
    first = RetryMiddleware(bench.model(health), clock=bench.clock, random=Random(3), limits=LIMITS)
    line = FailoverMiddleware([first, second], clock=bench.clock)
    bench.peer.answer(bench.refuse(400, "invalid_request_error", "messages.3: odd"))
    _, answer = await hear(line, ask(user("a")))
    assert answer.failure is not None
    assert (answer.failure.kind, second.requests, health.ailing(KEY)) == ("bad_request", [], {})
    _, answer = await hear(line, ask(user("a")))
    assert (answer.text, answer.model) == ("Very well.", "p/m")
    await line.close()


async def test_a_call_that_is_being_written_shows_that_the_model_is_at_work(bench: Bench) -> None:
    if bench.api == "messages":
        calling = anthropic.Say(({"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a"}},), stop="tool_use")
    elif bench.api == "completions":
        function = {"name": "read", "arguments": '{"path": "a"}'}
        calls = [{"index": 0, "id": "t1", "type": "function", "function": function}]
        calling = compatible.Chunks(({"tool_calls": calls},), finish="tool_calls")
    else:
        item = {"id": "f1", "type": "function_call", "call_id": "t1", "name": "read", "arguments": '{"path": "a"}'}
        written = {"type": "response.function_call_arguments.delta", "delta": "{", "item_id": "f1", "output_index": 0}
        calling = compatible.Events((written,), output=({**item, "status": "completed"},), final={})
    bench.peer.answer(calling)
    model = bench.model()
    parts = [part async for part in model.stream(ask(user("a")))]
    await model.close()
    assert any(isinstance(part, Progress) for part in parts[:-1])
    assert [call.arguments for call in parts[-1].calls] == [{"path": "a"}]


@pytest.mark.parametrize(
    ("status", "kind", "message", "told"),
    [
        (
            500,
            "api_error",
            "the model requires more memory (5.6 GiB) than there is",
            "(the model requires more memory (5.6 GiB) than",
        ),
        (403, "permission_error", "this key may not use that model", "does not let this key use"),
        (400, "invalid_request_error", "messages.3: odd", "(messages.3: odd)"),
    ],
)
async def test_what_a_server_says_of_its_trouble_reaches_the_owner(
    bench: Bench, status: int, kind: str, message: str, told: str
) -> None:
    _, answer = await outcome(bench, *[bench.refuse(status, kind, message)] * 3)
    assert answer.failure is not None
    assert told in answer.failure.message


async def test_a_wait_that_is_too_long_is_told(bench: Bench) -> None:
    _, answer = await outcome(bench, bench.refuse(429, "rate_limit_error", **{"retry-after": "7200"}))
    assert answer.failure is not None
    assert bench.asked == 1
    assert answer.failure.message.endswith("It asks to wait 2 hours.")


async def test_a_stream_that_falls_silent_is_given_up_after_the_idle_limit_however_long_a_first_word_may_take(
    bench: Bench,
) -> None:
    began, patient = bench.clock.monotonic(), structs.replace(LIMITS, first_byte=1000.0, idle=10.0, total=5000.0, tries=1)
    within = bench.model()
    await hear(within, ask(user("loading the SDK takes its own time")))
    bench.peer.answer(bench.broken("stall"))
    model = RetryMiddleware(within, clock=bench.clock, random=Random(3), limits=patient)
    _, answer = await turned(bench.clock, hear(model, ask(user("a"))), 1.0)
    await model.close()
    assert answer.failure is not None
    assert (answer.failure.kind, "in the middle of its answer" in answer.failure.message) == ("timeout", True)
    assert bench.clock.monotonic() - began < 100


@parametrize_some(2, "seed", range(5))
async def test_on_a_bad_day_an_answer_is_whole_or_a_failure(bench: Bench, seed: int) -> None:
    bench.peer.mood = day = Mood(f"model {seed}", bad=0.5)
    model = RetryMiddleware(bench.model(), clock=bench.clock, random=Random(3), limits=LIMITS)
    whole = 0
    for number in range(6):
        said = f"The answer is {number}."
        for _ in range(LIMITS.tries):
            bench.peer.answer(fine(bench.api, said))
        deltas, answer = await turned(bench.clock, hear(model, ask(user("a"))))
        bench.peer.queued.clear()
        last = max((place for place, delta in enumerate(deltas) if isinstance(delta, Restarted)), default=-1)
        if answer.failure is None:
            assert (answer.text, shown(deltas[last + 1 :])) == (said, said)
            whole += 1
        else:
            assert answer.failure.kind in TRANSIENT
    day.over()
    _, answer = await turned(bench.clock, hear(model, ask(user("a"))))
    assert answer.failure is None, "a day that is over leaves nothing behind"
    assert whole
    await model.close()


def fine(api: str, words: str) -> Any:
    if api == "messages":
        return anthropic.text(words)
    return (
        compatible.words(*words.split(" ", 1)[:1], " " + words.split(" ", 1)[1])
        if api == "completions"
        else compatible.said(words)
    )
