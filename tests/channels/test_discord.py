from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from channels.errors import ChannelBroken, ChannelError, NotSent, Uncertain
from channels.messages import ChatAddress
from tests.channels.discord_line import ANNA, DIRECT, GUILD, POST, Line
from tests.peers.discord import BOT, SUPPRESS_EMBEDS, DiscordPeer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

DELETE = "DELETE channels/*/messages/*"


@pytest.fixture
async def peer() -> AsyncIterator[DiscordPeer]:
    async with DiscordPeer() as started:
        yield started


async def test_a_private_message_reaches_the_house(peer: DiscordPeer) -> None:
    line = Line(peer)
    async with line.running():
        first = await peer.say(ANNA, "earlier")
        second = await peer.say(ANNA, "hello 👋", reply_to=first)
        await line.door.until(lambda: len(line.door.messages) == 2)
    message = line.door.messages[1]
    assert (message.text, message.sender.id, message.sender.name) == ("hello 👋", ANNA, "Anna")
    assert message.conversation.address == f"discord:default:direct:{ANNA}"
    assert (message.key, message.message_id, message.reply_to, message.mentioned) == (f"m:{second}", second, first, True)
    assert message.at.tzinfo is not None


@pytest.mark.parametrize("more", [{"bot": True}, {"kind": 7}], ids=["a bot", "a notice of the server"])
async def test_what_no_person_wrote_is_passed_over(peer: DiscordPeer, more: dict[str, Any]) -> None:
    line = Line(peer)
    async with line.running():
        await peer.say(ANNA, "not this", **more)
        await peer.say(ANNA, "this")
        await line.door.until(lambda: bool(line.door.messages))
    assert line.door.texts == ["this"]


async def test_only_listed_servers_are_read_and_a_mention_is_seen_and_taken_out(peer: DiscordPeer) -> None:
    here, elsewhere = peer.guild_channel(GUILD), peer.guild_channel("800000000000000099")
    line = Line(peer, guilds={GUILD: {}})
    async with line.running():
        await peer.say(ANNA, "not read", channel=elsewhere, mention=True)
        await peer.say(ANNA, "among people", channel=here)
        await peer.say(ANNA, "what time is it?", channel=here, mention=True)
        await line.door.until(lambda: len(line.door.messages) == 2)
    assert [(one.text, one.mentioned) for one in line.door.messages] == [("among people", False), ("what time is it?", True)]
    place = line.door.messages[0].conversation
    assert (place.kind, place.id, place.space, place.thread) == ("group", here.id, GUILD, None)


async def test_a_reply_to_the_bot_counts_as_a_mention(peer: DiscordPeer) -> None:
    here = peer.guild_channel(GUILD)
    line = Line(peer, guilds={GUILD: {}})
    async with line.running():
        said = await line.send("hi", to=ChatAddress(channel="discord", kind="group", id=here.id, space=GUILD))
        await peer.say(ANNA, "and then?", channel=here, reply_to=said)
        await line.door.until(lambda: bool(line.door.messages))
    assert line.door.messages[0].mentioned


async def test_a_thread_belongs_to_its_channel_and_is_answered_in_the_thread(peer: DiscordPeer) -> None:
    here = peer.guild_channel(GUILD)
    line = Line(peer, guilds={GUILD: {"channels": {here.id: {}}}})
    async with line.running():
        thread = peer.guild_channel(GUILD, parent=here.id)
        await peer.say(ANNA, "in the thread", channel=thread, mention=True)
        await line.door.until(lambda: bool(line.door.messages))
        place = line.door.messages[0].conversation
        await line.send("answer", to=place)
    assert (place.id, place.thread) == (here.id, thread.id)
    assert peer.said(thread) == ["answer"]
    assert peer.said(here) == []


