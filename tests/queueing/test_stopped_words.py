"""What people say stays said, whatever stops its answer: it is in the transcript once, in sight of the next turn, and noted at the end."""

from __future__ import annotations

import asyncio
import re
import shutil
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from agent.errors import AgentError
from agent.messages import Text, ToolCall, UserMessage
from agent.models.scripted import Stall
from agent.transcript.history_view import STOPPED_SILENT
from agent.transcript.transcript import Transcript
from tests.patience import PATIENCE
from tests.peers.wire import picture
from tests.queueing.conftest import Town
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from agent.models.protocol import Request

    Make = Callable[..., Town]

WORD = re.compile(r"\bw\d+;")
FLUSH, SUMMARY = "[Memory flush]", "Write a summary"


def asked_for(request: Request) -> str:
    """What a call is for that no person asked for: a flush or a summary."""
    last = request.messages[-1].text
    return next((kind for kind in (FLUSH, SUMMARY) if kind in last), "")


def shown(request: Request) -> list[str]:
    """What a request shows of people's words, and where they are marked as stopped."""
    found: list[str] = []
    for message in request.messages:
        if isinstance(message, UserMessage):
            found += WORD.findall("\n".join(part.text for part in message.content if isinstance(part, Text)))
        elif message.text == STOPPED_SILENT:
            found.append("stopped")
    return found


def text_of(request: Request) -> str:
    return "\n".join(message.text for message in request.messages)


def notes_of_the_day(root: Path) -> str:
    return "".join(note.read_text() for note in root.rglob("2026-03-01*.md"))


class Upkeep:
    """Answers a town whose window is small; the first flush or summary, whichever is wanted, hangs and then says nothing."""

    def __init__(self, t: Town, kind: str) -> None:
        t.model.window = 16_000
        t.answer = self
        self.kind = kind
        self.began = asyncio.Event()

    def __call__(self, request: Request) -> Any:
        kind = asked_for(request)
        if kind == self.kind and not self.began.is_set():
            self.began.set()
            return [Stall()]
        if kind == SUMMARY:
            return "## Goal\nTalk about sheds.\n\n## Done\nThe owner told of sheds and keys.\n\n## Next\ngo on."
        return "NO_REPLY" if kind == FLUSH else "re"


async def filled(t: Town, wire: Any, upkeep: Upkeep) -> int:
    """Say something long again and again until the call hangs that is to be made before one of them; return its number."""
    for number in range(100):
        before = len(wire.sent)
        await wire.say(f"w{number}; Frau Kwx{number}zq has the key of the shed; " + "the red roof and the garden " * 90)
        while len(wire.sent) == before and not upkeep.began.is_set():  # noqa: ASYNC110 (whichever comes first)
            await asyncio.sleep(0.001)
        if upkeep.began.is_set():
            return number
    pytest.fail("the window was never full")


@pytest.mark.parametrize("how", ["/stop", "stop", "/stop all"])
@pytest.mark.parametrize("kind", [FLUSH, SUMMARY])
async def test_a_message_that_is_stopped_while_room_is_made_for_it_stays_said(town: Make, kind: str, how: str) -> None:
    t = town()
    upkeep, wire = Upkeep(t, kind), t.wire()
    async with t.house(wire) as house:
        number = await filled(t, wire, upkeep)
        before = len(wire.sent)
        await wire.say(how)
        await wire.until(lambda: len(wire.sent) > before)
        await house.lanes.quiet()
        await wire.say("w999; what now?")
        await wire.until(lambda: "re" in wire.said()[before + 1 :])
        await house.lanes.quiet()
        last = shown(next(one for one in reversed(t.model.requests) if not asked_for(one)))
        assert last[-3:] == [f"w{number};", "stopped", "w999;"]
        await wire.say("/new")
        await house.lanes.quiet()
    assert f"Frau Kwx{number}zq has the key of the shed" in notes_of_the_day(t.root)


