"""Servers, channels, threads and posts: which are read, from where on, and what becomes of those that are gone."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from channels.discord.channel_directory import ChannelDirectory, first_id
from channels.discord.settings import DiscordSettings
from channels.errors import NotSent
from tests.channels.discord_line import ANNA, BEN, DIRECT, GUILD, Line
from tests.peers.discord import FORUM, DiscordPeer
from tests.peers.discord_state import person
from tests.peers.door import BookDoor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.peers.discord_state import Channel

OTHER = "800000000000000099"


@pytest.fixture
async def peer() -> AsyncIterator[DiscordPeer]:
    async with DiscordPeer() as started:
        yield started


async def once(peer: DiscordPeer, hall: Channel, **settings: Any) -> dict[str, str]:
    """Run a channel until it took a message, and return its cursors."""
    line = Line(peer, guilds={GUILD: {}}, **settings)
    async with line.running():
        await peer.say(ANNA, "before", channel=hall)
        await line.taken()
    return dict(line.door.cursors)


async def test_a_post_of_a_forum_is_heard_from_its_first_message_on_and_answered_in_it(peer: DiscordPeer) -> None:
    forum = peer.guild_channel(GUILD, kind=FORUM)
    line = Line(peer, guilds={GUILD: {"channels": {forum.id: {}}}})
    async with line.running():
        post = await peer.open_thread(forum, first="How do I fix the tap?", user=ANNA)
        await line.taken()
        await line.send("With a washer.", to=line.door.messages[0].conversation, reply_to=line.door.messages[0].message_id)
    place = line.door.messages[0].conversation
    assert (place.id, place.thread, line.door.messages[0].message_id) == (forum.id, post.id, post.id)
    assert peer.said(post) == ["With a washer."]


async def test_the_first_word_in_a_thread_comes_with_what_the_thread_is_about(peer: DiscordPeer) -> None:
    hall = peer.guild_channel(GUILD)
    line = Line(peer, guilds={GUILD: {}})
    async with line.running():
        under = await peer.say(BEN, "The tap drips.", channel=hall)
        thread = await peer.open_thread(hall, under=under)
        for text in ("what can we do?", "anybody?"):
            await peer.say(ANNA, text, channel=thread)
        await line.door.until(lambda: len(line.door.messages) == 3)
    assert [(one.text, one.quoted) for one in line.door.messages[1:]] == [
        ("what can we do?", "The tap drips."),
        ("anybody?", ""),
    ]


async def test_threads_and_posts_that_were_opened_in_an_outage_are_read_from_their_beginning(peer: DiscordPeer) -> None:
    hall, forum = peer.guild_channel(GUILD), peer.guild_channel(GUILD, kind=FORUM)
    cursors = await once(peer, hall)
    thread = await peer.open_thread(hall)
    await peer.say(ANNA, "in the thread 1", channel=thread)
    await peer.say(ANNA, "in the thread 2", channel=thread)
    post = await peer.open_thread(forum, first="a post", user=ANNA)
    new = peer.guild_channel(GUILD)
    await peer.say(ANNA, "in a new channel", channel=new)
    line = Line(peer, cursors, guilds={GUILD: {}})
    async with line.running():
        await line.door.until(lambda: len(line.door.messages) == 4)
    heard = {(one.conversation.thread, one.text) for one in line.door.messages}
    assert heard == {
        (thread.id, "in the thread 1"),
        (thread.id, "in the thread 2"),
        (post.id, "a post"),
        (None, "in a new channel"),
    }


async def test_a_thread_that_was_archived_in_an_outage_is_read_on(peer: DiscordPeer) -> None:
    hall = peer.guild_channel(GUILD)
    line = Line(peer, guilds={GUILD: {}})
    async with line.running():
        thread = await peer.open_thread(hall)
        await peer.say(ANNA, "before", channel=thread)
        await line.taken()
    await peer.say(ANNA, "meanwhile", channel=thread)
    thread.archived = True
    again = Line(peer, dict(line.door.cursors), guilds={GUILD: {}})
    async with again.running():
        assert again.door.texts == ["meanwhile"]


async def test_a_first_start_reads_nothing_that_was_said_before_it(peer: DiscordPeer) -> None:
    hall = peer.guild_channel(GUILD)
    thread = peer.guild_channel(GUILD, parent=hall.id)
    for place in (hall, thread):
        await peer.say(ANNA, "long ago", channel=place)
    line = Line(peer, guilds={GUILD: {}})
    async with line.running():
        await peer.say(ANNA, "now", channel=hall)
        await line.taken()
    assert line.door.texts == ["now"]


async def test_a_server_that_the_bot_joined_in_an_outage_is_not_read_back(peer: DiscordPeer) -> None:
    hall = peer.guild_channel(GUILD)
    cursors = await once(peer, hall)
    new = peer.guild_channel(OTHER)
    await peer.say(BEN, "before the bot came", channel=new)
    peer.joined[OTHER] = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
    line = Line(peer, cursors, guilds={GUILD: {}, OTHER: {}})
    async with line.running():
        await peer.say(BEN, "welcome", channel=new)
        await line.taken()
    assert line.door.texts == ["welcome"]


class CarefulDoor(BookDoor):
    """A house that is slow at times, and notes every cursor that says more than what it was given."""

    def __init__(self, peer: DiscordPeer, cursors: dict[str, str]) -> None:
        super().__init__(cursors)
        self.peer = peer
        self.begun = json.loads(cursors["read"])
        self.too_far: list[str] = []
        self.given = 0

    async def accept(self, messages: Any, cursor: Any = None) -> None:
        self.given += 1
        for _ in range(20 * (self.given % 2)):
            await asyncio.sleep(0)
        await super().accept(messages, cursor)
        stored = {one.message_id for one in self.messages}
        for channel, mark in json.loads(cursor.value).items() if cursor is not None else ():
            written = [one["id"] for one in self.peer.channels[channel].messages]
            missed = [one for one in written if int(self.begun.get(channel, mark)) < int(one) <= int(mark)]
            self.too_far += [one for one in missed if one not in stored]


async def test_many_channels_are_read_on_at_once_and_no_cursor_runs_ahead_of_what_is_stored(peer: DiscordPeer) -> None:
    halls = [peer.guild_channel(GUILD) for _ in range(30)]
    cursors = await once(peer, halls[0])
    for number, hall in enumerate(halls):
        for part in range(150 if number == 7 else 3):
            await peer.say(ANNA, f"{number}:{part}", channel=hall)
    line = Line(peer, cursors, guilds={GUILD: {}})
    line.door = CarefulDoor(peer, dict(cursors))
    async with line.running():
        pass
    for number in range(30):
        heard = [text for text in line.door.texts if text.startswith(f"{number}:")]
        assert heard == [f"{number}:{part}" for part in range(150 if number == 7 else 3)]
    assert line.door.too_far == []
    assert peer.most_at_once > 1


async def test_a_listed_person_who_wrote_first_in_an_outage_is_heard(peer: DiscordPeer) -> None:
    cursors = await once(peer, peer.guild_channel(GUILD))
    await peer.say(ANNA, "are you there?")
    line = Line(peer, cursors, guilds={GUILD: {}}, dm={"allowFrom": [BEN, ANNA]})
    async with line.running():
        assert [(one.text, one.conversation.address) for one in line.door.messages] == [("are you there?", DIRECT.address)]


async def test_a_listed_person_whose_messages_were_read_is_not_read_again(peer: DiscordPeer) -> None:
    line = Line(peer, dm={"allowFrom": [ANNA]})
    async with line.running():
        await peer.say(ANNA, "hello")
        await line.taken()
    peer.dm(BEN)
    reads = peer.count("GET channels/*/messages")
    again = Line(peer, dict(line.door.cursors), dm={"allowFrom": [ANNA, BEN]})
    async with again.running():
        assert again.door.texts == []
    assert peer.count("GET channels/*/messages") == reads + 2, (
        "a known private channel is read on, and looked at for changes; none is read where nothing is new"
    )


def test_a_new_session_begins_where_the_last_one_ended() -> None:
    settings = DiscordSettings.model_validate({"token": "t", "guilds": {GUILD: {}}}).account("default")
    places = ChannelDirectory(settings, None, {})
    hall = {"id": "1000", "type": 0, "last_message_id": "1500"}
    assert places.connected() == 0
    places.joined({"id": GUILD, "channels": [hall]})
    assert (places.unread, places.marks.all()) == ([], {"1000": "1500"})
    places.marks.note("1000", "1700")
    assert places.connected() == 1700
    thread = {"id": "1800", "type": 11, "parent_id": "1000", "last_message_id": "1900", "thread_metadata": {}}
    old = {"id": "1600", "type": 11, "parent_id": "1000", "last_message_id": "1650", "thread_metadata": {}}
    places.joined({"id": GUILD, "channels": [hall], "threads": [thread, old]})
    assert places.unread == [("1800", "1799")]
    assert places.marks.all() == {"1000": "1700", "1800": "1799", "1600": "1650"}
    places.made(
        {"id": "1950", "type": 11, "guild_id": GUILD, "parent_id": "1000", "thread_metadata": {}, "newly_created": True}
    )
    places.made(
        {"id": "1100", "type": 12, "guild_id": GUILD, "parent_id": "1000", "thread_metadata": {}, "last_message_id": "1960"}
    )
    assert (places.marks.all()["1950"], places.marks.all()["1100"]) == ("1949", "1960")


async def test_a_channel_that_may_not_be_read_any_more_is_told_and_left(peer: DiscordPeer) -> None:
    hall = peer.guild_channel(GUILD)
    cursors = await once(peer, hall)
    hall.gone = True
    line = Line(peer, cursors, guilds={GUILD: {}})
    async with line.running():
        facts = line.log.told("no longer read")
        await peer.say(ANNA, "in private")
        await line.taken()
    assert (facts["channel"], "View Channels" in facts["hint"]) == (hall.id, True)
    again = Line(peer, dict(line.door.cursors), guilds={GUILD: {}})
    async with again.running():
        assert [event for event, _ in again.log.lines if not event.startswith("signed in")] == []


async def test_a_server_that_removed_the_bot_is_told_and_what_is_said_there_is_given_up(peer: DiscordPeer) -> None:
    hall = peer.guild_channel(GUILD)
    line = Line(peer, guilds={GUILD: {}})
    async with line.running():
        await peer.say(ANNA, "hello", channel=hall)
        place = (await line.taken()).conversation
        await peer.kick(GUILD)
        assert (await line.log.until("removed from a server"))["server"] == GUILD
        with pytest.raises(NotSent, match="no longer on the server") as caught:
            await line.send("hello?", to=place)
        await peer.say(BEN, "still there in private?")
        await line.door.until(lambda: len(line.door.messages) == 2)
    assert (caught.value.permanent, hall.id in line.door.cursors["read"]) == (True, False)


async def test_an_outage_of_a_server_is_no_farewell(peer: DiscordPeer) -> None:
    hall = peer.guild_channel(GUILD)
    line = Line(peer, guilds={GUILD: {}})
    async with line.running():
        await peer.sessions.announce("GUILD_DELETE", {"id": GUILD, "unavailable": True})
        await peer.say(ANNA, "hello", channel=hall)
        await line.taken()
    assert hall.id in line.door.cursors["read"]
    assert not any("removed" in event for event, _ in line.log.lines)


async def test_a_deleted_thread_is_forgotten_and_an_answer_to_it_given_up(peer: DiscordPeer) -> None:
    hall = peer.guild_channel(GUILD)
    line = Line(peer, guilds={GUILD: {}})
    async with line.running():
        thread = await peer.open_thread(hall)
        await peer.say(ANNA, "hello", channel=thread)
        place = (await line.taken()).conversation
        await peer.remove(thread)
        await peer.say(ANNA, "next", channel=hall)
        await line.door.until(lambda: len(line.door.messages) == 2)
        with pytest.raises(NotSent, match="no longer there") as caught:
            await line.send("hello?", to=place)
    assert (caught.value.permanent, thread.id in line.door.cursors["read"]) == (True, False)


@pytest.mark.parametrize(
    ("policy", "listed", "heard"),
    [
        ("allowlist", {GUILD: {}}, ["listed"]),
        ("allowlist", {"*": {}}, ["listed", "not listed"]),
        ("open", {GUILD: {"requireMention": False}}, ["listed", "not listed"]),
        ("disabled", {GUILD: {}}, []),
    ],
)
async def test_group_policy_says_which_servers_are_read(
    peer: DiscordPeer, policy: str, listed: dict[str, Any], heard: list[str]
) -> None:
    here, there = peer.guild_channel(GUILD), peer.guild_channel(OTHER)
    line = Line(peer, groupPolicy=policy, guilds=listed)
    async with line.running():
        await peer.say(ANNA, "listed", channel=here)
        await peer.say(ANNA, "not listed", channel=there)
        await peer.say(ANNA, "private")
        await line.door.until(lambda: "private" in line.door.texts)
    assert line.door.texts == [*heard, "private"]


def test_answers_are_shown_as_replies_when_the_settings_say_so() -> None:
    modes = [Line(DiscordPeer(), replyToMode=mode).channel.reply_to_mode for mode in ("off", "first", "all")]
    assert modes == ["off", "first", "all"]
    assert Line(DiscordPeer()).channel.reply_to_mode == "off"


async def test_the_first_word_of_a_listed_person_is_heard_though_the_first_house_ended_before_it_was_stored(
    peer: DiscordPeer,
) -> None:
    line = Line(peer, dm={"allowFrom": [ANNA]})
    async with line.running():
        line.door.refuse = OSError("it dies")
        await peer.say(ANNA, "hello")
        await line.door.until(lambda: line.door.refused > 0)
    again = Line(peer, dict(line.door.cursors), dm={"allowFrom": [ANNA]})
    async with again.running():
        assert again.door.texts == ["hello"]


async def test_a_server_is_not_read_back_by_a_house_that_never_took_anything(peer: DiscordPeer) -> None:
    await peer.say(ANNA, "long ago", channel=peer.guild_channel(GUILD))
    line = Line(peer, {"begun": "1"}, guilds={GUILD: {}})
    async with line.running():
        assert line.door.texts == []


async def test_what_was_changed_in_an_outage_is_told_and_after_that_no_more(peer: DiscordPeer) -> None:
    line = Line(peer)
    async with line.running():
        old, last = [await peer.say(ANNA, text) for text in ("tell me plum", "thanks")]
        await peer.edit(old, "tell me pear")
        await line.door.until(lambda: len(line.door.messages) == 3)
    await peer.edit(last, "thank you")
    await peer.say(ANNA, "and more")
    for _ in range(2):
        line.channel = Line(peer, line.door.cursors).channel
        async with line.running():
            pass
    assert [(one.event, one.text, one.target) for one in line.door.messages[3:]] == [
        ("edited", "thank you", last),
        ("message", "and more", None),
    ]


class DyingDoor(BookDoor):
    """A house that stores once."""

    async def accept(self, messages: Any, cursor: Any = None) -> None:
        await super().accept(messages, cursor)
        self.refuse = OSError("it dies")


async def test_what_was_changed_long_ago_in_an_outage_is_told_though_a_house_dies_over_reading_on(peer: DiscordPeer) -> None:
    def ago(minutes: float) -> datetime:
        return datetime.now(UTC) - timedelta(minutes=minutes)

    place, anna = peer.dm(ANNA), person(ANNA, "Anna")
    old, missed = [str(first_id(ago(minutes))) for minutes in (20, 10)]
    peer.note(place, anna, "thank you", identity=old, edited_timestamp=ago(15).isoformat())
    peer.note(place, anna, "and more", identity=missed)
    first = Line(peer)
    first.door = DyingDoor({"read": json.dumps({place.id: old}), "begun": "1"})
    task = asyncio.ensure_future(first.channel.run(first.door))
    await first.door.until(lambda: first.door.refused > 0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    again = Line(peer, dict(first.door.cursors))
    async with again.running():
        assert {(one.event, one.text) for one in [*first.door.messages, *again.door.messages]} == {
            ("edited", "thank you"),
            ("message", "and more"),
        }


async def test_a_message_that_was_changed_before_it_was_read_is_told_with_that_change_and_it_is_not_told_again(
    peer: DiscordPeer,
) -> None:
    line = Line(peer)
    async with line.running():
        await peer.say(ANNA, "hello")
        await line.taken()
    missed = await peer.say(ANNA, "tell me plum")
    await peer.edit(missed, "tell me pear")
    for _ in range(2):
        line.channel = Line(peer, line.door.cursors).channel
        async with line.running():
            assert [(one.event, one.text, one.key.partition(":")[0]) for one in line.door.messages[1:]] == [
                ("message", "tell me pear", "m"),
                ("edited", "tell me pear", "e"),
            ]