async def test_messages_of_an_outage_are_read_on_before_the_channel_is_ready(peer: DiscordPeer) -> None:
    here = peer.guild_channel(GUILD)
    first = Line(peer, guilds={GUILD: {}})
    async with first.running():
        await peer.say(ANNA, "before")
        await first.door.until(lambda: bool(first.door.messages) and here.id in first.door.cursors.get("read", ""))
    for number in range(150):
        await peer.say(ANNA, f"missed {number}")
    await peer.say(ANNA, "missed in the channel", channel=here)
    second = Line(peer, cursors=dict(first.door.cursors), guilds={GUILD: {}})
    async with second.running():
        private = [one.text for one in second.door.messages if one.conversation.kind == "direct"]
        assert private == [f"missed {number}" for number in range(150)]
        assert "missed in the channel" in second.door.texts


@pytest.mark.parametrize("end", ["cut", "ask_to_reconnect", "invalidate"])
async def test_nothing_is_lost_and_nothing_taken_twice_when_the_gateway_ends(peer: DiscordPeer, end: str) -> None:
    line = Line(peer)
    async with line.running():
        await peer.say(ANNA, "before")
        await line.door.until(lambda: line.door.texts == ["before"])
        connections = peer.identified + peer.resumed
        await getattr(peer, end)()
        await peer.say(ANNA, "meanwhile")
        await peer.until(lambda: peer.identified + peer.resumed > connections)
        await peer.say(ANNA, "after")
        await line.door.until(lambda: "after" in line.door.texts)
    assert line.door.texts == ["before", "meanwhile", "after"]


async def test_a_reaction_made_during_an_outage_is_told_under_the_alias_that_its_event_has(peer: DiscordPeer) -> None:
    first = Line(peer)
    async with first.running():
        await peer.say(ANNA, "before")
        await first.door.until(lambda: "before" in first.door.texts)
        sent = await first.send("the answer")
        await peer.react(ANNA, sent, "👀")
        await first.door.until(lambda: "👀" in first.door.texts)
        [live] = [one.alias for one in first.door.messages if one.event == "reaction"]
    for emoji in ("👍", "party:900000000000000001"):
        await peer.react(ANNA, sent, emoji, told=False)
    await peer.react(ANNA, peer.dm(ANNA).messages[0]["id"], "🎉", told=False)
    second = Line(peer, cursors=first.door.cursors)
    async with second.running():
        await second.door.until(lambda: ":party:" in second.door.texts)
    told = {one.alias: one.text for one in second.door.messages if one.event == "reaction"}
    assert sorted(told.values()) == [":party:", "👀", "👍"], "to the bot's own messages alone"
    assert told[live] == "👀", "what was told before is known by its alias"
    assert {one.key for one in second.door.messages if one.event == "reaction"} == set(told)
    silent = Line(peer, cursors=first.door.cursors, reactionNotifications="off")
    async with silent.running():
        await peer.say(ANNA, "after")
        await silent.door.until(lambda: "after" in silent.door.texts)
    assert [one for one in silent.door.messages if one.event == "reaction"] == []


async def test_a_message_with_many_reactions_costs_few_calls(peer: DiscordPeer) -> None:
    first = Line(peer)
    async with first.running():
        await peer.say(ANNA, "before")
        await first.door.until(lambda: "before" in first.door.texts)
        answers = [await first.send(f"answer {number}", key=f"k{number}") for number in range(3)]
    for sent in answers:
        for number in range(10):
            await peer.react(ANNA, sent, f"e{number}:9000000000000000{number:02}", told=False)
    second = Line(peer, cursors=first.door.cursors)
    async with second.running():
        await second.log.until("reactions of older messages were not asked for")
    told = [one.target for one in second.door.messages if one.event == "reaction"]
    assert told == [answers[2]] * 10 + [answers[1]] * 10


async def test_a_message_is_offered_again_until_it_is_stored(peer: DiscordPeer) -> None:
    line = Line(peer)
    async with line.running():
        line.door.refuse = OSError("disk full")
        await peer.say(ANNA, "keep this")
        await line.door.until(lambda: line.door.refused == 3)
        line.door.refuse = None
        await line.door.until(lambda: bool(line.door.messages))
    assert line.door.texts == ["keep this"]


