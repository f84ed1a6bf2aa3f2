from __future__ import annotations

import asyncio
import socket
import time
from typing import TYPE_CHECKING, Any

import pytest

from channels.errors import ChannelBroken, ChannelError, NotSent, Uncertain
from channels.messages import ChatAddress
from tests.channels.telegram_line import ANNA, PRIVATE, Line
from tests.peers.hasty import FastClock
from tests.peers.mood import CALM
from tests.peers.telegram import TOKEN, TelegramPeer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def peer() -> AsyncIterator[TelegramPeer]:
    async with TelegramPeer() as started:
        yield started


@pytest.fixture
async def line(peer: TelegramPeer) -> AsyncIterator[Line]:
    made = Line(peer)
    yield made
    await made.channel.close()


async def test_a_private_message_reaches_the_house(peer: TelegramPeer, line: Line) -> None:
    peer.mood = CALM  # the numbers of the updates are told
    question = await peer.say(ANNA, "earlier")
    answer = await peer.say(ANNA, "hello 👋", reply_to=question)
    async with line.running():
        await line.door.until(lambda: len(line.door.messages) == 2)
    message = line.door.messages[1]
    assert (message.text, message.sender.id, message.sender.name) == ("hello 👋", "42", "Anna")
    assert message.conversation.address == "telegram:default:direct:42"
    assert (message.key, message.alias) == ("u:5001", f"m:1000:42:{answer}:0")
    assert message.reply_to == str(question)
    assert message.at.tzinfo is not None
    assert line.door.cursors == {"offset": "5002"}


async def test_an_update_is_confirmed_only_after_the_house_has_it(peer: TelegramPeer, line: Line) -> None:
    peer.mood = CALM  # each update is counted
    await peer.say(ANNA, "keep this")
    line.door.refuse = OSError("disk full")
    async with line.running():
        await line.door.until(lambda: line.door.refused == 3)
        assert peer.unconfirmed == 1
        line.door.refuse = None
        await peer.until(lambda: peer.unconfirmed == 0)
    assert line.door.texts == ["keep this"]
    assert any("could not be stored" in event for event in line.log.events)


async def test_a_message_taken_but_not_confirmed_before_a_kill_is_taken_once(peer: TelegramPeer, line: Line) -> None:
    await peer.say(ANNA, "once")
    async with line.running():
        await line.door.until(lambda: line.door.texts == ["once"])
    peer.lose_confirmations()
    assert peer.unconfirmed > 0
    async with line.running():
        await peer.until(lambda: peer.unconfirmed == 0)
    assert line.door.texts == ["once"]


async def test_updates_numbered_lower_after_an_idle_week_are_not_lost(peer: TelegramPeer, line: Line) -> None:
    await peer.say(ANNA, "before the week")
    async with line.running():
        await peer.until(lambda: peer.unconfirmed == 0)
        peer.renumber(17)
        await peer.say(ANNA, "after the week")
        await line.door.until(lambda: len(line.door.texts) == 2)
    peer.renumber(3)
    await peer.say(ANNA, "after a restart")
    async with line.running():
        await line.door.until(lambda: len(line.door.texts) == 3)
    assert line.door.texts == ["before the week", "after the week", "after a restart"]


async def test_a_hundred_and_fifty_messages_come_in_order(peer: TelegramPeer, line: Line) -> None:
    for number in range(150):
        await peer.say(ANNA, f"message {number}")
    async with line.running():
        await line.door.until(lambda: len(line.door.texts) == 150)
    assert line.door.texts == [f"message {number}" for number in range(150)]


async def test_the_first_answer_makes_the_channel_ready_and_each_one_keeps_it_alive(peer: TelegramPeer, line: Line) -> None:
    async with line.running():
        for number in range(3):
            await peer.say(ANNA, f"{number}")
            await line.door.until(lambda number=number: len(line.door.texts) == number + 1)
    assert line.door.readied == 1
    assert line.door.lives >= 3


