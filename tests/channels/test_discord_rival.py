"""A token that two programs use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from channels.discord.token_conflict import SETTLED
from tests.channels.discord_line import ANNA, DIRECT, Line
from tests.peers.discord import BOT, DiscordPeer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def peer() -> AsyncIterator[DiscordPeer]:
    async with DiscordPeer() as started:
        yield started


async def heard(peer: DiscordPeer, line: Line, text: str) -> None:
    await peer.say(ANNA, text)
    await line.door.until(lambda: text in line.door.texts)


async def test_another_program_that_speaks_as_the_bot_is_told_of_once(peer: DiscordPeer) -> None:
    line = Line(peer)
    async with line.running():
        await line.send("mine")
        for text in ("yes?", "what is it?"):
            await peer.say(BOT, text, channel=peer.dm(ANNA), bot=True, nonce="of somebody else")
        await heard(peer, line, "hello")
        assert not any("another program" in event for event, _ in line.log.lines), "not before it is certain"
        await line.clock.sleep(SETTLED + 1)
        await heard(peer, line, "why two answers?")
        await heard(peer, line, "again")
    told = [event for event, _ in line.log.lines if "another program" in event]
    assert len(told) == 1
    assert "Reset Token" in told[0]


async def test_what_was_said_here_is_no_rivals_also_where_discord_leaves_the_nonce_out(peer: DiscordPeer) -> None:
    line = Line(peer)
    async with line.running():
        for number in range(3):
            sent = await line.send(f"mine {number}", key=f"k{number}")
            place, message = peer.found(sent)
            await peer.announce(place, {**message, "nonce": None})
        await line.channel.draft(DIRECT, "turn", "a preview")
        await line.clock.sleep(SETTLED + 1)
        await line.channel.draft(DIRECT, "turn", "a preview")
        await heard(peer, line, "hello")
        await line.clock.sleep(SETTLED + 1)
        await heard(peer, line, "again")
    assert not any("another program" in event for event, _ in line.log.lines)
