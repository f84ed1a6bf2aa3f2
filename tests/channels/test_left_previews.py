"""What becomes of the half answer that stands on a platform when the process dies over it, or when the answer to a call is lost."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from channels.common.previews import CUT_OFF, LEFT_SECONDS, Previews
from channels.errors import NotSent, Uncertain
from channels.messages import ChatAddress
from tests.channels import discord_line, matrix_house, slack_line, telegram_line
from tests.channels.matrix_stage import ANNA
from tests.patience import PATIENCE
from tests.peers.discord import DiscordPeer
from tests.peers.door import BookDoor
from tests.peers.hasty import FastClock
from tests.peers.matrix import MatrixPeer
from tests.peers.mood import CALM
from tests.peers.slack import SlackPeer
from tests.peers.telegram import TelegramPeer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

TURN = "t1"
KINDS = ("discord", "matrix", "slack", "slack streams", "telegram")


class Waits:
    """Mixed into a clock: the time that a left preview is given does not pass by itself."""

    async def sleep(self, seconds: float) -> None:
        if seconds >= LEFT_SECONDS:
            await asyncio.get_running_loop().create_future()
        await super().sleep(seconds)  # type: ignore[misc]


class WaitingClock(Waits, FastClock):
    """The hasty clock, which waits for answers."""


class WaitingPresentClock(Waits, discord_line.PresentClock):
    """Discord's, which waits for answers."""


@dataclass
class Stage:
    """A platform that outlives the lives of a channel on it. ``life`` makes the next one; ``waits``: its previews are left alone."""

    peer: Any
    place: ChatAddress
    make: Callable[[bool], Any]
    said: Callable[[], list[str]]
    post: str
    cursors: dict[str, str] = field(default_factory=dict)

    @asynccontextmanager
    async def life(self, *, waits: bool = True) -> AsyncIterator[Any]:
        line = self.make(waits)
        (line.door if hasattr(line, "door") else line.sink).cursors = self.cursors
        polls = self.polls()
        async with line.running():
            await self.until(lambda: self.polls() > polls or self.place.channel != "telegram")
            yield line
        await line.channel.close()

    async def show(self, line: Any, *texts: str, turn: str = TURN) -> None:
        await line.channel.draft(self.place, turn, "w")
        for text in texts:
            await line.clock.sleep(4)
            await line.channel.draft(self.place, turn, text)

    async def answer(self, line: Any, text: str, *, turn: str = TURN, **more: Any) -> None:
        to = {"conversation" if hasattr(line, "sink") else "to": self.place}
        await line.send(text, turn=turn, **to, **more)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():  # noqa: ASYNC110 - the peers tell of other things
                await asyncio.sleep(0.005)

    def polls(self) -> int:
        return sum(call[0] == "getUpdates" for call in getattr(self.peer, "calls", ()))

    def kept(self) -> list[dict[str, Any]]:
        return list(json.loads(self.cursors.get("previews", "[]")))


@asynccontextmanager
async def _discord(_: Path) -> AsyncIterator[Stage]:
    async with DiscordPeer(mood=CALM) as peer:
        peer.dm(discord_line.ANNA)

        def make(waits: bool) -> discord_line.Line:
            return discord_line.Line(peer, clock=WaitingPresentClock() if waits else None)

        yield Stage(peer, discord_line.DIRECT, make, lambda: peer.said(peer.dm(discord_line.ANNA)), discord_line.POST)


@asynccontextmanager
async def _matrix(folder: Path) -> AsyncIterator[Stage]:
    async with MatrixPeer(mood=CALM) as peer:
        room = peer.home.made(ANNA, direct=True)

        def make(waits: bool) -> matrix_house.House:
            house = matrix_house.House(peer, folder)
            house.clock = WaitingClock() if waits else house.clock
            house.channel = house.made()
            return house

        yield Stage(peer, matrix_house.DIRECT, make, lambda: peer.said(room), "PUT send")


@asynccontextmanager
async def _slack(_: Path, thread: str | None = None) -> AsyncIterator[Stage]:
    async with SlackPeer(mood=CALM) as peer:

        def make(waits: bool) -> slack_line.Line:
            return slack_line.Line(peer, clock=WaitingClock() if waits else None)

        room = peer.dm(slack_line.ANNA)
        if thread is not None:
            thread = await peer.say(slack_line.ANNA, "hi")
        place = ChatAddress(channel="slack", kind="direct", id=slack_line.ANNA, thread=thread)
        yield Stage(peer, place, make, lambda: [str(one["text"]) for one in slack_line.shown(peer, room)], slack_line.POST)