async def test_three_hundred_messages_come_in_order(peer: DiscordPeer) -> None:
    line = Line(peer)
    async with line.running():
        for number in range(300):
            await peer.say(ANNA, f"message {number}")
        await line.door.until(lambda: len(line.door.texts) == 300)
    assert line.door.texts == [f"message {number}" for number in range(300)]


async def test_a_wrong_token_says_where_to_get_one(peer: DiscordPeer) -> None:
    line = Line(peer, token="wrong")
    with pytest.raises(ChannelBroken, match="token") as caught:
        await line.channel.run(line.door)
    assert "discord.com/developers" in caught.value.hint


async def test_a_missing_intent_names_the_switch(peer: DiscordPeer) -> None:
    peer.message_content_allowed = False
    line = Line(peer)
    with pytest.raises(ChannelBroken, match="Message Content Intent") as caught:
        await line.channel.run(line.door)
    assert "Privileged Gateway Intents" in caught.value.hint


async def test_a_server_in_trouble_is_tried_again_with_growing_pauses(peer: DiscordPeer) -> None:
    peer.fault("GET users/@me", "status", times=3, code=503)
    line = Line(peer)
    async with line.running():
        assert line.clock.slept == [1.0, 2.0, 4.0]


@pytest.mark.sec(71)
async def test_a_message_is_sent_without_pings_and_previews_as_a_reply(peer: DiscordPeer) -> None:
    line = Line(peer)
    async with line.running():
        asked = await peer.say(ANNA, "hi")
        sent = await line.send(f"**hello** @everyone <@{ANNA}> https://example.org/a_b", reply_to=asked)
    [_, message] = peer.dm(ANNA).messages
    assert (message["id"], message["message_reference"]["message_id"]) == (sent, asked)
    assert message["content"].endswith("https://example.org/a_b")
    assert message["flags"] & SUPPRESS_EMBEDS
    assert peer.pings == []


async def test_a_reply_to_a_deleted_message_is_sent_all_the_same(peer: DiscordPeer) -> None:
    line = Line(peer)
    async with line.running():
        await line.send("still", reply_to="123456789012345678")
    assert peer.said(peer.dm(ANNA)) == ["still"]


@pytest.mark.parametrize("kind", ["drop_after", "status_after"])
async def test_a_doubtful_message_that_arrived_is_not_said_twice(peer: DiscordPeer, kind: str) -> None:
    line = Line(peer)
    async with line.running():
        peer.fault(POST, kind, times=9)
        with pytest.raises(Uncertain):
            await line.send("once")
        peer.faults.clear()
        await line.send("once", attempt=2, uncertain=True, recorded=line.recorded[-1])
    assert peer.said(peer.dm(ANNA)) == ["once"]


async def test_a_doubtful_message_is_found_when_its_nonce_is_forgotten(peer: DiscordPeer) -> None:
    line = Line(peer)
    async with line.running():
        await line.send("Done.", key="k0")
        peer.fault(POST, "drop_after")
        with pytest.raises(Uncertain):
            await line.send("Done.")
        peer.forget_nonces()
        for message in peer.dm(ANNA).messages:
            message.pop("nonce")
        peer.dm(ANNA).messages[0]["id"] = "1"
        found = await line.send("Done.", attempt=2, uncertain=True, recorded=line.recorded[-1])
    assert peer.said(peer.dm(ANNA)) == ["Done.", "Done."]
    assert found == peer.dm(ANNA).messages[1]["id"]


async def test_a_message_over_which_the_process_died_is_found_though_nonces_are_long_forgotten(peer: DiscordPeer) -> None:
    line = Line(peer)
    async with line.running():
        await line.send("Done.")
        noted = line.recorded[-1]
        peer.forget_nonces()
        for message in peer.dm(ANNA).messages:
            message.pop("nonce")
        await line.send("Done.", attempt=2, uncertain=True, recorded=noted)
    assert peer.said(peer.dm(ANNA)) == ["Done."]


