"""The tools ``spawn``, ``sessions`` and ``message``: what they take, what they refuse, and what they cost in each request."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from agent.errors import RequestRefused
from agent.models.token_estimate import Calibration, weight_of_tools
from agent.tools.message import KnownChat, MessageTool
from agent.tools.protocol import Outcome, ToolContext
from agent.tools.session_tools import SessionsTool
from agent.tools.spawn import Spawn

if TYPE_CHECKING:
    from agent.tools.protocol import Tool
    from agent.tools.spawn import SpawnArguments

HERE = ToolContext(now=datetime(2026, 3, 1, 9, tzinfo=UTC), session="s", turn="t", key="agent:main:main", call="2/c1")


@dataclass
class Recording:
    """Everything behind the three tools; keeps what it was asked."""

    asked: list[tuple[Any, ...]] = field(default_factory=list)
    refuses: str = ""

    def _do(self, *what: Any) -> Outcome:
        if self.refuses:
            raise RequestRefused(self.refuses, hint="wait for one")
        self.asked.append(what)
        return Outcome(text="done")

    async def spawn(self, wanted: SpawnArguments, context: ToolContext) -> Outcome:
        return self._do("spawn", wanted.task, wanted.label, wanted.tools, wanted.usd, context.call)

    async def list(self, context: ToolContext) -> Outcome:
        return self._do("list", context.key)

    async def history(self, session: str, before: int | None, context: ToolContext) -> Outcome:
        return self._do("history", session, before, context.key)

    async def send(self, session: str, text: str, context: ToolContext) -> Outcome:
        return self._do("send", session, text, context.key)

    def find(self, to: str, context: ToolContext) -> KnownChat | None:
        del context
        return {
            "telegram": KnownChat(name="your Telegram chat", others=False),
            "club": KnownChat(name="the club", others=True),
        }.get(to)


def tools(behind: Recording) -> dict[str, Tool]:
    return {"spawn": Spawn(behind), "sessions": SessionsTool(behind), "message": MessageTool(behind)}


@pytest.mark.parametrize(
    ("tool", "arguments", "asked"),
    [
        ("spawn", {"task": "count"}, ("spawn", "count", None, None, None, "2/c1")),
        (
            "spawn",
            {"prompt": "count", "label": "x", "tools": ["read"], "budget": 0.5, "model": None},
            ("spawn", "count", "x", ("read",), 0.5, "2/c1"),
        ),
        ("sessions", {"action": "list"}, ("list", "agent:main:main")),
        ("sessions", {"action": "history", "id": "k3", "before": 9}, ("history", "k3", 9, "agent:main:main")),
        ("sessions", {"action": "send", "session": "k3", "message": "more"}, ("send", "k3", "more", "agent:main:main")),
        ("message", {"to": "telegram", "message": "hello"}, ("send", "telegram", "hello", "agent:main:main")),
    ],
)
async def test_what_they_take(tool: str, arguments: dict[str, Any], asked: tuple[Any, ...]) -> None:
    behind = Recording()
    assert not (await tools(behind)[tool].run(arguments, HERE)).is_error
    assert behind.asked == [asked]


@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        ("spawn", {}, "task"),
        ("spawn", {"task": "  "}, "task: must not be empty"),
        ("spawn", {"task": "x" * 50_001}, "at most 50,000"),
        ("spawn", {"task": "x", "usd": 0}, "more than 0"),
        ("spawn", {"task": "x", "usd": float("nan")}, "more than 0"),
        ("spawn", {"task": "x", "labels": "y"}, "did you mean label?"),
        ("sessions", {"action": "history"}, "session: is required for history"),
        ("sessions", {"action": "send", "session": "k3"}, "text: is required for send"),
        ("sessions", {"action": "delete"}, "action"),
        ("message", {"to": "telegram", "text": "\n"}, "text: must not be empty"),
        ("message", {"to": "telegram", "text": "x" * 8001}, "at most 8,000"),
    ],
)
async def test_what_they_refuse(tool: str, arguments: dict[str, Any], told: str) -> None:
    behind = Recording()
    outcome = await tools(behind)[tool].run(arguments, HERE)
    assert outcome.is_error
    assert told in outcome.text
    assert behind.asked == []


@pytest.mark.parametrize("tool", ["spawn", "sessions", "message"])
async def test_a_refusal_from_behind_is_told_with_its_hint(tool: str) -> None:
    given = {"spawn": {"task": "x"}, "sessions": {"action": "list"}, "message": {"to": "telegram", "text": "x"}}[tool]
    outcome = await tools(Recording(refuses="five work already"))[tool].run(given, HERE)
    assert outcome.is_error
    assert outcome.text == "five work already (wait for one)"


def test_a_message_is_judged_by_where_it_goes() -> None:
    tool = MessageTool(Recording())
    own, group = (tool.act_of({"to": to, "text": "hello"}, HERE) for to in ("telegram", "club"))
    assert own is not None
    assert group is not None
    assert (own.kind, own.others, own.summary, own.details) == ("send", False, "send a message to your Telegram chat", "hello")
    assert group.others
    assert tool.act_of({"to": "nowhere", "text": "hello"}, HERE) is None, "it is refused when it runs"


def test_what_they_cost_in_each_request() -> None:
    cost = {name: Calibration().apply(weight_of_tools((tool.spec,))) for name, tool in tools(Recording()).items()}
    assert cost["spawn"] + cost["sessions"] <= 280
    assert cost["message"] <= 120