def _streams(folder: Path) -> AbstractAsyncContextManager[Stage]:
    return _slack(folder, "a thread")


@asynccontextmanager
async def _telegram(_: Path) -> AsyncIterator[Stage]:
    async with TelegramPeer() as peer:
        peer.chats.group(telegram_line.FAMILY)

        def make(waits: bool) -> telegram_line.Line:
            return telegram_line.Line(peer, clock=WaitingClock() if waits else None)

        yield Stage(peer, telegram_line.GROUP, make, lambda: peer.chats.said(telegram_line.FAMILY), "sendMessage")


STAGES = dict(zip(KINDS, (_discord, _matrix, _slack, _streams, _telegram), strict=True))


@pytest.fixture
async def stage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stage]:
    async with STAGES[request.param](tmp_path) as made:
        yield made


on_all = pytest.mark.parametrize("stage", KINDS, indirect=True)


@on_all
async def test_the_half_answer_of_a_process_that_died_becomes_the_answer_of_the_next(stage: Stage) -> None:
    async with stage.life() as line:
        await stage.show(line, "The garden is green tod")
        assert stage.said() == ["The garden is green tod"]
    async with stage.life() as line:
        await stage.answer(line, "The garden is brown.")
    assert stage.said() == ["The garden is brown."]
    assert stage.kept() == []


@on_all
async def test_a_turn_that_goes_on_shows_its_answer_in_the_message_that_it_began(stage: Stage) -> None:
    async with stage.life() as line:
        await stage.show(line, "The garden is green tod")
    async with stage.life() as line:
        await stage.show(line, "The", "The garden is")
        assert stage.said() == ["The garden is"]
        await stage.answer(line, "The garden is brown.")
    assert stage.said() == ["The garden is brown."]


@on_all
async def test_a_half_answer_whose_turn_does_not_go_on_is_deleted(stage: Stage) -> None:
    async with stage.life() as line:
        await stage.show(line, "The garden is green tod")
    async with stage.life(waits=False) as line:
        await stage.until(lambda: not stage.kept())
        assert stage.said() == []
        await stage.answer(line, "The garden is brown.")
    assert stage.said() == ["The garden is brown."]


@on_all
async def test_what_became_an_answer_is_left_as_it_is_by_later_processes_and_answers(stage: Stage) -> None:
    async with stage.life() as line:
        await stage.show(line, "The garden")
        await stage.answer(line, "The garden is green.")
    async with stage.life(waits=False) as line:
        await stage.answer(line, "The roof is red.", key="k2")
    assert stage.said() == ["The garden is green.", "The roof is red."]


@on_all
async def test_other_words_do_not_take_the_place_of_a_half_answer_that_goes_on(stage: Stage) -> None:
    async with stage.life() as line:
        await stage.show(line, "The garden")
    async with stage.life() as line:
        await stage.answer(line, "I am well.", turn="", key="k0")
        assert stage.said() == ["The garden", "I am well."]
        await stage.answer(line, "The garden is green.")
    assert stage.said() == ["The garden is green.", "I am well."]


@on_all
async def test_no_answer_is_written_into_a_preview_that_is_still_stored_as_one(stage: Stage) -> None:
    async with stage.life() as line:
        await stage.show(line, "The garden")
        door = line.door if hasattr(line, "door") else line.sink
        door.refuse = OSError("the disk is full")
        with pytest.raises(NotSent, match="the disk is full"):
            await stage.answer(line, "The garden is green.")
        assert stage.said() == ["The garden"]
    async with stage.life(waits=False) as line:
        await stage.until(lambda: not stage.kept())
        await stage.answer(line, "The garden is green.")
    assert stage.said() == ["The garden is green."]


async def test_a_preview_whose_post_discord_did_not_confirm_is_found_by_its_nonce(tmp_path: Path) -> None:
    async with _discord(tmp_path) as stage:
        async with stage.life() as line:
            stage.peer.fault(stage.post, "drop_after", times=9)
            await stage.show(line, "The garden")
            stage.peer.faults.clear()
            assert [one["message"] for one in stage.kept()] == [None]
            await stage.show(line, "The garden is")
            assert stage.said() == ["The garden is"]
            await stage.answer(line, "The garden is green.")
        assert stage.said() == ["The garden is green."]