@pytest.mark.parametrize("kind", [FLUSH, SUMMARY])
async def test_a_message_that_runs_out_of_time_while_room_is_made_for_it_stays_said(town: Make, kind: str) -> None:
    t = town(agents={"defaults": {"limits": {"timeoutSeconds": 2}}})
    upkeep, wire = Upkeep(t, kind), t.wire()
    async with t.house(wire) as house:
        number = await filled(t, wire, upkeep)
        await wire.until(lambda: "this took longer" in wire.said()[-1])
        await house.lanes.quiet()
        await wire.say("w999; what now?")
        await wire.until(lambda: wire.said()[-1] == "re")
        last = shown(next(one for one in reversed(t.model.requests) if not asked_for(one)))
        assert last[-3:] == [f"w{number};", "stopped", "w999;"]


@pytest.mark.parametrize("mode", ["collect", "steer", "interrupt"])
async def test_messages_that_are_stopped_before_they_are_begun_stay_said(town: Make, mode: str) -> None:
    t = town(messages={"queue": {"mode": mode}, "inbound": {"debounceMs": 500}})
    wire = t.wire()
    async with t.house(wire) as house:
        await wire.say("w0; Frau Kwcgtvo has the key of the shed.", "w1; the second", "w2; the third", "/stop")
        await wire.until(lambda: wire.sent)
        await house.lanes.quiet()
        assert t.model.requests == []
        await wire.say("w9; what now?")
        await t.steps()
        t.clock.move(1)
        await wire.until(lambda: len(wire.sent) == 2)
        assert shown(t.model.requests[-1]) == ["w0;", "w1;", "w2;", "stopped", "w9;"]
        await wire.say("/new")
        await house.lanes.quiet()
        rows = await house.ledger.inbox.latest(["waiting", "claimed", "answered"])
    assert wire.said()[0] == "⏹️ Stopped, including 3 messages that I had not started to answer."
    assert [row.reason for row in rows if "w9" not in row.payload][:3] == ["stopped by its owner"] * 3
    assert "Frau Kwcgtvo has the key of the shed." in notes_of_the_day(t.root)


async def test_stopped_messages_of_a_group_stay_those_of_who_said_them(town: Make) -> None:
    t = town(messages={"inbound": {"debounceMs": 500}, "queue": {"mode": "collect"}})
    wire, here = t.wire(), {"group": "g", "mentioned": True}
    async with t.house(wire) as house:
        await wire.say("w0; by a guest", by="zoe", **here)
        await wire.say("/stop", by="anna", **here)
        await wire.until(lambda: wire.sent)
        await house.lanes.quiet()
        assert t.model.requests == []
        await wire.say("w9; and now?", by="anna", **here)
        await t.steps()
        t.clock.move(1)
        await wire.until(lambda: len(wire.sent) == 2)
    assert shown(t.model.requests[-1]) == ["w0;", "stopped", "w9;"]
    [by_zoe] = [one for one in t.model.requests[-1].messages if isinstance(one, UserMessage) and "w0;" in one.text]
    assert by_zoe.sender == "“Zoe” wire:zoe, member"
    assert by_zoe.taint == ("person:Zoe",)


async def test_files_of_a_message_that_is_stopped_before_it_is_begun_are_named(town: Make) -> None:
    t = town()
    wire = t.wire()
    async with t.house(wire) as house:
        await wire.say("w0; look", attachments=(picture(),), part_of="album")
        await wire.say("/stop")
        await wire.until(lambda: wire.sent)
        await house.lanes.quiet()
        await wire.say("w9; what now?")
        await wire.until(lambda: len(wire.sent) == 2)
    assert shown(t.model.requests[-1]) == ["w0;", "stopped", "w9;"]
    assert "[with files that were not downloaded: 1.png]" in text_of(t.model.requests[-1])


