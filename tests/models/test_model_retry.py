"""Trying again, waiting and giving up, on a clock that is turned by hand."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.characters import is_blank
from agent.errors import ScriptExhausted
from agent.events import Progress, Restarted, TextDelta
from agent.messages import AssistantMessage, Failure, Text
from agent.models.middleware.model_retry import RetryLimits, RetryMiddleware
from agent.models.scripted import ScriptedModel, Stall
from gateway.base.clock import ManualClock
from tests.models.conversation import NOON, ask, assistant, call, hear, result, shown, user

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

    from agent.messages import FailureKind
    from agent.models.protocol import Request

QUICK = RetryLimits(first_byte=10, idle=5, total=60, tries=3, first_wait=1, longest_wait=8, longest_retry_after=20)
REQUEST = ask(user("a"))


def failure(kind: FailureKind = "overloaded", retry_after: float | None = None) -> Failure:
    return Failure(kind=kind, message=f"{kind} happened", retry_after=retry_after)


def patient(model: ScriptedModel, clock: ManualClock, limits: RetryLimits = QUICK) -> RetryMiddleware:
    return RetryMiddleware(model, clock=clock, random=Random(7), limits=limits)


async def turning(clock: ManualClock, work: Coroutine[Any, Any, Any], step: float = 0.5) -> tuple[Any, float]:
    """Do the work while the clock is turned whenever nothing else can happen; return what came of it and how long it took."""
    started = clock.monotonic()
    task = asyncio.ensure_future(work)
    while not task.done():
        for _ in range(30):
            await asyncio.sleep(0)
        if not task.done():
            clock.move(step)
    return task.result(), clock.monotonic() - started


async def test_what_works_is_passed_through() -> None:
    deltas, answer = await hear(patient(ScriptedModel(["Good day to you"]), ManualClock(NOON)), REQUEST)
    assert shown(deltas) == answer.text == "Good day to you"


@pytest.mark.parametrize("kind", ["rate_limit", "overloaded", "timeout", "network"])
async def test_a_passing_failure_is_tried_again(kind: FailureKind) -> None:
    model, clock = ScriptedModel([failure(kind), failure(kind), "at last"]), ManualClock(NOON)
    (deltas, answer), _ = await turning(clock, hear(patient(model, clock), REQUEST))
    assert (shown(deltas), answer.text, len(model.requests)) == ("at last", "at last", 3)
    assert not any(isinstance(delta, Restarted) for delta in deltas), "nothing was shown, so nothing is taken back"


@pytest.mark.parametrize("kind", ["auth", "billing", "overflow", "bad_request", "unknown_model", "refusal"])
async def test_a_lasting_failure_is_handed_on_at_once(kind: FailureKind) -> None:
    model, clock = ScriptedModel([failure(kind), "never"]), ManualClock(NOON)
    _, answer = await hear(patient(model, clock), REQUEST)
    assert answer.failure == failure(kind)
    assert len(model.requests) == 1


async def test_in_the_end_the_last_failure_is_handed_on() -> None:
    model, clock = ScriptedModel([failure("network")] * 3), ManualClock(NOON)
    (_, answer), _ = await turning(clock, hear(patient(model, clock), REQUEST))
    assert answer.failure == failure("network")
    assert model.left == 0


async def test_a_stream_that_breaks_is_taken_back_and_begun_anew() -> None:
    model = ScriptedModel([[TextDelta("The key is under "), failure("network")], "The key is under the pot"])
    clock = ManualClock(NOON)
    (deltas, answer), _ = await turning(clock, hear(patient(model, clock), REQUEST))
    taken_back = deltas.index(Restarted("network happened"))
    assert shown(deltas[:taken_back]) == "The key is under "
    assert shown(deltas[taken_back:]) == answer.text == "The key is under the pot"


@pytest.mark.parametrize("nothing", ["", " \n", "\u200b\u2060", "\ufeff\u3164 \u00ad", "\0\x07"])
async def test_an_empty_answer_to_a_person_is_asked_for_again_and_told_in_the_end(nothing: str) -> None:
    empty = AssistantMessage(content=(Text(text=nothing),) if nothing else (), model="scripted/model", stop="end")
    model, clock = ScriptedModel([empty, "Here."]), ManualClock(NOON)
    (_, answer), _ = await turning(clock, hear(patient(model, clock), REQUEST), step=10)
    assert (answer.text, len(model.requests)) == ("Here.", 2)
    model.then(empty, empty, empty)
    (_, answer), _ = await turning(clock, hear(patient(model, clock), REQUEST), step=10)
    assert answer.failure is not None
    assert "empty answer" in answer.failure.message
    behind_a_tool = ask(user("a"), assistant("Noting it.", call()), result("done"))
    cut = AssistantMessage(content=(Text(text="Half of"),), model="m", stop="cut")
    behind_a_cut = ask(user("a"), cut, user("[it broke off]"))
    for request in (behind_a_tool, behind_a_cut, replace(REQUEST, background=True)):
        model.then(empty)
        (_, answer), _ = await turning(clock, hear(patient(model, clock), request), step=10)
        assert (answer.failure, answer.text) == (None, nothing), "there it may mean that nothing is left to say"


@given(
    st.lists(st.lists(st.text(min_size=1, max_size=5), max_size=4), max_size=2),
    st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=4).filter(lambda pieces: not is_blank("".join(pieces))),
)
async def test_what_is_shown_after_the_last_restart_is_the_answer(broken: list[list[str]], whole: list[str]) -> None:
    scripts = [[*map(TextDelta, pieces), failure("network")] for pieces in broken]
    model, clock = ScriptedModel([*scripts, [*map(TextDelta, whole)]]), ManualClock(NOON)
    (deltas, answer), _ = await turning(clock, hear(patient(model, clock), REQUEST), step=10)
    shown_now: list[str] = []
    for delta in deltas:
        shown_now = [] if isinstance(delta, Restarted) else [*shown_now, delta.text]
    assert "".join(shown_now) == answer.text == "".join(whole)


async def test_waiting_doubles_and_is_scattered() -> None:
    limits = RetryLimits(tries=5, first_wait=1, longest_wait=4, total=1000)
    model, clock = ScriptedModel([failure()] * 5), ManualClock(NOON)
    _, seconds = await turning(clock, hear(patient(model, clock, limits), REQUEST), step=0.01)
    assert 0.5 + 1 + 2 + 2 <= seconds <= 1 + 2 + 4 + 4 + 0.1


async def test_retry_after_is_obeyed() -> None:
    model, clock = ScriptedModel([failure("rate_limit", 12), "now"]), ManualClock(NOON)
    (_, answer), seconds = await turning(clock, hear(patient(model, clock), REQUEST))
    assert answer.text == "now"
    assert 12 <= seconds <= 12.5


async def test_retry_after_is_obeyed_only_once() -> None:
    model, clock = ScriptedModel([failure("rate_limit", 3), failure("rate_limit", 3), "never"]), ManualClock(NOON)
    (_, answer), _ = await turning(clock, hear(patient(model, clock), REQUEST))
    assert answer.failure == failure("rate_limit", 3)
    assert model.left == 1


async def test_too_long_a_wait_is_for_the_owner_to_decide() -> None:
    model, clock = ScriptedModel([failure("rate_limit", 3600), "never"]), ManualClock(NOON)
    _, answer = await hear(patient(model, clock), REQUEST)
    assert answer.failure == failure("rate_limit", 3600)


async def test_silence_before_the_first_word_ends_a_try() -> None:
    model, clock = ScriptedModel([[Stall()], "awake now"]), ManualClock(NOON)
    (_, answer), seconds = await turning(clock, hear(patient(model, clock), REQUEST))
    assert answer.text == "awake now"
    assert 10 < seconds < 13


class Writing(ScriptedModel):
    """Writes a tool's arguments for ``seconds`` on a clock: something comes every four seconds, and nothing of it is shown."""

    def __init__(self, clock: ManualClock, seconds: float) -> None:
        super().__init__(["Written."])
        self._clock = clock
        self._seconds = seconds

    async def stream(self, request: Request) -> AsyncIterator[Any]:
        for _ in range(int(self._seconds / 4)):
            await self._clock.sleep(4)
            yield Progress()
        async for part in super().stream(request):
            yield part


