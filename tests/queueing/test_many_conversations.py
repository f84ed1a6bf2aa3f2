"""More conversations than are kept in memory, while a turn runs in the one that was opened first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.platform import Policy
from gateway.agents.session_contexts import KEPT_OPEN
from tests.queueing.conftest import Slow, Town

if TYPE_CHECKING:
    from collections.abc import Callable


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
