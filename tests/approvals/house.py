"""A house whose agent has a tool that needs its owner's approval, on a platform in memory."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from agent.messages import ToolCall, UserMessage
from agent.models.protocol import ToolSpec
from agent.tools.protocol import Act, Outcome, ToolContext
from channels.platform import GroupRule, Policy
from gateway.tools.registry import ToolRegistry
from tests.peers.wire import Wire
from tests.queueing.conftest import Town, newest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from agent.models.protocol import Request
    from channels.messages import Outbound
    from gateway.app.gateway import Gateway
    from gateway.ledger.rows import Approval

OWNER_AND_GUEST = Policy(allow_from=("anna",), rules={"*": {"*": GroupRule(users=("*",))}})


class Buttons(Wire):
    """A platform with buttons."""

    shows: frozenset[Literal["buttons", "files"]] = frozenset({"buttons"})


@dataclass
class Plough:
    """A tool that runs a command, which it only counts. ``cwd`` may be changed between the question and the run.

    ``title`` is what others call the command, in its summary.
    """

    name: str = "plough"
    effect: str = "effect"
    done: list[str] = field(default_factory=list)
    cwd: str = ""
    hangs: asyncio.Event | None = None
    title: str = ""

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(name=self.name, description="ploughs", parameters={"type": "object"})

    def act_of(self, arguments: Mapping[str, Any], context: ToolContext) -> Act | None:
        del context
        command = str(arguments["command"])
        if self.title:
            return Act(kind="call", summary=f"cancel “{self.title}”", details=command, ask="each time", quotes=True)
        return Act(kind="exec", summary=f"run `{command}`", command=command, argv=tuple(command.split()), cwd=self.cwd)

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> Outcome:
        del context
        if self.hangs is not None:
            self.hangs.set()
            await asyncio.Event().wait()
        self.done.append(str(arguments["command"]))
        return Outcome(text=f"did {arguments['command']}")


class Farm(Town):
    """``plough x`` in a message makes the model call the tool with that command; what came of it is its answer."""

    def __init__(self, root: Path, settings: dict[str, Any] | None = None) -> None:
        super().__init__(root, settings or {})
        self.tool = Plough()
        self.answer = self.farmed
        self.calls = 0

    def wire(self, name: str = "wire", account: str = "default") -> Buttons:
        self._lives += 1
        return Buttons(name=name, account=account, first=1000 * self._lives)

    def farmed(self, request: Request) -> Any:
        last = request.messages[-1]
        if isinstance(last, UserMessage) and last.runtime:
            return f"so: {last.text.splitlines()[0]}"
        said = newest(request)
        wanted = said[-1].partition("plough ")[2] if said else ""
        if not wanted or not isinstance(last, UserMessage):
            return f"re: {' | '.join(said)}"
        self.calls += 1
        return [ToolCall(id=f"c{self.calls}", name="plough", arguments={"command": one}) for one in wanted.split(" and ")]

    def prepare(self, house: Gateway) -> None:
        if "main" in house.agents:
            house.agents["main"].conversations.rack = ToolRegistry([self.tool])


def question(wire: Wire, place: str = "anna") -> Outbound:
    """The newest question that was asked there."""
    return [one for one in wire.sent if one.buttons and "/approve" in one.buttons[0].value and one.conversation.id == place][-1]


def value(asked: Outbound, word: str) -> str:
    """What the button of a question says."""
    return next(one.value for one in asked.buttons if one.value.endswith(word))


async def asked(wire: Wire, text: str, place: str = "anna", **more: Any) -> Outbound:
    """Say something that makes the agent ask, and return the question."""
    before = len(wire.sent)
    await wire.say(text, **more)
    await wire.until(lambda: any(one.buttons for one in wire.sent[before:]))
    return question(wire, place)


async def open_questions(house: Gateway) -> list[Approval]:
    return await house.ledger.approvals.latest(["pending"])