async def test_a_message_that_is_let_into_a_turn_just_as_that_is_stopped_stays_said(town: Make, monkeypatch: Any) -> None:
    t = town(messages={"queue": {"mode": "steer"}})
    wire, asked, gate, reads = t.wire(), asyncio.Event(), asyncio.Event(), asyncio.Event()

    def answer(_: Request) -> Any:
        if len(t.model.requests) > 1:
            return "re"
        asked.set()
        return [Stall(gate), ToolCall(id="c1", name="list", arguments={"path": "."})]

    t.answer = answer
    async with t.house(wire) as house:
        join = house.ledger.turns.join

        async def joined(*which: Any) -> Any:
            await join(*which)
            reads.set()
            await asyncio.sleep(60)

        monkeypatch.setattr(house.ledger.turns, "join", joined)
        await wire.say("w0; paint the fence")
        await asked.wait()
        await wire.say("w1; make it blue")
        gate.set()
        await reads.wait()
        await wire.say("/stop")
        await house.lanes.quiet()
        await wire.say("w9; what now?")
        await wire.until(lambda: wire.said()[-1:] == ["re"])
        assert (await house.ledger.tally()).running == 0
    assert shown(t.model.requests[-1]) == ["w0;", "w1;", "stopped", "w9;"]


async def test_a_message_whose_turn_fails_before_the_model_is_asked_stays_said(town: Make, monkeypatch: Any) -> None:
    t = town()
    t.answer = lambda _: "re"
    wire = t.wire()
    async with t.house(wire) as house:
        await wire.say("w0; hello")
        await wire.until(lambda: wire.said() == ["re"])

        async def broken(*_: Any, **__: Any) -> Any:
            raise AgentError("the model cannot be used", hint="homebody models list")

        with monkeypatch.context() as patched:
            patched.setattr(house.agents["main"].conversations, "open", broken)
            await wire.say("w1; Frau Kwcgtvo has the key")
            await wire.until(lambda: len(wire.sent) == 2)
            await house.lanes.quiet()
        assert "the model cannot be used" in wire.said()[-1]
        await wire.say("w9; go on")
        await wire.until(lambda: len(wire.sent) == 3)
    assert shown(t.model.requests[-1]) == ["w0;", "w1;", "w9;"], "and the next answer may be to both"


@parametrize_some(6, "steps", range(0, 60, 3))
@pytest.mark.parametrize("in_transcript", [True, False])
async def test_a_turn_that_is_stopped_just_as_it_is_taken_up_again_ends_and_stays_said(
    town: Make, steps: int, in_transcript: bool
) -> None:
    t = town()
    wire, asked = t.wire(), asyncio.Event()

    def answer(_: Request) -> Any:
        asked.set()
        return [Stall()]

    t.answer = answer
    async with t.house(wire) as house:
        await wire.say("w0; Frau Kwcgtvo has the key")
        await asked.wait()
        await house.lanes.drain(0.01)
    if not in_transcript:
        for path in (t.root / "home").rglob("sessions/*.jsonl*"):
            path.unlink()
    again = t.wire()
    async with t.house(again) as house:
        await t.steps(steps)
        await again.say("/stop")
        await again.until(lambda: again.sent)
        await house.lanes.quiet()
        tally = await house.ledger.tally()
        assert (tally.waiting, tally.running) == (0, 0), "it is over, and not taken up once more"
        t.answer = lambda _: "re"
        await again.say("w9; what now?")
        await again.until(lambda: again.said()[-1] == "re")
    assert [word for word in shown(t.model.requests[-1]) if word != "stopped"] == ["w0;", "w9;"]


