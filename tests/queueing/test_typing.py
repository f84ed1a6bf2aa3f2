"""From when on people see that an answer is being written."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from agent.events import TextDelta, ThinkingDelta, ToolStarted
from agent.messages import ToolCall
from agent.settings import AgentSettings
from gateway.base.clock import ManualClock
from gateway.outbound.progress import ProgressDisplay, TypingIndicator, typing_mode
from tests.peers.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.queueing.conftest import Town

THINKS, ACTS, WRITES = ThinkingDelta("hm"), ToolStarted(ToolCall(id="c", name="list", arguments={})), TextDelta("So")


@pytest.mark.parametrize(
    ("mode", "shown"),
    [
        ("never", [0, 0, 0, 0]),
        ("instant", [1, 1, 1, 1]),
        ("thinking", [0, 1, 1, 1]),
        ("message", [0, 0, 0, 1]),
    ],
)
async def test_the_sign_is_shown_from_when_the_mode_says(mode: Any, shown: list[int]) -> None:
    wire = Wire()
    place = wire.message("x").conversation
    sign = TypingIndicator(lambda: wire, place, ManualClock(datetime(2026, 3, 1, tzinfo=UTC)), mode, 4.0)
    display = ProgressDisplay(lambda: wire, place, "t", sign, verbose=False)
    showing = asyncio.ensure_future(sign.show())
    seen = []
    for event in (None, THINKS, ACTS, WRITES):
        if event is not None:
            display.emit(event)
        for _ in range(3):
            await asyncio.sleep(0)
        seen.append(len(wire.typed))
    showing.cancel()
    await asyncio.gather(showing, return_exceptions=True)
    assert seen == shown


async def test_it_is_renewed_as_long_as_the_turn_runs() -> None:
    wire, clock = Wire(), ManualClock(datetime(2026, 3, 1, tzinfo=UTC))
    sign = TypingIndicator(lambda: wire, wire.message("x").conversation, clock, "instant", 4.0)
    showing = asyncio.ensure_future(sign.show())
    for _ in range(3):
        await asyncio.sleep(0)
        clock.move(4.0)
    await asyncio.sleep(0)
    showing.cancel()
    await asyncio.gather(showing, return_exceptions=True)
    assert len(wire.typed) == 4


async def test_without_a_setting_it_depends_on_whether_somebody_waits() -> None:
    wire, settings = Wire(), AgentSettings()
    assert typing_mode(settings, wire.message("x")) == "instant"
    assert typing_mode(settings, wire.message("x", group="g", mentioned=True)) == "instant"
    assert typing_mode(settings, wire.message("x", group="g")) == "message"
    assert typing_mode(AgentSettings.model_validate({"typingMode": "never"}), wire.message("x")) == "never"


async def test_silence_in_a_group_is_not_announced(town: Callable[..., Town]) -> None:
    t = town()
    t.answer = lambda _: "NO_REPLY"
    wire = t.wire()
    from channels.platform import GroupRule, Policy

    policy = Policy(rules={"*": {"*": GroupRule(users=("*",), require_mention=False)}})
    async with t.house(wire, policy=policy) as house:
        await wire.say("just between us", group="g")
        await t.steps()
        await house.lanes.quiet()
    assert len(t.model.requests) == 1
    assert (wire.typed, wire.sent) == ([], [])