async def test_a_long_call_that_is_being_written_is_no_silence() -> None:
    clock = ManualClock(NOON)
    model = Writing(clock, 50)

    async def parts() -> list[Any]:
        return [part async for part in patient(model, clock).stream(REQUEST)]

    (*deltas, answer), seconds = await turning(clock, parts(), step=1)
    assert (answer.text, len(model.requests)) == ("Written.", 1)
    assert seconds >= 50 - 4
    assert all(isinstance(delta, TextDelta) for delta in deltas), "whoever waits is not bothered with what is not shown"


async def test_a_model_that_is_asked_to_think_may_be_silent_for_longer() -> None:
    for level, limit in (("off", 10), ("low", 10 + 2048 / 40)):
        model, clock = ScriptedModel([[Stall(), "never"]]), ManualClock(NOON)
        once = patient(model, clock, replace(QUICK, tries=1, total=600))
        (_, answer), seconds = await turning(clock, hear(once, replace(REQUEST, thinking=level)))
        assert answer.failure is not None
        assert answer.failure.kind == "timeout"
        assert limit <= seconds < limit + 3


async def test_silence_in_the_middle_ends_a_try() -> None:
    model, clock = ScriptedModel([[TextDelta("half"), Stall()], "whole"]), ManualClock(NOON)
    (deltas, answer), seconds = await turning(clock, hear(patient(model, clock), REQUEST))
    assert answer.text == "whole"
    assert any(isinstance(delta, Restarted) and "in the middle of its answer" in delta.reason for delta in deltas)
    assert 5 < seconds < 8


