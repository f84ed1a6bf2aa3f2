"""Edits, deletions and reactions, and what other programs say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from channels.messages import ChatAddress
from tests.channels.discord_line import ANNA, BEN, DIRECT, GUILD, Line
from tests.peers.discord import BOT, DiscordPeer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PUT = "PUT channels/*/messages/*/reactions/*/@me"
TAKE_OFF = "DELETE channels/*/messages/*/reactions/*/@me"
LOOK = "GET channels/*/messages/*"


@pytest.fixture
async def peer() -> AsyncIterator[DiscordPeer]:
    async with DiscordPeer() as started:
        yield started


async def test_an_edit_names_its_message_and_each_edit_is_told_once(peer: DiscordPeer) -> None:
    line = Line(peer)
    async with line.running():
        first = await peer.say(ANNA, "tea at for")
        await peer.edit(first, "tea at four")
        await peer.repeat_edit(first)
        await peer.edit(first, "tea at five")
        await line.door.until(lambda: len(line.door.messages) == 3)
    assert [(one.event, one.text, one.target) for one in line.door.messages] == [
        ("message", "tea at for", None),
        ("edited", "tea at four", first),
        ("edited", "tea at five", first),
    ]
    assert all(one.conversation == line.door.messages[0].conversation for one in line.door.messages)


async def test_a_preview_that_discord_adds_is_no_edit(peer: DiscordPeer) -> None:
    line = Line(peer)
    async with line.running():
        first = await peer.say(ANNA, "https://example.org")
        await peer.edit(first, None)
        await peer.say(ANNA, "next")
        await line.door.until(lambda: "next" in line.door.texts)
    assert [one.event for one in line.door.messages] == ["message", "message"]


async def test_an_edit_where_the_bot_does_not_read_is_not_told(peer: DiscordPeer) -> None:
    line = Line(peer)
    hall = peer.guild_channel(GUILD)
    async with line.running():
        said = await peer.say(ANNA, "among us", channel=hall)
        await peer.edit(said, "among ourselves")
        await peer.say(ANNA, "to you")
        await line.taken()
    assert line.door.texts == ["to you"]


async def test_the_bots_own_edits_are_not_heard(peer: DiscordPeer) -> None:
    line = Line(peer, allowBots=True)
    async with line.running():
        sent = await line.send("one")
        await peer.edit(sent, "two")
        await peer.say(ANNA, "next")
        await line.taken()
    assert line.door.texts == ["next"]


async def test_a_message_that_was_deleted_can_still_be_answered(peer: DiscordPeer) -> None:
    line = Line(peer)
    async with line.running():
        asked = await peer.say(ANNA, "never mind")
        await line.taken()
        await peer.delete(asked)
        await line.channel.react(DIRECT, asked, "👀")
        await line.send("Done.", reply_to=asked)
    assert peer.said(peer.dm(ANNA)) == ["Done."]
    assert line.door.texts == ["never mind"]


async def test_a_reply_quotes_the_beginning_of_what_it_replies_to(peer: DiscordPeer) -> None:
    line = Line(peer)
    async with line.running():
        sent = await line.send("x" * 400)
        await peer.say(ANNA, "what?", reply_to=sent)
        message = await line.taken()
    assert (message.reply_to, message.quoted) == (sent, "x" * 300)


async def test_a_reaction_under_a_message_of_the_bot_is_told(peer: DiscordPeer) -> None:
    hall = peer.guild_channel(GUILD)
    line = Line(peer, guilds={GUILD: {}})
    place = ChatAddress(channel="discord", kind="group", id=hall.id, space=GUILD)
    async with line.running():
        sent = await line.send("Done.", to=place)
        await peer.react(BEN, sent, "🎉")
        await peer.react(BEN, sent, "blobwave:123456789012345678")
        await line.door.until(lambda: len(line.door.messages) == 2)
    first, second = line.door.messages
    assert (first.event, first.text, first.target, first.sender.id, first.mentioned) == ("reaction", "🎉", sent, BEN, True)
    assert (first.conversation, first.sender.name) == (place, "Anna")
    assert second.text == ":blobwave:"


async def test_the_same_reaction_put_again_is_told_again_and_a_redelivered_one_is_not(peer: DiscordPeer) -> None:
    line = Line(peer)
    async with line.running():
        sent = await line.send("Done.")
        await peer.react(ANNA, sent, "🎉")
        await line.taken("reaction")
        await peer.cut()
        await peer.until(lambda: peer.resumed == 1)
        await peer.react(ANNA, sent, "🎉")
        await line.door.until(lambda: len(line.door.messages) == 2)
    assert len({one.key for one in line.door.messages}) == 2


@pytest.mark.parametrize(("told", "texts"), [("off", []), ("own", ["🎉"]), ("all", ["👍", "🎉"])])
async def test_which_reactions_are_told_is_a_setting(peer: DiscordPeer, told: str, texts: list[str]) -> None:
    hall = peer.guild_channel(GUILD)
    line = Line(peer, guilds={GUILD: {"reactionNotifications": told}})
    async with line.running():
        other = await peer.say(ANNA, "tea?", channel=hall)
        mine = await line.send("Done.", to=ChatAddress(channel="discord", kind="group", id=hall.id, space=GUILD))
        await peer.react(BEN, other, "👍", told_author=False)
        await peer.react(BEN, mine, "🎉", told_author=False)
        await peer.say(ANNA, "end", channel=hall)
        await line.door.until(lambda: "end" in line.door.texts)
    reactions = [one for one in line.door.messages if one.event == "reaction"]
    assert [one.text for one in reactions] == texts
    assert [one.text for one in reactions if one.mentioned] == texts[-1:], "those under its own message are meant for it"


async def test_reactions_of_the_bot_and_of_other_bots_are_not_told(peer: DiscordPeer) -> None:
    hall = peer.guild_channel(GUILD)
    line = Line(peer, guilds={GUILD: {}})
    async with line.running():
        sent = await line.send("Done.", to=ChatAddress(channel="discord", kind="group", id=hall.id, space=GUILD))
        await peer.react(BOT, sent, "👀")
        await peer.react("700000000000000099", sent, "🤖", bot=True)
        await peer.say(ANNA, "end", channel=hall)
        await line.taken()
    assert line.door.texts == ["end"]


async def test_a_reaction_to_what_was_just_heard_asks_nothing_first(peer: DiscordPeer) -> None:
    line = Line(peer)
    async with line.running():
        said = await peer.say(ANNA, "hello")
        await line.taken()
        for emoji in ("👀", "👀", "✅"):
            await line.channel.react(DIRECT, said, emoji)
    assert peer.own_reactions(said) == ["✅"]
    assert (peer.count(PUT), peer.count(TAKE_OFF), peer.count(LOOK)) == (2, 1, 0)


async def test_an_emoji_that_discord_does_not_know_is_nobodys_trouble(peer: DiscordPeer) -> None:
    line = Line(peer)
    async with line.running():
        said = await peer.say(ANNA, "hello")
        await line.taken()
        await line.channel.react(DIRECT, said, "thumbsup")
        await line.channel.react(DIRECT, "no id", "👍")
        await line.channel.react(DIRECT, said, "👍")
    assert peer.own_reactions(said) == ["👍"]
    assert "10014" in line.log.told("a reaction was not shown")["error"]


@pytest.mark.parametrize("more", [{"bot": True}, {"webhook_id": "1"}], ids=["a bot", "a webhook"])
async def test_other_programs_are_heard_only_when_the_settings_say_so_and_are_marked(
    peer: DiscordPeer, more: dict[str, Any]
) -> None:
    for allowed, heard in ((False, []), (True, [("beep", True)])):
        line = Line(peer, allowBots=allowed)
        async with line.running():
            await peer.say(BEN, "beep", **more)
            await peer.say(BOT, "my own", bot=True)
            await peer.say(ANNA, "end")
            await line.door.until(lambda: "end" in line.door.texts)  # noqa: B023 - waited for within the loop
        assert [(one.text, one.from_bot) for one in line.door.messages[:-1]] == heard
