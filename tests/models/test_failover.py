"""Failover from the first choice to the others."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.events import Restarted, TextDelta
from agent.messages import Failure, FailureKind
from agent.models.middleware.cooldown import cooldown_seconds
from agent.models.middleware.failover import FAILOVER_KINDS, FailoverMiddleware
from agent.models.scripted import ScriptedModel, Stall
from gateway.base.clock import ManualClock
from tests.models.conversation import NOON, ask, hear, shown, user

REQUEST = ask(user("a"))


def failure(kind: FailureKind = "overloaded", retry_after: float | None = None) -> Failure:
    return Failure(kind=kind, message=f"{kind} happened", retry_after=retry_after)


def model(name: str, *answers: object) -> ScriptedModel:
    return ScriptedModel(answers, name=name, window=len(name))  # type: ignore[arg-type]  # answers of a script


async def test_the_first_choice_answers_when_it_can() -> None:
    first, second = model("a/first", "Yes."), model("b/second")
    deltas, answer = await hear(FailoverMiddleware([first, second], clock=ManualClock(NOON)), REQUEST)
    assert (shown(deltas), answer.text, answer.model) == ("Yes.", "Yes.", "a/first")
    assert second.requests == []


@pytest.mark.parametrize("kind", sorted(FAILOVER_KINDS))
async def test_the_next_one_answers_when_the_first_cannot_and_says_who_it_is(kind: FailureKind) -> None:
    made = FailoverMiddleware([model("a/first", failure(kind)), model("b/second", "Yes.")], clock=ManualClock(NOON))
    _, answer = await hear(made, REQUEST)
    assert (answer.text, answer.model, answer.failure) == ("Yes.", "b/second", None)
    assert (made.name, made.window) == ("a/first", 7)


@pytest.mark.parametrize("kind", ["overflow", "bad_request", "refusal"])
async def test_what_another_model_would_only_repeat_is_handed_on(kind: FailureKind) -> None:
    second = model("b/second", "never")
    _, answer = await hear(FailoverMiddleware([model("a/first", failure(kind)), second], clock=ManualClock(NOON)), REQUEST)
    assert answer.failure == failure(kind)
    assert second.requests == []


async def test_what_was_shown_of_a_broken_answer_is_taken_back() -> None:
    broken = [TextDelta("half of "), failure("network")]
    deltas, answer = await hear(
        FailoverMiddleware([model("a", broken), model("b", "the whole")], clock=ManualClock(NOON)), REQUEST
    )
    at = deltas.index(Restarted("network happened"))
    assert (shown(deltas[:at]), shown(deltas[at:]), answer.text) == ("half of ", "the whole", "the whole")


async def test_when_none_answers_the_first_choices_failure_is_told() -> None:
    made = FailoverMiddleware([model("a", failure("rate_limit")), model("b", failure("auth"))], clock=ManualClock(NOON))
    _, answer = await hear(made, REQUEST)
    assert answer.failure == failure("rate_limit")


async def test_what_failed_rests_and_comes_back_by_itself() -> None:
    first, second, clock = model("a", failure(), "back again"), model("b", "one", "two"), ManualClock(NOON)
    made = FailoverMiddleware([first, second], clock=clock)
    assert [(await hear(made, REQUEST))[1].text for _ in range(2)] == ["one", "two"]
    assert len(first.requests) == 1, "the first choice is left in peace"
    clock.move(60)
    assert (await hear(made, REQUEST))[1].text == "back again"


async def test_a_wait_that_was_asked_for_is_kept() -> None:
    first, clock = model("a", failure("rate_limit", 600), "back"), ManualClock(NOON)
    made = FailoverMiddleware([first, model("b", "one", "two")], clock=clock)
    await hear(made, REQUEST)
    clock.move(599)
    assert (await hear(made, REQUEST))[1].text == "two"
    clock.move(1)
    assert (await hear(made, REQUEST))[1].text == "back"


async def test_when_all_rest_the_soonest_awake_is_asked() -> None:
    clock = ManualClock(NOON)
    first, second = model("a", failure("billing"), "a again"), model("b", failure("network"), "b again")
    made = FailoverMiddleware([first, second], clock=clock)
    await hear(made, REQUEST)
    assert (await hear(made, REQUEST))[1].text == "b again"


async def test_a_success_ends_the_growing_of_rests() -> None:
    clock = ManualClock(NOON)
    made = FailoverMiddleware([model("a", failure(), "ok", failure(), "ok"), model("b", "x", "x")], clock=clock)
    for expected in ("x", "ok", "x", "ok"):
        assert (await hear(made, REQUEST))[1].text == expected
        clock.move(60)


@given(st.sampled_from(sorted(FAILOVER_KINDS)), st.integers(1, 50))
def test_rests_grow_to_a_bound(kind: FailureKind, times: int) -> None:
    shorter, longer = cooldown_seconds(failure(kind), times), cooldown_seconds(failure(kind), times + 1)
    assert 60 <= shorter <= longer <= 24 * 3600


async def test_leaving_the_stream_leaves_the_model_within() -> None:
    made = FailoverMiddleware([model("a", [TextDelta("half"), Stall()])], clock=ManualClock(NOON))
    stream = made.stream(REQUEST)
    assert await anext(stream) == TextDelta("half")
    await stream.aclose()  # type: ignore[attr-defined]  # it is a generator
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_closing_closes_them_all() -> None:
    models = [model("a"), model("b")]
    await FailoverMiddleware(models, clock=ManualClock(NOON)).close()
    assert all(one.closed for one in models)
