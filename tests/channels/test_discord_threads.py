"""Threads that answers open, and what the owner is told of servers and channels that are not read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from channels.discord.auto_threads import title
from tests.channels.discord_line import ANNA, BEN, GUILD, Line
from tests.peers.discord import DiscordPeer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

OPEN = "POST channels/*/messages/*/threads"
OPENING = {GUILD: {"autoThread": True, "autoArchiveDuration": 4320}}


@pytest.fixture
async def peer() -> AsyncIterator[DiscordPeer]:
    async with DiscordPeer() as peer:
        yield peer


def opened(peer: DiscordPeer) -> list[Any]:
    return [one for one in peer.channels.values() if one.owner != "1"]


async def test_an_answer_opens_a_thread_which_is_a_conversation_of_its_own(peer: DiscordPeer) -> None:
    hall = peer.guild_channel(GUILD)
    line = Line(peer, guilds=OPENING)
    async with line.running():
        question = await peer.say(ANNA, "How do I fix the tap?\nIt drips.", channel=hall, mention=True)
        place = (await line.taken()).conversation
        assert (place.id, place.thread) == (hall.id, question)
        await line.channel.typing(place)
        await line.channel.react(place, question, "👀")
        await line.send("With a washer.", to=place, reply_to=question)
        await line.send("A new one.", to=place, key="k2")
        [thread] = opened(peer)
        await peer.say(BEN, "Which size?", channel=thread)
        await line.door.until(lambda: len(line.door.messages) == 2)
    assert (thread.id, thread.parent, thread.name, thread.archive_after) == (question, hall.id, "How do I fix the tap?", 4320)
    assert peer.said(thread) == ["With a washer.", "A new one."]
    assert peer.said(hall) == []
    assert peer.typed == [hall.id], "before the answer there is no thread"
    assert peer.own_reactions(question) == ["👀"]
    asked = line.door.messages[1]
    assert (asked.conversation, asked.mentioned, asked.quoted) == (replace(place, space=GUILD), True, "")


async def test_what_is_not_for_the_agent_and_commands_open_no_thread(peer: DiscordPeer) -> None:
    hall, quiet = peer.guild_channel(GUILD), peer.guild_channel(GUILD)
    rules = {GUILD: {"autoThread": True, "channels": {hall.id: {}, quiet.id: {"autoThread": False}}}}
    line = Line(peer, guilds=rules)
    async with line.running():
        await peer.say(ANNA, "lunch?", channel=hall)
        await peer.say(ANNA, "/status", channel=hall, mention=True)
        await peer.say(ANNA, "hello", channel=quiet, mention=True)
        await line.door.until(lambda: len(line.door.messages) == 3)
    assert [one.conversation.thread for one in line.door.messages] == [None] * 3


async def test_where_no_mention_is_needed_every_message_opens_one(peer: DiscordPeer) -> None:
    hall = peer.guild_channel(GUILD)
    line = Line(peer, guilds={GUILD: {"channels": {hall.id: {"autoThread": True, "requireMention": False}}}})
    async with line.running():
        said = await peer.say(ANNA, "lunch?", channel=hall)
        assert (await line.taken()).conversation.thread == said


async def test_an_edit_of_the_question_belongs_to_its_thread(peer: DiscordPeer) -> None:
    hall = peer.guild_channel(GUILD)
    line = Line(peer, guilds={GUILD: {"channels": {hall.id: {"autoThread": True, "requireMention": False}}}})
    async with line.running():
        said = await peer.say(ANNA, "lunch?", channel=hall)
        await line.taken()
        await peer.edit(said, "dinner?")
        assert (await line.taken("edited")).conversation.thread == said


async def test_a_thread_that_was_opened_though_no_answer_said_so_is_found(peer: DiscordPeer) -> None:
    hall = peer.guild_channel(GUILD)
    line = Line(peer, guilds=OPENING)
    async with line.running():
        await peer.say(ANNA, "hello", channel=hall, mention=True)
        place = (await line.taken()).conversation
        peer.fault(OPEN, "status_after", code=502)
        peer.sessions.deaf = True
        await line.send("one", to=place)
    [thread] = opened(peer)
    assert peer.said(thread) == ["one"]


async def test_where_no_thread_may_be_opened_the_answer_stands_in_the_channel(peer: DiscordPeer) -> None:
    hall = peer.guild_channel(GUILD)
    hall.no_threads = True
    line = Line(peer, guilds=OPENING)
    async with line.running():
        await peer.say(ANNA, "hello", channel=hall, mention=True)
        place = (await line.taken()).conversation
        await line.send("one", to=place)
        await line.send("two", to=place, key="k2")
    assert peer.said(hall) == ["one", "two"]
    assert "channel" in line.log.told("no thread can be opened")


async def test_a_server_and_a_channel_that_are_not_read_are_told_once_with_the_command_that_lists_them(
    peer: DiscordPeer,
) -> None:
    other = "800000000000000009"
    known, secret, far = peer.guild_channel(GUILD), peer.guild_channel(GUILD), peer.guild_channel(other)
    line = Line(peer, guilds={GUILD: {"channels": {known.id: {}}}})
    async with line.running():
        for channel in (secret, far, secret):
            await peer.say(ANNA, "hello", channel=channel, mention=True)
            await peer.say(ANNA, "between us", channel=channel)
        await peer.say(ANNA, "hello", channel=known, mention=True)
        await line.taken()
    hints = [facts["hint"] for event, facts in line.log.lines if "not read" in event]
    assert hints == [
        f"homebody config set channels.discord.guilds.{other}.requireMention true",
        f"homebody config set channels.discord.guilds.{GUILD}.channels.{secret.id}.allow true",
        f"homebody config set channels.discord.guilds.{other}.requireMention true",
    ]


async def test_the_bot_is_shown_as_the_settings_say(peer: DiscordPeer) -> None:
    line = Line(peer, presence={"status": "idle", "activity": "the garden", "kind": "watching"})
    async with line.running():
        pass
    async with Line(peer, presence={"activity": "At home"}).running():
        pass
    watching, custom = peer.sessions.presences
    assert (watching["status"], watching["game"]["name"], watching["game"]["type"]) == ("idle", "the garden", 3)
    assert (custom["status"], custom["game"]["state"], custom["game"]["type"]) == ("online", "At home", 4)


@pytest.mark.parametrize(("text", "name"), [("", "Conversation"), ("\n a \nb", "a"), ("x" * 120, "x" * 99 + "…")])
def test_a_thread_is_named_after_the_first_line(text: str, name: str) -> None:
    assert title(text) == name
