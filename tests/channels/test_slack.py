from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from channels.errors import ChannelBroken, ChannelError, NotSent, Uncertain
from channels.messages import Button, ChatAddress
from tests.channels.slack_line import ANNA, DIRECT, POST, ROOM, Line
from tests.patience import PATIENCE
from tests.peers.slack import APP_TOKEN, BOT, TEAM, SlackPeer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def peer() -> AsyncIterator[SlackPeer]:
    async with SlackPeer() as started:
        yield started


async def test_a_private_message_reaches_the_house(peer: SlackPeer) -> None:
    line = Line(peer)
    async with line.running():
        stamp = await peer.say(ANNA, "hello &amp; <https://example.org|welcome> 👋")
        await line.door.until(lambda: bool(line.door.messages))
    [message] = line.door.messages
    assert (message.text, message.sender.id) == ("hello & welcome (https://example.org) 👋", ANNA)
    assert message.conversation.address == f"slack:default:direct:{ANNA}"
    assert message.key.startswith("e:Ev")
    assert (message.alias, message.message_id) == (f"m:{TEAM}:{peer.dm(ANNA)}:{stamp}", stamp)
    assert (message.mentioned, message.at.tzinfo is not None) == (True, True)


async def test_a_mention_that_comes_as_two_events_is_taken_once_and_without_the_name(peer: SlackPeer) -> None:
    line = Line(peer, channels={ROOM: {}})
    async with line.running():
        await peer.say(ANNA, f"<@{BOT}> what time is it?", channel=ROOM)
        await peer.until(lambda: not peer.waiting)
    assert [(one.text, one.mentioned) for one in line.door.messages] == [("what time is it?", True)]
    assert line.door.messages[0].conversation.space == TEAM


async def test_only_listed_channels_are_read(peer: SlackPeer) -> None:
    line = Line(peer, channels={ROOM: {}, "CSHUT0001": {"allow": False}})
    async with line.running():
        await peer.say(ANNA, "shut", channel="CSHUT0001")
        await peer.say(ANNA, "unlisted", channel="COTHER001")
        await peer.say(ANNA, "among people", channel=ROOM)
        await peer.until(lambda: not peer.waiting)
    assert [(one.text, one.mentioned) for one in line.door.messages] == [("among people", False)]


@pytest.mark.parametrize(
    "more", [{"bot_id": "B7"}, {"subtype": "channel_join"}, {"subtype": "message_changed"}], ids=["a bot", "a join", "an edit"]
)
async def test_what_no_person_wrote_is_passed_over_and_acknowledged(peer: SlackPeer, more: dict[str, Any]) -> None:
    line = Line(peer)
    async with line.running():
        await peer.say(ANNA, "not this", **more)
        await peer.emit({"type": "reaction_added", "user": ANNA, "item": {}})
        await peer.say(ANNA, "this")
        await peer.until(lambda: not peer.waiting)
    assert line.door.texts == ["this"]


async def test_a_thread_is_answered_in_the_thread(peer: SlackPeer) -> None:
    line = Line(peer, channels={ROOM: {}})
    async with line.running():
        first = await peer.say(ANNA, "beginning", channel=ROOM)
        await peer.say(ANNA, f"<@{BOT}> and?", channel=ROOM, thread=first)
        await line.door.until(lambda: len(line.door.messages) == 2)
        place = line.door.messages[1].conversation
        await line.send("in the thread", to=place)
    assert (line.door.messages[0].conversation.thread, place.thread) == (None, first)
    assert peer.said(ROOM, thread=first) == ["in the thread"]


async def test_an_event_is_acknowledged_only_after_the_house_has_it(peer: SlackPeer) -> None:
    line = Line(peer)
    async with line.running():
        line.door.refuse = OSError("disk full")
        await peer.say(ANNA, "keep this")
        await line.door.until(lambda: line.door.refused == 3)
        assert len(peer.waiting) == 1
        line.door.refuse = None
        await peer.until(lambda: not peer.waiting)
    assert line.door.texts == ["keep this"]


async def test_an_event_that_is_offered_again_is_taken_once(peer: SlackPeer) -> None:
    peer.ack_seconds = 0.05
    line = Line(peer)
    async with line.running():
        line.door.refuse = OSError("disk full")
        await peer.say(ANNA, "once")
        await peer.until(lambda: any(one.attempt for one in peer.waiting.values()))
        line.door.refuse = None
        await line.door.until(lambda: bool(line.door.messages))
        await peer.say(ANNA, "next")
        await line.door.until(lambda: len(line.door.messages) == 2)
    assert line.door.texts == ["once", "next"]