@pytest.mark.parametrize(
    "content",
    [
        {"chat": {"id": -5, "type": "channel", "title": "g"}, "text": "in a channel"},
        {"chat": {"id": ANNA, "type": "private"}, "text": "from a bot", "from": {"id": 7, "is_bot": True, "first_name": "b"}},
    ],
    ids=["channel", "a bot"],
)
async def test_what_nobody_wrote_is_passed_over_and_confirmed(peer: TelegramPeer, line: Line, content: dict[str, Any]) -> None:
    person = {"id": ANNA, "is_bot": False, "first_name": "Anna"}
    await peer.inject("message", {"message_id": 1, "date": 1, "from": person, **content})
    async with line.running():
        await peer.until(lambda: peer.unconfirmed == 0)
    assert line.door.messages == []
    assert any("skipped an update" in event for event in line.log.events)


async def test_an_update_that_cannot_be_read_does_not_hold_up_the_others(peer: TelegramPeer, line: Line) -> None:
    await peer.say(ANNA, "first")
    await peer.inject("message", {"message_id": 1, "date": 1, "chat": {"nonsense": True}})
    await peer.say(ANNA, "last")
    async with line.running():
        await peer.until(lambda: peer.unconfirmed == 0)
    assert line.door.texts == ["first", "last"]


async def test_an_update_of_a_shape_unknown_does_not_hold_up_the_others(peer: TelegramPeer, line: Line) -> None:
    await peer.say(ANNA, "first")
    odd = {"type": "text_link", "offset": "x", "length": None, "url": "https://a.example"}
    await peer.inject("message", {**peer.chats.messages[ANNA][0], "message_id": 9, "entities": [odd]})
    await peer.say(ANNA, "last")
    async with line.running():
        await peer.until(lambda: peer.unconfirmed == 0)
    assert line.door.texts == ["first", "last"]
    assert any("malformed" in event for event in line.log.events)


@pytest.mark.parametrize(
    ("kind", "details"),
    [("drop_before", {}), ("drop_after", {}), ("status", {"code": 502}), ("status", {"code": 500})],
)
async def test_passing_trouble_is_waited_out_with_growing_pauses(
    peer: TelegramPeer, line: Line, kind: str, details: dict[str, int]
) -> None:
    peer.fault("getUpdates", kind, times=3, **details)
    await peer.say(ANNA, "still there?")
    async with line.running():
        await line.door.until(lambda: line.door.texts == ["still there?"])
    assert line.clock.slept == [1.0, 2.0, 4.0]


async def test_a_flood_wait_is_obeyed(peer: TelegramPeer, line: Line) -> None:
    peer.fault("getUpdates", "retry_after", seconds=17)
    await peer.say(ANNA, "patience")
    async with line.running():
        await line.door.until(lambda: line.door.texts == ["patience"])
    assert line.clock.slept == [17.0]


async def test_no_network_is_waited_out(line: Line) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        quiet = Line(TelegramPeer(port=taken.getsockname()[1]))
        async with quiet.running() as task:
            while len(quiet.clock.slept) < 9:
                assert not task.done()
                await asyncio.sleep(0.01)
        await quiet.channel.close()
    assert max(quiet.clock.slept) == 10.0
    assert quiet.door.readied == 0


@pytest.mark.parametrize("token", ["1000:BBExampleTokenThatNobodyKnowsAtAll00", "1:a"])
async def test_a_wrong_token_ends_the_channel_with_the_mend(peer: TelegramPeer, token: str) -> None:
    line = Line(peer, botToken=token)
    with pytest.raises(ChannelBroken, match=r"channels\.telegram\.botToken is not accepted") as caught:
        await line.channel.run(line.door)
    assert "@BotFather" in caught.value.hint
    assert token not in str(caught.value) + caught.value.hint
    with pytest.raises(ChannelBroken):
        await line.channel.probe()
    await line.channel.close()


async def test_a_token_that_is_revoked_ends_the_channel_with_the_mend(peer: TelegramPeer, line: Line) -> None:
    async with line.running() as task:
        await peer.until(lambda: peer.count("getUpdates") > 1)
        peer.token = "1000:BBTheNewTokenThatTheOwnerHasNotSetYet"
        await peer.say(ANNA, "are you there?")
        with pytest.raises(ChannelBroken, match="is not accepted"):
            await task
        with pytest.raises(NotSent) as caught:
            await line.send("no")
    assert not caught.value.permanent


