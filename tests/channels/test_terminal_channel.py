from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.errors import ChannelError, LinkLost, NotSent, Uncertain
from channels.live import Activity, Delta, Done, Note, Rejected, Reply, from_json, to_json
from channels.messages import ChatAddress, Outbound
from channels.terminal.channel import PROOF_SECONDS, TerminalChannel
from gateway.base.clock import ManualClock
from tests.peers.door import BookDoor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from channels.live import LiveEvent

HERE = ChatAddress(channel="terminal", kind="direct", id="local")


class House:
    """A running terminal channel and what it told the house."""

    def __init__(self) -> None:
        self.door = BookDoor()
        self.clock = ManualClock(datetime(2026, 5, 1, 9, tzinfo=UTC))
        self.stopped: list[ChatAddress] = []
        self.channel = TerminalChannel(clock=self.clock, on_stop=self._stop)

    async def _stop(self, conversation: ChatAddress) -> None:
        self.stopped.append(conversation)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[House]:
        running = asyncio.ensure_future(self.channel.run(self.door))
        await self.channel.sink()
        try:
            yield self
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await self.channel.close()


async def record(_: str) -> None:
    """Note nothing: the terminal needs no placeholder."""


def outbound(text: str, key: str = "k1") -> Outbound:
    return Outbound(key=key, conversation=HERE, text=text)


async def test_what_is_said_is_given_to_the_inbound_sink() -> None:
    async with House().open() as house:
        link = house.channel.attach()
        await link.say("hello", key="m1", hints={"agent": "work"})
        (message,) = house.door.messages
        assert (message.text, message.message_id, message.sender.id) == ("hello", "m1", "owner")
        assert message.conversation == HERE
        assert message.hints == {"agent": "work"}
        assert message.at == house.clock.now()


async def test_the_other_windows_of_a_conversation_show_what_was_said_in_one() -> None:
    async with House().open() as house:
        mine, other, elsewhere = (
            house.channel.attachment("local"),
            house.channel.attachment("local"),
            house.channel.attachment("x"),
        )
        await mine.say("water the plants\nand the tree", key="m1")
        assert await other.take() == Note("› water the plants … (in another window)")
        assert (mine.waiting, other.waiting, elsewhere.waiting) == (0, 0, 0)


async def test_a_message_said_twice_under_one_key_is_taken_once() -> None:
    async with House().open() as house:
        link = house.channel.attach()
        await link.say("hello", key="m1")
        await link.say("hello", key="m1")
        assert house.door.texts == ["hello"]


async def test_the_house_refusing_is_heard_by_the_speaker() -> None:
    async with House().open() as house:
        link = house.channel.attach()
        house.door.refuse = OSError("disk full")
        with pytest.raises(ChannelError, match="disk full"):
            await link.say("hello", key="m1")


async def test_a_message_said_before_the_house_is_open_waits_for_it() -> None:
    house = House()
    saying = asyncio.ensure_future(house.channel.attach().say("early", key="m1"))
    await asyncio.sleep(0)
    assert not saying.done()
    async with house.open():
        await saying
        assert house.door.texts == ["early"]
        assert house.door.readied == 1


async def test_attaching_tells_the_house_that_deliveries_may_go_out() -> None:
    async with House().open() as house:
        assert house.door.readied == 0
        house.channel.attach()
        assert house.door.readied == 1


@given(text=st.text(st.characters(codec=None), max_size=20))
def test_text_that_enters_can_always_be_written_to_a_file(text: str) -> None:
    async def scene() -> str:
        async with House().open() as house:
            await house.channel.attach().say(text, key="m1")
            return house.door.texts[0]

    taken = asyncio.run(scene())
    taken.encode()
    if not any("\ud800" <= letter <= "\udfff" for letter in text):
        assert taken == text


async def test_a_reply_counts_as_sent_only_when_the_client_took_it() -> None:
    async with House().open() as house:
        link = house.channel.attach()
        sending = asyncio.ensure_future(house.channel.send(outbound("hi"), record))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not sending.done()
        assert await anext(link.frames()) == Reply("hi", "k1")
        assert (await sending).platform_id == "k1"


async def test_a_reply_with_nobody_there_was_not_sent() -> None:
    async with House().open() as house:
        with pytest.raises(NotSent) as caught:
            await house.channel.send(outbound("hi"), record)
        assert not caught.value.permanent
        assert not house.channel.attached(HERE)