async def test_all_tries_together_have_a_limit() -> None:
    model, clock = ScriptedModel([[Stall()]] * 9), ManualClock(NOON)
    limits = RetryLimits(first_byte=40, total=60, tries=9)
    (_, answer), seconds = await turning(clock, hear(patient(model, clock, limits), REQUEST))
    assert answer.failure is not None
    assert answer.failure.kind == "timeout"
    assert "60 seconds" in answer.failure.message
    assert seconds <= 61


async def test_a_slow_reader_is_no_silence_of_the_model() -> None:
    model, clock = ScriptedModel(["one two three"]), ManualClock(NOON)
    parts = []
    async for part in patient(model, clock).stream(REQUEST):
        clock.move(4)
        parts.append(part)
    assert shown(parts[:-1]) == "one two three"  # type: ignore[arg-type]  # the last one is the answer


async def test_cancelling_stops_the_model_within() -> None:
    stall = asyncio.Event()
    model, clock = ScriptedModel([[TextDelta("half"), Stall(stall), TextDelta("never")]]), ManualClock(NOON)
    task = asyncio.ensure_future(hear(patient(model, clock), REQUEST))
    for _ in range(10):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    others = asyncio.all_tasks() - {asyncio.current_task()}
    assert not others, "nothing is left running"


async def test_leaving_the_stream_leaves_nothing_running() -> None:
    model, clock = ScriptedModel([[TextDelta("half"), Stall()]]), ManualClock(NOON)
    stream = patient(model, clock).stream(REQUEST)
    assert await anext(stream) == TextDelta("half")
    await stream.aclose()  # type: ignore[attr-defined]  # it is a generator
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_defect_within_is_raised() -> None:
    with pytest.raises(ScriptExhausted):
        await hear(patient(ScriptedModel([]), ManualClock(NOON)), REQUEST)


async def test_it_looks_like_the_model_within() -> None:
    model = ScriptedModel(name="a/b", window=5, max_output=4)
    made = patient(model, ManualClock(NOON))
    assert (made.name, made.window, made.max_output) == ("a/b", 5, 4)
    model.window = 7
    assert made.window == 7
    await made.close()
    assert model.closed
