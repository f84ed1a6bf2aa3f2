"""Replies that are put in the place of an ellipsis: whatever happens, the text is read once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.errors import Uncertain
from channels.messages import ChatAddress, Outbound
from channels.telegram.channel import TelegramChannel
from channels.telegram.sending import Progress
from channels.telegram.sending import read as read_progress
from channels.telegram.settings import TelegramSettings
from tests.peers.hasty import FastClock
from tests.peers.telegram import TOKEN, TelegramPeer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ANNA = 42
TEXT = "It is **under** the pot."


class Line:
    """A channel that sends one chunk, as often as the outbox would."""

    def __init__(self, peer: TelegramPeer) -> None:
        settings = TelegramSettings.model_validate({"botToken": TOKEN, "apiRoot": peer.root, "delivery": "edit"})
        self.channel = TelegramChannel(settings, "default", clock=FastClock())
        self.recorded: str | None = None

    async def record(self, text: str) -> None:
        self.recorded = text

    async def send(self, *, uncertain: bool = False) -> str:
        place = ChatAddress(channel="telegram", kind="direct", id=str(ANNA))
        outbound = Outbound(key="k1", conversation=place, text=TEXT, recorded=self.recorded, uncertain=uncertain)
        return (await self.channel.send(outbound, self.record)).platform_id


@pytest.fixture
async def peer() -> AsyncIterator[TelegramPeer]:
    async with TelegramPeer() as peer:
        await peer.say(ANNA, "where?")
        yield peer


@pytest.fixture
async def line(peer: TelegramPeer) -> AsyncIterator[Line]:
    line = Line(peer)
    yield line
    await line.channel.close()


def read(peer: TelegramPeer) -> list[str]:
    return [text for who, text in peer.transcript(ANNA) if who == "bot"]


async def test_the_text_takes_the_place_of_the_ellipsis(peer: TelegramPeer, line: Line) -> None:
    sent = await line.send()
    assert read_progress(line.recorded, str(ANNA)).text == int(sent)
    assert read(peer) == ["It is under the pot."]


@pytest.mark.parametrize("kind", ["drop_before", "drop_after", "status"])
async def test_an_edit_of_unknown_outcome_is_repeated_unseen(peer: TelegramPeer, line: Line, kind: str) -> None:
    peer.fault("editMessageText", kind)
    with pytest.raises(Uncertain):
        await line.send()
    await line.send(uncertain=True)
    assert read(peer) == ["It is under the pot."]


async def test_where_no_message_was_seen_before_only_the_ellipsis_can_be_left_over(peer: TelegramPeer, line: Line) -> None:
    peer.fault("sendMessage", "drop_after")
    with pytest.raises(Uncertain):
        await line.send()
    await line.send(uncertain=True)
    assert read(peer) == ["…", "It is under the pot."]


async def test_an_ellipsis_that_a_kill_left_behind_becomes_the_answer(peer: TelegramPeer, line: Line) -> None:
    await line.send()
    line.recorded = None
    peer.fault("sendMessage", "drop_after")
    with pytest.raises(Uncertain):
        await line.send()
    await peer.say(43, "hello", name="Ben")
    await peer.say(ANNA, "are you there?")
    after = Line(peer)  # of another process, which has seen nothing
    after.recorded = line.recorded
    await after.send(uncertain=True)
    await after.channel.close()
    assert read(peer) == ["It is under the pot."] * 2
    assert peer.transcript(ANNA)[-1] == ("Anna", "are you there?")


async def test_what_the_bot_said_otherwise_is_never_overwritten(peer: TelegramPeer, line: Line) -> None:
    await line.send()
    line.recorded = None
    peer.fault("sendMessage", "drop_before")
    with pytest.raises(Uncertain):
        await line.send()
    await line.send(uncertain=True)
    assert read(peer) == ["It is under the pot."] * 2
    assert len({one["message_id"] for one in peer.chats.messages[ANNA]}) == 3


@pytest.mark.parametrize("wording", ["MESSAGE_ID_INVALID", "message can't be edited"])
async def test_a_message_that_cannot_be_edited_any_more_is_sent_anew(peer: TelegramPeer, line: Line, wording: str) -> None:
    peer.fault("editMessageText", "refuse", code=400, text=f"Bad Request: {wording}")
    await line.send()
    assert read(peer) == ["…", "It is under the pot."]


@given(
    st.builds(
        Progress,
        chat=st.text(),
        text=st.none() | st.integers(1),
        file=st.none() | st.integers(1),
        after=st.none() | st.integers(1),
    )
)
def test_what_was_recorded_is_read_back_in_its_own_chat_alone(progress: Progress) -> None:
    assert read_progress(progress.written(), progress.chat) == progress
    assert read_progress(progress.written(), progress.chat + "0") == Progress(chat=progress.chat + "0")


@given(st.none() | st.text(alphabet='{}[]":0123456789abchat,'))
def test_anything_else_that_was_recorded_counts_as_nothing_or_as_the_older_form(recorded: str | None) -> None:
    assert read_progress(recorded, "42") in (Progress(chat="42"), Progress(chat="42", text=int_of(recorded)))


def int_of(recorded: str | None) -> int | None:
    return int(recorded) if recorded is not None and recorded.isdecimal() else None


async def test_a_message_that_the_person_deleted_is_sent_anew(peer: TelegramPeer, line: Line) -> None:
    peer.fault("editMessageText", "drop_before")
    with pytest.raises(Uncertain):
        await line.send()
    placed = read_progress(line.recorded, str(ANNA)).text
    peer.chats.messages[ANNA] = [one for one in peer.chats.messages[ANNA] if one["message_id"] != placed]
    await line.send(uncertain=True)
    assert read(peer) == ["(possibly repeated)\nIt is under the pot."]
