"""A call that waits for the owner suspends its turn, and the turn goes on once the owner has decided: with it done once, or not at all."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from agent.context.flush import keep_unseen
from agent.loop.gate import AskedCall, Verdict
from agent.loop.tool_runner import unsettled, withdraw
from agent.loop.turn import Turn
from agent.messages import ToolCall, ToolMessage, UserMessage, is_of_a_person
from agent.models.protocol import ToolSpec
from agent.taint import unfenced
from agent.tools.protocol import Act, Outcome, ToolContext
from agent.tools.toolbox import Toolbox
from agent.transcript.entries import Compacted, Said

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from agent.loop.call_log import CallState
    from agent.loop.turn import TurnResult
    from agent.messages import Message
    from agent.tools.protocol import Effect
    from tests.agent.conftest import Room


@dataclass
class Lever:
    """A tool that does something, with a mood: it may fail, hang, or say who wrote what it returns."""

    name: str = "pull"
    effect: Effect = "effect"
    pulled: list[str] = field(default_factory=list)
    hangs: asyncio.Event | None = None

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(name=self.name, description="", parameters={"type": "object"})

    def act_of(self, arguments: Mapping[str, Any], context: ToolContext) -> Act | None:
        del context
        return Act(kind="exec", summary=f"pull {arguments['what']}") if "what" in arguments else None

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> Outcome:
        del context
        self.pulled.append(str(arguments.get("what")))
        if self.hangs is not None:
            self.hangs.set()
            await asyncio.Event().wait()
        return Outcome(text=f"pulled {arguments.get('what')}", sources=("web:example.org",))


@dataclass
class Owner:
    """A gate that asks about everything, and answers as it was told."""

    decided: dict[str, Verdict] = field(default_factory=dict)

    async def judge(self, key: str, call: ToolCall, act: Act, context: ToolContext) -> Verdict:
        del call, context
        name = f"q{key.replace('/', '')}"
        return self.decided.get(name) or Verdict(decision="ask", approval=name, summary=act.summary)

    def approve(self, *names: str) -> None:
        self.decided |= dict.fromkeys(names, Verdict(decision="allow", reason="the owner approved it."))

    def deny(self, *names: str) -> None:
        self.decided |= dict.fromkeys(names, Verdict(decision="deny", reason="the owner denied it."))


@dataclass
class Journal:
    """A call log that outlives turns. A restart makes what was started unknown."""

    states: dict[str, CallState] = field(default_factory=dict)

    async def state(self, key: str) -> CallState:
        return self.states.get(key, "new")

    async def begin(self, key: str, call: ToolCall, effect: Effect) -> CallState:
        del call, effect
        return self.states.setdefault(key, "started") if key in self.states else self._first(key)

    def _first(self, key: str) -> CallState:
        self.states[key] = "started"
        return "new"

    async def end(self, key: str) -> None:
        if self.states.get(key) == "started":
            self.states[key] = "done"


def pull(what: str, call: str = "a", name: str = "pull") -> ToolCall:
    return ToolCall(id=call, name=name, arguments={"what": what})


async def says(
    r: Room, owner: Owner, *tools: Lever, asked: Sequence[AskedCall] = (), journal: Journal | None = None
) -> TurnResult:
    """Run the turn, as a process that has just started would."""
    conversation = await r.open()
    conversation.toolbox = Toolbox(tools)
    turn = Turn(context=conversation, id="t1", emit=r.events.append, gate=owner, journal=journal or Journal())
    return await turn.run([r.message("pull the lever")], asked=asked)


def shown(r: Room) -> tuple[Message, ...]:
    assert r.conversation is not None
    return r.conversation.messages()


def told(r: Room) -> list[str]:
    """What the runtime said."""
    return [message.text for message in shown(r) if isinstance(message, UserMessage) and message.runtime]


async def test_a_call_that_waits_suspends_the_turn_and_the_model_is_not_asked_again(room: Callable[..., Room]) -> None:
    r = room([pull("red")])
    tool = Lever()
    result = await says(r, Owner(), tool)
    assert (result.outcome, result.reply, result.waits_for) == ("suspended", "", ("q1a",))
    assert tool.pulled == []
    last = shown(r)[-1]
    assert isinstance(last, ToolMessage)
    assert "#q1a" in last.text
    assert len(r.model.requests) == 1


async def test_calls_behind_one_that_waits_are_left_unless_they_only_read(room: Callable[..., Room]) -> None:
    look = Lever("look", "pure")
    r = room([pull("red", "a"), pull("blue", "b"), ToolCall(id="c", name="look", arguments={})])
    tool = Lever()
    result = await says(r, Owner(), tool, look)
    assert result.waits_for == ("q1a",)
    assert (tool.pulled, look.pulled) == ([], ["None"])
    results = [message.text for message in shown(r) if isinstance(message, ToolMessage)]
    assert "comes after a call that waits" in results[1]
    assert unfenced(results[2]) == "pulled None"


async def test_an_approved_call_runs_once_and_the_model_is_told(room: Callable[..., Room]) -> None:
    r = room([pull("red")], "It is pulled.")
    owner, tool, journal = Owner(), Lever(), Journal()
    await says(r, owner, tool, journal=journal)
    owner.approve("q1a")
    result = await says(r, owner, tool, journal=journal)
    assert (result.outcome, result.reply) == ("answered", "It is pulled.")
    assert tool.pulled == ["red"]
    (outcome,) = told(r)
    head, _, fence = outcome.partition("\n")
    assert head == "[Approval #q1a: the owner approved it. Result of pull (pull red):]"
    assert unfenced(fence) == "pulled red"
    assert r.conversation is not None
    assert r.conversation.taint == {"web:example.org"}
    assert await says(r, owner, tool, journal=journal)  # run once more, it finds everything done
    assert tool.pulled == ["red"]


async def test_a_denied_call_does_not_run_and_the_model_is_told(room: Callable[..., Room]) -> None:
    r = room([pull("red")], "Then not.")
    owner, tool = Owner(), Lever()
    await says(r, owner, tool)
    owner.deny("q1a")
    result = await says(r, owner, tool)
    assert (result.reply, tool.pulled) == ("Then not.", [])
    assert told(r) == ["[Approval #q1a: the owner denied it. It was not run: pull red]"]


async def test_a_crash_before_the_question_was_asked_asks_it(room: Callable[..., Room]) -> None:
    r = room([pull("red")])
    for _ in range(3):
        result = await says(r, Owner(), Lever())
        assert result.waits_for == ("q1a",)
    assert len(r.model.requests) == 1
    assert sum(isinstance(message, ToolMessage) for message in shown(r)) == 1


async def test_the_session_goes_on_meanwhile_and_the_outcome_stands_behind_what_was_said(room: Callable[..., Room]) -> None:
    r = room([pull("red")], "Hello.", "It is pulled.")
    owner, tool, journal = Owner(), Lever(), Journal()
    await says(r, owner, tool, journal=journal)
    assert (await r.say("hello", turn="t2")).reply == "Hello."
    owner.approve("q1a")
    await says(r, owner, tool, journal=journal)
    texts = [message.text for message in shown(r)]
    assert texts.index("Hello.") < next(n for n, text in enumerate(texts) if "pulled red" in text)
    assert texts[-1] == "It is pulled."


async def test_a_call_whose_placeholder_was_summarised_is_run_all_the_same(room: Callable[..., Room]) -> None:
    r = room([pull("red")], "Hello.", "It is pulled.")
    owner, tool, journal = Owner(), Lever(), Journal()
    await says(r, owner, tool, journal=journal)
    assert r.conversation is not None
    asked = unsettled(r.conversation.transcript, "t1", ())
    assert [(one.approval, one.key, one.summary) for one in asked] == [("q1a", "1/a", "pull red")]
    await r.say("hello", turn="t2")
    first = next(entry.id for entry in r.conversation.transcript.entries if entry.id.startswith("t2"))
    mark = Compacted(summary="so far", first_kept=first, tokens_before=9, tokens_after=3, model="m", reason="threshold")
    await r.conversation.transcript.append("room", mark)
    owner.approve("q1a")
    result = await says(r, owner, tool, asked=asked, journal=journal)
    assert (result.reply, tool.pulled) == ("It is pulled.", ["red"])
    assert "Result of pull (pull red)" in told(r)[0]


@pytest.mark.parametrize("restarted", [False, True])
async def test_an_approved_call_that_is_cut_off_is_never_repeated(room: Callable[..., Room], restarted: bool) -> None:
    r = room([pull("red")], "I do not know whether it is pulled.")
    owner, tool, journal = Owner(), Lever(), Journal()
    await says(r, owner, tool, journal=journal)
    owner.approve("q1a")
    if restarted:  # it died in the midst of the call: the ledger knows that it began
        journal.states["1/a"] = "unknown"
    else:
        tool.hangs = asyncio.Event()
        running = asyncio.ensure_future(says(r, owner, tool, journal=journal))
        await tool.hangs.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        tool.hangs = None
    before = list(tool.pulled)
    await says(r, owner, tool, journal=journal)
    assert tool.pulled == before
    assert "outcome is unknown" in told(r)[0]


@pytest.mark.parametrize("now", ["asks again", "denies"])
async def test_a_call_that_began_before_a_restart_is_not_asked_about_again(room: Callable[..., Room], now: str) -> None:
    """A command that began has changed files that its approval covers. That is no reason to ask again, nor to say that it was not run."""
    r = room([pull("red")], "I do not know whether it is pulled.")
    owner, tool, journal = Owner(), Lever(), Journal()
    await says(r, owner, tool, journal=journal)
    journal.states["1/a"] = "unknown"
    if now == "denies":
        owner.deny("q1a")
    result = await says(r, owner, tool, journal=journal)
    assert result.reply == "I do not know whether it is pulled."
    assert tool.pulled == []
    assert "outcome is unknown" in told(r)[0]
    assert "not run" not in told(r)[0]


async def test_several_reading_calls_may_wait_at_once_and_the_turn_waits_for_all(room: Callable[..., Room]) -> None:
    r = room([pull("red", "a", "look"), pull("blue", "b", "look")], "Seen.")
    owner, look = Owner(), Lever("look", "pure")
    assert (await says(r, owner, look)).waits_for == ("q1a", "q1b")
    owner.approve("q1a")
    assert (await says(r, owner, look)).waits_for == ("q1b",)
    owner.deny("q1b")
    assert (await says(r, owner, look)).reply == "Seen."
    assert look.pulled == ["red"]


async def test_what_was_withdrawn_is_told_and_never_runs(room: Callable[..., Room]) -> None:
    r = room([pull("red")], "Hello.")
    await says(r, Owner(), Lever())
    assert r.conversation is not None
    for _ in range(2):
        await withdraw(r.conversation.transcript, "t1", (), "withdrawn, because the turn was stopped.", r.clock.now())
    assert told(r) == ["[Approval #q1a: withdrawn, because the turn was stopped. It was not run: pull red]"]
    assert unsettled(r.conversation.transcript, "t1", ()) == []


async def test_a_call_that_cannot_be_judged_any_more_does_not_run(room: Callable[..., Room]) -> None:
    r = room([pull("red")], "Then not.")
    owner, tool = Owner(), Lever()
    await says(r, owner, tool)
    owner.approve("q1a")
    assert (await says(r, owner)).reply == "Then not."  # the tool was taken from the agent meanwhile
    assert tool.pulled == []


async def test_what_a_tool_returned_is_no_statement_of_a_person(room: Callable[..., Room]) -> None:
    r = room([pull("red. Anna loves oranges above all")], "Done.")
    owner, tool, journal = Owner(), Lever(), Journal()
    await says(r, owner, tool, journal=journal)
    owner.approve("q1a")
    await says(r, owner, tool, journal=journal)
    conversation = r.conversation
    assert conversation is not None
    said = [entry for entry in conversation.transcript.entries if isinstance(entry.body, Said)]
    assert sum(is_of_a_person(entry.body.message) for entry in said if isinstance(entry.body, Said)) == 1
    await keep_unseen(conversation, "t2", said)
    assert "oranges" not in r.note()
