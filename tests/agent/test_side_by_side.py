"""Calls that only read run side by side, and their results stand in the order of the calls."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from agent.messages import ToolCall, ToolMessage
from agent.models.protocol import ToolSpec
from agent.tools.protocol import Effect, Outcome, ToolContext
from agent.tools.toolbox import Toolbox
from agent.transcript.entries import Said

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.agent.conftest import Room


class Meeting:
    """A tool whose calls wait for each other, and end in the opposite order of their beginning."""

    def __init__(self, name: str, effect: Effect, guests: int) -> None:
        self.spec = ToolSpec(name=name, description="", parameters={"type": "object"})
        self.effect = effect
        self._guests = guests
        self._here = 0
        self._all = asyncio.Event()
        self.most = 0
        self._now = 0

    async def run(self, arguments: Mapping[str, Any], scene: ToolContext) -> Outcome:
        del scene
        self._here += 1
        self._now += 1
        self.most = max(self.most, self._now)
        if self._here >= self._guests:
            self._all.set()
        if self.effect == "pure":
            await self._all.wait()
            for _ in range(10 * (self._guests - int(arguments["n"]))):
                await asyncio.sleep(0)
        self._now -= 1
        return Outcome(text=f"result {arguments['n']}")


def calls(name: str) -> list[ToolCall]:
    return [ToolCall(id=f"c{n}", name=name, arguments={"n": n}) for n in range(3)]


async def results(room: Callable[..., Room], tool: Meeting) -> list[str]:
    r = room()
    r.model.then(calls(tool.spec.name), "done")
    conversation = await r.open()
    conversation.toolbox = Toolbox([tool])
    await r.say("go")
    kept = [entry.body.message for entry in conversation.transcript.entries if isinstance(entry.body, Said)]
    return [message.text for message in kept if isinstance(message, ToolMessage)]


async def test_calls_that_only_read_run_side_by_side_and_stand_in_the_order_asked(room: Callable[..., Room]) -> None:
    tool = Meeting("look", "pure", 3)
    assert await results(room, tool) == ["result 0", "result 1", "result 2"]
    assert tool.most == 3, "had they run one by one, the first would still wait for the others"


async def test_calls_that_change_something_run_one_after_the_other(room: Callable[..., Room]) -> None:
    tool = Meeting("change", "effect", 3)
    assert await results(room, tool) == ["result 0", "result 1", "result 2"]
    assert tool.most == 1