async def test_a_client_that_leaves_first_leaves_the_reply_to_the_next_one() -> None:
    async with House().open() as house:
        first = house.channel.attach()
        sending = asyncio.ensure_future(house.channel.send(outbound("hi"), record))
        await asyncio.sleep(0)
        await first.close()
        with pytest.raises(NotSent):
            await sending
        second = house.channel.attach()
        again = asyncio.ensure_future(house.channel.send(outbound("hi"), record))
        assert await anext(second.frames()) == Reply("hi", "k1")
        await again


async def test_a_client_that_does_not_read_makes_the_delivery_uncertain_and_a_retry_shows_it_once() -> None:
    async with House().open() as house:
        link = house.channel.attach()
        sending = asyncio.ensure_future(house.channel.send(outbound("hi"), record))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        house.clock.move(PROOF_SECONDS)
        with pytest.raises(Uncertain):
            await sending
        again = asyncio.ensure_future(house.channel.send(outbound("hi"), record))
        await asyncio.sleep(0)
        frames = link.frames()
        assert await anext(frames) == Reply("hi", "k1")
        await again
        house.channel.show(HERE, Note("next"))
        assert await anext(frames) == Note("next")


async def test_every_attached_client_gets_the_reply() -> None:
    async with House().open() as house:
        links = [house.channel.attach(), house.channel.attach()]
        other = house.channel.attach("phone")
        sending = asyncio.ensure_future(house.channel.send(outbound("hi"), record))
        assert [await anext(link.frames()) for link in links] == [Reply("hi", "k1")] * 2
        await sending
        house.channel.show(ChatAddress(channel="terminal", kind="direct", id="phone"), Note("for the phone"))
        assert await anext(other.frames()) == Note("for the phone")


async def test_stop_does_not_go_through_the_inbound_sink() -> None:
    async with House().open() as house:
        await house.channel.attach().stop()
        assert house.stopped == [HERE]
        assert house.door.messages == []


async def test_closing_the_channel_ends_the_frames() -> None:
    async with House().open() as house:
        link = house.channel.attach()
        house.channel.show(HERE, Note("bye"))
    assert [frame async for frame in link.frames()] == []
    with pytest.raises(LinkLost):
        await link.say("anybody?", key="m2")


@pytest.mark.parametrize("name", ["", "a/b", "a:b", "x" * 65, "two words"])
async def test_a_name_that_is_none_is_refused_with_the_rule(name: str) -> None:
    with pytest.raises(ChannelError, match="is not a valid name") as caught:
        House().channel.attach(name)
    assert "letters, digits" in caught.value.hint


@given(
    drafts=st.lists(st.tuples(st.sampled_from(["t1", "t2"]), st.text(max_size=6)), max_size=12),
    reads=st.lists(st.booleans(), min_size=12, max_size=12),
)
def test_a_client_that_follows_the_deltas_sees_the_latest_preview(drafts: list[tuple[str, str]], reads: list[bool]) -> None:
    async def scene() -> str:
        async with House().open() as house:
            attachment = house.channel.attachment("local")
            shown = ""
            for (turn, text), read in zip(drafts, reads, strict=False):
                await house.channel.draft(HERE, turn, text)
                while read and attachment.waiting:
                    shown = _follow(shown, await attachment.take())
            while attachment.waiting:
                shown = _follow(shown, await attachment.take())
            return shown

    assert asyncio.run(scene()) == (drafts[-1][1] if drafts else "")


def _follow(shown: str, frame: LiveEvent | None) -> str:
    assert isinstance(frame, Delta)
    return frame.text if frame.fresh else shown + frame.text


@pytest.mark.parametrize(
    "frame",
    [
        Delta("a", fresh=True),
        Activity("reads notes.md", "started"),
        Reply("**b**", "k"),
        Note("n"),
        Done("t", "m", {"chunks": 1, "usage": {"input": 3}}),
        Rejected("m", "no agent of that name", "homebody agents"),
    ],
)
def test_a_frame_survives_the_wire(frame: LiveEvent) -> None:
    assert from_json({**to_json(frame), "newField": 1}) == frame


@pytest.mark.parametrize("raw", [{}, {"frame": "dance"}, {"frame": "reply", "text": "no key"}])
def test_a_frame_that_is_none_is_an_error_with_a_mend(raw: dict[str, object]) -> None:
    with pytest.raises(ChannelError, match="event") as caught:
        from_json(raw)
    assert caught.value.hint