async def test_an_event_of_which_only_the_repetition_arrives_is_taken(peer: SlackPeer) -> None:
    line = Line(peer)
    await peer.say(ANNA, "while nobody listened")
    for one in peer.waiting.values():
        one.attempt = 2
    async with line.running():
        await line.door.until(lambda: bool(line.door.messages))
    assert line.door.texts == ["while nobody listened"]


async def test_messages_of_a_long_outage_are_read_before_the_channel_is_ready(peer: SlackPeer) -> None:
    first = Line(peer, channels={ROOM: {}})
    async with first.running():
        await peer.say(ANNA, "before")
        await peer.say(ANNA, "before", channel=ROOM)
        await first.door.until(lambda: len(first.door.messages) == 2)
    for number in range(250):
        await peer.say(ANNA, f"missed {number}")
    await peer.say(ANNA, "missed in the room", channel=ROOM)
    peer.waiting.clear()
    second = Line(peer, cursors=dict(first.door.cursors), channels={ROOM: {}})
    async with second.running():
        private = [one.text for one in second.door.messages if one.conversation.kind == "direct"]
        assert private == [f"missed {number}" for number in range(250)]
        assert "missed in the room" in second.door.texts


async def test_what_was_changed_in_an_outage_is_told_once_and_before_what_was_written(peer: SlackPeer) -> None:
    first = Line(peer, channels={ROOM: {}})
    async with first.running():
        seen = await peer.say(ANNA, "meet at nine", channel=ROOM)
        known = await peer.say(ANNA, "bring bread", channel=ROOM)
        await peer.edit(ANNA, known, "bring rye bread", channel=ROOM)
        await first.door.until(lambda: len(first.door.messages) == 3)
    await peer.say(ANNA, "and cheese", channel=ROOM)
    await peer.edit(ANNA, seen, "meet at ten", channel=ROOM)
    peer.waiting.clear()
    second = Line(peer, cursors=dict(first.door.cursors), channels={ROOM: {}})
    async with second.running():
        told = [
            (one.event, one.text) for one in second.door.messages if one.alias not in {m.alias for m in first.door.messages}
        ]
        assert told == [("edited", "meet at ten"), ("message", "and cheese")]
        assert second.door.messages[0].target == seen


async def test_threads_that_were_opened_in_an_outage_are_read(peer: SlackPeer) -> None:
    first = Line(peer, channels={ROOM: {}})
    async with first.running():
        early = await peer.say(ANNA, "early", channel=ROOM)
        await first.door.until(lambda: len(first.door.messages) == 1)
    late = await peer.say(ANNA, "late", channel=ROOM)
    await peer.say(ANNA, "under the late one", channel=ROOM, thread=late)
    await peer.say(ANNA, "under the early one", channel=ROOM, thread=early)
    peer.waiting.clear()
    second = Line(peer, cursors=dict(first.door.cursors), channels={ROOM: {}})
    async with second.running():
        assert second.door.texts == ["late", "under the late one", "under the early one"]
    third = Line(peer, cursors=dict(second.door.cursors), channels={ROOM: {}})
    async with third.running():
        assert third.door.texts == []


@pytest.mark.parametrize("end", ["refresh", "cut"])
async def test_nothing_is_lost_and_nothing_taken_twice_when_a_connection_ends(peer: SlackPeer, end: str) -> None:
    line = Line(peer)
    async with line.running():
        await peer.say(ANNA, "before")
        await peer.until(lambda: not peer.waiting)
        await getattr(peer, end)()
        await peer.say(ANNA, "meanwhile")
        await peer.until(lambda: peer.connections == 2)
        await peer.say(ANNA, "after")
        await line.door.until(lambda: len(line.door.messages) == 3)
    assert line.door.texts == ["before", "meanwhile", "after"]


