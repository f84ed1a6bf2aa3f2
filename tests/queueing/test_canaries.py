"""Two agents on two platforms, with private chats and groups: what is said in one place never shows up in another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.platform import GroupRule, Policy
from tests.queueing.canaries import Nosy, Place, judge_files, judge_transcripts, judge_what_was_shown, texts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from agent.models.protocol import Request
    from gateway.app.gateway import Gateway
    from tests.peers.wire import Wire
    from tests.queueing.conftest import Town

    Make = Callable[..., Town]


PLACES = (
    Place("home", "main", "anna", "swordfish", "memory"),
    Place("home", "main", "ben", "marlin", "memory/peers/home-ben"),
    Place("home", "main", "carl", "grouper", "memory/peers/home-carl"),
    Place("home", "main", "ben", "halibut", "memory/groups/home-kin", "kin"),
    Place("home", "main", "zoe", "sturgeon", "memory/groups/home-club", "club"),
    Place("office", "work", "anna", "turbot", "memory"),
    Place("office", "work", "ben", "mullet", "memory/peers/office-ben"),
    Place("office", "work", "zoe", "lamprey", "memory/groups/office-kin", "kin"),
)
POLICY = Policy(allow_from=("anna", "ben", "carl"), rules={"*": {"*": GroupRule(users=("*",))}})


async def say(house: Gateway, wires: dict[str, Wire], place: Place, text: str) -> None:
    await wires[place.wire].say(text, by=place.by, group=place.group, mentioned=True)
    await house.lanes.quiet()
    for agent in house.agents.values():  # what is done in the background belongs to this step too
        await agent.quiet()


async def test_no_place_ever_sees_what_was_said_in_another(town: Make, tmp_path: Path) -> None:
    folders = [{"id": agent, "workspace": str(tmp_path / agent)} for agent in ("main", "work")]
    t = town(agents={"list": folders}, bindings=[{"agentId": "work", "match": {"channel": "office"}}])
    t.answer = Nosy(PLACES)
    for steps in (["tell", "ask", "/compact", "/new", "ask"], ["ask"]):
        wires = {name: t.wire(name) for name in ("home", "office")}
        async with t.house(*wires.values(), policy=POLICY) as house:
            seen = await lived(t, house, wires, steps)
        for place in PLACES:
            judge_what_was_shown(PLACES, place, texts(seen[place]), wires[place.wire].said(place.group or place.by))
    judge_files(PLACES, tmp_path)
    judge_transcripts(PLACES, tmp_path / "home" / "agents")


async def lived(t: Town, house: Gateway, wires: dict[str, Wire], steps: list[str]) -> dict[Place, list[Request]]:
    """Take the steps in every place, one after the other, and return what the model was shown in each."""
    seen: dict[Place, list[Request]] = {place: [] for place in PLACES}
    for step in steps:
        for place in PLACES:
            before = len(t.model.requests)
            t.answer.folder = place.folder
            words = {"tell": f"remember the secret password {place.secret}", "ask": "what is the secret password?"}
            await say(house, wires, place, words.get(step, step))
            seen[place] += t.model.requests[before:]
        for agent in house.agents.values():
            if agent.memory is not None:
                await agent.memory.sync()
    return seen
