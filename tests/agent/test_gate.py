"""A tool call is judged before it runs, and what was read from outside is known to whoever judges."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from agent.loop.gate import Verdict
from agent.messages import Text, ToolCall, ToolMessage, UserMessage
from agent.models.protocol import ToolSpec
from agent.taint import unfenced
from agent.tools.protocol import Act, Outcome, ToolContext
from agent.tools.toolbox import Toolbox
from agent.transcript.entries import Compacted, Entry, Said, decode, encode
from tests.agent.test_transcript import AT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.agent.conftest import Room


class Light:
    """A tool that switches a light, and says so beforehand."""

    spec = ToolSpec(name="light", description="", parameters={"type": "object"})
    effect = "effect"

    def __init__(self) -> None:
        self.switched: list[str] = []

    def act_of(self, arguments: Mapping[str, Any], context: ToolContext) -> Act | None:
        del context
        return Act(kind="exec", summary=f"switch the light {arguments['to']}")

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> Outcome:
        del context
        self.switched.append(arguments["to"])
        return Outcome(text="done", sources=("web:example.org",))


class Doorman:
    """A gate that keeps what it was asked, and answers by the act."""

    def __init__(self, *denied: str) -> None:
        self.denied = denied
        self.asked: list[tuple[str, str, ToolContext]] = []

    async def judge(self, key: str, call: ToolCall, act: Act, context: ToolContext) -> Verdict:
        del call
        self.asked.append((key, act.summary, context))
        return Verdict(decision="deny", reason="not tonight") if act.summary in self.denied else Verdict(decision="allow")


async def results(r: Room) -> list[ToolMessage]:
    assert r.conversation is not None
    kept = [entry.body.message for entry in r.conversation.transcript.entries if isinstance(entry.body, Said)]
    return [message for message in kept if isinstance(message, ToolMessage)]


def switch(to: str, call: str = "c") -> ToolCall:
    return ToolCall(id=call, name="light", arguments={"to": to})


async def test_a_denied_call_does_not_run_and_the_model_is_told_why(room: Callable[..., Room]) -> None:
    r = room([switch("on", "a"), switch("off", "b")], "done")
    tool, gate = Light(), Doorman("switch the light on")
    (await r.open()).toolbox = Toolbox([tool])
    await r.say("go", gate=gate)
    assert tool.switched == ["off"]
    refused, done = await results(r)
    assert refused.is_error
    assert "not tonight" in refused.text
    assert (unfenced(done.text), done.taint) == ("done", ("web:example.org",))


async def test_who_judges_knows_who_asks_and_what_was_read_before(room: Callable[..., Room]) -> None:
    r = room([switch("on", "a")], [switch("off", "b")], "done")
    gate = Doorman()
    (await r.open()).toolbox = Toolbox([Light()])
    await r.say("go", gate=gate)
    before, after = gate.asked
    assert before[2].origin == after[2].origin == "owner"
    assert (before[2].taint, after[2].taint) == (frozenset(), frozenset({"web:example.org"}))
    assert before[0] != after[0], "two calls have two names"
    fresh = await r.open()
    assert fresh.taint == {"web:example.org"}, "a restart knows it too"


class Naming:
    """A tool that keeps what its calls are named."""

    spec = ToolSpec(name="light", description="", parameters={"type": "object"})
    effect = "idempotent"

    def __init__(self, breaks: int = 0) -> None:
        self.names: list[str] = []
        self.breaks = breaks

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> Outcome:
        del arguments
        self.names.append(context.call)
        if len(self.names) == self.breaks:
            raise asyncio.CancelledError  # what a crash looks like to the turn
        return Outcome(text="done")


async def test_a_call_has_a_name_of_its_own_and_keeps_it_when_it_is_repeated(room: Callable[..., Room]) -> None:
    r = room([switch("on", "c")], [switch("off", "c")], "done")
    tool = Naming(breaks=2)
    (await r.open()).toolbox = Toolbox([tool])
    with pytest.raises(asyncio.CancelledError):
        await r.say("go")
    (await r.open()).toolbox = Toolbox([tool])
    await r.say("go")
    first, second, again = tool.names
    assert first != second, "a model that reuses ids made two calls"
    assert again == second, "the second one was repeated"


@pytest.mark.sec(58)
async def test_a_call_that_cannot_be_judged_does_not_run(room: Callable[..., Room]) -> None:
    r = room([ToolCall(id="c", name="light", arguments={})], "done")
    tool, gate = Light(), Doorman()
    (await r.open()).toolbox = Toolbox([tool])
    await r.say("go", gate=gate)
    assert tool.switched == [] == gate.asked
    assert (await results(r))[0].is_error


@pytest.mark.parametrize("taint", [(), ("web:example.org", "person:Eve")])
def test_taint_is_stored_and_what_has_none_has_the_same_bytes_as_before(taint: tuple[str, ...]) -> None:
    said = UserMessage(content=(Text(text="hello"),), at=AT, taint=taint)
    result = ToolMessage(call_id="c", name="read", text="page", taint=taint)
    mark = Compacted(summary="s", first_kept="t:0", tokens_before=1, tokens_after=1, model="m", reason="x", taint=taint)
    for body in (Said(message=said), Said(message=result), mark):
        line = encode(Entry(id="t:0", parent=None, at=AT, body=body))
        assert (b"taint" in line) == bool(taint)
        assert decode(line).body == body
