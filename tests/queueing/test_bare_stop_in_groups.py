"""In a group that answers when it is mentioned, a stop is heard without the bot's name, and nothing else is."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from agent.models.scripted import Stall

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from gateway.app.gateway import Gateway
    from tests.peers.wire import Wire
    from tests.queueing.conftest import Town

    Make = Callable[..., Town]


class Working:
    """Hangs in the first answer; what comes after it is answered at once."""

    def __init__(self) -> None:
        self.began = asyncio.Event()

    def __call__(self, _request: object) -> Any:
        if self.began.is_set():
            return "done"
        self.began.set()
        return [Stall()]


@asynccontextmanager
async def at_work(town: Make, *, by: str = "anna") -> AsyncIterator[tuple[Town, Wire, Gateway]]:
    """A gateway that works on a task of ``by`` in a group."""
    t, working = town(), Working()
    t.answer = working
    wire = t.wire()
    async with t.house(wire) as house:
        await wire.say("sort the photos", group="g", mentioned=True, by=by)
        await working.began.wait()
        yield t, wire, house


@pytest.mark.parametrize("by", ["anna", "ben"])
@pytest.mark.parametrize("order", ["/stop", "/STOP", "stop", "Stop."])
async def test_who_may_stop_a_task_stops_it_without_the_name(town: Make, order: str, by: str) -> None:
    async with at_work(town, by=by) as (t, wire, house):
        await wire.say(order, group="g", by=by)
        await wire.until(lambda: wire.said("g"))
        await house.lanes.quiet()
    assert wire.said("g") == ["⏹️ Stopped."]
    assert len(t.model.requests) == 1


async def test_a_guest_does_not_stop_the_task_of_another_and_the_word_stays_a_word(town: Make) -> None:
    async with at_work(town) as (_, wire, house):
        await wire.say("stop", "/stop", group="g", by="ben")
        await wire.until(lambda: wire.said("g"))
        assert house.lanes.busy("agent:main:wire:group:g")
        await wire.say("/stop", group="g")
        await wire.until(lambda: len(wire.said("g")) == 2)
    refused, stopped = wire.said("g")
    assert refused.startswith("In this group only my owner can use /stop.")
    assert stopped == "⏹️ Stopped."


@pytest.mark.parametrize("text", ["stop", "wait", "/status", "/new", "/stop@other_bot", "/stop the music"])
async def test_where_nothing_works_only_the_order_itself_is_heard_without_the_name(town: Make, text: str) -> None:
    t = town()
    wire = t.wire()
    async with t.house(wire) as house:
        await wire.say(text, "/stop", group="g")
        await wire.until(lambda: wire.said("g"))
        await house.lanes.quiet()
        assert not await house.ledger.inbox.latest(["waiting"])
    assert wire.said("g") == ["Nothing is running."]
    assert not t.model.requests


async def test_the_stop_of_another_bot_is_not_an_order(town: Make) -> None:
    async with at_work(town) as (_, wire, house):
        await wire.say("/stop", "stop", group="g", from_bot=True)
        assert house.lanes.busy("agent:main:wire:group:g")
        await wire.say("/stop", group="g")
        await wire.until(lambda: wire.said("g"))
    assert wire.said("g") == ["⏹️ Stopped."]
