"""Secrets that are told somewhere, a model that looks for them everywhere, and judges of where they came to light."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.messages import ToolCall, ToolMessage
from tests.queueing.conftest import newest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from agent.models.protocol import Request


@dataclass(frozen=True)
class Place:
    """Somewhere a secret is told. ``folder`` is the only part of the workspace that may hold it.

    ``group`` is a group, ``thread`` one of its threads or topics: a session of its own, with the group's memory.
    """

    wire: str
    agent: str
    by: str
    secret: str
    folder: str
    group: str | None = None
    thread: str | None = None

    def open_to(self, other: Place) -> bool:
        """The owner hears the whole memory of an agent in private; everybody else hears their own."""
        if other.agent != self.agent:
            return False
        return other.folder == self.folder or (other.by == "anna" and other.group is None)


class Nosy:
    """A model that writes down what it is told, and on being asked looks everywhere it can think of."""

    def __init__(self, places: Sequence[Place]) -> None:
        self.places = places
        self.folder = ""

    def __call__(self, request: Request) -> Any:
        last = request.messages[-1]
        if isinstance(last, ToolMessage):
            return "NO_REPLY" if "flush" in last.call_id else f"done: {last.text[:200]}"
        text = newest(request)[-1]
        if "[Memory flush]" in last.text:
            return ToolCall(id="flush", name="write", arguments={"path": "x.md", "content": "- We spoke.", "mode": "append"})
        if "[Summary request]" in last.text:
            return "## Done\n" + " ".join(word for message in request.messages for word in message.text.split())[-4000:]
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
        queries += [("memory_get", {"path": f"{place.folder}/2026-03-01.md"}) for place in self.places]
        for number, (name, arguments) in enumerate(queries):
            yield ToolCall(id=f"c{number}", name=name, arguments=arguments)


def texts(requests: list[Request]) -> str:
    return "\n".join(
        [segment.text for request in requests for segment in request.system]
        + [message.text for request in requests for message in request.messages]
    )


def judge_what_was_shown(places: Sequence[Place], place: Place, shown: str, said: list[str]) -> None:
    for other in places:
        if not other.open_to(place):
            assert other.secret not in shown, f"{other} was shown in {place}"
            assert other.secret not in "".join(said)
    assert place.secret in shown, "and whoever told it finds it again"


def judge_files(places: Sequence[Place], root: Path) -> None:
    """What belongs to a group or a person holds nobody else's; what the owner has may hold what its agent knows."""
    notes = [path for agent in ("main", "work") for path in (root / agent).rglob("*.md")]
    for place in places:
        holding = [path for path in notes if place.secret in path.read_text()]
        assert holding, f"{place} was never written down"
        for path in holding:
            within = path.relative_to(root / place.agent).as_posix()
            others = within.startswith(("memory/groups/", "memory/peers/")) and not within.startswith(f"{place.folder}/")
            assert not others, f"{place} in {within}"


def judge_transcripts(places: Sequence[Place], agents: Path) -> None:
    for path in agents.rglob("*.jsonl"):
        text = path.read_text()
        key = re.search(r'"key":"([^"]+)"', text)
        if key is not None and not key[1].endswith(":main"):
            assert len({(place.agent, place.folder) for place in places if place.secret in text}) == 1, key[1]
