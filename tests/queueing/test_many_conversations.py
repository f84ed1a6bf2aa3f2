"""More conversations than are kept in memory, while a turn runs in the one that was opened first."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from agent.messages import Text, UserMessage
from agent.transcript.entries import Compacted, FlushBegun, Said
from agent.transcript.transcript import Transcript
from agent.transcript.transcript_file import TranscriptFile
from channels.platform import Policy
from gateway.agents.session_contexts import KEPT_BYTES, KEPT_OPEN
from gateway.base.clock import ManualClock
from tests.queueing.conftest import Slow, Town

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


async def test_a_conversation_stays_in_memory_while_its_turn_runs(town: Callable[..., Town]) -> None:
    t = town(session={"dmScope": "per-channel-peer"})
    slow = Slow(t)
    wire = t.wire()
    people = [f"p{number}" for number in range(KEPT_OPEN + 3)]
    async with t.house(wire, policy=Policy(allow_from=("anna", *people))) as house:
        conversations = house.agents["main"].conversations
        await wire.say("wait", by="anna")
        await slow.began.wait()
        (first,) = conversations
        for person in people:
            await wire.say("hello", by=person)
            await wire.until(lambda person=person: wire.said(person))
        assert conversations.get(first.session) is first
        assert len(list(conversations)) == KEPT_OPEN + 1
        slow.gate.set()
        await wire.until(lambda: wire.said("anna"))
        await house.lanes.quiet()
        await wire.say("hello", by="p0")
        await wire.until(lambda: len(wire.said("p0")) == 2)
        assert conversations.get(first.session) is None, "over, it makes room"
        await wire.say("again", by="anna")
        await wire.until(lambda: wire.said("anna") == ["re: wait", "re: again"])


async def test_conversations_with_much_in_them_make_room_before_there_are_many(town: Callable[..., Town]) -> None:
    t = town(session={"dmScope": "per-channel-peer"})
    wire = t.wire()
    people = ["p0", "p1", "p2", "p3"]
    async with t.house(wire, policy=Policy(allow_from=tuple(people))) as house:
        conversations = house.agents["main"].conversations
        opened = []
        for person in people:
            await wire.say("hello", by=person)
            await wire.until(lambda person=person: wire.said(person))
            await house.lanes.quiet()
            opened.append(list(conversations)[-1])
            await opened[-1].transcript.append("long", FlushBegun(cycle="x" * (KEPT_BYTES * 3 // 8), reason="leave"))
        assert list(conversations) == opened[1:]
        await wire.say("again", by="p0")
        await wire.until(lambda: len(wire.said("p0")) == 2)
        await house.lanes.quiet()
        first = list(conversations)[-1]
        assert first.session == opened[0].session
        assert first.transcript.held >= opened[0].transcript.held
        assert list(conversations)[:-1] == opened[3:]


async def test_a_transcript_knows_how_much_of_it_is_in_memory(tmp_path: Path) -> None:
    path, at = tmp_path / "s.jsonl", datetime(2026, 3, 1, tzinfo=UTC)
    transcript = await Transcript.load(TranscriptFile(path), ManualClock(at))
    for number in range(9):
        await transcript.append(f"t{number}", Said(message=UserMessage(content=(Text(text="x" * 1000),), at=at)))
    assert transcript.held == path.stat().st_size
    mark = Compacted(summary="so far", first_kept="t7:0", tokens_before=9, tokens_after=3, model="m", reason="threshold")
    await transcript.append("sum", mark)
    lines = path.read_bytes().splitlines(keepends=True)
    assert transcript.held == sum(map(len, lines[-3:]))
    again = await Transcript.load(TranscriptFile(path), ManualClock(at))
    assert again.held == transcript.held
