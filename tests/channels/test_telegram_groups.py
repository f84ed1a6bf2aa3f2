"""Groups, supergroups and forum topics: where a message lies, whether it is meant for the bot, and where the answer goes."""

from __future__ import annotations

from typing import Any

import pytest

from channels.errors import NotSent
from channels.messages import ChatAddress
from tests.channels.telegram_line import ANNA, BEN, FAMILY, GROUP, opened
from tests.peers.mood import CALM

TOPIC = 7
IN_TOPIC = ChatAddress(channel="telegram", kind="group", id=str(FAMILY), thread=str(TOPIC))
GENERAL = ChatAddress(channel="telegram", kind="group", id=str(FAMILY), thread="1")
BOT = "@homebody_test_bot"


def mention(name: str, offset: int, **more: Any) -> dict[str, Any]:
    return {"type": "text_mention", "offset": offset, "length": len(name), **more}


@pytest.mark.parametrize(
    ("text", "mentioned", "read"),
    [
        ("what's for dinner", False, "what's for dinner"),
        (f"{BOT} what's for dinner", True, "what's for dinner"),
        (f"{BOT}, what's for dinner", True, "what's for dinner"),
        ("@HOMEBODY_Test_Bot hello", True, "hello"),
        (f"what do you think, {BOT}?", True, "what do you think?"),
        (f"ask {BOT} about it", True, f"ask {BOT} about it"),
        (f"{BOT} !status", True, "!status"),
        (f"{BOT}! hello", True, "hello"),
        ("ask @homebody_test_bot2 about it", False, "ask @homebody_test_bot2 about it"),
        (f"👨‍👩‍👧 {BOT} hello", True, f"👨‍👩‍👧 {BOT} hello"),
        (f"/status{BOT}", True, "/status"),
        ("/status@Homebody_Test_BOT now", True, "/status now"),
        ("/status", False, "/status"),
        (f"{BOT} /status", True, "/status"),
    ],
)
async def test_a_mention_is_seen_and_taken_off_the_edge(text: str, mentioned: bool, read: str) -> None:
    async with opened() as line:
        line.peer.chats.group(FAMILY)
        await line.peer.say(ANNA, text, chat=FAMILY)
        async with line.running():
            [message] = await line.heard()
    assert (message.mentioned, message.text) == (mentioned, read)
    assert message.conversation == GROUP


async def test_a_mention_by_id_counts_and_a_mention_of_somebody_else_does_not() -> None:
    bot = {"id": 1000, "is_bot": True, "first_name": "Homebody"}
    ben = {"id": BEN, "is_bot": False, "first_name": "Ben"}
    async with opened() as line:
        line.peer.chats.group(FAMILY)
        await line.peer.say(ANNA, "👋 Homebody, hello", chat=FAMILY, entities=[mention("Homebody", 3, user=bot)])
        await line.peer.say(ANNA, "Ben, hello", chat=FAMILY, entities=[mention("Ben", 0, user=ben)])
        async with line.running():
            first, second = await line.heard(2)
    assert (first.mentioned, first.text) == (True, "👋 Homebody, hello")
    assert (second.mentioned, second.text) == (False, "Ben, hello")


async def test_a_mention_in_a_caption_counts() -> None:
    async with opened() as line:
        line.peer.chats.group(FAMILY)
        entities = [{"type": "mention", "offset": 0, "length": len(BOT)}]
        await line.peer.attach(
            ANNA, "photo", b"\xff\xd8\xff", text=f"{BOT} look", chat=FAMILY, caption_entities=entities, entities=[]
        )
        async with line.running():
            [message] = await line.heard()
    assert (message.mentioned, message.text) == (True, "look")


