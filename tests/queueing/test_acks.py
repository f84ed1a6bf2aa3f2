"""The emoji under messages that were taken in."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from gateway.outbound.progress import AT_ONCE, is_meant
from tests.peers.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.queueing.conftest import Town

    Make = Callable[..., Town]


@pytest.mark.parametrize(
    ("scope", "direct", "mentioned", "overheard"),
    [
        ("off", False, False, False),
        ("direct", True, False, False),
        ("group-mentions", False, True, False),
        ("group-all", False, True, True),
        ("all", True, True, True),
    ],
)
async def test_the_scope_says_which_messages_get_it(scope, *, direct: bool, mentioned: bool, overheard: bool) -> None:
    wire = Wire()
    assert is_meant(wire.message("x"), scope) is direct
    assert is_meant(wire.message("x", group="g", mentioned=True), scope) is mentioned
    assert is_meant(wire.message("x", group="g"), scope) is overheard
    assert not is_meant(wire.message("👍", event="reaction", target="1", group="g", mentioned=True), scope)


async def test_an_emoji_is_put_there_and_stays(town: Make) -> None:
    t = town(messages={"ackReactionScope": "all"})
    wire = t.wire()
    async with t.house(wire) as house:
        (one,) = await wire.say("hello")
        await wire.until(lambda: wire.sent and wire.reactions)
        await house.acks.quiet()
    assert wire.reactions == [(one, "👀")]


async def test_it_is_taken_off_when_the_message_is_answered_and_never_before_it_is_there(town: Make) -> None:
    t = town(messages={"ackReaction": "⏳", "ackReactionScope": "all", "removeAckAfterReply": True})
    wire = t.wire()
    wire.gate = asyncio.Event()
    async with t.house(wire) as house:
        (one,) = await wire.say("hello")
        await wire.until(lambda: wire.sent)
        await house.lanes.quiet()
        assert wire.reactions == []
        wire.gate.set()
        await house.acks.quiet()
    assert wire.reactions == [(one, "⏳"), (one, None)]


@pytest.mark.parametrize("settings", [{"ackReaction": "", "ackReactionScope": "all"}, {"ackReactionScope": "off"}, {}])
async def test_a_private_message_gets_none_unless_the_settings_say_so(town: Make, settings: dict[str, str]) -> None:
    t = town(messages=settings)
    wire = t.wire()
    async with t.house(wire) as house:
        await wire.say("hello")
        await wire.until(lambda: wire.sent)
        await house.acks.quiet()
    assert wire.reactions == []


async def test_a_flood_gets_few(town: Make) -> None:
    t = town(messages={"ackReactionScope": "all"})
    wire = t.wire()
    wire.gate = asyncio.Event()
    async with t.house(wire) as house:
        await wire.deliver(*(wire.message(str(n)) for n in range(100)))
        wire.gate.set()
        await house.acks.quiet()
        await house.lanes.quiet()
    assert len(wire.reactions) == AT_ONCE