async def test_a_doubtful_message_that_did_not_arrive_is_sent(peer: DiscordPeer) -> None:
    line = Line(peer)
    async with line.running():
        peer.fault(POST, "drop_before")
        with pytest.raises(Uncertain):
            await line.send("after all")
        await line.send("after all", attempt=2, uncertain=True, recorded=line.recorded[-1])
    assert peer.said(peer.dm(ANNA)) == ["after all"]


async def test_a_doubtful_message_that_did_not_arrive_is_not_taken_for_one_that_says_the_same(peer: DiscordPeer) -> None:
    line = Line(peer)
    async with line.running():
        await line.send("Done.", key="k0")
        peer.fault(POST, "drop_before")
        with pytest.raises(Uncertain):
            await line.send("Done.")
        await line.send("Done.", attempt=2, uncertain=True, recorded=line.recorded[-1])
    assert peer.said(peer.dm(ANNA)) == ["Done.", "Done."]


async def test_a_long_rate_limit_is_handed_on_as_a_time_to_wait(peer: DiscordPeer) -> None:
    line = Line(peer)
    async with line.running():
        peer.fault(POST, "retry_after", seconds=45)
        with pytest.raises(NotSent) as caught:
            await line.send("patience")
    assert (caught.value.retry_after, caught.value.permanent) == (45, False)


async def test_a_channel_that_is_gone_is_given_up(peer: DiscordPeer) -> None:
    line = Line(peer)
    here = peer.guild_channel(GUILD)
    here.gone = True
    async with line.running():
        with pytest.raises(NotSent) as caught:
            await line.send("hello?", to=ChatAddress(channel="discord", kind="group", id=here.id))
    assert caught.value.permanent


async def test_nothing_is_sent_without_a_connection(peer: DiscordPeer) -> None:
    with pytest.raises(NotSent, match="not connected"):
        await Line(peer).send("early")


async def test_a_quick_answer_shows_no_preview_and_a_slow_one_becomes_the_answer(peer: DiscordPeer) -> None:
    line = Line(peer)
    place = ChatAddress(channel="discord", kind="direct", id=ANNA)
    async with line.running():
        await line.channel.draft(place, "t1", "Let me")
        await line.send("quick", key="k0")
        await line.channel.draft(place, "t2", "Let me")
        await line.clock.sleep(3)
        await line.channel.draft(place, "t2", "Let me think")
        await line.channel.draft(place, "t2", "Let me think about")
        await line.clock.sleep(1.25)
        await line.channel.draft(place, "t2", "Let me think about it")
        assert peer.said(peer.dm(ANNA)) == ["quick", "Let me think about it"]
        await line.send("The answer.")
        await line.channel.draft(place, "t2", "too late")
    assert peer.said(peer.dm(ANNA)) == ["quick", "The answer."]
    assert line.recorded[1:] == [f"preview:{peer.dm(ANNA).messages[1]['id']}"]
    assert "Let me think" not in peer.notices


async def shown(line: Line, *, for_seconds: float = 0) -> str:
    """Show a preview, and let it stand for a while; return its message."""
    for text in ("Let me", "Let me think"):
        await line.channel.draft(DIRECT, "t", text)
        await line.clock.sleep(3)
    await line.clock.sleep(for_seconds)
    return str(line.peer.dm(ANNA).messages[-1]["id"])


async def test_an_answer_that_took_long_notifies_and_its_preview_goes(peer: DiscordPeer) -> None:
    line = Line(peer)
    async with line.running():
        preview = await shown(line, for_seconds=40)
        sent = await line.send("The answer.")
    assert peer.said(peer.dm(ANNA)) == peer.notices == ["The answer."]
    assert sent != preview


async def test_an_answer_that_is_to_be_a_reply_is_one_in_spite_of_its_preview(peer: DiscordPeer) -> None:
    line = Line(peer)
    async with line.running():
        asked = await peer.say(ANNA, "hi")
        await shown(line)
        await line.send("The answer.", reply_to=asked)
    assert peer.said(peer.dm(ANNA)) == ["The answer."]
    assert peer.dm(ANNA).messages[-1]["message_reference"]["message_id"] == asked


