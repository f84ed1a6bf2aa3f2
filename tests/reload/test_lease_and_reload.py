"""Settings and leases of a cluster bring, change and remove agents and accounts at the same time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from agent.events import TextDelta
from agent.models.scripted import Stall
from gateway.base.clock import SystemClock
from tests.reload.place import Place, ask, until

if TYPE_CHECKING:
    from gateway.app.gateway import Gateway

MAIN = {"id": "main"}
WORK = {"id": "work", "model": "scripted/two", "workspace": "WORK"}


def agents(place: Place, *entries: dict[str, Any]) -> None:
    listed = [one | {"workspace": str(place.root / one["workspace"])} if "workspace" in one else one for one in entries]
    place.write({"agents": {"list": listed}})


@pytest.mark.parametrize("lease_first", [False, True])
async def test_an_agent_that_is_removed_and_whose_lease_is_given_up_leaves_once(
    place: Place, caplog: pytest.LogCaptureFixture, *, lease_first: bool
) -> None:
    agents(place, MAIN, WORK)
    async with place.open() as house:
        supervisor = house.agent_supervisor
        assert await ask(house, "hello", agent="work") == "scripted/two"
        agents(place, MAIN)
        await house.reload.now()
        for _ in range(0 if lease_first else 3):
            await asyncio.sleep(0)
        await supervisor.give_up("work")
        assert set(house.agents) == {"main"}, "whoever removed it: it is gone when the lease may be released"
        await supervisor.settled()
        await supervisor.give_up("work")
        assert await ask(house, "still there?") == "scripted/one"
    assert "did not change as the settings want" not in caplog.text


async def test_what_waits_for_an_agent_that_is_removed_is_answered_before_its_lease_is_given_up(place: Place) -> None:
    gate = asyncio.Event()
    place.models["scripted/two"].reply_with(lambda _: [Stall(gate), TextDelta("in the end")])
    place.base["messages"] = {"queue": {"mode": "followup"}}
    agents(place, MAIN, WORK)
    async with place.open() as house:
        running = asyncio.ensure_future(ask(house, "first", agent="work"))
        await until(lambda: bool(place.models["scripted/two"].requests))
        waiting = asyncio.ensure_future(ask(house, "second", agent="work"))
        await until(lambda: house.lanes.queued("agent:work:main") == 1)
        agents(place, MAIN)
        await house.reload.now()
        leaving = asyncio.ensure_future(house.agent_supervisor.give_up("work"))
        await asyncio.sleep(0)
        gate.set()
        assert await running == "in the end"
        assert "in the end" in await waiting
        await leaving
        assert set(house.agents) == {"main"}


async def test_an_agent_that_is_rebuilt_while_it_is_given_up_does_not_come_back_without_its_lease(place: Place) -> None:
    agents(place, MAIN, WORK)
    async with place.open() as house:
        supervisor = house.agent_supervisor
        assert await ask(house, "hello", agent="work") == "scripted/two"
        agents(place, MAIN, WORK | {"workspace": "NEW"})
        await house.reload.now()
        await supervisor.give_up("work")
        await supervisor.settled()
        assert set(house.agents) == {"main"}
        await house.reload.now()
        assert set(house.agents) == {"main"}
        await supervisor.take("work")
        assert house.agents["work"].workspace.root == place.root / "NEW"
        assert await ask(house, "hello again", agent="work") == "scripted/two"


async def test_an_agent_that_is_taken_while_new_settings_bring_it_is_built_once(place: Place) -> None:
    agents(place, MAIN)
    async with place.open() as house:
        supervisor = house.agent_supervisor
        supervisor.ours = lambda agent: agent == "main"
        agents(place, MAIN, WORK)
        await house.reload.now()
        assert set(house.agents) == {"main"}
        supervisor.ours = lambda _: True
        settings = house.settings.current

        async def bring() -> None:
            supervisor.adopt(settings, await supervisor.prepare(settings), ())

        both = [asyncio.ensure_future(bring()), asyncio.ensure_future(supervisor.take("work"))]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        first = house.agents["work"]
        await asyncio.gather(*both)
        assert house.agents["work"] is first
        assert await ask(house, "hello", agent="work") == "scripted/two"


async def test_a_channel_that_two_let_go_of_at_once_has_ended_when_either_returns(place: Place, pigeons: Any) -> None:
    async with place.open(serving=True, clock=SystemClock()) as house:
        await connect(place, house, "north")
        await until(lambda: pigeons.running == ["north"])
        both = [asyncio.ensure_future(house.channel_supervisor.let_go("pigeon:default")) for _ in range(2)]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        assert pigeons.running == []
        await asyncio.gather(*both)
        assert "pigeon:default" not in house.channel_supervisor
        await house.channel_supervisor.let_go("pigeon:default")


async def test_an_account_whose_lease_goes_while_it_is_reconnected_stays_away(place: Place, pigeons: Any) -> None:
    async with place.open(serving=True, clock=SystemClock()) as house:
        await connect(place, house, "north")
        await until(lambda: pigeons.running == ["north"])
        asked = iter([True])
        house.reload.runs = lambda _: next(asked, False)
        await connect(place, house, "south")
        assert "pigeon:default" not in house.channel_supervisor
        assert pigeons.running == []


async def connect(place: Place, house: Gateway, loft: str) -> None:
    place.write({"channels": {"plugins": {"pigeon": {"settings": {"loft": loft}}}}})
    assert (await house.reload.now())["complaint"] is None