@pytest.mark.parametrize("resumed", [True, False])
async def test_what_is_stopped_while_the_code_of_the_first_turn_is_loaded_ends_and_stays_said(
    town: Make, monkeypatch: Any, resumed: bool
) -> None:
    t = town(messages={"queue": {"mode": "collect"}})
    wire, asked, gate, loop = t.wire(), asyncio.Event(), threading.Event(), asyncio.get_running_loop()
    began = asyncio.Event()

    def answer(_: Request) -> Any:
        asked.set()
        return [Stall()]

    def load(_: str) -> None:
        loop.call_soon_threadsafe(began.set)
        gate.wait()

    t.answer = answer
    if resumed:
        async with t.house(wire) as house:
            await wire.say("w0; the first")
            await asked.wait()
            await house.lanes.drain(0.01)
        wire = t.wire()
    monkeypatch.setattr("gateway.turns.turn_code.CODE", ("not.loaded",))
    monkeypatch.setattr("gateway.turns.turn_code.import_module", load)
    t.answer = lambda _: "re"
    async with t.house(wire) as house:
        await wire.say(*([] if resumed else ["w0; the first"]))
        await began.wait()
        await wire.say("/stop", "w9; what now?")
        await t.steps()
        gate.set()
        await wire.until(lambda: "re" in wire.said())
        await house.lanes.quiet()
        tally = await house.ledger.tally()
        assert (tally.waiting, tally.running) == (0, 0)
    assert [word for word in shown(t.model.requests[-1]) if not resumed or word != "stopped"] == [
        "w0;",
        *([] if resumed else ["stopped"]),
        "w9;",
    ]


async def test_no_word_is_there_twice_or_lost_wherever_a_crash_falls_while_messages_are_stopped(
    tmp_path: Path, monkeypatch: Any
) -> None:
    lived = tmp_path / "lived"
    t = Town(lived, {"messages": {"queue": {"mode": "collect"}, "inbound": {"debounceMs": 500}}})
    copies: list[Path] = []

    def crash() -> None:
        copies.append(tmp_path / f"crash-{len(copies)}")
        shutil.copytree(
            lived, copies[-1], ignore=shutil.ignore_patterns("*.half")
        )  # what is being written beside it may vanish

    def crashing(work: Any) -> Any:
        async def around(*args: Any, **more: Any) -> Any:
            crash()
            return await work(*args, **more)

        return around

    wire = t.wire()
    async with t.house(wire) as house:
        with monkeypatch.context() as patched:
            patched.setattr(house.ledger.turns, "claim", crashing(house.ledger.turns.claim))
            patched.setattr(house.ledger.turns, "finish", crashing(house.ledger.turns.finish))
            patched.setattr(house.ledger.inbox, "settle", crashing(house.ledger.inbox.settle))
            patched.setattr(Transcript, "append", crashing(Transcript.append))
            await wire.say("w0; one", "w1; two", "w2; three", "/stop")
            await wire.until(lambda: wire.sent)
            await house.lanes.quiet()
    crash()
    assert len(copies) > 6
    for number, copy in enumerate(copies):
        await _goes_on(copy, stops_again=number % 2 > 0)


async def _goes_on(root: Path, *, stops_again: bool) -> None:
    """Live on after a crash: what was stopped, or is answered after all as nobody knows that it was, is in sight once."""
    t = Town(root, {"messages": {"queue": {"mode": "followup"}}})
    t.answer = lambda _: "re"
    t.wire()
    wire = t.wire()  # its keys are counted from where those before the crash do not come
    async with t.house(wire) as house:
        await wire.say(*(["/stop"] if stops_again else []))
        await house.lanes.quiet()
        await wire.say("w9; what now?")
        await house.lanes.quiet()
        assert (await house.ledger.tally()).running == 0
    last = shown(t.model.requests[-1])
    assert Counter(word for word in last if word != "stopped") == Counter({"w0;": 1, "w1;": 1, "w2;": 1, "w9;": 1}), last


@pytest.mark.parametrize("how", ["/stop", "/stop all"])
async def test_the_owner_ends_a_groups_task_in_that_group(town: Make, how: str) -> None:
    t = town()
    wire, here = t.wire(), {"group": "g", "mentioned": True}
    t.model.then([Stall()])
    async with t.house(wire) as house:
        await wire.say("w0; go", by="anna", **here)
        async with asyncio.timeout(PATIENCE):
            while not t.model.requests:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        await wire.say(how, by="anna", **here)
        await wire.until(lambda: wire.sent)
        assert wire.said()[-1].startswith("⏹️ Stopped")
        await house.lanes.quiet()