@pytest.mark.parametrize(
    ("call", "kind", "doubtful"),
    [
        (POST, "drop_before", True),
        (POST, "drop_after", True),
        (DELETE, "drop_before", True),
        (DELETE, "drop_after", False),  # the library deletes again, and what is gone is gone
    ],
)
async def test_an_answer_in_the_place_of_its_preview_is_said_once_whatever_breaks(
    peer: DiscordPeer, call: str, kind: str, *, doubtful: bool
) -> None:
    line, failed = Line(peer), False
    async with line.running():
        await shown(line, for_seconds=40)
        peer.fault(call, kind, times=9)
        try:
            await line.send("The answer.")
        except Uncertain:
            failed = True
        peer.faults.clear()
        peer.forget_nonces()
        for message in peer.dm(ANNA).messages:
            message.pop("nonce", None)
        if failed:
            await line.send("The answer.", attempt=2, uncertain=True, recorded=line.recorded[-1])
    assert failed is doubtful
    assert peer.said(peer.dm(ANNA)) == ["The answer."]


async def test_previews_leave_an_edit_to_the_answer(peer: DiscordPeer) -> None:
    line = Line(peer)
    async with line.running():
        for number in range(60):
            await line.channel.draft(DIRECT, "t", "word " * (number + 1))
            await line.clock.sleep(0.25)
    assert peer.count("PATCH channels/*/messages/*") == 9, "in fifteen seconds, of which the first three show nothing"


async def test_a_deleted_preview_does_not_swallow_the_answer(peer: DiscordPeer) -> None:
    line = Line(peer)
    place = ChatAddress(channel="discord", kind="direct", id=ANNA)
    async with line.running():
        await line.channel.draft(place, "t", "Let me")
        await line.clock.sleep(3)
        await line.channel.draft(place, "t", "Let me think")
        peer.dm(ANNA).messages.clear()
        await line.send("The answer.")
    assert peer.said(peer.dm(ANNA)) == ["The answer."]


async def test_typing_is_shown_and_its_trouble_is_not_raised(peer: DiscordPeer) -> None:
    line = Line(peer)
    place = ChatAddress(channel="discord", kind="direct", id=ANNA)
    async with line.running():
        await line.channel.typing(place)
        peer.dm(ANNA).gone = True
        await line.channel.typing(place)
    assert peer.typed == [peer.dm(ANNA).id]


async def test_a_probe_tells_who_the_bot_is(peer: DiscordPeer) -> None:
    assert await Line(peer).channel.probe() == "homebody"


async def test_a_probe_finds_a_missing_intent_before_any_message_is_missed(peer: DiscordPeer) -> None:
    peer.message_content_allowed = False
    with pytest.raises(ChannelBroken, match="Message Content Intent"):
        await Line(peer).channel.probe()


@pytest.mark.parametrize("text", ["```", "#", "> ", "```python\n"])
async def test_a_preview_waits_for_something_to_be_seen(peer: DiscordPeer, text: str) -> None:
    line = Line(peer)
    async with line.running():
        await line.channel.draft(DIRECT, "t", text)
        await line.clock.sleep(3)
        await line.channel.draft(DIRECT, "t", text + text)
        await line.clock.sleep(3)
        await line.channel.draft(DIRECT, "t", "Words.")
    assert peer.said(peer.dm(ANNA)) == ["Words."]


async def test_a_probe_of_a_dead_address_says_so(peer: DiscordPeer) -> None:
    with pytest.raises(ChannelError, match="does not answer"):
        await Line(peer, apiRoot="http://127.0.0.1:9/api/v10").channel.probe()


async def test_the_bot_is_known_by_its_id_alone(peer: DiscordPeer) -> None:
    line = Line(peer)
    async with line.running():
        await peer.say(BOT, "an echo", bot=True)
        await peer.say(ANNA, "real")
        await line.door.until(lambda: bool(line.door.messages))
    assert line.door.texts == ["real"]
