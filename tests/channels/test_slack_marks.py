"""Only messages move Slack's reading marks, and whatever is wrong with a mark or with reading on, the channel speaks and hears."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from channels.common.read_marks import CURSOR
from tests.channels.slack_line import ANNA, ROOM, Line, shown
from tests.peers.slack import BOT, SlackPeer
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TRIGGER = "13345224609.738474920.8088930838d88f008e0"
"""What Slack gives a slash command: it only looks like a time stamp."""
HISTORY = "conversations.history"


@pytest.fixture
async def peer() -> AsyncIterator[SlackPeer]:
    async with SlackPeer() as started:
        yield started


async def test_a_message_after_a_command_in_a_channel_is_heard_and_after_a_restart_too(peer: SlackPeer) -> None:
    first = Line(peer, channels={ROOM: {}})
    async with first.running():
        await peer.command(ANNA, "status", channel=ROOM)
        await peer.say(ANNA, f"<@{BOT}> hello", channel=ROOM)
        await first.heard(lambda: "hello" in first.door.texts)
        await first.quiet()
    await peer.say(ANNA, "in between", channel=ROOM)
    peer.waiting.clear()
    second = Line(peer, cursors=first.door.cursors, channels={ROOM: {}})
    async with second.running():
        assert "in between" in second.door.texts
        await second.send("said after all")
        await peer.say(ANNA, "and after", channel=ROOM)
        await second.heard(lambda: "and after" in second.door.texts)
    assert [one["text"] for one in shown(peer)] == ["said after all"]


async def test_a_command_after_a_message_in_a_channel_is_heard(peer: SlackPeer) -> None:
    line = Line(peer, channels={ROOM: {}})
    async with line.running():
        await peer.say(ANNA, "first", channel=ROOM)
        await peer.command(ANNA, "what now?", channel=ROOM)
        await line.quiet()
    assert line.door.texts == ["first", "what now?"]


@pytest.mark.parametrize("http", [False, True], ids=["socket", "http"])
async def test_a_house_that_once_noted_a_trigger_as_a_mark_heals_by_itself(peer: SlackPeer, http: bool) -> None:
    read = {ROOM: TRIGGER, "CELSE0001": "not a stamp", f"{ROOM}/{TRIGGER}": TRIGGER, "CNAN00001": "NaN"}
    line = Line(peer, cursors={CURSOR: json.dumps(read)}, http=http, channels={ROOM: {}})
    async with line.running():
        await line.send("said")
        await peer.say(ANNA, "heard?", channel=ROOM)
        await line.heard(lambda: "heard?" in line.door.texts)
    kept = json.loads(line.door.cursors[CURSOR])
    assert list(kept) == [ROOM]
    assert kept[ROOM] == peer.messages[ROOM][-1]["ts"]


@pytest.mark.parametrize("http", [False, True], ids=["socket", "http"])
@parametrize_some(1, "trouble", ["status", "odd page"])
async def test_a_channel_that_cannot_be_read_on_stops_no_sending_and_is_read_when_it_can_be(
    peer: SlackPeer, http: bool, trouble: str
) -> None:
    first = Line(peer, http=http, channels={ROOM: {}})
    async with first.running():
        await peer.say(ANNA, "before", channel=ROOM)
        await first.heard(lambda: "before" in first.door.texts)
    peer.call_at(None)
    await peer.say(ANNA, "in between", channel=ROOM)
    peer.waiting.clear()
    if trouble == "status":
        peer.fault(HISTORY, "status", times=10_000)
    else:
        stamp = peer.messages[ROOM][-1]["ts"]
        damaged = {"ts": f"{float(stamp) + 1:.6f}", "user": 7, "text": "?", "files": 7, "edited": 7}
        peer.home.odd = [{"type": "message"}, {"ts": None, "user": 7}, {"ts": TRIGGER, "edited": "now"}, 7, damaged]
    second = Line(peer, cursors=first.door.cursors, http=http, channels={ROOM: {}})
    async with second.running():
        await second.send("said at once")
        await peer.say(ANNA, "in private")
        await second.heard(lambda: "in private" in second.door.texts)
        if trouble == "status":
            assert "in between" not in second.door.texts
            assert second.log.told("could not be read")
            assert second.channel.trouble == f"what was missed cannot be read yet, and is tried again: {ROOM}"
            peer.faults.clear()
        await second.heard(lambda: "in between" in second.door.texts)
        await second.quiet()
        assert second.channel.trouble == ""
    assert [one["text"] for one in shown(peer)] == ["said at once"]


async def test_a_message_taken_while_an_older_one_cannot_be_read_does_not_hide_it_from_the_next_start(peer: SlackPeer) -> None:
    first = Line(peer, channels={ROOM: {}})
    async with first.running():
        await peer.say(ANNA, "before", channel=ROOM)
        await first.heard(lambda: "before" in first.door.texts)
    await peer.say(ANNA, "in between", channel=ROOM)
    peer.waiting.clear()
    peer.fault(HISTORY, "status", times=10_000)
    second = Line(peer, cursors=first.door.cursors, channels={ROOM: {}})
    async with second.running():
        await peer.say(ANNA, "live", channel=ROOM)
        await second.heard(lambda: "live" in second.door.texts)
    peer.faults.clear()
    third = Line(peer, cursors=second.door.cursors, channels={ROOM: {}})
    async with third.running():
        assert "in between" in third.door.texts


async def test_a_reaction_made_during_an_outage_is_told_under_the_alias_that_its_event_has(peer: SlackPeer) -> None:
    first = Line(peer)
    async with first.running():
        await peer.say(ANNA, "before")
        await first.heard(lambda: "before" in first.door.texts)
        answer = await first.send("the answer")
        await peer.react(ANNA, answer, "eyes")
        await first.heard(lambda: "👀" in first.door.texts)
    await peer.react(ANNA, answer, "+1", told=False)
    await peer.react(ANNA, peer.messages[peer.dm(ANNA)][0]["ts"], "tada", told=False)
    peer.waiting.clear()
    second = Line(peer, cursors=first.door.cursors)
    async with second.running():
        await second.quiet()
    told = [(one.text, one.target) for one in second.door.messages if one.event == "reaction"]
    assert sorted(told) == sorted([("👀", answer), ("👍", answer)]), "to the app's own messages alone"
    [live] = [one.alias for one in first.door.messages if one.event == "reaction"]
    assert live in {one.alias for one in second.door.messages}, "what was told before is known by it"
    silent = Line(peer, cursors=first.door.cursors, reactionNotifications="off")
    async with silent.running():
        await silent.quiet()
    assert [one for one in silent.door.messages if one.event == "reaction"] == []
