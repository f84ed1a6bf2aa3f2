"""What Discord refuses: each refusal with what it means, and the switch that mends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from channels.errors import NotSent, Uncertain
from channels.messages import ChatAddress
from tests.channels.discord_line import ANNA, BEN, DIRECT, POST, Line
from tests.peers.discord import DiscordPeer
from tests.peers.relay import Relay

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def peer() -> AsyncIterator[DiscordPeer]:
    async with DiscordPeer() as started:
        yield started


@pytest.mark.parametrize(
    ("code", "told", "hint"),
    [
        (50001, "does not see this channel", "Server Settings, Roles"),
        (50013, "may not do this here", "Send Messages in Threads"),
        (50007, "takes no private messages", "Privacy Settings, Direct Messages"),
        (50278, "share no server", "must share a server"),
        (20026, "flagged", "discord.com/developers"),
        (50083, "archived", "open it again"),
        (160005, "locked", "unlock it"),
        (200000, "AutoMod", "Server Settings, Safety Setup"),
    ],
)
async def test_a_refusal_is_given_up_and_names_its_switch(peer: DiscordPeer, code: int, told: str, hint: str) -> None:
    line = Line(peer)
    async with line.running():
        peer.dm(ANNA).denied = code
        with pytest.raises(NotSent, match=told) as caught:
            await line.send("hello")
    assert caught.value.permanent
    assert hint in caught.value.hint
    assert str(code) in str(caught.value)


async def test_a_refusal_that_is_not_known_is_given_up_with_discords_own_words(peer: DiscordPeer) -> None:
    line = Line(peer)
    async with line.running():
        peer.dm(ANNA).denied = 99999
        with pytest.raises(NotSent, match=r"99999.*Missing Permissions") as caught:
            await line.send("hello")
    assert caught.value.permanent


async def test_a_preview_whose_channel_is_gone_is_not_posted_elsewhere(peer: DiscordPeer) -> None:
    line = Line(peer)
    async with line.running():
        for text in ("Let me", "Let me think"):
            await line.channel.draft(DIRECT, "t", text)
            await line.clock.sleep(3)
        await peer.remove(peer.dm(ANNA))
        with pytest.raises(NotSent, match="no longer there") as caught:
            await line.send("The answer.")
    assert caught.value.permanent


async def test_a_connection_that_is_refused_certainly_sent_nothing(peer: DiscordPeer) -> None:
    async with Relay(peer.port) as relay, (line := Line(peer, apiRoot=f"http://127.0.0.1:{relay.port}/api/v10")).running():
        await relay.cut()
        with pytest.raises(NotSent, match="cannot be reached") as caught:
            await line.send("hello")
    assert not caught.value.permanent


async def test_many_messages_in_a_row_never_provoke_a_refusal_for_their_number() -> None:
    async with DiscordPeer(limit=3, window=0.2) as peer:
        line = Line(peer, timeoutSeconds=20)
        async with line.running():
            for number in range(8):
                await line.send(f"part {number}", key=f"k{number}")
    assert peer.said(peer.dm(ANNA)) == [f"part {number}" for number in range(8)]
    assert peer.too_many == 0


async def test_a_refusal_for_the_number_is_waited_for_and_no_second_one_follows() -> None:
    async with DiscordPeer(limit=3, window=0.2) as peer:
        line = Line(peer, timeoutSeconds=20)
        async with line.running():
            place = peer.dm(ANNA)
            peer.rest.fill(place)  # another program with the same token has used it up
            for number in range(4):
                await line.send(f"part {number}", key=f"k{number}")
    assert peer.said(peer.dm(ANNA)) == [f"part {number}" for number in range(4)]
    assert peer.too_many == 1


@pytest.mark.parametrize(("kind", "elsewhere"), [("retry_after", True), ("everywhere", False), ("banned", False)])
async def test_a_long_wait_is_waited_out_by_everything_that_it_holds_for(
    peer: DiscordPeer, kind: str, *, elsewhere: bool
) -> None:
    line, ben = Line(peer), ChatAddress(channel="discord", kind="direct", id=BEN)
    async with line.running():
        for person in (ANNA, BEN):
            peer.dm(person)
        await line.send("before", to=ben, key="k0")
        peer.fault(POST, kind, seconds=45)
        for _ in range(2):
            with pytest.raises(NotSent) as caught:
                await line.send("patience")
            assert caught.value.retry_after == 45
        refused = peer.count(POST)
        if elsewhere:
            await line.send("meanwhile", to=ben, key="k2")
        else:
            with pytest.raises(NotSent):
                await line.send("meanwhile", to=ben, key="k2")
            await line.channel.typing(DIRECT)
        assert (peer.count(POST) - refused, peer.typed) == (int(elsewhere), [])
        await line.clock.sleep(45)
        await line.send("patience", attempt=2)
    assert peer.said(peer.dm(ANNA)) == ["patience"]
    assert refused == 2, "the one that was refused, and none after it"


async def test_a_token_that_was_revoked_is_no_fault_of_the_message(peer: DiscordPeer) -> None:
    line = Line(peer)
    async with line.running():
        peer.token = "another"
        with pytest.raises(NotSent) as caught:
            await line.send("hello")
    assert not caught.value.permanent


async def test_a_server_error_leaves_a_message_in_doubt(peer: DiscordPeer) -> None:
    line = Line(peer, timeoutSeconds=0.3)
    async with line.running():
        peer.fault(POST, "status", times=9, code=502)
        with pytest.raises(Uncertain):
            await line.send("hello")
    assert line.recorded[0].startswith("after:")


async def test_an_event_that_the_library_cannot_read_ends_nothing(peer: DiscordPeer) -> None:
    line = Line(peer)
    async with line.running():
        await peer.sessions.announce("GUILD_UPDATE", {"id": "x"})
        await peer.sessions.announce("MESSAGE_POLL_VOTE_ADD", {})
        await peer.sessions.announce("SOMETHING_NEW", {"shape": ["unknown"]})
        await peer.say(ANNA, "hello")
        await line.taken()
    assert (peer.identified, peer.resumed) == (1, 0)