async def test_a_reply_to_the_bot_counts_as_a_mention_and_is_quoted() -> None:
    async with opened(groups={FAMILY: {}}) as line:
        line.peer.chats.group(FAMILY)
        answer = int(await line.send("It is **Tuesday**.", GROUP))
        await line.peer.say(ANNA, "are you sure?", chat=FAMILY, reply_to=answer)
        other = await line.peer.say(BEN, "so?", chat=FAMILY, name="Ben")
        await line.peer.say(ANNA, "never mind", chat=FAMILY, reply_to=other)
        async with line.running():
            to_bot, _, to_ben = await line.heard(3)
    assert (to_bot.mentioned, to_bot.reply_to, to_bot.quoted) == (True, str(answer), "It is Tuesday.")
    assert (to_ben.mentioned, to_ben.reply_to, to_ben.quoted) == (False, str(other), "so?")


async def test_a_command_to_another_bot_is_not_ours() -> None:
    async with opened() as line:
        line.peer.chats.group(FAMILY)
        await line.peer.say(ANNA, "/status@somebody_elses_bot", chat=FAMILY)
        await line.peer.say(ANNA, f"/status{BOT}", chat=FAMILY)
        async with line.running():
            await line.peer.until(lambda: line.peer.unconfirmed == 0)
    assert line.door.texts == ["/status"]


async def test_a_message_in_a_topic_is_answered_there() -> None:
    async with opened() as line:
        line.peer.chats.group(FAMILY, topics=(TOPIC, 8))
        await line.peer.say(ANNA, "in the topic", chat=FAMILY, thread=TOPIC)
        await line.peer.say(ANNA, "in General", chat=FAMILY)
        async with line.running():
            inside, general = await line.heard(2)
            assert (inside.conversation, general.conversation) == (IN_TOPIC, GENERAL)
            assert (inside.reply_to, inside.quoted, inside.mentioned) == (None, "", False)
            for message in (inside, general):
                await line.channel.typing(message.conversation)
                await line.send(f"answer {message.conversation.thread}", message.conversation, reply_to=message.message_id)
    assert line.peer.chats.said(FAMILY, TOPIC) == ["answer 7"]
    assert line.peer.chats.said(FAMILY) == ["answer 1"]
    assert line.peer.chats.action_topics == [TOPIC, 1]
    replies = [one["reply_to_message"]["text"] for one in line.peer.chats.messages[FAMILY] if one["from"]["is_bot"]]
    assert replies == ["in the topic", "in General"]


async def test_a_chain_of_replies_in_an_ordinary_group_is_no_topic() -> None:
    async with opened() as line:
        line.peer.chats.group(FAMILY)
        first = await line.peer.say(ANNA, "one", chat=FAMILY)
        await line.peer.say(ANNA, "two", chat=FAMILY, reply_to=first, message_thread_id=first)
        async with line.running():
            _, second = await line.heard(2)
    assert second.conversation == GROUP


async def test_a_deleted_topic_is_told_with_the_reason_and_nothing_is_said_elsewhere() -> None:
    async with opened() as line:
        line.peer.chats.group(FAMILY, topics=(8,))
        with pytest.raises(NotSent, match="thread not found") as caught:
            await line.send("lost", IN_TOPIC)
        assert caught.value.permanent
        line.peer.chats.topics[FAMILY].add(TOPIC)
        line.peer.chats.closed.add((FAMILY, TOPIC))
        with pytest.raises(NotSent) as closed:
            await line.send("lost", IN_TOPIC)
        assert "reopen the topic" in closed.value.hint
    assert line.peer.chats.said(FAMILY) == []


@pytest.mark.parametrize(
    ("state", "wording", "hint"),
    [
        ("kicked", "bot was kicked", "add the bot to the group again"),
        ("silent", "Not enough rights", "let the bot send messages"),
    ],
)
async def test_a_group_that_keeps_the_bot_out_is_given_up_with_the_mend(state: str, wording: str, hint: str) -> None:
    async with opened() as line:
        line.peer.chats.group(FAMILY)
        getattr(line.peer.chats, state).add(FAMILY)
        with pytest.raises(NotSent, match=wording) as caught:
            await line.send("hello?", GROUP)
    assert caught.value.permanent
    assert hint in caught.value.hint


