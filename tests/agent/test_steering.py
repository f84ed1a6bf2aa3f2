"""Messages that enter a running turn between its tools: never lost, never twice, never between a call and its result."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.loop.steering_source import ExtraMessage, SteeringSource
from agent.loop.tool_runner import OVERTAKEN
from agent.loop.turn import Turn
from agent.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from agent.models.scripted import ScriptedModel
from agent.settings import AgentSettings
from agent.transcript.entries import Said
from tests.agent.conftest import Room
from tests.properties import examples

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agent.models.protocol import Request

    Make = Callable[..., Room]


def call(name: str, call_id: str = "c1", **arguments: object) -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments=arguments)


class Letterbox(SteeringSource):
    """What arrives while a turn runs. ``claimed`` stands for the ledger: what was taken is there before the turn has it."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self.waiting: list[str] = []
        self.claimed: list[str] = []

    def any(self) -> bool:
        return bool(self.waiting)

    async def take(self) -> Sequence[ExtraMessage]:
        taken, self.waiting = self.waiting, []
        self.claimed += taken
        await asyncio.sleep(0)
        return [self.further(text) for text in taken]

    def further(self, text: str) -> ExtraMessage:
        return ExtraMessage(text, self.room.message(text))


async def test_a_message_enters_between_the_tools_and_the_next_call(room: Make) -> None:
    r = room()
    box = Letterbox(r)

    def model(request: Request) -> object:
        if len(r.model.requests) == 1:
            box.waiting.append("make it blue")
            return call("list", path=".")
        return "Blue it is."

    r.model.reply_with(model)
    result = await r.say("paint the fence", arrivals=box)
    assert result.reply == "Blue it is."
    said = [message.text.splitlines()[-1] for message in r.model.requests[1].messages if isinstance(message, UserMessage)]
    assert said == ["paint the fence", "make it blue"]
    assert [m.role for m in r.model.requests[1].messages] == ["user", "assistant", "tool", "user"]


async def test_what_arrives_with_the_last_answer_is_left_for_the_next_turn(room: Make) -> None:
    r = room()
    box = Letterbox(r)

    def model(_: Request) -> object:
        box.waiting.append("and another thing")
        return "Done."

    r.model.reply_with(model)
    assert (await r.say("hello", arrivals=box)).reply == "Done."
    assert (box.waiting, box.claimed) == (["and another thing"], [])
    assert len(r.model.requests) == 1, "the answer is a reply of its own, and is not buried under a second one"


async def test_what_would_change_something_is_left_when_a_person_has_spoken(room: Make) -> None:
    r = room()
    box = Letterbox(r)
    (r.workspace.root / "plan.md").parent.mkdir(parents=True, exist_ok=True)

    def model(_: Request) -> object:
        if len(r.model.requests) == 1:
            box.waiting.append("no, wait")
            return [call("list", "look", path="."), call("write", "act", path="plan.md", content="gone", mode="create")]
        return "I left it."

    r.model.reply_with(model)
    result = await r.say("overwrite the plan", arrivals=box)
    assert not (r.workspace.root / "plan.md").exists()
    assert [(m.call_id, m.text == OVERTAKEN) for m in result.calls] == [("look", False), ("act", True)]
    assert "no, wait" in r.model.requests[1].messages[-1].text


async def test_many_calls_side_by_side_stay_within_the_limits(room: Make) -> None:
    r = room(settings={"limits": {"maxToolCalls": 5}})
    r.model.then([call("list", f"c{n}", path=f"d{n}") for n in range(9)], "enough")
    result = await r.say("look everywhere")
    assert sum("No tool calls are left" in m.text for m in result.calls) == 4


async def test_the_same_call_side_by_side_counts_each_time(room: Make) -> None:
    r = room()
    r.model.then([call("list", f"c{n}", path=".") for n in range(5)], "enough")
    result = await r.say("look")
    assert [m.is_error for m in result.calls] == [False] * 3 + [True] * 2


async def test_the_same_call_with_another_result_is_no_repetition(room: Make) -> None:
    r = room(settings={"limits": {"maxToolCalls": 20}})
    count = 0

    def model(_: Request) -> object:
        nonlocal count
        count += 1
        (r.workspace.root / f"new{count}.md").write_text("x")
        return call("list", f"c{count}", path=".") if count <= 6 else "done"

    r.workspace.root.mkdir(parents=True, exist_ok=True)
    r.model.reply_with(model)
    result = await r.say("watch the folder")
    assert [m.is_error for m in result.calls] == [False] * 6


