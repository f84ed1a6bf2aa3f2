"""The line to Discord's gateway: it is taken up again in every case, soon, and without hurry."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from channels.common.backoff import LONGEST, Backoff
from channels.common.log import NoLog
from channels.discord.gateway_client import GatewayClient
from channels.discord.settings import DiscordSettings
from channels.errors import ChannelBroken
from tests.channels.discord_line import ANNA, Line
from tests.patience import PATIENCE
from tests.peers.discord import TOKEN, DiscordPeer
from tests.peers.hasty import FastClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def peer() -> AsyncIterator[DiscordPeer]:
    async with DiscordPeer() as started:
        yield started


@pytest.mark.parametrize("refusal", [503, 4000], ids=["refused", "closed at once"])
async def test_a_gateway_that_is_down_is_asked_ever_less_often_and_then_resumed(peer: DiscordPeer, refusal: int) -> None:
    line = Line(peer)
    async with line.running():
        await peer.say(ANNA, "before")
        await line.taken()
        peer.sessions.refusals = [refusal] * 12
        await peer.cut()
        await peer.say(ANNA, "meanwhile")
        await line.door.until(lambda: "meanwhile" in line.door.texts)
    assert line.door.texts == ["before", "meanwhile"]
    assert (peer.identified, peer.resumed) == (1, 1)
    assert line.clock.slept == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60, 60]


async def test_a_second_outage_is_waited_out_as_patiently_as_the_first(peer: DiscordPeer) -> None:
    line = Line(peer)
    async with line.running():
        for _ in range(2):
            ready = asyncio.ensure_future(line.door.until_ready())
            peer.sessions.refusals = [503] * 2
            await peer.cut()
            await ready
    assert line.clock.slept == [1, 2, 1, 2]


async def test_a_gateway_that_is_down_at_the_start_is_waited_for(peer: DiscordPeer) -> None:
    peer.sessions.refusals = [503, 4000, 503]
    line = Line(peer)
    async with line.running():
        await peer.say(ANNA, "hello")
        await line.taken()
    assert line.clock.slept == [1, 2, 4]


async def test_a_connection_that_went_silent_is_given_up_and_resumed(peer: DiscordPeer) -> None:
    peer.heartbeat_ms = 50
    line = Line(peer, heartbeatTimeoutSeconds=0.3)
    async with line.running():
        await peer.say(ANNA, "before")
        await line.taken()
        peer.sessions.deaf = True
        await peer.say(ANNA, "unheard")
        connections = peer.sessions.connections
        await peer.until(lambda: peer.sessions.connections > connections)
        peer.sessions.deaf = False
        await line.door.until(lambda: "unheard" in line.door.texts)
    assert line.door.texts == ["before", "unheard"]
    assert peer.identified == 1


async def test_a_connection_that_is_made_as_it_is_ended_is_not_kept(peer: DiscordPeer) -> None:
    line = Line(peer)
    greeted = asyncio.Event()

    def heard(_: str, content: dict[str, Any], __: int) -> None:
        """End it between the library's answer to the greeting and the next step of who waits for that."""
        if "heartbeat_interval" in content:
            listening.cancel()
            greeted.set()

    account = DiscordSettings.model_validate({"token": TOKEN, "apiRoot": peer.root, "gatewayUrl": peer.gateway})
    link = GatewayClient(
        account.account("default"), heard, clock=line.clock, backoff=Backoff(line.clock, lambda: 1.0, NoLog(), "default")
    )
    await link.sign_in()
    listening = asyncio.ensure_future(link.listen())
    try:
        await greeted.wait()
        assert await asyncio.wait([listening], timeout=PATIENCE) == ({listening}, set())
        assert listening.cancelled()
    finally:
        await link.close()


async def test_a_quiet_connection_stays_and_is_known_to_be_alive(peer: DiscordPeer) -> None:
    peer.heartbeat_ms = 20
    line = Line(peer, heartbeatTimeoutSeconds=5)
    async with line.running():
        lives = line.door.lives
        await peer.until(lambda: peer.sessions.heartbeats > 6)
        assert line.door.lives > lives
    assert peer.sessions.connections == 1


async def test_a_new_session_is_begun_five_seconds_after_the_last(peer: DiscordPeer) -> None:
    line = Line(peer)
    async with line.running():
        await peer.invalidate()
        await peer.until(lambda: peer.identified == 2)
    assert line.clock.slept == [5]


@pytest.mark.parametrize(("code", "told"), [(4004, "token"), (4014, "Message Content Intent"), (4013, "code 4013")])
async def test_a_gateway_that_closes_for_good_is_not_asked_again(peer: DiscordPeer, code: int, told: str) -> None:
    peer.sessions.refusals = [code]
    line = Line(peer)
    with pytest.raises(ChannelBroken, match=told) as caught:
        await line.channel.run(line.door)
    assert caught.value.hint
    assert peer.sessions.connections == 1


async def test_pauses_grow_to_a_minute_never_vanish_and_begin_anew() -> None:
    clock, dice = FastClock(), iter([0.0, 1.0] * 10)
    pauses = Backoff(clock, lambda: next(dice), NoLog(), "default")
    for _ in range(10):
        await pauses.wait("it failed", "why")
    pauses.over()
    await pauses.wait("it failed", "why")
    assert clock.slept == [0.5, 2, 2, 8, 8, 32, 30, LONGEST, 30, LONGEST, 0.5]
