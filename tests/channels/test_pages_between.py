"""A page of something between here and a platform is not the platform's word: the message is tried again, and the account goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from channels.errors import NotSent, Uncertain
from tests.channels import discord_line, matrix_house, telegram_line
from tests.peers.discord import DiscordPeer
from tests.peers.matrix import MatrixPeer
from tests.peers.mood import CALM
from tests.peers.odd_answers import OddAnswers
from tests.peers.telegram import TelegramPeer
from tests.peers.whatsapp import WhatsAppPeer
from tests.whatsapp import line as whatsapp_line

if TYPE_CHECKING:
    from pathlib import Path

PAGE: Final = "<html><head><title>Sign in</title></head><body>Welcome to the hotel</body></html>"
TYPE: Final = {"Content-Type": "text/html"}
REFUSALS: Final = [302, 400, 401, 403, 404, 405, 407, 451]


def waits(refusal: NotSent) -> bool:
    text = refusal.in_full()
    return not refusal.permanent and "something between" in text and "<" not in text and "hotel" not in text


@pytest.mark.parametrize("status", REFUSALS)
@pytest.mark.parametrize("page", [PAGE, "", "null", '{"error":"blocked"}'])
async def test_telegram_has_said_nothing_where_something_else_answers(status: int, page: str) -> None:
    async with TelegramPeer(mood=CALM) as peer, OddAnswers(peer.root, "/sendMessage") as front:
        peer.chats.hear(telegram_line.ANNA, "hi", name="Anna")
        line = telegram_line.Line(peer, apiRoot=front.root)
        front.plan = [(status, TYPE, page)]
        with pytest.raises(NotSent) as caught:
            await line.send("hello")
        await line.send("hello")
        await line.channel.close()
    assert waits(caught.value)


@pytest.mark.parametrize("status", [401, 404])
async def test_a_page_does_not_turn_telegram_off(status: int) -> None:
    async with TelegramPeer(mood=CALM) as peer, OddAnswers(peer.root, "/getUpdates") as front:
        line = telegram_line.Line(peer, apiRoot=front.root)
        front.plan = [(status, TYPE, PAGE)] * 2
        async with line.running():
            await peer.say(telegram_line.ANNA, "are you there?")
            [message] = await line.heard()
        await line.channel.close()
    assert (front.taken, message.text) == (2, "are you there?")


@pytest.mark.parametrize("status", REFUSALS)
async def test_discord_has_said_nothing_where_something_else_answers(status: int) -> None:
    async with DiscordPeer(mood=CALM) as peer, OddAnswers(peer.root.removesuffix("/api/v10"), "/messages") as front:
        line = discord_line.Line(peer, apiRoot=f"{front.root}/api/v10")
        async with line.running():
            front.plan = [(status, TYPE, PAGE)]
            with pytest.raises(NotSent) as caught:
                await line.send("hello")
            await line.send("hello")
    assert waits(caught.value)


@pytest.mark.parametrize("status", REFUSALS)
async def test_matrix_has_said_nothing_where_something_else_answers(tmp_path: Path, status: int) -> None:
    async with MatrixPeer(mood=CALM) as peer, OddAnswers(peer.root, "/send/m.room.message") as front:
        house = matrix_house.House(peer, tmp_path, homeserver=front.root)
        peer.home.made(matrix_house.ANNA, direct=True)
        async with house.running():
            front.plan = [(status, TYPE, PAGE)]
            with pytest.raises(NotSent) as caught:
                await house.send("hello")
            await house.send("hello")
    assert waits(caught.value)


@pytest.mark.parametrize("answer", ["{}", "[]", "null", '{"event_id":7}'])
async def test_an_answer_of_matrix_that_names_no_event_leaves_doubt(tmp_path: Path, answer: str) -> None:
    async with MatrixPeer(mood=CALM) as peer, OddAnswers(peer.root, "/send/m.room.message") as front:
        house = matrix_house.House(peer, tmp_path, homeserver=front.root)
        peer.home.made(matrix_house.ANNA, direct=True)
        async with house.running():
            front.plan = [(200, {}, answer)]
            with pytest.raises(Uncertain):
                await house.send("hello")


@pytest.mark.parametrize("status", REFUSALS)
async def test_whatsapp_has_said_nothing_where_something_else_answers_and_the_number_goes_on(status: int) -> None:
    async with (
        WhatsAppPeer(mood=CALM) as peer,
        OddAnswers(peer.root, "/messages") as front,
        whatsapp_line.line(peer, apiRoot=front.root) as s,
    ):
        await peer.say(whatsapp_line.ANNA, "hi")
        await s.heard("hi")
        front.plan = [(status, TYPE, PAGE)]
        with pytest.raises(NotSent) as caught:
            await s.send("hello")
        await s.send("hello")
        await peer.say(whatsapp_line.ANNA, "are you there?")
        await s.heard("are you there?")
    assert waits(caught.value)
