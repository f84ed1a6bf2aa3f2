"""A house whose model starts sub-agents as a test tells it to."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agent.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from tests.both_engines import engine, on_each
from tests.gateway.conftest import street
from tests.patience import PATIENCE

if TYPE_CHECKING:
    import pytest

    from agent.models.protocol import Request
    from gateway.app.gateway import Gateway
    from gateway.ledger.subagent_rows import SubAgent

__all__ = ["engine", "street"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test on both engines."""
    on_each(metafunc, (), openers=("Cast",))


MAIN = "agent:main:main"
Reply = Any
"""What the scripted model answers: a text, a list of calls, or a function of the request that returns one of them."""


class Cast:
    """Answers by who is asked: the sub-agent whose task a request holds, or the person's session. Each has a queue of answers.

    ``seen`` are the last messages that each was asked with.
    """

    def __init__(self) -> None:
        self.parts: dict[str, deque[Reply]] = {}
        self.usual: dict[str, Reply] = {}
        self.seen: dict[str, list[str]] = {}
        self.requests: dict[str, list[Request]] = {}
        self._calls = 0

    def says(self, who: str, *replies: Reply) -> None:
        """Queue answers for one: "main", or a word of a sub-agent's task."""
        self.parts.setdefault(who, deque()).extend(replies)

    def always(self, who: str, reply: Reply) -> None:
        """What one answers when its queue is empty."""
        self.usual[who] = reply

    def call(self, name: str, **arguments: Any) -> ToolCall:
        self._calls += 1
        return ToolCall(id=f"c{self._calls}", name=name, arguments=arguments)

    def spawn(self, task: str, **more: Any) -> ToolCall:
        return self.call("spawn", task=task, **more)

    def answer(self, request: Request) -> Any:
        """The scripted model's answerer."""
        who = self._who(request)
        self.seen.setdefault(who, []).append(request.messages[-1].text)
        self.requests.setdefault(who, []).append(request)
        queue = self.parts.get(who)
        reply = queue.popleft() if queue else self.usual.get(who, f"{who} has nothing to add.")
        return reply(request) if isinstance(reply, Callable) else reply  # type: ignore[arg-type]

    def _who(self, request: Request) -> str:
        if not any("You are a sub-agent" in segment.text for segment in request.system):
            return "main"
        first = next(message.text for message in request.messages if isinstance(message, UserMessage))
        found = re.search("⟨(\\w+)⟩", first)
        return found[1] if found else "sub"


async def until(wanted: Callable[[], Any]) -> Any:
    """Wait until something holds that nobody announces."""
    async with asyncio.timeout(PATIENCE):
        while not (found := wanted()):  # noqa: ASYNC110  (nobody announces it)
            await asyncio.sleep(0.01)
    return found


async def settled(house: Gateway) -> None:
    """Wait until nothing runs, nothing waits, and no sub-agent is open."""
    async with asyncio.timeout(PATIENCE):
        while True:
            await house.lanes.quiet()
            waiting = await house.ledger.inbox.waiting()
            if not waiting and not await house.ledger.subagents.all() and not house.lanes.sessions():
                return
            await asyncio.sleep(0.01)


async def open_ones(house: Gateway) -> list[SubAgent]:
    return await house.ledger.subagents.all()


def results(request: Request) -> list[ToolMessage]:
    return [message for message in request.messages if isinstance(message, ToolMessage)]


def said(request: Request) -> list[str]:
    return [message.text for message in request.messages if not isinstance(message, AssistantMessage)]