ROUNDS = 3


class Steps:
    """A model that calls a tool in each of its first answers, while messages arrive as ``schedule`` has them."""

    def __init__(self, schedule: list[int], box: Letterbox) -> None:
        self.schedule, self.box = schedule, box
        self.said = 0

    def __call__(self, request: Request) -> object:
        done = sum(isinstance(m, AssistantMessage) for m in request.messages)
        for _ in range(self.schedule[done] if done < len(self.schedule) else 0):
            if self.said < sum(self.schedule):
                self.said += 1
                self.box.waiting.append(f"steer-{self.said}")
        if done < ROUNDS:
            effect = done % 2
            arguments = {"path": f"f{done}.md", "content": "x", "mode": "create"} if effect else {"path": "."}
            return call("write" if effect else "list", f"c{done}", **arguments)
        return "finished"


@settings(max_examples=examples(30))
@given(
    schedule=st.lists(st.integers(0, 3), min_size=ROUNDS + 1, max_size=ROUNDS + 1),
    kills=st.lists(st.integers(0, 90), max_size=3),
    first=st.integers(1, 3),
)
def test_whatever_arrives_and_wherever_it_is_killed_each_message_is_in_the_transcript_once(
    schedule: list[int], kills: list[int], first: int
) -> None:
    asyncio.run(lives(schedule, kills, first))


async def lives(schedule: list[int], kills: list[int], first: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        room = Room(Path(folder), ScriptedModel(), AgentSettings())
        box = Letterbox(room)
        room.model.reply_with(Steps(schedule, box))
        collected = [f"collected-{n}" for n in range(1, first)]
        for kill in [*kills, None]:
            threads = ThreadPoolExecutor()
            asyncio.get_running_loop().set_default_executor(threads)
            conversation = await room.open()
            turn = Turn(context=conversation, id="t1", emit=room.events.append, arrivals=box)
            further = [box.further(text) for text in (*collected, *box.claimed)]
            running = asyncio.ensure_future(turn.run([room.message("first")], further))
            if kill is None:
                result = await running
                break
            for _ in range(kill * 40):
                if running.done():
                    break
                await asyncio.sleep(0)
            running.cancel()  # what is in memory is lost with it: the next life reads the file
            await asyncio.gather(running, return_exceptions=True)
            threads.shutdown()  # a thread that writes would end with its process, too: not while the next life reads
        assert result.reply == "finished"
        entries = (await room.open()).transcript.entries
        heard = Counter(
            e.body.message.text for e in entries if isinstance(e.body, Said) and isinstance(e.body.message, UserMessage)
        )
        assert heard == Counter(["first", *collected, *box.claimed])
        shown = room.conversation.messages()
        for place, message in enumerate(shown):
            if isinstance(message, ToolMessage):
                assert isinstance(shown[place - 1], AssistantMessage | ToolMessage), "a result stands behind its call"
        asked = " ".join(m.text for m in room.model.requests[-1].messages)
        assert all(text in asked for text in (*collected, *box.claimed)), "the last answer was given with all of it in sight"


async def test_a_turn_says_when_its_messages_are_part_of_the_conversation(room: Make) -> None:
    r = room("hello")
    conversation = await r.open()
    turn = Turn(context=conversation, id="t1", emit=r.events.append)
    assert not turn.begun
    await turn.run([r.message("hi")])
    assert (turn.begun, turn.tool_calls) == (True, 0)


@pytest.mark.parametrize("state", ["started", "unknown", "done"])
async def test_a_call_that_was_begun_before_a_restart_is_not_called_left(room: Make, state: str) -> None:
    class Journal:
        async def state(self, _key: str) -> str:
            return state

        async def begin(self, *_: object) -> str:
            return state

        async def end(self, _key: str) -> None:
            return

    r = room()
    box = Letterbox(r)
    box.waiting.append("no, wait")
    r.model.then(call("write", path="a.md", content="x", mode="create"), "ok")
    result = await r.say("write", arrivals=box, journal=Journal())
    assert result.calls[0].text != OVERTAKEN
