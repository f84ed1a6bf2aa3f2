"""Events of any shape that the platforms' published types allow: none ends a channel, all are let go of, the next message arrives.

HOMEBODY_FIRE_MOOD draws other events; what failed prints its number.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from channels.common.read_marks import CURSOR
from channels.messages import ChatAddress, Outbound
from channels.telegram.channel import TelegramChannel
from channels.telegram.settings import TelegramSettings
from tests.channels import discord_line, slack_line
from tests.peers.discord import DiscordPeer
from tests.peers.door import BookDoor
from tests.peers.hasty import FastClock
from tests.peers.mood import SEED
from tests.peers.shapes import at_home, drawn
from tests.peers.slack import SlackPeer
from tests.peers.telegram import TOKEN, TelegramPeer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.peers.shapes import Drawn

EACH = 200
FEW = 5
"""Events that the house is told of, at least: the rest is about people and places that it does not know."""
ANNA = 42
FAMILY = -1001234567890
_ENDS = {"app_uninstalled", "app_uninstalled_team", "tokens_revoked"}
"""Events that are to end the channel."""
_SESSION = {"READY", "RESUMED"}
"""Events that a session begins with, and that do not come within one."""


@pytest.fixture(scope="module")
def shapes() -> Drawn:
    return drawn(SEED, EACH)


async def test_slack_s_events_are_acknowledged_and_the_next_message_arrives(shapes: Drawn) -> None:
    room, anna, random = slack_line.ROOM, slack_line.ANNA, Random(SEED)
    async with SlackPeer(ack_seconds=120) as peer:
        first = slack_line.Line(peer, channels={room: {}})
        async with first.running() as task:
            for event in shapes["slack"]:
                if event.get("type") not in _ENDS:
                    stamp = peer.home.note("nowhere", {})["ts"]
                    known = {"channel": random.choice([room, peer.dm(anna)]), "user": anna, "ts": stamp}
                    mine = (
                        {"channel": peer.dm(anna)} if event.get("channel_type") == "im" else {}
                    )  # a person has one private channel
                    await peer.emit({**at_home(event, known, random), **mine})
            await peer.say(anna, "the next message", channel=room)
            await first.heard(lambda: "the next message" in first.door.texts)
            await first.quiet()
            assert not task.done()
            await first.send("an answer")
        assert not peer.given_up
        assert len(first.door.messages) > FEW
        await peer.say(anna, "while away", channel=room)
        second = slack_line.Line(peer, cursors=first.door.cursors, channels={room: {}})
        async with second.running():
            await second.heard(lambda: "while away" in second.door.texts)
            await second.send("another", key="k2")


async def test_discord_s_events_are_taken_and_the_next_message_arrives(shapes: Drawn) -> None:
    guild, anna, random = discord_line.GUILD, discord_line.ANNA, Random(SEED)
    async with DiscordPeer() as peer:
        room = peer.guild_channel(guild)
        first = discord_line.Line(peer, guilds={guild: {}})
        async with first.running() as task:
            [session] = peer.sessions.sessions.values()
            for event in shapes["discord"]:
                if event.get("t") not in _SESSION:
                    place = random.choice([room, peer.dm(anna)])
                    here = {
                        "channel_id": place.id,
                        "guild_id": guild,
                        "user_id": anna,
                        "timestamp": "2026-01-01T00:00:00+00:00",
                    }
                    content = at_home(event.get("d"), {**here, "id": peer.snowflake()}, random)
                    written = {"type": 0} if event["t"] == "MESSAGE_CREATE" and random.random() < 0.7 else {}
                    await peer.sessions.event(session, str(event["t"]), {**content, **written})
            await peer.say(anna, "the next message", channel=room)
            await first.door.until(lambda: "the next message" in first.door.texts)
            assert not task.done()
            await first.send("an answer")
        assert len(first.door.messages) > FEW
        await peer.say(anna, "while away", channel=room)
        second = discord_line.Line(peer, cursors=first.door.cursors, guilds={guild: {}})
        async with second.running():
            await second.door.until(lambda: "while away" in second.door.texts)
            await second.send("another", key="k2")
    assert int(json.loads(second.door.cursors[CURSOR])[room.id]) >= int(room.messages[-1]["id"])


async def test_telegram_s_updates_are_let_go_of_and_the_next_message_arrives(shapes: Drawn) -> None:
    random = Random(SEED)
    async with TelegramPeer() as peer:
        peer.chats.group(FAMILY)
        given = {"botToken": TOKEN, "apiRoot": peer.root, "pollTimeoutSeconds": 1, "groups": {str(FAMILY): {}}}
        made = TelegramSettings.model_validate(given)
        channel, door = TelegramChannel(made, "default", clock=FastClock(), random=lambda: 1.0), BookDoor()
        async with _running(channel, door) as task:
            for event in shapes["telegram"]:
                chat = random.choice([peer.chats.people[FAMILY], {"id": ANNA, "type": "private", "first_name": "Anna"}])
                person = {"id": ANNA, "is_bot": False, "first_name": "Anna"}
                for kind, content in event.items():
                    if kind != "update_id":
                        await peer.inject(kind, at_home(content, {"chat": chat, "from": person, "user": person}, random))
            await peer.say(ANNA, "the next message")
            await door.until(lambda: "the next message" in door.texts)
            await peer.until(lambda: peer.unconfirmed == 0)
            assert not task.done()
            place = ChatAddress(channel="telegram", kind="direct", id=str(ANNA))
            await channel.send(Outbound(key="k1", conversation=place, text="an answer"), _nothing)
        assert len(door.messages) > FEW
        assert door.cursors == {"offset": str(peer.next_update)}


@asynccontextmanager
async def _running(channel: TelegramChannel, door: BookDoor) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.ensure_future(channel.run(door))
    try:
        await door.until_ready()
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await channel.close()


async def _nothing(_: Any) -> None:
    return None
