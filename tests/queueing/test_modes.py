"""What becomes of messages that arrive while a turn runs, in each mode, in a whole house."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from agent.events import TextDelta
from agent.messages import ToolCall, ToolMessage
from agent.models.scripted import Stall
from agent.transcript.history_view import STOPPED_SILENT
from gateway.ledger.sqlite import SqliteLedger
from tests.peers.wire import picture
from tests.queueing.conftest import Slow, newest
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.models.protocol import Request
    from tests.queueing.conftest import Town

    Make = Callable[..., Town]


def mode(name: str, **more: Any) -> dict[str, Any]:
    return {"queue": {"mode": name, **more}}


async def test_what_waits_is_answered_together_after_the_turn_that_runs(town: Make) -> None:
    t = town()
    slow, wire = Slow(t), t.wire()
    async with t.house(wire) as house:
        await wire.say("one")
        await slow.began.wait()
        await wire.say("two", "three", "four")
        slow.gate.set()
        await wire.until(lambda: len(wire.sent) == 2)
        await house.lanes.quiet()
        assert (await house.ledger.tally()).waiting == 0
    assert wire.said() == ["re: one", "re: two | three | four"]


async def test_followup_gives_each_message_a_turn_of_its_own(town: Make) -> None:
    t = town(messages=mode("followup"))
    slow, wire = Slow(t), t.wire()
    async with t.house(wire):
        await wire.say("one")
        await slow.began.wait()
        await wire.say("two", "three")
        slow.gate.set()
        await wire.until(lambda: len(wire.sent) == 3)
    assert wire.said() == ["re: one", "re: two", "re: three"]


async def test_a_message_steers_the_turn_that_runs_between_two_steps(town: Make) -> None:
    t = town(messages=mode("steer"))
    wire, asked = t.wire(), asyncio.Event()
    gate = asyncio.Event()

    def answer(request: Request) -> Any:
        if isinstance(request.messages[-1], ToolMessage) or len(t.model.requests) > 1:
            return "re: " + " | ".join(newest(request))
        asked.set()
        return [Stall(gate), ToolCall(id="c1", name="list", arguments={"path": "."})]

    t.answer = answer
    async with t.house(wire) as house:
        await wire.say("paint the fence")
        await asked.wait()
        await wire.say("make it blue")
        (status,) = await wire.say("/status")
        await wire.until(lambda: len(wire.sent) == 1)
        gate.set()
        await wire.until(lambda: len(wire.sent) == 2)
        await house.lanes.quiet()
        tally = await house.ledger.tally()
        assert (tally.waiting, tally.running) == (0, 0)
    assert wire.said()[1:] == ["re: paint the fence | make it blue"]
    assert "steer" in wire.said()[0]
    assert "0 of 40 tool calls" in wire.said()[0]
    assert "1 waiting here" in wire.said()[0]
    assert status


async def test_a_message_that_cannot_join_the_turn_holds_its_tools_back_once(town: Make) -> None:
    t = town(messages=mode("steer"))
    wire, asked, gate = t.wire(), asyncio.Event(), asyncio.Event()

    def answer(request: Request) -> Any:
        last = request.messages[-1]
        if isinstance(last, ToolMessage) and not last.is_error:
            return "re: " + " | ".join(newest(request))
        asked.set()
        call = ToolCall(id=f"c{len(t.model.requests)}", name="write", arguments={"path": "fence.md", "content": "painted"})
        return [Stall(gate), call]

    t.answer = answer
    async with t.house(wire) as house:
        await wire.say("paint the fence")
        await asked.wait()
        await wire.say("make it blue")
        [row] = await house.ledger.inbox.latest(["waiting"])
        await house.ledger.inbox.settle([row.id], "ignored")
        gate.set()
        await wire.until(lambda: len(wire.sent) == 1)
        await house.lanes.quiet()
    assert wire.said() == ["re: paint the fence"]
    assert (t.root / "workspace" / "fence.md").read_text() == "painted"
    results = [message for message in t.model.requests[-1].messages if isinstance(message, ToolMessage)]
    assert [result.is_error for result in results] == [True, False]


async def test_a_newer_message_interrupts_and_the_former_is_its_context(town: Make) -> None:
    t = town(messages=mode("interrupt"))
    slow, wire = Slow(t), t.wire()
    async with t.house(wire) as house:
        await wire.say("count to a million")
        await slow.began.wait()
        await wire.say("no: to ten")
        await wire.until(lambda: wire.sent)
        await house.lanes.quiet()
        rows = await house.ledger.inbox.latest(["waiting", "claimed", "answered"])
        assert [row.state for row in rows] == ["answered", "answered"]
    assert wire.said() == ["re: no: to ten"], "one answer"
    assert "count to a million" in str(t.model.requests[-1].messages), "with both in sight"


async def test_an_interruption_before_the_turn_has_begun_loses_nothing(town: Make) -> None:
    t = town(messages=mode("interrupt"))
    wire = t.wire()
    async with t.house(wire) as house:
        for number in range(25):
            await wire.say(f"{number}")
            await t.steps(number * 3)
        await wire.until(lambda: wire.sent and "24" in wire.said()[-1])
        await house.lanes.quiet()
    heard = [word for text in wire.said() if text.startswith("re: ") for word in text[4:].split(" | ")]
    in_sight = [line for one in t.model.requests[-1].messages for line in one.text.splitlines() if line.isdigit()]
    assert {int(word) for word in (*heard, *in_sight)} == set(range(25)), (
        "each is answered, or in sight of the answer to a newer one"
    )
    assert len(wire.sent) <= 25


@pytest.mark.parametrize("newer", ["no: to ten", "/stop"])
@parametrize_some(5, "steps", range(0, 120, 6))
async def test_a_turn_that_is_just_ending_when_it_is_interrupted_ends(town: Make, steps: int, newer: str) -> None:
    t = town(messages=mode("interrupt"))
    slow, wire = Slow(t), t.wire()
    async with t.house(wire) as house:
        await wire.say("count to a million")
        await slow.began.wait()
        slow.gate.set()
        await t.steps(steps)
        await wire.say(newer)
        await house.lanes.quiet()
        await wire.until(lambda: wire.sent)
        tally = await house.ledger.tally()
        rows = await house.ledger.inbox.latest(["waiting", "claimed", "answered"])
    assert (tally.waiting, tally.running) == (0, 0)
    assert [row.state for row in rows] == ["answered", "answered"]


async def test_messages_for_other_ears_are_never_answered_together(town: Make) -> None:
    t = town()
    slow, wire = Slow(t), t.wire()
    async with t.house(wire, t.wire("other")) as house:
        await wire.say("start", group="g", mentioned=True)
        await slow.began.wait()
        await wire.say("by a guest", group="g", by="zoe", mentioned=True)
        await wire.say("by another guest", group="g", by="yan", mentioned=True)
        await wire.say("by the owner", group="g", by="anna", mentioned=True)
        await wire.say("/whoami", group="g", by="anna", mentioned=True)
        await wire.say("after the command", group="g", by="anna", mentioned=True)
        slow.gate.set()
        await wire.until(lambda: len(wire.sent) == 6)
        await house.lanes.quiet()
    said = [text for text in wire.said("g") if "Queued" not in text]
    assert said[:3] == ["re: start", "re: by a guest | by another guest", "re: by the owner"]
    assert "anna" in said[3]
    assert said[4] == "re: after the command"


async def test_the_owner_on_two_platforms_has_one_session_and_an_answer_on_each(town: Make) -> None:
    t = town()
    slow, wire, other = Slow(t), t.wire(), t.wire("other")
    async with t.house(wire, other):
        await wire.say("one")
        await slow.began.wait()
        await wire.say("two")
        await other.say("from elsewhere")
        await wire.say("three")
        slow.gate.set()
        await wire.until(lambda: len(wire.sent) == 3)
        await other.until(lambda: other.sent)
    assert wire.said() == ["re: one", "re: two", "re: three"]
    assert other.said() == ["re: from elsewhere"]


async def test_a_turn_answers_no_more_than_the_cap_and_the_rest_comes_next(town: Make) -> None:
    t = town(messages=mode("collect", cap=3, drop="old"))
    slow, wire = Slow(t), t.wire()
    async with t.house(wire):
        await wire.say("0")
        await slow.began.wait()
        await wire.say(*map(str, range(1, 9)))
        slow.gate.set()
        await wire.until(lambda: len(wire.sent) == 4 + 1)
    answers = [text for text in wire.said() if text.startswith("re: ")]
    assert answers == ["re: 0", "re: 1 | 2 | 3", "re: 4 | 5 | 6", "re: 7 | 8"]
    assert [text for text in wire.said() if text not in answers] == [
        "⏳ Queued, 5 ahead. I answer what waits together; /stop ends what runs."
    ]


async def test_a_conversation_chooses_its_mode_and_keeps_it(town: Make) -> None:
    t = town()
    slow, wire = Slow(t), t.wire()
    async with t.house(wire):
        await wire.say("one")
        await slow.began.wait()
        await wire.say("/queue followup debounce:0")
        await wire.until(lambda: len(wire.sent) == 1)
        assert "followup" in wire.said()[0], "at once, while a turn runs"
        await wire.say("two", "three")
        slow.gate.set()
        await wire.until(lambda: len(wire.sent) == 4)
        await wire.say("/new")
        await wire.say("/queue")
        await wire.until(lambda: len(wire.sent) == 6)
        assert wire.said()[-1] != wire.said()[-2]
        assert any("followup (chosen for this conversation)" in text for text in wire.said()[-2:])
        await wire.say("/queue sideways")
        await wire.until(lambda: len(wire.sent) == 7)
        assert "no way to queue" in wire.said()[-1]
        await wire.say("/queue default")
        await wire.until(lambda: len(wire.sent) == 8)
    assert wire.said()[1:4] == ["re: one", "re: two", "re: three"]


async def test_the_first_thing_said_may_be_how_to_queue(town: Make) -> None:
    t = town()
    wire = t.wire()
    async with t.house(wire) as house:
        await wire.say("/queue steer")
        await wire.until(lambda: wire.sent)
        record = house.agents["main"].store.get("agent:main:main")
        assert record is not None
        assert record.queue == "steer"


async def test_other_modes_by_channel(town: Make) -> None:
    t = town(messages={"queue": {"mode": "collect", "byChannel": {"wire": "followup"}}})
    slow, wire = Slow(t), t.wire()
    async with t.house(wire):
        await wire.say("one")
        await slow.began.wait()
        await wire.say("two", "three")
        slow.gate.set()
        await wire.until(lambda: len(wire.sent) == 3)


async def test_a_message_that_was_steered_is_not_answered_again_after_a_restart(town: Make) -> None:
    t = town(messages=mode("steer"))
    wire, asked, stalled = t.wire(), asyncio.Event(), asyncio.Event()

    def answer(request: Request) -> Any:
        if len(t.model.requests) == 1:
            asked.set()
            return [Stall(gate), ToolCall(id="c1", name="list", arguments={"path": "."})]
        stalled.set()
        return [TextDelta("half"), Stall()]

    gate = asyncio.Event()
    t.answer = answer
    async with t.house(wire) as house:
        await wire.say("paint the fence")
        await asked.wait()
        await wire.say("make it blue")
        gate.set()
        await stalled.wait()
        assert await house.lanes.drain(0.01) == 1
    t.answer = lambda request: "re: " + " | ".join(newest(request))
    again = t.wire()
    async with t.house(again) as house:
        await again.until(lambda: again.sent)
        await house.lanes.quiet()
        tally = await house.ledger.tally()
        assert (tally.waiting, tally.running) == (0, 0)
    assert again.said() == ["re: paint the fence | make it blue"]


@pytest.mark.files
async def test_what_was_claimed_for_the_turn_but_not_heard_yet_is_heard_after_a_restart(town: Make) -> None:
    t = town(messages=mode("steer"))
    wire, asked = t.wire(), asyncio.Event()

    def answer(_: Request) -> Any:
        asked.set()
        return [Stall()]

    t.answer = answer
    async with t.house(wire) as house:
        await wire.say("paint the fence")
        await asked.wait()
        await wire.say("make it blue")
        assert await house.lanes.drain(0.01) == 1
    ledger = await SqliteLedger.open(t.root / "home" / "state" / "ledger.sqlite", t.clock)
    (turn,) = await ledger.turns.unfinished()
    (row,) = await ledger.inbox.waiting()
    await ledger.turns.join(turn.id, [row.id])  # and then the lights went out
    await ledger.close()
    t.answer = lambda request: "re: " + " | ".join(newest(request))
    again = t.wire()
    async with t.house(again):
        await again.until(lambda: again.sent)
    assert again.said() == ["re: paint the fence | make it blue"]


async def test_stopping_ends_what_was_let_in_too_and_what_waits_goes_on(town: Make) -> None:
    t = town()
    slow, wire = Slow(t), t.wire()
    async with t.house(wire) as house:
        await wire.say("one")
        await slow.began.wait()
        await wire.say("two", "/stop")
        await wire.until(lambda: len(wire.sent) == 2)
        await house.lanes.quiet()
        assert (await house.ledger.tally()).waiting == 0
    assert sorted(wire.said()) == ["re: two", "⏹️ Stopped."]


@parametrize_some(4, "steps", [0, 1, 3, 8, 20, 50, 120])
async def test_stopping_at_any_moment_leaves_no_message_between_chairs(town: Make, steps: int) -> None:
    t = town()
    t.answer = lambda _: [Stall()]
    wire = t.wire()
    async with t.house(wire) as house:
        await wire.say("one")
        await t.steps(steps)
        await wire.say("/stop")
        t.answer = lambda request: "re: " + " | ".join(newest(request))
        await wire.say("two")
        await wire.until(lambda: any("two" in text for text in wire.said()))
        await house.lanes.quiet()
        tally = await house.ledger.tally()
        assert (tally.waiting, tally.running) == (0, 0)


async def test_an_album_is_one_message_however_its_parts_come(town: Make) -> None:
    t = town(messages=mode("followup"))
    wire = t.wire()
    async with t.house(wire) as house:
        album = {"part_of": "album-1"}
        first = replace(wire.message("look", **album), attachments=(picture(1),))
        await wire.deliver(first)
        await t.steps()
        t.clock.move(0.9)
        await wire.say("at these", **album)
        await wire.say("and something else")
        await wire.say("last one", **album)
        await t.steps()
        assert t.model.requests == [], "an album is complete when it was quiet for a second"
        t.clock.move(1.1)
        await wire.until(lambda: len(wire.sent) == 2)
        await house.lanes.quiet()
    first_answer, second = wire.said()
    assert [word in first_answer for word in ("at these", "last one", "something else")] == [True, True, False]
    assert second == "re: and something else"


async def test_a_turn_taken_up_after_a_restart_can_be_interrupted_too(town: Make) -> None:
    t = town(messages=mode("interrupt"))
    slow, wire = Slow(t), t.wire()
    async with t.house(wire) as house:
        await wire.say("count to a million")
        await slow.began.wait()
        assert await house.lanes.drain(0.01) == 1
    slow.began.clear()
    again = t.wire()
    async with t.house(again) as house:
        await slow.began.wait()
        await again.say("no: to ten")
        await again.until(lambda: again.sent)
        await house.lanes.quiet()
        tally = await house.ledger.tally()
        assert (tally.waiting, tally.running) == (0, 0)
    assert again.said() == ["re: no: to ten"]
    assert "count to a million" in str(t.model.requests[-1].messages)


async def test_a_turn_that_waits_to_be_taken_up_after_a_restart_can_be_stopped(town: Make) -> None:
    t = town(agents={"defaults": {"maxConcurrent": 2}})
    narrower = town(agents={"defaults": {"maxConcurrent": 1}})
    asked, gate, wire = 0, asyncio.Event(), t.wire()

    def answer(request: Request) -> Any:
        nonlocal asked
        asked += 1
        return [Stall(gate), TextDelta("re: " + " | ".join(newest(request)))]

    t.answer = narrower.answer = answer
    async with t.house(wire) as house:
        for group in ("one", "two"):
            await wire.say(f"hello in {group}", group=group, mentioned=True)
        while asked < 2:
            await t.steps(10)
        assert await house.lanes.drain(0.01) == 2
    again = t.wire()
    async with narrower.house(again) as house:
        while asked < 3:
            await t.steps(10)
        (running,) = house.lanes.running()
        (waiting,) = set(house.lanes.sessions()) - {running.session}
        place = "one" if "one" in waiting else "two"
        await again.say("/stop", group=place, mentioned=True)
        await again.until(lambda: again.sent)
        gate.set()
        await house.lanes.quiet()
        tally = await house.ledger.tally()
    assert again.said(place)[0].startswith("⏹️")
    assert (tally.waiting, tally.running) == (0, 0)
    assert asked == 3, "what was stopped before it was taken up is not asked again"


async def test_messages_whose_turn_could_not_begin_are_tried_each_for_itself(
    town: Make, caplog: pytest.LogCaptureFixture
) -> None:
    t = town()
    slow, wire = Slow(t), t.wire()
    async with t.house(wire) as house:
        await wire.say("one")
        await slow.began.wait()
        await wire.say("two", "three", "four")
        house.agents.pop("main")  # as when the settings lose an agent whose messages wait
        slow.gate.set()
        await house.lanes.quiet()
        assert sum("failed" in record.message for record in caplog.records) == 3
        assert (await house.ledger.tally()).waiting == 3
    again = t.wire()
    async with t.house(again):
        await again.until(lambda: again.sent and "four" in again.said()[-1])
    assert again.said()[-1].endswith("two | three | four")


async def test_the_status_tells_how_far_the_turn_is(town: Make) -> None:
    t = town(messages=mode("steer"))
    wire, gates = t.wire(), [asyncio.Event(), asyncio.Event()]
    asked = [asyncio.Event(), asyncio.Event()]

    def answer(_: Request) -> Any:
        number = len(t.model.requests) - 1
        if number > 1:
            return "done"
        asked[number].set()
        return [Stall(gates[number]), ToolCall(id=f"c{number}", name="list", arguments={"path": f"d{number}"})]

    t.answer = answer
    async with t.house(wire):
        await wire.say("look around")
        await asked[0].wait()
        await wire.say("and in the shed")
        gates[0].set()
        await asked[1].wait()
        await wire.say("/status")
        await wire.until(lambda: wire.sent)
        gates[1].set()
        await wire.until(lambda: len(wire.sent) == 2)
    assert "- Current turn: 1 of 40 tool calls so far, 1 added during the turn" in wire.said()[0]
    assert "- Queue: steer: what you say while I work reaches me between two steps" in wire.said()[0]
    assert "0 waiting here" in wire.said()[0]


async def test_the_status_tells_of_repeats_and_of_what_limits_a_turn(town: Make) -> None:
    t = town()
    wire, gate, asked = t.wire(), asyncio.Event(), asyncio.Event()

    def answer(_: Request) -> Any:
        number = len(t.model.requests)
        if number > 5:
            return "done"
        if number == 5:
            asked.set()
            return [Stall(gate), ToolCall(id="c5", name="list", arguments={"path": "."})]
        return ToolCall(id=f"c{number}", name="list", arguments={})

    t.answer = answer
    async with t.house(wire):
        await wire.say("look around")
        await asked.wait()
        await wire.say("/status")
        await wire.until(lambda: wire.sent)
        gate.set()
        await wire.until(lambda: len(wire.sent) == 2)
        await wire.say("/status")
        await wire.until(lambda: len(wire.sent) == 3)
    assert "- Current turn: 4 of 40 tool calls so far, 1 rejected as repeats" in wire.said()[0]
    assert "- A turn: at most 40 tool calls and 600 s, 3 identical calls with the same result" in wire.said()[2]
    assert "1 turn\n" in wire.said()[2]
    assert "Running: 0 turns, 0 waiting here, 0 in total" in wire.said()[2]


@pytest.mark.parametrize("word", ["stop", "Stop!", "ABORT", "wait", "esc"])
async def test_a_word_that_asks_to_stop_does_so_while_a_turn_runs_and_is_a_message_otherwise(town: Make, word: str) -> None:
    t = town()
    wire = t.wire()
    asked = asyncio.Event()

    def answer(_: Request) -> Any:
        asked.set()
        return [Stall()] if len(t.model.requests) == 1 else "you said it"

    t.answer = answer
    async with t.house(wire) as house:
        await wire.say("work on it")
        await asked.wait()
        await wire.say(word)
        await wire.until(lambda: wire.sent)
        assert wire.said() == ["⏹️ Stopped."]
        await house.lanes.quiet()
        await wire.say(word)
        await wire.until(lambda: len(wire.sent) == 2)
    assert wire.said()[1] == "you said it"
    assert word in t.model.requests[-1].messages[-1].text


async def test_stop_is_also_for_what_interrupted_and_waits_out_its_pause(town: Make) -> None:
    t = town(messages=mode("interrupt", debounceMs=500))
    slow, wire = Slow(t), t.wire()
    async with t.house(wire) as house:
        await wire.say("count to a million")
        await slow.began.wait()
        await wire.say("no: to ten")
        await t.steps(500)
        await wire.say("/stop")
        await wire.until(lambda: wire.sent)
        await house.lanes.quiet()
        t.clock.move(60)
        await t.steps()
        await house.lanes.quiet()
        rows = await house.ledger.inbox.latest(["waiting", "claimed", "answered"])
        await wire.say("and now?")
        await t.steps(500)
        t.clock.move(60)
        await wire.until(lambda: len(wire.sent) == 2)
    assert wire.said()[0] == "⏹️ Stopped, including 1 message that I had not started to answer."
    assert [row.state for row in rows] == ["answered"] * 3
    assert rows[1].reason == "stopped by its owner"
    assert wire.said()[1].endswith("and now?")
    assert t.model.requests[-1].messages[-2].text == STOPPED_SILENT, "what was stopped stays said, and is not answered"
    assert "no: to ten" in t.model.requests[-1].messages[-3].text


@parametrize_some(5, "steps", range(0, 60, 3))
async def test_stop_just_behind_an_interruption_leaves_nothing_to_answer(town: Make, steps: int) -> None:
    t = town(messages=mode("interrupt", debounceMs=500))
    slow, wire = Slow(t), t.wire()
    async with t.house(wire) as house:
        await wire.say("count to a million")
        await slow.began.wait()
        await wire.say("no: to ten")
        await t.steps(steps)
        await wire.say("/stop")
        await wire.until(lambda: wire.sent)
        await house.lanes.quiet()
        rows = await house.ledger.inbox.latest(["waiting", "claimed", "answered"])
    assert wire.said() == ["⏹️ Stopped, including 1 message that I had not started to answer."]
    assert [row.state for row in rows] == ["answered"] * 3


@parametrize_some(2, ("together", "steps"), [(1, 0), (1, 2), (1, 20), (2, 0), (2, 2), (2, 20), (3, 0)])
@pytest.mark.parametrize("name", ["collect", "steer", "followup", "interrupt"])
async def test_what_is_said_after_a_stop_is_answered(town: Make, name: str, together: int, steps: int) -> None:
    t = town(messages=mode(name, debounceMs=500))
    slow, wire = Slow(t), t.wire()
    async with t.house(wire) as house:
        await wire.say("count to a million")
        await slow.began.wait()
        await wire.say(*("no: to ten", "/stop", "and now say hello")[:together])
        await t.steps(steps)
        await wire.say(*("no: to ten", "/stop", "and now say hello")[together:])
        for _ in range(6):
            await t.steps(200)
            t.clock.move(60)
        await house.lanes.quiet()
        rows = await house.ledger.inbox.latest(["waiting", "claimed", "answered"])
    assert any("and now say hello" in text for text in wire.said()), wire.said()
    assert "and now say hello" in str(t.model.requests[-1].messages)
    assert [row.state for row in rows] == ["answered"] * 4


@pytest.mark.parametrize("name", ["collect", "steer", "followup", "interrupt"])
@pytest.mark.parametrize("word", ["/stop", "stop"])
async def test_stop_ends_what_a_free_lane_holds_back_for_more(town: Make, name: str, word: str) -> None:
    t = town(messages=mode(name) | {"inbound": {"debounceMs": 2000}})
    wire = t.wire()
    async with t.house(wire) as house:
        await wire.say("one", "two")
        await t.steps()
        await wire.say(word)
        await wire.until(lambda: wire.sent)
        await house.lanes.quiet()
        t.clock.move(60)
        await t.steps()
        await house.lanes.quiet()
        rows = await house.ledger.inbox.latest(["waiting", "claimed", "answered"])
    assert wire.said() == ["⏹️ Stopped, including 2 messages that I had not started to answer."]
    assert [row.state for row in rows] == ["answered"] * 3
    assert not t.model.requests


async def test_a_member_of_a_group_does_not_stop_what_another_is_still_saying(town: Make) -> None:
    t = town(messages={"inbound": {"debounceMs": 2000}})
    wire = t.wire()
    async with t.house(wire) as house:
        await wire.say("buy milk", group="g", by="zoe", mentioned=True)
        await t.steps()
        await wire.say("/stop", group="g", by="yan", mentioned=True)
        await wire.until(lambda: wire.sent)
        assert "only my owner can use /stop" in wire.said("g")[0]
        t.clock.move(60)
        await wire.until(lambda: len(wire.sent) == 2)
        await house.lanes.quiet()
    assert wire.said("g")[1] == "re: buy milk"
