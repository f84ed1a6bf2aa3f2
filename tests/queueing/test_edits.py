"""Messages that are edited, or whose settings change, between the moment they arrive and the moment their turn begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from channels.messages import Inbound
    from tests.peers.wire import Wire
    from tests.queueing.conftest import Town

    Make = Callable[..., Town]

LONG = "x" * 5000
"""Longer than what is kept in memory of a message that waits."""


def edit(wire: Wire, message: Inbound, text: str) -> Inbound:
    fresh = wire.message(text, event="edited", target=message.message_id)
    return replace(fresh, conversation=message.conversation)


@pytest.mark.parametrize("filling", ["", LONG], ids=["kept in memory", "kept on disk"])
async def test_a_message_that_is_edited_before_its_turn_is_heard_as_it_reads_then(town: Make, filling: str) -> None:
    t = town()
    wire = t.wire()
    async with t.house(wire) as house:
        house.pause.begin("disk", "a test")
        first = wire.message(f"buy milk{filling}")
        await wire.deliver(first)
        await wire.deliver(edit(wire, first, "buy oat milk"))
        await wire.deliver(edit(wire, first, "buy tea"))
        house.pause.end("disk")
        await wire.until(lambda: "re: buy tea" in wire.said())
        await house.lanes.quiet()
    assert not any("milk" in text for text in wire.said() if text.startswith("re: "))


async def test_a_word_that_became_a_trigger_while_its_message_waited_is_a_command(town: Make) -> None:
    t = town()
    wire = t.wire()
    async with t.house(wire) as house:
        house.pause.begin("disk", "a test")
        await wire.say("fresh start")
        settings = house.settings.current
        changed = settings.model_copy(
            update={"session": settings.session.model_copy(update={"reset_triggers": ("fresh start",)})}
        )
        house.settings.replace(changed)
        for agent in house.agents.values():
            agent.adopt(changed, ())
        house.pause.end("disk")
        await house.lanes.quiet()
        await wire.until(lambda: any("New conversation" in text for text in wire.said()))
    assert not any(text.startswith("re: ") for text in wire.said())
