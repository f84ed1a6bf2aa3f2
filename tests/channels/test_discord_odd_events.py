"""An event or an answer of Discord's that is malformed costs one line in the log, and holds up neither hearing nor sending."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from channels.common.read_marks import CURSOR
from channels.protocol import MenuEntry
from tests.channels.discord_line import ANNA, DIRECT, GUILD, Line
from tests.patience import PATIENCE
from tests.peers.discord import DiscordPeer
from tests.peers.discord_state import BOT, person
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.peers.discord_state import Channel

HISTORY = "GET channels/*/messages"


@pytest.fixture
async def peer() -> AsyncIterator[DiscordPeer]:
    async with DiscordPeer() as started:
        yield started


def _odd(place: Channel, identity: str) -> list[tuple[str, dict[str, Any]]]:
    here = {"channel_id": place.id, "guild_id": GUILD}
    whole = {**here, "id": identity, "author": person(ANNA, "Anna"), "content": "?", "timestamp": "2026-01-01T00:00:00+00:00"}
    return [
        ("MESSAGE_CREATE", {}),
        ("MESSAGE_CREATE", {**whole, "channel_id": "the hall"}),
        ("MESSAGE_CREATE", {**whole, "id": "one"}),
        ("MESSAGE_CREATE", {**whole, "timestamp": "yesterday"}),
        ("MESSAGE_CREATE", {**whole, "author": "Anna"}),
        ("MESSAGE_CREATE", {**whole, "attachments": [7]}),
        ("MESSAGE_UPDATE", {**whole, "edited_timestamp": "yesterday"}),
        ("MESSAGE_REACTION_ADD", {**here, "user_id": ANNA, "emoji": "👍"}),
        ("GUILD_CREATE", {"id": GUILD, "channels": [{}]}),
        ("THREAD_CREATE", {"guild_id": GUILD}),
        ("CHANNEL_CREATE", {"id": [], "type": {}}),
    ]


async def test_an_odd_event_is_told_in_one_line_and_those_behind_it_are_heard(
    peer: DiscordPeer, caplog: pytest.LogCaptureFixture
) -> None:
    place = peer.guild_channel(GUILD)
    line = Line(peer, guilds={GUILD: {}})
    async with line.running():
        for name, content in _odd(place, peer.snowflake()):
            for session in peer.sessions.sessions.values():
                await peer.sessions.event(session, name, content)
        await peer.say(ANNA, "after all of that", channel=place)
        await line.door.until(lambda: "after all of that" in line.door.texts)
    told = [facts for event, facts in line.log.lines if "malformed" in event]
    assert len(told) >= 9
    assert all(facts["account"] == "default" and ".py:" in facts["error"] for facts in told)
    assert any((facts["channel"], facts["user"]) == (place.id, ANNA) for facts in told)
    assert not [one for one in caplog.records if one.exc_info]


async def test_a_command_without_a_channel_is_answered_and_no_task_is_left_with_an_error(
    peer: DiscordPeer, caplog: pytest.LogCaptureFixture
) -> None:
    line = Line(peer)
    await line.channel.menu([MenuEntry(name="status", help="say how things are")])
    async with line.running():
        made = await peer.choose(ANNA, "status", homeless=True)
        await asyncio.wait_for(made.taken.wait(), PATIENCE)
        await peer.say(ANNA, "and on")
        await line.door.until(lambda: bool(line.door.messages))
    assert any("Please write it as a message" in one for one in peer.whispers)
    assert not [one for one in caplog.records if "never retrieved" in one.getMessage() or one.exc_info]


@parametrize_some(1, "trouble", ["status", "odd page", "no JSON"])
async def test_a_channel_that_cannot_be_read_on_stops_neither_hearing_nor_sending(peer: DiscordPeer, trouble: str) -> None:
    place = peer.guild_channel(GUILD)
    first = Line(peer, guilds={GUILD: {}})
    async with first.running():
        await peer.say(ANNA, "before", channel=place)
        await peer.say(ANNA, "in private")
        await first.door.until(lambda: len(first.door.messages) == 2)
    await peer.say(ANNA, "in between", channel=place)
    if trouble == "odd page":
        damaged = {**place.messages[-1], "id": peer.snowflake(), "timestamp": None}
        peer.odd = [{"id": "odd", "content": 7}, {}, 7, damaged]
    else:
        peer.fault(
            HISTORY, "status" if trouble == "status" else "page", times=sys.maxsize, code=503
        )  # the library repeats no 503
    second = Line(peer, cursors=first.door.cursors, guilds={GUILD: {}}, timeoutSeconds=PATIENCE)
    async with second.running():
        await second.send("said at once", to=DIRECT)
        await peer.say(ANNA, "live", channel=place)
        await second.door.until(lambda: "live" in second.door.texts)
        if trouble != "odd page":
            assert "in between" not in second.door.texts
            assert place.id in second.channel.trouble
            assert json.loads(second.door.cursors[CURSOR])[place.id] == place.messages[0]["id"]
            peer.faults.clear()
        await second.door.until(lambda: "in between" in second.door.texts)
        await peer.say(ANNA, "last", channel=place)
        await second.door.until(lambda: "last" in second.door.texts)
        await second.untroubled()
    assert peer.said(peer.dm(ANNA)) == ["said at once"]


async def test_marks_that_are_none_are_dropped_and_the_channel_is_heard(peer: DiscordPeer) -> None:
    place = peer.guild_channel(GUILD)
    stored = {place.id: "not an id", "the hall": "17", "18": None, "19": "1" * 30}
    line = Line(peer, cursors={CURSOR: json.dumps(stored), "begun": "long ago"}, guilds={GUILD: {}})
    async with line.running():
        await peer.say(ANNA, "heard?", channel=place)
        await line.door.until(lambda: "heard?" in line.door.texts)
    assert not {"the hall", "18", "19"} & json.loads(line.door.cursors[CURSOR]).keys()


async def test_a_frame_that_is_no_json_costs_a_connection_and_no_message(peer: DiscordPeer) -> None:
    line = Line(peer)
    async with line.running():
        await peer.say(ANNA, "before")
        await line.door.until(lambda: bool(line.door.messages))
        for session in peer.sessions.sessions.values():
            assert session.socket is not None
            await session.socket.send_str("<html>not Discord</html>")
        await peer.say(ANNA, "after")
        await line.door.until(lambda: "after" in line.door.texts)
    assert line.door.texts == ["before", "after"]


async def test_the_log_gives_the_link_by_which_the_bot_is_added_to_a_server(peer: DiscordPeer) -> None:
    line = Line(peer)
    async with line.running():
        told = line.log.told("added to a server")
    assert f"client_id={BOT}&" in told["link"]