async def test_a_group_that_became_a_supergroup_is_told_before_its_messages() -> None:
    async with opened(groups={-5: {}}) as line:
        line.peer.chats.group(-5, kind="group")
        async with line.running():
            await line.peer.become_supergroup(-5, FAMILY)
            await line.peer.say(ANNA, "still here", chat=FAMILY)
            await line.heard()
    former = ChatAddress(channel="telegram", kind="group", id="-5")
    assert line.door.moves == [(former, GROUP), (former, GROUP)]
    assert line.door.texts == ["still here"]
    assert any(f"rename channels.telegram.groups.-5 to channels.telegram.groups.{FAMILY}" in event for event in line.log.events)


async def test_a_move_that_could_not_be_noted_is_offered_again() -> None:
    async with opened() as line:
        line.peer.mood = CALM  # each update is counted
        line.peer.chats.group(-5, kind="group")
        line.door.refuse = OSError("disk full")
        async with line.running():
            await line.peer.become_supergroup(-5, FAMILY)
            await line.peer.until(lambda: len(line.clock.slept) > 2)
            assert line.peer.unconfirmed == 2
            line.door.refuse = None
            await line.peer.until(lambda: line.peer.unconfirmed == 0)
    assert line.door.moves


async def test_an_answer_to_a_group_that_moved_goes_to_the_new_one() -> None:
    former = ChatAddress(channel="telegram", kind="group", id="-5")
    async with opened() as line:
        line.peer.chats.group(-5, kind="group")
        line.peer.chats.group(FAMILY)
        line.peer.chats.moved[-5] = FAMILY
        async with line.running():
            await line.peer.until(lambda: line.peer.asked)
            sent = await line.send("here", former, reply_to="17")
    assert line.door.moves == [(former, GROUP)]
    assert line.peer.chats.said(FAMILY) == ["here"]
    message = line.peer.chats.find(FAMILY, int(sent))
    assert message is not None
    assert "reply_to_message" not in message


async def test_an_answer_is_put_off_while_the_house_cannot_note_where_the_group_went() -> None:
    former = ChatAddress(channel="telegram", kind="group", id="-5")
    async with opened() as line:
        line.peer.chats.group(-5, kind="group")
        line.peer.chats.group(FAMILY)
        line.peer.chats.moved[-5] = FAMILY
        async with line.listening():
            line.door.refuse = OSError("disk full")
            with pytest.raises(NotSent, match="could not be stored") as caught:
                await line.send("here", former)
            assert not caught.value.permanent
            assert line.peer.chats.said(FAMILY) == []
            line.door.refuse = None
            await line.send("here", former, attempt=2)
    assert line.peer.chats.said(FAMILY) == ["here"]


async def test_ids_recorded_in_the_former_group_mean_nothing_in_the_new_one() -> None:
    former = ChatAddress(channel="telegram", kind="group", id="-5")
    async with opened(delivery="edit") as line:
        line.peer.chats.group(-5, kind="group")
        line.peer.chats.group(FAMILY)
        kept = line.peer.chats.speak(FAMILY, "keep this", [], None)
        line.recorded = f'{{"chat":"-5","text":{kept["message_id"]}}}'
        line.peer.chats.moved[-5] = FAMILY
        await line.send("here", former, attempt=2, uncertain=True)
    assert line.peer.chats.said(FAMILY) == ["keep this", "here"]


async def test_an_anonymous_administrator_speaks_under_the_groups_own_id() -> None:
    anonymous = {"id": 1087968824, "is_bot": True, "first_name": "Group"}
    async with opened() as line:
        line.peer.chats.group(FAMILY)
        group = line.peer.chats.people[FAMILY]
        await line.peer.say(ANNA, "who am I", chat=FAMILY, sender=anonymous, sender_chat=group)
        async with line.running():
            [message] = await line.heard()
    assert (message.sender.id, message.sender.name, message.from_bot) == (str(FAMILY), "Family", False)