async def test_a_rival_that_goes_away_is_put_up_with(peer: TelegramPeer, line: Line) -> None:
    peer.fault("getUpdates", "refuse", times=3, code=409, text="Conflict: terminated by other getUpdates request")
    await peer.say(ANNA, "mine")
    async with line.running():
        await line.door.until(lambda: line.door.texts == ["mine"])


async def test_a_rival_that_stays_ends_the_channel(peer: TelegramPeer, line: Line) -> None:
    peer.fault("getUpdates", "refuse", times=1000, code=409, text="Conflict: terminated by other getUpdates request")
    with pytest.raises(ChannelBroken, match="another program polls the bot") as caught:
        await line.channel.run(line.door)
    assert "stop the other program" in caught.value.hint
    assert 120 <= sum(line.clock.slept) < 240


class Quick(FastClock):
    """A clock that runs thirty times as fast as the true one, and wakes sleepers at once."""

    def monotonic(self) -> float:
        return super().monotonic() + 30 * time.monotonic()


async def test_a_channel_that_lost_its_bot_comes_back_only_when_the_rival_is_gone(peer: TelegramPeer) -> None:
    line = Line(peer, clock=Quick(), pollTimeoutSeconds=1, conflictSeconds=60)
    peer.fault("getUpdates", "refuse", times=1000, code=409, text="Conflict: terminated by other getUpdates request")
    with pytest.raises(ChannelBroken, match="another program"):
        await line.channel.run(line.door)
    peer.faults.clear()
    peer.fault("getUpdates", "refuse", code=409, text="Conflict: terminated by other getUpdates request")
    lived, asked = line.door.lives, peer.count("getUpdates")
    with pytest.raises(ChannelBroken, match="another program"):
        await line.channel.run(line.door)
    assert peer.count("getUpdates") == asked + 1, "the rival is disturbed once"
    assert line.door.lives == lived, "nobody is told that it is connected"
    async with line.running():
        await line.door.until_ready()
        assert line.door.lives == lived + 1
        assert line.channel.trouble == ""
    await line.channel.close()


