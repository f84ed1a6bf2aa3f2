"""Two agents on two platforms, with private chats and groups: what is said in one place never shows up in another."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.messages import ToolCall, ToolMessage
from gateway.routing.access import GroupRule, Policy
from tests.queueing.conftest import newest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from agent.models.protocol import Request
    from gateway.house import House
    from tests.peers.wire import Wire
    from tests.queueing.conftest import Town

    Make = Callable[..., Town]


@dataclass(frozen=True)
class Place:
    """Somewhere a secret is told. ``folder`` is the only part of the workspace that may hold it."""

    wire: str
    agent: str
    by: str
    secret: str
    folder: str
    group: str | None = None

    def open_to(self, other: Place) -> bool:
        """The owner hears the whole memory of an agent in private; everybody else hears their own."""
        return other == self or (other.agent == self.agent and other.by == "anna" and other.group is None)


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
SECRETS = tuple(place.secret for place in PLACES)
POLICY = Policy(allow_from=("anna", "ben", "carl"), rules={"*": {"*": GroupRule(users=("*",))}})


class Nosy:
    """A model that writes down what it is told, and on being asked looks everywhere it can think of."""

    def __init__(self) -> None:
        self.folder = ""

    def __call__(self, request: Request) -> Any:
        last = request.messages[-1]
        if isinstance(last, ToolMessage):
            return "NO_REPLY" if "flush" in last.call_id else f"done: {last.text[:200]}"
        text = newest(request)[-1]
        if "[Memory flush]" in last.text:
            return ToolCall(id="flush", name="write", arguments={"path": "x.md", "content": "- We spoke.", "mode": "append"})
        if "[Summary request]" in last.text:
            return "## Summary\n" + " ".join(word for message in request.messages for word in message.text.split())[-4000:]
        if text.startswith("remember"):
            return ToolCall(
                id="note",
                name="write",
                arguments={"path": f"{self.folder}/2026-03-01.md", "content": f"- {text}", "mode": "append"},
            )
        return list(self.searches(text))

    def searches(self, text: str) -> Any:
        queries = [("memory_search", {"query": text})]
        queries += [("grep", {"pattern": "remember|secret", "path": "."}), ("list", {"path": "memory", "depth": 8})]
        queries += [("memory_get", {"path": f"{place.folder}/2026-03-01.md"}) for place in PLACES]
        for number, (name, arguments) in enumerate(queries):
            yield ToolCall(id=f"c{number}", name=name, arguments=arguments)


async def say(house: House, wires: dict[str, Wire], place: Place, text: str) -> None:
    await wires[place.wire].say(text, by=place.by, group=place.group, mentioned=True)
    await house.lanes.quiet()
    for agent in house.agents.values():  # what is done in the background belongs to this step too
        await agent.quiet()


def texts(requests: list[Request]) -> str:
    return "\n".join(
        [segment.text for request in requests for segment in request.system]
        + [message.text for request in requests for message in request.messages]
    )


async def test_no_place_ever_sees_what_was_said_in_another(town: Make, tmp_path: Path) -> None:
    folders = [{"id": agent, "workspace": str(tmp_path / agent)} for agent in ("main", "work")]
    t = town(agents={"list": folders}, bindings=[{"agentId": "work", "match": {"channel": "office"}}])
    t.answer = Nosy()
    for steps in (["tell", "ask", "/compact", "/new", "ask"], ["ask"]):
        wires = {name: t.wire(name) for name in ("home", "office")}
        async with t.house(*wires.values(), policy=POLICY) as house:
            seen = await lived(t, house, wires, steps)
        for place in PLACES:
            judge_what_was_shown(place, texts(seen[place]), wires[place.wire].said(place.group or place.by))
    judge_files(tmp_path)
    judge_transcripts(tmp_path / "home" / "agents")


async def lived(t: Town, house: House, wires: dict[str, Wire], steps: list[str]) -> dict[Place, list[Request]]:
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


def judge_what_was_shown(place: Place, shown: str, said: list[str]) -> None:
    for other in PLACES:
        if not other.open_to(place):
            assert other.secret not in shown, f"{other} was shown in {place}"
            assert other.secret not in "".join(said)
    assert place.secret in shown, "and whoever told it finds it again"


def judge_files(root: Path) -> None:
    """What belongs to a group or a person holds nobody else's; what the owner has may hold what its agent knows."""
    notes = [path for agent in ("main", "work") for path in (root / agent).rglob("*.md")]
    for place in PLACES:
        holding = [path for path in notes if place.secret in path.read_text()]
        assert holding, f"{place} was never written down"
        for path in holding:
            within = path.relative_to(root / place.agent).as_posix()
            others = within.startswith(("memory/groups/", "memory/peers/")) and not within.startswith(f"{place.folder}/")
            assert not others, f"{place} in {within}"


def judge_transcripts(agents: Path) -> None:
    for path in agents.rglob("*.jsonl"):
        text = path.read_text()
        key = re.search(r'"key":"([^"]+)"', text)
        if key is not None and not key[1].endswith(":main"):
            assert sum(secret in text for secret in SECRETS) == 1, key[1]