async def test_two_hundred_messages_come_in_order(peer: SlackPeer) -> None:
    line = Line(peer)
    async with line.running():
        for number in range(200):
            await peer.say(ANNA, f"message {number}")
        await peer.until(lambda: not peer.waiting)
    assert line.door.texts == [f"message {number}" for number in range(200)]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"botToken": "xoxb-wrong"}, "botToken is not accepted"),
        ({"appToken": "xapp-wrong"}, "appToken is not accepted"),
        ({"botToken": APP_TOKEN}, "another kind of token"),
        ({"appToken": ""}, "appToken is not set"),
    ],
)
async def test_a_wrong_token_says_where_to_get_one(peer: SlackPeer, settings: dict[str, str], told: str) -> None:
    line = Line(peer, **settings)
    with pytest.raises(ChannelBroken, match=told) as caught:
        await asyncio.wait_for(line.channel.run(line.door), PATIENCE)
    assert "api.slack.com/apps" in caught.value.hint


async def test_a_server_in_trouble_is_tried_again_with_growing_pauses(peer: SlackPeer) -> None:
    peer.fault("auth.test", "status", times=3, code=503)
    line = Line(peer)
    async with line.running():
        assert line.clock.slept == [1.0, 2.0, 4.0]


@pytest.mark.parametrize("markup", ["markdown", "mrkdwn"])
async def test_no_text_of_a_model_calls_people_together(peer: SlackPeer, markup: str) -> None:
    line = Line(peer, markup=markup)
    async with line.running():
        await line.send(f"<!channel> <@{ANNA}> `<!here>` [x](https://example.org/<!everyone>)\n\n```\n<!channel>\n```")
        await line.send("<!here|here> <!subteam^S1>", key="k2", buttons=(Button(label="<!channel>", value="1"),))
    assert peer.pings == []
    said = peer.said(peer.dm(ANNA))
    assert all(("&lt;!" if markup == "mrkdwn" else "<\u200b!") in one for one in said)
    shown = [one for one in peer.messages[peer.dm(ANNA)] if one["user"] == BOT]
    assert not any("unfurled" in one or "parsed" in one for one in shown)


@pytest.mark.parametrize("kind", ["drop_after", "status_after"])
@pytest.mark.parametrize("threaded", [False, True])
async def test_a_doubtful_message_that_arrived_is_not_said_twice(peer: SlackPeer, kind: str, *, threaded: bool) -> None:
    line = Line(peer)
    async with line.running():
        thread = await peer.say(ANNA, "hi") if threaded else None
        place = ChatAddress(channel="slack", kind="direct", id=ANNA, thread=thread)
        await line.send("Done.", key="k0", to=place)
        peer.fault(POST, kind)
        with pytest.raises(Uncertain):
            await line.send("Done.", to=place)
        await line.send("Done.", attempt=2, uncertain=True, to=place)
        assert line.channel.repeats_safely
    assert peer.said(peer.dm(ANNA)) == ["Done.", "Done."]
    assert peer.count(POST) == 2


async def test_a_doubtful_message_is_found_at_the_end_of_a_long_thread(peer: SlackPeer) -> None:
    line = Line(peer, channels={ROOM: {}})
    first = peer.home.note(ROOM, {"user": ANNA, "text": "beginning"})["ts"]
    for number in range(900):
        peer.home.note(ROOM, {"user": ANNA, "text": f"reply {number}", "thread_ts": first})
    place = ChatAddress(channel="slack", kind="group", id=ROOM, thread=first)
    async with line.running():
        peer.fault(POST, "drop_after")
        with pytest.raises(Uncertain):
            await line.send("Done.", to=place)
        await line.send("Done.", attempt=2, uncertain=True, to=place)
        before = peer.count("conversations.replies")
        await line.send("Not yet.", key="k2", attempt=2, uncertain=True, to=place)
    assert peer.said(ROOM) == ["Done.", "Not yet."]
    assert peer.count("conversations.replies") - before <= 7


async def test_a_doubtful_message_that_did_not_arrive_is_sent(peer: SlackPeer) -> None:
    line = Line(peer)
    async with line.running():
        peer.fault(POST, "drop_before")
        with pytest.raises(Uncertain):
            await line.send("after all")
        await line.send("after all", attempt=2, uncertain=True)
    assert peer.said(peer.dm(ANNA)) == ["after all"]


async def test_an_app_that_may_not_read_says_that_it_cannot_repeat_safely(peer: SlackPeer) -> None:
    peer.scopes.discard("history")
    line = Line(peer)
    async with line.running():
        await line.send("once more", attempt=2, uncertain=True)
        assert not line.channel.repeats_safely
        await line.send("and again", attempt=3, uncertain=True, restarted=True)
        await line.send("new")
    assert peer.said(peer.dm(ANNA)) == ["(possibly repeated)\nonce more", "(repeated after restart)\nand again", "new"]