@pytest.mark.parametrize(("allowed", "heard"), [(False, []), (True, ["beep"])])
async def test_bots_are_heard_only_where_the_settings_allow_it(allowed: bool, heard: list[str]) -> None:
    robot = {"id": 77, "is_bot": True, "first_name": "Robot"}
    async with opened(allowBots=allowed) as line:
        line.peer.chats.group(FAMILY)
        await line.peer.say(77, "beep", chat=FAMILY, sender=robot)
        async with line.running():
            await line.peer.until(lambda: line.peer.unconfirmed == 0)
    assert line.door.texts == heard
    assert all(one.from_bot for one in line.door.messages)


@pytest.mark.parametrize(("allowed", "heard"), [(False, ["mine"]), (True, ["/approve abc once", "mine"])])
@pytest.mark.sec(26, 27)
async def test_what_a_business_bot_sends_in_the_owners_name_is_the_bots_and_in_private_not_heard(
    allowed: bool, heard: list[str]
) -> None:
    secretary = {"id": 9, "is_bot": True, "first_name": "Secretary", "username": "secretary_bot"}
    async with opened(allowBots=allowed) as line:
        line.peer.chats.group(FAMILY)
        for more in ({}, {"business_connection_id": "b1"}):
            await line.peer.say(ANNA, "/approve abc once", sender_business_bot=secretary, **more)
        await line.peer.say(ANNA, "/approve abc once", chat=FAMILY, sender_business_bot=secretary)
        await line.peer.say(ANNA, "mine")
        async with line.running():
            await line.peer.until(lambda: line.peer.unconfirmed == 0)
    assert line.door.texts == heard
    assert [(one.sender.id, one.from_bot) for one in line.door.messages[:-1]] == [("9", True)] * (len(heard) - 1)


async def test_a_posts_copy_from_the_linked_channel_is_passed_over() -> None:
    async with opened() as line:
        line.peer.chats.group(FAMILY)
        news = {"id": -1009, "type": "channel", "title": "News"}
        await line.peer.say(777000, "news!", chat=FAMILY, sender_chat=news, is_automatic_forward=True)
        async with line.running():
            await line.peer.until(lambda: line.peer.unconfirmed == 0)
    assert line.door.texts == []


async def test_the_log_tells_the_id_of_a_group_that_the_bot_was_added_to() -> None:
    async with opened() as line:
        line.peer.chats.group(FAMILY, "Kitchen")
        await line.peer.add_bot(FAMILY)
        await line.peer.add_bot(FAMILY, status="kicked", before="member")
        async with line.running():
            await line.peer.until(lambda: line.peer.unconfirmed == 0)
    added, removed = [event for event in line.log.events if "group" in event]
    assert f"the bot was added to a group {{'group': '{FAMILY}'" in added
    assert "was removed from a group" in removed


@pytest.mark.parametrize(
    ("groups", "told"),
    [
        ({FAMILY: {}}, False),
        ({FAMILY: {"requireMention": False}}, True),
        ({FAMILY: {"topics": {7: {"requireMention": False}}}}, True),
    ],
)
async def test_privacy_mode_is_told_where_it_is_in_the_way(groups: dict[int, Any], told: bool) -> None:
    async with opened(groups=groups) as line:
        async with line.running():
            await line.peer.until(lambda: line.peer.asked)
        assert any("privacy mode" in event for event in line.log.events) == told
        assert ("privacy mode" in await line.channel.probe()) == told


async def test_a_topic_in_a_private_chat_keeps_its_answers() -> None:
    async with opened() as line:
        line.peer.chats.topics[ANNA] = {9}
        await line.peer.say(ANNA, "in a topic", thread=9)
        async with line.running():
            [message] = await line.heard()
            assert (message.conversation.kind, message.conversation.thread) == ("direct", "9")
            await line.send("here", message.conversation)
    assert line.peer.chats.said(ANNA, 9) == ["here"]
