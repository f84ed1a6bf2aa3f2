"""What is shown while an answer is written: streams in threads, edits elsewhere, and that somebody is typing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.errors import Uncertain
from channels.messages import Button, ChatAddress
from channels.slack.block_kit import harmless, streamable
from tests.channels.slack_line import ANNA, ROOM, Line, shown
from tests.peers.slack import SlackPeer
from tests.peers.slack_state import PING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

START, APPEND, STOP, UPDATE = "chat.startStream", "chat.appendStream", "chat.stopStream", "chat.update"


@pytest.fixture
async def peer() -> AsyncIterator[SlackPeer]:
    async with SlackPeer() as started:
        yield started


async def thread(line: Line, *, private: bool = False) -> ChatAddress:
    """Let Anna write in a thread, and return it."""
    where = {} if private else {"channel": ROOM}
    first = await line.peer.say(ANNA, "beginning", **where)
    await line.peer.say(ANNA, "go on", thread=first, **where)
    await line.heard(lambda: len(line.door.messages) == 2)
    return line.door.messages[1].conversation


async def drafted(line: Line, place: ChatAddress, *texts: str, turn: str = "t") -> None:
    """Show texts, each long enough after the one before."""
    await line.channel.draft(place, turn, texts[0])
    await line.clock.sleep(3)
    for text in texts:
        await line.channel.draft(place, turn, text)
        await line.clock.sleep(1.5)


@pytest.mark.parametrize("private", [False, True])
async def test_in_a_thread_an_answer_is_streamed_and_ended_with_its_rest(peer: SlackPeer, *, private: bool) -> None:
    line = Line(peer, channels={ROOM: {}})
    async with line.running():
        place = await thread(line, private=private)
        channel = peer.dm(ANNA) if private else ROOM
        await drafted(line, place, "Let", "Let me", "Let me think")
        assert peer.said(channel) == ["Let me think"]
        sent = await line.send("Let me think. **Done.**", to=place, buttons=(Button(label="Thanks", value="/thanks"),))
    [message] = shown(peer, channel)
    assert (message["text"], message["ts"], message["thread_ts"]) == ("Let me think. **Done.**", sent, place.thread)
    assert message["blocks"][0]["elements"][0]["value"] == "/thanks"
    assert message["metadata"]["event_payload"] == {"key": "k1"}
    assert (peer.count(START), peer.count(APPEND), peer.count(STOP), peer.count(UPDATE)) == (1, 2, 1, 0)
    assert peer.home.streams == set()
    assert line.recorded == [f"stream:{sent}"]
    assert next(given for name, given in peer.calls if name == START)["recipient_user_id"] == ANNA


async def test_an_answer_that_became_another_replaces_what_was_streamed(peer: SlackPeer) -> None:
    line = Line(peer, channels={ROOM: {}})
    async with line.running():
        place = await thread(line)
        await drafted(line, place, "I will look", "I will look it up")
        await line.send("It is five.", to=place)
        await drafted(line, place, "One", "Or two", "Or two more", turn="t2")
        assert peer.said(ROOM) == ["It is five.", "Or two more"]
        await line.send("Or two more.", to=place, key="k2")
    assert peer.said(ROOM) == ["It is five.", "Or two more."]
    assert peer.home.streams == set()


async def test_a_stream_that_slack_ended_goes_on_by_edits(peer: SlackPeer) -> None:
    line = Line(peer, channels={ROOM: {}})
    async with line.running():
        place = await thread(line)
        await drafted(line, place, "Let me")
        peer.home.streams.clear()
        await drafted(line, place, "Let me think", "Let me think about it")
        assert peer.said(ROOM) == ["Let me think about it"]
        await line.send("Done.", to=place)
        await drafted(line, place, "Again", turn="t2")
        peer.home.streams.clear()
        await line.send("Again, done.", to=place, key="k2")
    assert peer.said(ROOM) == ["Done.", "Again, done."]


@pytest.mark.parametrize(
    ("method", "kind"), [(STOP, "drop_after"), (STOP, "drop_before"), (STOP, "status_after"), (UPDATE, "drop_after")]
)
async def test_an_answer_is_there_once_wherever_ending_its_stream_is_cut_off(peer: SlackPeer, method: str, kind: str) -> None:
    line = Line(peer, channels={ROOM: {}})
    async with line.running():
        place = await thread(line)
        await drafted(line, place, "Let me", "Let me think")
        text = "Let me think. Done." if method == STOP else "Something else."
        peer.fault(method, kind)
        try:
            await line.send(text, to=place)
        except Uncertain:
            await line.send(text, to=place, attempt=2, uncertain=True, recorded=line.recorded[-1])
    assert peer.said(ROOM) == [text]
    assert peer.home.streams == set()


async def test_another_process_finishes_a_stream_from_what_was_noted(peer: SlackPeer) -> None:
    first = Line(peer, channels={ROOM: {}})
    async with first.running():
        place = await thread(first)
        await drafted(first, place, "Let me")
        peer.fault(STOP, "drop_before")
        with pytest.raises(Uncertain):
            await first.send("Let me see. Done.", to=place)
    second = Line(peer, channels={ROOM: {}})
    async with second.running():
        await second.send("Let me see. Done.", to=place, attempt=2, uncertain=True, recorded=first.recorded[-1])
    assert peer.said(ROOM) == ["Let me see. Done."]
    assert peer.home.streams == set()


@pytest.mark.parametrize("kind", ["drop_after", "drop_before"])
async def test_a_piece_of_a_stream_that_was_cut_off_is_not_shown_twice(peer: SlackPeer, kind: str) -> None:
    line = Line(peer, channels={ROOM: {}})
    async with line.running():
        place = await thread(line)
        await drafted(line, place, "one")
        peer.fault(APPEND, kind)
        await drafted(line, place, "one two", "one two three")
        assert peer.said(ROOM) == ["one two three"]
        await line.send("one two three four", to=place)
    assert peer.said(ROOM) == ["one two three four"]


async def test_where_slack_has_no_streams_messages_are_edited(peer: SlackPeer) -> None:
    peer.home.streaming = False
    line = Line(peer, channels={ROOM: {}})
    async with line.running():
        place = await thread(line)
        await drafted(line, place, "Let me", "Let me think")
        await drafted(line, place, "Let me think again", turn="t2")
        await line.send("Done.", to=place)
    assert peer.said(ROOM)[-1] == "Done."
    assert peer.count(START) == 1, "it is asked for once"
    assert line.log.told("does not stream answers here")


@pytest.mark.parametrize(("streaming", "previews", "starts"), [("off", 0, 0), ("edit", 1, 0), ("auto", 1, 1)])
async def test_the_settings_say_what_is_shown(peer: SlackPeer, streaming: str, previews: int, starts: int) -> None:
    line = Line(peer, channels={ROOM: {}}, streaming=streaming)
    async with line.running():
        place = await thread(line)
        await drafted(line, place, "Let me")
        assert (len(peer.said(ROOM)), peer.count(START)) == (previews, starts)


async def test_a_wait_that_slack_asks_for_is_kept_by_what_is_only_for_show(peer: SlackPeer) -> None:
    line = Line(peer, channels={ROOM: {}})
    async with line.running():
        place = await thread(line)
        await drafted(line, place, "one")
        peer.fault(APPEND, "retry_after", seconds=30)
        await drafted(line, place, "one two", "one two three", "one two three four")
        assert (peer.count(APPEND), peer.said(ROOM)) == (1, ["one"])
        await line.clock.sleep(30)
        await drafted(line, place, "one two three four five")
        assert peer.said(ROOM) == ["one two three four five"]
        await line.send("one two three four five six", to=place)
    assert peer.said(ROOM) == ["one two three four five six"]


async def test_a_preview_that_somebody_deleted_is_said_anew(peer: SlackPeer) -> None:
    line = Line(peer, channels={ROOM: {}})
    async with line.running():
        place = await thread(line)
        await drafted(line, place, "Let me")
        peer.messages[ROOM].remove(shown(peer, ROOM)[0])
        await line.send("Done.", to=place)
    assert peer.said(ROOM, thread=place.thread) == ["Done."]


async def test_a_house_that_goes_leaves_no_stream_open(peer: SlackPeer) -> None:
    line = Line(peer, channels={ROOM: {}})
    async with line.running():
        await drafted(line, await thread(line), "Let me", "Let me think")
        assert len(peer.home.streams) == 1
    assert (peer.home.streams, peer.said(ROOM)) == (set(), ["Let me think"])


async def test_messages_are_edited_less_often_than_streams_grow(peer: SlackPeer) -> None:
    line = Line(peer)
    async with line.running():
        for number in range(10):
            await line.channel.draft(ChatAddress(channel="slack", kind="direct", id=ANNA), "t", f"part {number}")
            await line.clock.sleep(1)
    assert peer.count(UPDATE) == 3


async def test_typing_is_shown_in_threads(peer: SlackPeer) -> None:
    line = Line(peer, channels={ROOM: {}})
    async with line.running():
        await line.channel.typing(await thread(line))
        await line.channel.typing(ChatAddress(channel="slack", kind="direct", id=ANNA))
        await line.channel.typing(ChatAddress(channel="slack", kind="group", id="CNONE0001", thread="1700000000.000100"))
    assert peer.statuses == ["is typing…"]


async def test_an_app_that_may_not_show_typing_asks_once(peer: SlackPeer) -> None:
    line = Line(peer, channels={ROOM: {}})
    async with line.running():
        place = await thread(line)
        peer.fault("assistant.threads.setStatus", "error", text="missing_scope")
        for _ in range(3):
            await line.channel.typing(place)
    assert peer.count("assistant.threads.setStatus") == 1


pieces = st.lists(
    st.sampled_from(
        ["<", "!", "@", "#", "channel>", "here", "U012AB3CD>", "subteam^S1", "|x>", " ", "`", "\n", "--", "DOCTYPE ", "é👋"]
    )
    | st.text(max_size=5),
    max_size=12,
)


@given(pieces)
def test_no_markdown_holds_a_command_of_slacks(parts: list[str]) -> None:
    text = harmless("".join(parts))
    assert not PING.search(text)
    assert text.replace("<\u200b", "<") == "".join(parts).replace("<\u200b", "<")


@given(pieces, st.integers(1, 200))
def test_what_was_streamed_stays_the_beginning_of_what_is_said(parts: list[str], limit: int) -> None:
    texts = ["".join(parts[:number]) for number in range(len(parts) + 1)]
    shown_so_far = ""
    for text in texts:
        now = streamable(text, limit)
        assert harmless(text).startswith(now)
        assert now.startswith(shown_so_far)
        shown_so_far = now