@pytest.mark.parametrize(
    ("fault", "permanent", "wait"),
    [
        ({"kind": "retry_after", "seconds": 17}, False, 17),
        ({"kind": "error", "text": "is_archived"}, True, None),
        ({"kind": "error", "text": "token_revoked"}, False, None),
    ],
)
async def test_a_refusal_says_whether_to_wait_or_to_give_up(
    peer: SlackPeer, fault: dict[str, Any], *, permanent: bool, wait: float | None
) -> None:
    line = Line(peer)
    async with line.running():
        peer.fault(POST, **fault)
        with pytest.raises(NotSent) as caught:
            await line.send("hello?")
    assert (caught.value.permanent, caught.value.retry_after) == (permanent, wait)
    assert peer.count(POST) == 1


async def test_nothing_is_sent_without_a_connection(peer: SlackPeer) -> None:
    with pytest.raises(NotSent, match="not connected"):
        await Line(peer).send("early")


async def test_a_slow_answer_is_shown_while_it_is_written_and_said_once(peer: SlackPeer) -> None:
    line = Line(peer)
    async with line.running():
        await line.channel.draft(DIRECT, "t", "Let me")
        await line.clock.sleep(3)
        await line.channel.draft(DIRECT, "t", "Let me think <!channel>")
        assert peer.said(peer.dm(ANNA)) == ["Let me think <\u200b!channel>"]
        await line.send("The answer.")
    assert peer.said(peer.dm(ANNA)) == ["The answer."]
    assert line.recorded[0].startswith("preview:")


async def test_typing_is_shown_in_a_private_thread(peer: SlackPeer) -> None:
    line = Line(peer)
    async with line.running():
        thread = await peer.say(ANNA, "hi")
        await line.channel.typing(ChatAddress(channel="slack", kind="direct", id=ANNA, thread=thread))
        await line.channel.typing(DIRECT)
    assert peer.statuses == ["is typing…"]


async def test_a_probe_tells_who_the_app_is(peer: SlackPeer) -> None:
    assert await Line(peer).channel.probe() == f"{BOT}@{TEAM}"


async def test_a_probe_tells_what_the_token_does_not_allow_and_so_does_the_log(peer: SlackPeer) -> None:
    peer.scopes -= {"files:read", "history"}
    line = Line(peer)
    told = await line.channel.probe()
    assert "channels:history (to read public channels), files:read (to read files)" in told
    assert "Bot Token Scopes" in told
    async with line.running():
        assert line.log.told("lacks scopes: channels:history")


async def test_a_probe_tries_the_token_for_listening_too(peer: SlackPeer) -> None:
    with pytest.raises(ChannelBroken, match=r"channels\.slack\.appToken is not accepted"):
        await Line(peer, appToken="xapp-revoked").channel.probe()
    assert peer.connections == 0
    assert await Line(peer, http=True, appToken="xapp-revoked").channel.probe() == f"{BOT}@{TEAM}"


async def test_a_probe_of_a_dead_address_says_so(peer: SlackPeer) -> None:
    with pytest.raises(ChannelError, match="does not answer"):
        await Line(peer, apiRoot="http://127.0.0.1:9/api").channel.probe()


@pytest.mark.parametrize(("silence", "end", "read"), [(10, "cut", 0), (100, "cut", 2), (100, "refresh", 0)])
async def test_only_a_connection_after_a_silence_is_read_on_for(peer: SlackPeer, silence: float, end: str, read: int) -> None:
    line = Line(peer, pingSeconds=0.2)
    async with line.running():
        await peer.say(ANNA, "before")
        await peer.until(lambda: not peer.waiting)
        before = peer.count("conversations.history")
        await line.clock.sleep(silence)
        readied = line.door.readied
        ready = asyncio.ensure_future(line.door.until_ready())
        await getattr(peer, end)()
        await peer.until(lambda: peer.connections == 2)
        await peer.say(ANNA, "after")
        await peer.until(lambda: not peer.waiting)
        await asyncio.wait_for(ready, PATIENCE)
        assert (line.door.readied, line.door.texts) == (readied + 1, ["before", "after"])
        assert peer.count("conversations.history") - before == read
