"""What an agent says unasked goes to the chat in which the owner talks to that agent, and is not shown to other agents."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from channels.messages import ChatAddress
from gateway.ledger.job_rows import NewJob
from gateway.schedules.schedule import At, to_text
from tests.heartbeat.test_heartbeat import Beating

if TYPE_CHECKING:
    from pathlib import Path

    from gateway.app.gateway import Gateway
    from tests.peers.wire import Wire

BOUND = [{"agentId": "work", "match": {"channel": "office"}}]


@pytest.fixture
def town(tmp_path: Path) -> Beating:
    """Two agents: `work` answers on the platform `office`, `main` everywhere else."""
    agents: list[dict[str, Any]] = [
        {"id": "main", "workspace": str(tmp_path / "main")},
        {"id": "work", "workspace": str(tmp_path / "work"), "heartbeat": {"every": "30m"}},
    ]
    made = Beating(tmp_path, {"heartbeat": {"every": "0m"}}, bindings=BOUND)
    raw = made.settings.model_dump(by_alias=True)
    raw["agents"]["list"] = agents
    made.settings = type(made.settings).model_validate(raw)
    return made


async def say(wire: Wire, text: str) -> None:
    before = len(wire.sent)
    await wire.say(text)
    await wire.until(lambda: len(wire.sent) > before)


async def run(house: Gateway, town: Beating, **more: Any) -> None:
    when = to_text(At(town.clock.now() + timedelta(hours=9)))
    added = await house.automation.jobs.add(NewJob(agent="work", name="post", schedule=when, text="look", **more))
    await house.automation.jobs.run_now(added.id)


def last_request(town: Beating) -> str:
    return "\n".join(message.text for message in town.model.requests[-1].messages)


async def test_it_goes_where_the_owner_writes_to_that_agent(town: Beating) -> None:
    home, office = town.wire("home"), town.wire("office")
    async with town.house(home, office) as house:
        await say(office, "hello work")
        await say(home, "hello main")
        await run(house, town, kind="message")
        await office.until(lambda: "⏰ look" in office.said())
        await run(house, town, kind="prompt", session="isolated")
        await office.until(lambda: "re: look" in office.said()[-1])
        await say(home, "and now?")
        assert "look" not in last_request(town)
        await say(office, "what was that?")
        assert "said here, outside of this conversation" in last_request(town)
    assert home.said() == ["re: hello main", "re: and now?"]


async def test_a_heartbeat_does_too(town: Beating) -> None:
    home, office = town.wire("home"), town.wire("office")
    town.verdict = "The boiler is out."
    async with town.house(home, office) as house:
        (town.root / "work" / "HEARTBEAT.md").write_text("- look after the boiler\n")
        await say(office, "hello work")
        await say(home, "hello main")
        town.clock.move(1801)
        await house.schedule.tick()
        await office.until(lambda: "The boiler is out." in office.said())
    assert home.said() == ["re: hello main"]


async def test_an_agent_to_which_the_owner_never_wrote_says_its_name_and_no_other_model_is_told(town: Beating) -> None:
    home, office = town.wire("home"), town.wire("office")
    async with town.house(home, office) as house:
        await say(home, "hello main")
        await run(house, town, kind="message")
        await home.until(lambda: "⏰ work: look" in home.said())
        await run(house, town, kind="prompt", session="isolated")
        await home.until(lambda: home.said()[-1].startswith("**work:** "))
        await say(home, "what was that?")
        assert "look" not in last_request(town)
    assert office.said() == []


async def test_a_notice_of_the_gateway_goes_to_the_latest_chat_of_all(town: Beating) -> None:
    home, office = town.wire("home"), town.wire("office")
    async with town.house(home, office) as house:
        await say(office, "hello work")
        await say(home, "hello main")
        await house.owner.tell("the disk is full")
        await home.until(lambda: "the disk is full" in home.said())
        there = await house.owner.place_of("work")
        assert there == ChatAddress(channel="office", kind="direct", id="anna")