async def test_the_token_is_read_again_after_it_was_refused(peer: TelegramPeer, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("1000:AARevoked000000000000000000000000000000")
    line = Line(peer, botToken=None, tokenFile=str(file))
    with pytest.raises(ChannelBroken, match="is not accepted"):
        await line.channel.run(line.door)
    file.write_text(peer.token)
    await peer.say(ANNA, "hello again")
    async with line.running():
        await line.door.until(lambda: line.door.texts == ["hello again"])
    await line.channel.close()


async def test_while_another_program_polls_the_status_says_so(peer: TelegramPeer, line: Line) -> None:
    peer.fault("getUpdates", "refuse", times=1, code=409, text="Conflict: terminated by other getUpdates request")
    said: list[str] = []
    sleep = line.clock.sleep

    async def noted(seconds: float) -> None:
        said.append(line.channel.trouble)
        await sleep(seconds)

    line.clock.sleep = noted  # type: ignore[method-assign]
    await peer.say(ANNA, "mine")
    async with line.running():
        await line.door.until(lambda: line.door.texts == ["mine"])
        assert said[0].startswith("Another program polls this bot")
        assert line.channel.trouble == ""


async def test_empty_answers_that_come_at_once_are_paced(peer: TelegramPeer, line: Line) -> None:
    peer.answers["getUpdates"] = []
    async with line.running():
        await peer.until(lambda: peer.count("getUpdates") >= 10)
    assert line.clock.slept[:8] == [1.0] * 8


async def test_the_line_is_tried_every_ten_seconds_at_least_and_what_waits_is_sent_at_once(
    peer: TelegramPeer, line: Line
) -> None:
    async with line.running():
        await line.door.until_ready()
        peer.fault("getUpdates", "drop_before", times=20)
        await peer.say(ANNA, "hi")
        await line.door.until_ready()
    assert max(line.clock.slept) == 10.0
    assert line.channel.silence == 5 + 5 + 10


async def test_two_real_pollers_get_each_message_into_one_house(peer: TelegramPeer, line: Line) -> None:
    rival = Line(peer)
    rival.door = line.door
    await peer.say(ANNA, "for one of us")
    async with line.running(), rival.running():
        await peer.until(lambda: peer.unconfirmed == 0)
    assert line.door.texts == ["for one of us"]
    await rival.channel.close()


async def test_a_webhook_in_the_way_is_removed(peer: TelegramPeer, line: Line) -> None:
    peer.webhook.url = "https://example.org/hook"
    await peer.say(ANNA, "hello")
    async with line.running():
        await line.door.until(lambda: line.door.texts == ["hello"])
    assert peer.webhook.url == ""


async def test_a_webhook_that_cannot_be_removed_is_tried_again(peer: TelegramPeer, line: Line) -> None:
    peer.webhook.url = "https://example.org/hook"
    peer.fault("deleteWebhook", "status", times=2)
    async with line.running():
        await peer.until(lambda: peer.webhook.url == "" and peer.count("deleteWebhook") == 3)
    assert line.clock.slept == [1.0, 2.0]


@pytest.mark.sec(71)
async def test_a_reply_is_shown_formatted_and_without_a_link_preview(peer: TelegramPeer, line: Line) -> None:
    asked = await peer.say(ANNA, "where?")
    sent = await line.send("**Under** the [pot](https://example.org/?a=1&b=2) <here>", reply_to=str(asked))
    message = peer.chats.find(ANNA, int(sent))
    assert message is not None
    assert message["text"] == "Under the pot <here>"
    assert [one["type"] for one in message["entities"]] == ["bold", "text_link"]
    assert message["entities"][1]["url"] == "https://example.org/?a=1&b=2"
    assert message["link_preview_options"] == {"is_disabled": True}
    assert message["reply_to_message"]["message_id"] == asked


@pytest.mark.parametrize("wanted", [True, False])
async def test_what_lies_behind_a_link_is_shown_only_when_wanted(peer: TelegramPeer, wanted: bool) -> None:
    line = Line(peer, linkPreview=wanted)
    await peer.say(ANNA, "where?")
    sent = await line.send("https://example.org")
    await line.channel.close()
    message = peer.chats.find(ANNA, int(sent))
    assert message is not None
    assert ("link_preview_options" in message) != wanted


async def test_a_reply_to_a_deleted_message_is_sent_all_the_same(peer: TelegramPeer, line: Line) -> None:
    await peer.say(ANNA, "where?")
    await line.send("here", reply_to="99999")
    assert peer.transcript(ANNA)[-1] == ("bot", "here")


async def test_html_that_telegram_does_not_take_is_sent_as_plain_text(peer: TelegramPeer, line: Line) -> None:
    await peer.say(ANNA, "where?")
    peer.fault("sendMessage", "refuse", code=400, text="Bad Request: can't parse entities: Unsupported start tag")
    await line.send("**Under** the `pot`")
    assert peer.transcript(ANNA)[-1] == ("bot", "Under the pot")
    assert peer.count("sendMessage") == 2


async def test_a_repeated_send_after_an_uncertain_one_says_so(peer: TelegramPeer, line: Line) -> None:
    await peer.say(ANNA, "where?")
    await line.send("x" * 4000, attempt=2, uncertain=True, restarted=True)
    assert peer.transcript(ANNA)[-1] == ("bot", "(repeated after restart)\n" + "x" * 4000)
    await line.send("x", attempt=3, uncertain=True)
    assert peer.transcript(ANNA)[-1] == ("bot", "(possibly repeated)\nx")


@pytest.mark.parametrize(
    ("kind", "more", "answers"),
    [
        ("status", {"code": 502}, False),
        ("status", {"code": 500}, False),
        ("drop_before", {}, False),
        ("drop_after", {}, False),
        ("refuse", {"code": 403, "text": "Forbidden: bot was blocked by the user"}, True),
        ("refuse", {"code": 400, "text": "Bad Request: chat not found"}, True),
        ("refuse", {"code": 404, "text": "Not Found"}, True),
        ("retry_after", {"seconds": 3}, True),
    ],
)
async def test_telegram_is_asked_whether_it_answers_by_a_typing_sign(
    peer: TelegramPeer, line: Line, kind: str, more: dict[str, Any], answers: bool
) -> None:
    await peer.say(ANNA, "hi")
    peer.fault("sendChatAction", kind, **more)
    assert await line.channel.answers(PRIVATE) is answers
    assert await line.channel.answers(PRIVATE)
    assert peer.count("sendMessage") == 0


async def test_a_preview_that_cannot_be_shown_does_not_count_as_silence(peer: TelegramPeer, line: Line) -> None:
    await peer.say(ANNA, "hi")
    await line.channel.draft(PRIVATE, "t1", "so far")
    await line.clock.sleep(5)
    await line.channel.draft(PRIVATE, "t1", "so far, so good")
    await line.clock.sleep(60)
    peer.fault("sendMessageDraft", "refuse", code=400, text="Bad Request: TEXTDRAFT_PEER_INVALID", times=9)
    assert await line.channel.answers(PRIVATE)


@pytest.mark.parametrize("chat", ["stranger", "blocked"])
async def test_a_chat_that_is_gone_is_given_up(peer: TelegramPeer, line: Line, chat: str) -> None:
    if chat == "blocked":
        await peer.say(ANNA, "bye")
        peer.chats.blocked.add(ANNA)
    with pytest.raises(NotSent) as caught:
        await line.send("hello?")
    assert caught.value.permanent


async def test_too_many_requests_say_when_to_try_again(peer: TelegramPeer, line: Line) -> None:
    await peer.say(ANNA, "hi")
    peer.fault("sendMessage", "retry_after", seconds=9)
    with pytest.raises(NotSent) as caught:
        await line.send("hello")
    assert (caught.value.permanent, caught.value.retry_after) == (False, 9.0)
    assert len(peer.transcript(ANNA)) == 1


@pytest.mark.parametrize(("kind", "arrived"), [("drop_before", False), ("drop_after", True), ("status", False)])
async def test_a_send_without_an_answer_is_uncertain(peer: TelegramPeer, line: Line, kind: str, arrived: bool) -> None:
    await peer.say(ANNA, "hi")
    peer.fault("sendMessage", kind)
    with pytest.raises(Uncertain):
        await line.send("hello")
    assert (("bot", "hello") in peer.transcript(ANNA)) == arrived


async def test_a_slow_answer_is_uncertain(peer: TelegramPeer) -> None:
    line = Line(peer, timeoutSeconds=0.2)
    await peer.say(ANNA, "hi")
    peer.fault("sendMessage", "delay", seconds=5)
    with pytest.raises(Uncertain):
        await line.send("hello")
    await line.channel.close()


async def test_a_send_without_a_connection_was_not_sent() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        line = Line(TelegramPeer(port=taken.getsockname()[1]))
        with pytest.raises(NotSent) as caught:
            await line.send("hello")
        assert not caught.value.permanent
        with pytest.raises(ChannelError, match="does not answer") as unreachable:
            await line.channel.probe()
        assert TOKEN not in str(unreachable.value)
        await line.channel.close()


async def test_an_id_that_is_no_number_is_given_up(line: Line) -> None:
    with pytest.raises(NotSent) as caught:
        await line.send("hello", reply_to="abc")
    assert caught.value.permanent


async def test_every_chunk_of_a_long_reply_is_taken(peer: TelegramPeer, line: Line) -> None:
    await peer.say(ANNA, "tell me all")
    text = "\n\n".join(
        f"## Part {n}\n\n" + "Some *words* 👍 & <signs>. " * 40 + "\n\n```py\n" + "x < 1\n" * 40 + "```" for n in range(8)
    )
    pieces = line.channel.chunks(text)
    assert len(pieces) > 2
    for piece in pieces:
        await line.send(piece)
    said = "\n".join(text for who, text in peer.transcript(ANNA) if who == "bot")
    assert said.count("👍") == 320
    assert said.count("x < 1") == 320


@pytest.mark.parametrize("nothing", ["", "  \n", "\u200b", "```\n```", "\u2060\ufeff"])
async def test_what_telegram_takes_for_empty_is_no_chunk(line: Line, nothing: str) -> None:
    assert line.channel.chunks(nothing) == []


async def test_typing_is_shown_and_never_fails(peer: TelegramPeer, line: Line) -> None:
    here = ChatAddress(channel="telegram", kind="direct", id=str(ANNA))
    await line.channel.typing(here)
    await peer.say(ANNA, "hi")
    await line.channel.typing(here)
    assert peer.chats.actions == [(ANNA, "typing")]


async def test_the_probe_tells_the_bots_name(line: Line) -> None:
    assert await line.channel.probe() == "@homebody_test_bot"