async def test_a_preview_whose_post_was_cut_off_by_the_end_is_found_by_its_nonce(tmp_path: Path) -> None:
    async with _discord(tmp_path) as stage:
        async with stage.life() as line:
            stage.peer.fault(stage.post, "drop_after", times=9)
            await stage.show(line, "The garden")
            stage.peer.faults.clear()
        async with stage.life() as line:
            await stage.answer(line, "The garden is green.")
        assert stage.said() == ["The garden is green."]


async def test_the_answer_below_a_preview_that_cannot_be_found_is_marked(tmp_path: Path) -> None:
    async with _telegram(tmp_path) as stage, stage.life() as line:
        stage.peer.fault(stage.post, "drop_after")
        await stage.show(line, "The garden", "The garden is")
        assert stage.said() == ["The garden"]
        await stage.answer(line, "The garden is green.")
        await stage.answer(line, "And so on.", key="k2")
    assert stage.said() == ["The garden", "(possibly repeated)\nThe garden is green.", "And so on."]
    assert stage.kept() == []


async def test_the_answer_below_a_preview_that_a_process_lost_is_marked_after_the_restart(tmp_path: Path) -> None:
    async with _telegram(tmp_path) as stage:
        async with stage.life() as line:
            stage.peer.fault(stage.post, "drop_after")
            await stage.show(line, "The garden")
        async with stage.life() as line:
            await stage.show(line, "The", "The garden is")
            await stage.answer(line, "The garden is green.")
        assert stage.said() == ["The garden", "(repeated after restart)\nThe garden is green."]
        async with stage.life() as line:
            await stage.answer(line, "More.", key="k2")
        assert stage.said()[-1] == "More."


@pytest.mark.parametrize("delivery", ["direct", "edit"])
async def test_the_mark_below_a_lost_preview_is_there_once_though_the_answer_is_in_doubt_itself(delivery: str) -> None:
    async with telegram_line.opened(delivery=delivery) as line:
        line.peer.chats.group(telegram_line.FAMILY)
        line.peer.fault("sendMessage", "drop_after", times=2)
        for text in ("The", "The garden"):
            await line.channel.draft(telegram_line.GROUP, TURN, text)
            await line.clock.sleep(4)
        with pytest.raises(Uncertain):
            await line.send("The garden is green.", telegram_line.GROUP, turn=TURN)
        await line.send("The garden is green.", telegram_line.GROUP, turn=TURN, attempt=2, uncertain=True)
        marked = "(possibly repeated)\nThe garden is green."
        there = {"direct": marked, "edit": "…"}[delivery]
        assert line.peer.chats.said(telegram_line.FAMILY) == ["The garden", there, marked]


async def test_a_half_answer_that_stood_for_long_is_deleted_so_that_the_answer_notifies(tmp_path: Path) -> None:
    async with _telegram(tmp_path) as stage:
        async with stage.life() as line:
            await stage.show(line, "The garden")
        async with stage.life() as line:
            for _ in range(9):
                await line.clock.sleep(10)
            await stage.answer(line, "The garden is green.")
        assert stage.said() == ["The garden is green."]
        assert [name for name, _ in stage.peer.calls if name == "deleteMessage"]


@dataclass
class Wall:
    """A place for messages. ``refuse`` is raised by what is to change there."""

    posts_once = 0.0
    messages: dict[str, str] = field(default_factory=dict)
    refuse: dict[str, Exception] = field(default_factory=dict)

    async def post(self, conversation: ChatAddress, text: str, key: str) -> str:
        del conversation, key
        self._may("post")
        self.messages[str(len(self.messages))] = text
        return str(len(self.messages) - 1)

    async def edit(self, conversation: ChatAddress, message: str, text: str) -> None:
        del conversation
        self._may("edit")
        self.messages[message] = text

    async def remove(self, conversation: ChatAddress, message: str) -> None:
        del conversation
        self._may("remove")
        del self.messages[message]

    def _may(self, what: str) -> None:
        if what in self.refuse:
            raise self.refuse[what]


ROOM = ChatAddress(channel="c", kind="group", id="1", thread="7")


