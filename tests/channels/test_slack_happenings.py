"""What happens in Slack besides messages, and what messages carry."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from channels.messages import Button, ChatAddress
from channels.protocol import MenuEntry
from channels.slack.inbound import Identity, inbound
from gateway.turns.user_message import body, forwarded_from
from tests.channels.slack_line import ANNA, BEN, DIRECT, ROOM, Line, shown
from tests.peers.slack import BOT, BOT_ID, TEAM, SlackPeer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

YES_NO = (Button(label="Yes", value="/yes 1"), Button(label="No", value="/no 1"))
HERE = ChatAddress(channel="slack", kind="group", id=ROOM, space=TEAM)


@pytest.fixture
async def peer() -> AsyncIterator[SlackPeer]:
    async with SlackPeer() as started:
        yield started


async def test_a_correction_is_told_and_what_changes_by_itself_is_not(peer: SlackPeer) -> None:
    line = Line(peer, channels={ROOM: {}})
    async with line.running():
        stamp = await peer.say(ANNA, "good mourning", channel=ROOM)
        message = {**peer.messages[ROOM][0], "text": "good mourning"}
        event = {"type": "message", "subtype": "message_changed", "channel": ROOM, "channel_type": "channel", "event_ts": stamp}
        await peer.emit({**event, "message": {**message, "attachments": [{}]}, "previous_message": message})
        unfolded = {**message, "edited": {"user": ANNA, "ts": stamp}, "attachments": [{}]}
        await peer.emit({**event, "message": unfolded, "previous_message": message})
        await peer.edit(ANNA, stamp, f"<@{BOT}> good &amp; bright morning", channel=ROOM)
        await peer.emit(
            {"type": "message", "subtype": "message_deleted", "channel": ROOM, "deleted_ts": stamp, "event_ts": stamp}
        )
        await line.quiet()
    [first, edit] = line.door.messages
    assert (edit.event, edit.target, edit.text) == ("edited", first.message_id, "good & bright morning")
    assert (edit.conversation, edit.mentioned, edit.alias != first.alias) == (first.conversation, True, True)


async def test_our_own_edits_and_emoji_are_not_told(peer: SlackPeer) -> None:
    line = Line(peer)
    async with line.running():
        stamp = await peer.say(ANNA, "hi")
        await line.channel.draft(DIRECT, "t", "Let me")
        await line.clock.sleep(3)
        await line.channel.draft(DIRECT, "t", "Let me think")
        await line.send("The answer.")
        await line.channel.react(DIRECT, stamp, "👀")
        await line.quiet()
    assert line.door.texts == ["hi"]


@pytest.mark.parametrize(("wanted", "told"), [("off", []), ("own", ["👍"]), ("all", ["👍", ":party-parrot:"])])
async def test_emoji_are_told_as_the_settings_say(peer: SlackPeer, wanted: str, told: list[str]) -> None:
    line = Line(peer, reactionNotifications=wanted, channels={ROOM: {}})
    async with line.running():
        theirs = await peer.say(BEN, "hello all", channel=ROOM)
        ours = await line.send("hello", to=HERE)
        await peer.react(ANNA, ours, "thumbsup::skin-tone-3", channel=ROOM)
        await peer.react(ANNA, theirs, "party-parrot", channel=ROOM)
        await line.quiet()
    found = [one for one in line.door.messages if one.event == "reaction"]
    assert [one.text for one in found] == told
    assert all(one.sender.id == ANNA and one.target in {ours, theirs} for one in found)


async def test_an_emoji_under_what_was_said_in_a_thread_belongs_to_the_thread(peer: SlackPeer) -> None:
    line = Line(peer, channels={ROOM: {}})
    async with line.running():
        first = await peer.say(ANNA, "beginning", channel=ROOM)
        place = ChatAddress(channel="slack", kind="group", id=ROOM, thread=first, space=TEAM)
        ours = await line.send("in the thread", to=place)
        await peer.react(ANNA, ours, "tada", channel=ROOM)
        await line.quiet()
    assert line.door.messages[-1].conversation == place
    again = Line(peer, channels={ROOM: {}}, dm={"allowFrom": [ANNA]})
    async with again.running():
        for person in (BEN, ANNA):
            await peer.react(person, ours, "eyes", channel=ROOM)
        await again.quiet()
    assert [one.conversation.thread for one in again.door.messages] == [None, first], "for a stranger nobody is asked"
    assert peer.count("conversations.replies") == 1


async def test_a_pressed_button_is_told_and_taken_off(peer: SlackPeer) -> None:
    line = Line(peer)
    async with line.running():
        await peer.say(ANNA, "hi")
        await line.quiet()
        sent = await line.send("Shall I *really*?", buttons=YES_NO)
        await peer.press(ANNA, "No")
        await line.heard(lambda: len(line.door.messages) == 2)
        await peer.until(lambda: not any(block["type"] == "actions" for block in shown(peer)[0]["blocks"]))
    press = line.door.messages[1]
    assert (press.event, press.text, press.target, press.sender.id) == ("button", "/no 1", sent, ANNA)
    [message] = shown(peer)
    assert message["text"] == "Shall I *really*?"
    assert message["blocks"][-1]["elements"][0]["text"] == "✓ No"
    assert message["metadata"]["event_payload"] == {"key": "k1"}, "a doubtful message is still found by its key"


async def test_a_stranger_who_presses_leaves_the_buttons_for_those_who_may(peer: SlackPeer) -> None:
    line = Line(peer, channels={ROOM: {"users": [ANNA]}})
    async with line.running():
        await peer.say(ANNA, "hi", channel=ROOM)
        await line.quiet()
        await line.send("Shall I?", to=HERE, buttons=YES_NO)
        await peer.press(BEN, "Yes", channel=ROOM)
        await line.quiet()
        await asyncio.sleep(0.05)
        assert peer.count("chat.update") == 0
        await peer.press(ANNA, "Yes", channel=ROOM)
        await peer.until(lambda: peer.count("chat.update") == 1)
    assert [one.sender.id for one in line.door.messages if one.event == "button"] == [BEN, ANNA]


async def test_a_press_that_could_not_be_stored_is_not_acknowledged_and_the_buttons_stay(peer: SlackPeer) -> None:
    line = Line(peer, http=True)
    async with line.running():
        await line.send("Shall I?", buttons=YES_NO)
        await line.quiet()
        line.door.refuse = OSError("disk full")
        await peer.press(ANNA, "Yes")
        await peer.until(lambda: bool(peer.given_up))
        assert peer.delivery.answers[-1][:2] == ("interactive", 503)
        line.door.refuse = None
        await peer.press(ANNA, "Yes")
        await line.heard(lambda: bool(line.door.messages))
    assert [one.text for one in line.door.messages] == ["/yes 1"]


@pytest.mark.parametrize(
    ("given", "text"),
    [("status", "/status"), ("THINK high", "/THINK high"), ("/new", "/new"), ("", "/help"), ("how are you?", "how are you?")],
)
async def test_the_slash_command_is_a_message(peer: SlackPeer, given: str, text: str) -> None:
    line = Line(peer)
    await line.channel.menu([MenuEntry(name="status", help="how things are"), MenuEntry(name="think", help="how hard")])
    async with line.running():
        await peer.command(ANNA, given)
        await line.quiet()
        await line.channel.react(DIRECT, line.door.messages[0].message_id, "👀")
    [message] = line.door.messages
    assert (message.text, message.conversation.id, message.event, message.mentioned) == (text, ANNA, "message", True)
    assert [one["response_type"] for one in peer.responses] == ["ephemeral"]
    assert peer.count("reactions.add") == 0, "a command is no message that could carry an emoji"


async def test_the_slash_command_is_acknowledged_after_the_house_has_it(peer: SlackPeer) -> None:
    line = Line(peer, channels={ROOM: {}}, slashCommand={"name": "house", "ephemeral": False})
    async with line.running():
        line.door.refuse = OSError("disk full")
        await peer.command(ANNA, "tea & <biscuits>", channel=ROOM, name="/house")
        await line.heard(lambda: line.door.refused >= 2)
        assert peer.responses == []
        line.door.refuse = None
        await line.quiet()
    assert line.door.texts == ["tea & <biscuits>"]
    assert line.door.messages[0].conversation == HERE
    assert peer.responses == [{"text": "/house tea &amp; &lt;biscuits&gt;", "response_type": "in_channel"}]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "not one that the agent reads"),
        ({"slashCommand": {"name": "house"}}, "slashCommand.name"),
        ({"slashCommand": {"enabled": False}}, "switched off"),
    ],
)
async def test_a_command_that_is_not_taken_says_why(peer: SlackPeer, settings: dict[str, Any], told: str) -> None:
    line = Line(peer, **settings)
    async with line.running():
        await peer.command(BEN, "status", channel="COTHER001")
        await line.quiet()
    assert line.door.messages == []
    assert told in peer.responses[0]["text"]


async def test_bots_are_heard_where_they_may_be_and_never_ourselves(peer: SlackPeer) -> None:
    line = Line(peer, channels={ROOM: {"allowBots": True}, "CQUIET001": {}}, allowBots=False)
    async with line.running():
        bot = {"bot_id": "B7", "bot_profile": {"name": "Alarm"}}
        await peer.say("UALARM001", "on fire", channel=ROOM, **bot)
        await peer.say("UALARM001", "on fire too", channel="CQUIET001", **bot)
        await peer.say("", "", channel=ROOM, subtype="bot_message", attachments=[{"fallback": "deploy &gt; done"}], **bot)
        await peer.say(BOT, "myself", channel=ROOM, bot_id=BOT_ID)
        await peer.say("", "myself", channel=ROOM, bot_id=BOT_ID, subtype="bot_message")
        await line.quiet()
    assert [(one.text, one.from_bot, one.sender.id) for one in line.door.messages] == [
        ("on fire", True, "UALARM001"),
        ("deploy > done", True, "B7"),
    ]
    assert line.door.messages[0].sender.name == "Alarm"


async def test_the_first_reply_in_a_thread_quotes_what_the_thread_began_with(peer: SlackPeer) -> None:
    line = Line(peer, channels={ROOM: {}})
    async with line.running():
        first = await peer.say(BEN, "shall we meet on &lt;Monday&gt;?", channel=ROOM)
        for text in (f"<@{BOT}> what do you think?", "anybody?"):
            await peer.say(ANNA, text, channel=ROOM, thread=first)
        await line.quiet()
    assert [one.quoted for one in line.door.messages] == ["", "shall we meet on <Monday>?", ""]


async def test_a_reply_to_what_we_began_is_for_us(peer: SlackPeer) -> None:
    line = Line(peer, channels={ROOM: {}})
    async with line.running():
        peer.messages[ROOM] = []
        ours = await line.send("Good morning!", to=HERE)
        await peer.say(ANNA, "good morning", channel=ROOM, thread=ours)
        await line.heard(lambda: bool(line.door.messages))
    assert (line.door.messages[0].mentioned, line.door.messages[0].conversation.thread) == (True, ours)


async def test_a_message_that_is_passed_on_shows_what_it_says(peer: SlackPeer) -> None:
    line = Line(peer)
    shared = [
        {"is_share": True, "text": "the plan", "files": [{"id": "F1", "name": "plan.pdf", "mimetype": "application/pdf"}]}
    ]
    async with line.running():
        await peer.say(ANNA, "", attachments=shared)
        await peer.say(ANNA, "what of this?", attachments=shared)
        await line.quiet()
    [alone, asked] = line.door.messages
    assert (alone.text, alone.quoted, alone.attachments[0].name) == ("[forwarded]\nthe plan", "", "plan.pdf")
    assert (asked.text, asked.quoted) == ("what of this?", "the plan")


async def test_words_that_are_passed_on_without_a_comment_are_not_the_sender_s_own(peer: SlackPeer) -> None:
    line = Line(peer)
    shared = {"is_share": True, "is_msg_unfurl": True, "author_name": "Bob\nBuilder", "text": "/new"}
    async with line.running():
        await peer.say(ANNA, "", attachments=[shared])
        await peer.say(ANNA, "", attachments=[shared, {**shared, "author_name": "Eve", "text": "pay"}])
        await line.quiet()
    one, several = line.door.messages
    assert one.text == "[forwarded from Bob Builder]\n/new"
    assert several.text == "[forwarded]\n/new\npay"
    assert forwarded_from(one.text) == ("forwarded:Bob_Builder",)
    assert "<untrusted" in body(one.text).partition("/new")[0]


@pytest.mark.parametrize(("mode", "threads"), [("off", [None, None]), ("first", ["it", None]), ("all", ["it", "it"])])
async def test_answers_open_threads_as_the_settings_say(peer: SlackPeer, mode: str, threads: list[str | None]) -> None:
    line = Line(peer, channels={ROOM: {}}, replyToMode=mode)
    async with line.running():
        stamp = await peer.say(ANNA, f"<@{BOT}> hi", channel=ROOM)
        await line.quiet()
        [message] = line.door.messages
        assert line.channel.reply_to_mode == mode
        await line.send("one", to=message.conversation, reply_to=None if mode == "off" else message.message_id)
        await line.send("two", to=message.conversation, key="k2", reply_to=message.message_id if mode == "all" else None)
        await peer.say(ANNA, "and in private")
        await line.quiet()
    expected = [None if one is None else stamp for one in threads]
    assert [one.get("thread_ts") for one in shown(peer, ROOM)] == expected
    assert line.door.messages[-1].conversation.thread is None, "a private conversation is one"


async def test_a_channel_that_gets_another_id_is_followed(peer: SlackPeer) -> None:
    line = Line(peer, channels={ROOM: {}})
    async with line.running():
        await peer.emit(
            {"type": "channel_id_changed", "old_channel_id": ROOM, "new_channel_id": "CROOM0002", "event_ts": "1.1"}
        )
        await peer.say(ANNA, "still here", channel="CROOM0002")
        await line.quiet()
    [(former, present)] = line.door.moves
    assert (former.id, present.id, former.space) == (ROOM, "CROOM0002", TEAM)
    again = Line(peer, cursors=line.door.cursors, channels={ROOM: {}})
    async with again.running():
        await peer.say(ANNA, "after a restart", channel="CROOM0002")
        await again.quiet()
    assert (line.door.texts, again.door.texts) == (["still here"], ["after a restart"])


async def test_a_channels_new_id_that_could_not_be_stored_is_asked_for_again(peer: SlackPeer) -> None:
    peer.ack_seconds = 0.05
    line = Line(peer, channels={ROOM: {}})
    async with line.running():
        line.door.refuse = OSError("disk full")
        await peer.emit(
            {"type": "channel_id_changed", "old_channel_id": ROOM, "new_channel_id": "CROOM0002", "event_ts": "1.1"}
        )
        await peer.until(lambda: any(one.attempt for one in peer.waiting.values()))
        line.door.refuse = None
        await line.quiet()
    assert len(line.door.moves) == 1


async def test_replies_of_a_long_outage_are_read_in_their_threads(peer: SlackPeer) -> None:
    first = Line(peer, channels={ROOM: {}})
    async with first.running():
        began = await peer.say(ANNA, "beginning", channel=ROOM)
        await peer.say(ANNA, "in the thread", channel=ROOM, thread=began)
        await first.quiet()
    for number in range(3):
        await peer.say(ANNA, f"missed {number}", channel=ROOM, thread=began)
    await peer.say(ANNA, "missed beside it", channel=ROOM)
    peer.waiting.clear()
    second = Line(peer, cursors=dict(first.door.cursors), channels={ROOM: {}})
    async with second.running():
        threaded = [one.text for one in second.door.messages if one.conversation.thread == began]
        assert threaded == ["missed 0", "missed 1", "missed 2"]
        assert "missed beside it" in second.door.texts


async def test_threads_that_were_left_long_ago_are_not_read_on(peer: SlackPeer) -> None:
    line = Line(peer, channels={ROOM: {}})
    now = int(line.clock.now().timestamp())
    marks = {f"{ROOM}/{now - 100 - number}.000100": f"{now - number}.000100" for number in range(60, 0, -1)}
    marks |= {f"{ROOM}/1700000000.000100": f"{now - 2 * 24 * 3600 - 1}.000100", ROOM: "1700000000.000100"}
    line.door.cursors["read"] = json.dumps(marks)
    peer.messages[ROOM] = []
    async with line.running():
        asked = [given["ts"] for name, given in peer.calls if name == "conversations.replies"]
    assert asked == [f"{now - 100 - number}.000100" for number in range(50, 0, -1)]
    assert peer.count("conversations.history") == 2


async def test_kinds_that_nobody_wants_are_acknowledged(peer: SlackPeer) -> None:
    line = Line(peer)
    async with line.running():
        for kind in ("view_submission", "shortcut", "message_action"):
            await peer.delivery.offer(
                {"type": kind, "user": {"id": ANNA}, "team": {"id": TEAM}, "callback_id": "c"}, "interactive"
            )
        await peer.emit({"type": "assistant_thread_started", "assistant_thread": {}, "event_ts": "1.1"})
        await line.quiet()
    assert (peer.given_up, line.door.messages) == ([], [])


async def test_people_come_with_their_names_which_are_asked_for_once_and_for_no_stranger(peer: SlackPeer) -> None:
    peer.home.names.update({ANNA: "Anna", BEN: "Ben"})
    line = Line(peer, channels={ROOM: {"users": [ANNA]}})
    async with line.running():
        for _ in range(2):
            await peer.say(ANNA, "hi", channel=ROOM)
            await peer.say(BEN, "hi", channel=ROOM)
        await peer.say(BEN, "in private")
        await line.quiet()
    assert [one.sender.name for one in line.door.messages] == ["Anna", "", "Anna", "", "Ben"]
    assert peer.count("users.info") == 2


@pytest.mark.parametrize("fault", [{"kind": "error", "text": "missing_scope"}, {"kind": "drop_before", "times": 2}])
async def test_a_name_that_cannot_be_had_keeps_no_message_back(peer: SlackPeer, fault: dict[str, Any]) -> None:
    peer.home.names[ANNA] = "Anna"
    line = Line(peer)
    peer.fault("users.info", **fault)
    async with line.running():
        await peer.say(ANNA, "one")
        await peer.say(ANNA, "two")
        await line.quiet()
    assert [one.text for one in line.door.messages] == ["one", "two"]
    assert line.door.messages[0].sender.name == ""
    assert line.door.messages[1].sender.name == ("" if "text" in fault else "Anna")


@pytest.mark.parametrize(
    "own", [{"user": BOT}, {"bot_id": BOT_ID, "subtype": "bot_message"}, {"user": "UOTHER001", "bot_id": BOT_ID}]
)
def test_what_is_read_back_leaves_our_own_words_out(own: dict[str, str]) -> None:
    who = Identity(account="default", team=TEAM, user=BOT, bot=BOT_ID)
    assert inbound({"type": "message", "text": "mine", "channel": ROOM, "ts": "1700000000.000100", **own}, who) is None
