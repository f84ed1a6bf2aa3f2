"""What is said beside a turn, such as the answer to /status, does not take the place of the turn's preview."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from agent.events import TextDelta
from agent.models.scripted import Stall
from channels.common.previews import Previews
from channels.messages import ChatAddress
from channels.testing.harness import FastClock
from tests.channels.telegram_line import FAMILY, GROUP, Line, opened
from tests.peers.phone import OPEN, Phone, Village

if TYPE_CHECKING:
    from pathlib import Path

ROOM = ChatAddress(channel="c", kind="group", id="1")


@dataclass
class Board:
    """A place where messages can be edited."""

    messages: list[str] = field(default_factory=list)

    posts_once = 0.0

    async def post(self, conversation: ChatAddress, text: str, key: str) -> str:
        del conversation, key
        self.messages.append(text)
        return str(len(self.messages) - 1)

    async def edit(self, conversation: ChatAddress, message: str, text: str) -> None:
        del conversation
        self.messages[int(message)] = text

    async def remove(self, conversation: ChatAddress, message: str) -> None:
        del conversation
        self.messages[int(message)] = ""


async def shown(turn: str) -> tuple[Previews, Board]:
    board, clock = Board(), FastClock()
    previews = Previews(board, clock)
    for _ in range(2):
        await previews.show(ROOM, turn, "Let me")
        await clock.sleep(4)
    await previews.show(ROOM, turn, "Let me see")
    assert board.messages
    return previews, board


async def test_only_the_turn_itself_takes_its_preview_while_it_goes_on() -> None:
    previews, _ = await shown("t1")
    assert await previews.take(ROOM, "") is None
    assert await previews.take(ROOM, "t2") is None
    assert await previews.take(ROOM, "t1") == "0"
    assert await previews.take(ROOM, "t1") is None


@pytest.mark.parametrize("turn", ["", "t2", None])
async def test_the_preview_of_a_turn_that_ended_without_an_answer_is_anybodys(turn: str | None) -> None:
    previews, _ = await shown("t1")
    previews.end(ROOM, "t0")
    assert turn is None or await previews.take(ROOM, turn) is None
    previews.end(ROOM, "t1")
    assert await previews.take(ROOM, turn) == "0"


async def previewed(line: Line) -> None:
    for seconds in (0, 4, 4):
        await line.clock.sleep(seconds)
        await line.channel.draft(GROUP, "t1", "Let me see")


async def test_in_a_group_of_telegram_the_answer_to_a_command_comes_below_the_preview() -> None:
    async with opened() as line:
        line.peer.chats.group(FAMILY)
        await previewed(line)
        await line.send("All is well.", GROUP, turn="")
        assert line.peer.chats.said(FAMILY) == ["Let me see", "All is well."]
        await line.send("Let me see. Done.", GROUP, turn="t1")
        assert line.peer.chats.said(FAMILY) == ["Let me see. Done.", "All is well."]


async def test_in_a_group_of_telegram_what_ends_a_turn_takes_its_preview() -> None:
    async with opened() as line:
        line.peer.chats.group(FAMILY)
        await previewed(line)
        line.channel.draft_ended(GROUP, "t1")
        await line.send("Stopped.", GROUP, turn="")
        assert line.peer.chats.said(FAMILY) == ["Stopped."]


@dataclass
class Watched(Phone):
    """Keeps whose preview it is told of."""

    previewed: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)

    async def draft(self, conversation: ChatAddress, turn: str, text: str) -> None:
        self.previewed.append(turn)
        await super().draft(conversation, turn, text)
        self._news.set()

    def draft_ended(self, conversation: ChatAddress, turn: str) -> None:
        del conversation
        self.ended.append(turn)


async def test_the_house_says_what_belongs_to_a_turn_and_when_it_shows_no_more(tmp_path: Path) -> None:
    v, gate = Village(tmp_path), asyncio.Event()
    v.model.then([TextDelta("Let me see. "), Stall(gate), TextDelta("Done.")])
    async with v.house() as (house, _):
        phone = Watched(name="watched")
        house.channel_supervisor.keep(phone, OPEN)
        await phone.say("go")
        await phone.until(lambda: phone.previewed)
        await phone.say("/status")
        status = await phone.until(lambda: phone.sent[:1])
        assert (status[0].turn, phone.ended) == ("", [])
        gate.set()
        await phone.until(lambda: len(phone.sent) == 2)
        (turn,) = set(phone.previewed)
        assert (phone.sent[1].turn, phone.ended) == (turn, [turn])