async def left(wall: Wall, *, turn: str = TURN, at: dict[str, str] | None = None) -> dict[str, str]:
    """Let a process leave a preview; return what it stored."""
    cursors, clock = {} if at is None else at, FastClock()
    previews = Previews(wall, clock)
    await previews.keep(BookDoor(cursors))
    for text in ("Let", "Let me"):
        await previews.show(ROOM, turn, text)
        await clock.sleep(4)
    return cursors


async def test_a_preview_that_may_not_be_deleted_says_that_it_was_cut_off() -> None:
    wall = Wall()
    cursors = await left(wall)
    wall.refuse["remove"] = NotSent("it is too old", permanent=True)
    previews = Previews(wall, FastClock())
    await previews.keep(BookDoor(cursors))
    await previews.tidy()
    assert (wall.messages, cursors["previews"]) == ({"0": CUT_OFF}, "[]")


async def test_deleting_is_tried_again_until_the_platform_answers() -> None:
    class Back(FastClock):
        async def sleep(self, seconds: float) -> None:
            await super().sleep(seconds)
            if len(self.slept) > 3:
                wall.refuse.clear()

    wall = Wall()
    cursors = await left(wall)
    wall.refuse["remove"] = Uncertain("no answer")
    previews = Previews(wall, Back())
    await previews.keep(BookDoor(cursors))
    await previews.tidy()
    assert (wall.messages, cursors["previews"]) == ({}, "[]")


async def test_of_two_half_answers_in_one_thread_the_older_one_is_deleted() -> None:
    wall = Wall()
    cursors = await left(wall)
    await left(wall, turn="t2", at=cursors)
    previews = Previews(wall, FastClock())
    await previews.keep(BookDoor(cursors))
    assert await previews.take(ROOM, TURN) is None
    assert await previews.take(ROOM, "t2") == "1"
    await previews.settle(ROOM, "1")
    await previews.tidy()
    assert (list(wall.messages), cursors["previews"]) == (["1"], "[]")


async def test_a_preview_that_another_gateway_made_the_answer_meanwhile_is_not_taken() -> None:
    wall = Wall()
    door, clock = BookDoor(), FastClock()
    previews = Previews(wall, clock)
    await previews.keep(door)
    for text in ("Let", "Let me"):
        await previews.show(ROOM, TURN, text)
        await clock.sleep(4)
    previews.end(ROOM, TURN)
    other = Previews(wall, clock)
    await other.keep(door)
    message = await other.take(ROOM, TURN)
    assert message is not None
    await other.settle(ROOM, message)
    await previews.keep(door)
    assert await previews.take(ROOM, "t2") is None


@pytest.mark.parametrize(
    "stored", ["", "{", "null", "[1, {}, null]", '[{"in": "nowhere", "turn": "t", "key": "k", "at": 1, "message": "m"}]']
)
async def test_a_list_of_previews_that_cannot_be_read_counts_as_none(stored: str) -> None:
    previews = Previews(Wall(), FastClock())
    await previews.keep(BookDoor({"previews": stored}))
    await previews.tidy()
    assert await previews.take(ROOM) is None


async def test_an_answer_is_written_anew_where_somebody_removed_its_preview_on_matrix(tmp_path: Path) -> None:
    """An edit of what was removed is taken there, and shown to nobody."""
    async with _matrix(tmp_path) as stage, stage.life() as line:
        await stage.show(line, "The garden is", "The garden is green")
        (preview,) = stage.kept()
        (room,) = stage.peer.home.rooms.values()
        stage.peer.home.redact(room, preview["message"])
        await stage.answer(line, "The garden is green today.")
        assert stage.said() == ["The garden is green today."]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_preview_whose_answer_waits_becomes_it_though_the_next_turn_shows_its_own(tmp_path: Path, kind: str) -> None:
    """The answer of the first turn is in the outbox, say, while the platform is away."""
    async with STAGES[kind](tmp_path) as stage, stage.life() as line:
        await stage.show(line, "The garden is", "The garden is green")
        await stage.show(line, "The house is", "The house is red", turn="t2")
        await stage.answer(line, "The garden is green today.")
        await stage.answer(line, "The house is red today.", turn="t2", key="k2")
        assert [said.split("\n")[0] for said in stage.said()] == ["The garden is green today.", "The house is red today."]
        assert stage.kept() == []
