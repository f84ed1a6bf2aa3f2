"""A platform that asks to wait in a form that no clock can follow: the message did not arrive, and is tried again within a day."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.errors import NotSent
from channels.waits import LONGEST, seconds_to_wait
from tests.channels import discord_line, matrix_house, slack_line, telegram_line
from tests.peers.discord import DiscordPeer
from tests.peers.matrix import MatrixPeer
from tests.peers.odd_answers import OddAnswers
from tests.peers.slack import SlackPeer
from tests.peers.telegram import TelegramPeer

if TYPE_CHECKING:
    from pathlib import Path

ODD = ["null", '"1.5"', '"soon"', "[1]", "{}", "true", "-5", "0", "NaN", "1e30", "1e999", "1000000000000", "1" + "0" * 400]
"""What stands in place of the seconds, as it is written in JSON."""
HEADERS: list[dict[str, str]] = [
    {},
    {"Retry-After": "soon"},
    {"Retry-After": "1e30"},
    {"Retry-After": "nan"},
    {"Retry-After": "9" * 400},
]


def plausible(refusal: NotSent) -> bool:
    wait = refusal.retry_after
    return not refusal.permanent and (wait is None or (math.isfinite(wait) and 0 <= wait <= LONGEST))


@given(st.one_of(st.floats(), st.integers(), st.text(), st.booleans(), st.none(), st.timedeltas(), st.lists(st.integers())))
def test_what_is_read_can_be_added_to_any_clock(told: object) -> None:
    wait = seconds_to_wait(told)
    assert wait is None or 0 <= timedelta(seconds=wait).total_seconds() <= LONGEST
    refusal = NotSent("wait", retry_after=told)  # type: ignore[arg-type]
    assert refusal.retry_after == wait


def test_what_is_plausible_is_kept() -> None:
    assert [seconds_to_wait(told) for told in (17, 1.5, "30", timedelta(minutes=2))] == [17, 1.5, 30, 120]
    assert seconds_to_wait(1500, unit=0.001) == 1.5
    assert [seconds_to_wait(told) for told in (-5, "inf", 10**400)] == [0, LONGEST, LONGEST]
    assert [seconds_to_wait(told) for told in ("soon", "nan", True, None, [1])] == [None] * 5


@pytest.mark.parametrize("odd", [*ODD, ""])
async def test_telegram_did_not_take_what_it_refused_whatever_stands_for_the_seconds(odd: str) -> None:
    async with TelegramPeer() as peer, OddAnswers(peer.root, "/sendMessage") as front:
        peer.chats.hear(telegram_line.ANNA, "hi", name="Anna")
        line = telegram_line.Line(peer, apiRoot=front.root)
        told = f',"parameters":{{"retry_after":{odd}}}' if odd else ""
        front.plan = [(429, {}, f'{{"ok":false,"error_code":429,"description":"Too Many Requests"{told}}}')]
        with pytest.raises(NotSent) as caught:
            await line.send("hello")
        await line.channel.close()
    assert front.taken == 1
    assert plausible(caught.value)


@pytest.mark.parametrize("odd", ["", "[]", "null", "7", '"ok"'])
async def test_an_answer_of_telegram_that_is_no_object_leaves_doubt(odd: str) -> None:
    from channels.errors import Uncertain

    async with TelegramPeer() as peer, OddAnswers(peer.root, "/sendMessage") as front:
        peer.chats.hear(telegram_line.ANNA, "hi", name="Anna")
        line = telegram_line.Line(peer, apiRoot=front.root)
        front.plan = [(200, {}, odd)]
        with pytest.raises(Uncertain):
            await line.send("hello")
        await line.channel.close()


@pytest.mark.parametrize("odd", [*ODD, ""])
async def test_discord_did_not_take_what_it_refused_whatever_stands_for_the_seconds(odd: str) -> None:
    async with DiscordPeer() as peer, OddAnswers(peer.root.removesuffix("/api/v10"), "/messages") as front:
        line = discord_line.Line(peer, apiRoot=f"{front.root}/api/v10")
        told = f',"retry_after":{odd}' if odd else ""
        answer = (429, {"Via": "1.1 google"}, f'{{"message":"You are being rate limited.","global":false{told}}}')
        async with line.running():
            front.plan = [answer] * 9
            with pytest.raises(NotSent) as caught:
                await line.send("hello")
    assert front.taken
    assert plausible(caught.value)


@pytest.mark.parametrize("headers", HEADERS)
@pytest.mark.parametrize("odd", [*ODD, ""])
async def test_matrix_did_not_take_what_it_refused_whatever_stands_for_the_milliseconds(
    tmp_path: Path, odd: str, headers: dict[str, str]
) -> None:
    async with MatrixPeer() as peer, OddAnswers(peer.root, "/send/m.room.message") as front:
        house = matrix_house.House(peer, tmp_path, homeserver=front.root)
        peer.home.made(matrix_house.ANNA, direct=True)
        async with house.running():
            told = f',"retry_after_ms":{odd}' if odd else ""
            front.plan = [(429, headers, f'{{"errcode":"M_LIMIT_EXCEEDED","error":"Too Many"{told}}}')]
            with pytest.raises(NotSent) as caught:
                await house.send("hello")
    assert plausible(caught.value)


@pytest.mark.parametrize("headers", HEADERS)
async def test_slack_did_not_take_what_it_refused_whatever_stands_for_the_seconds(headers: dict[str, str]) -> None:
    async with SlackPeer() as peer, OddAnswers(peer.root.removesuffix("/api"), "/chat.postMessage") as front:
        line = slack_line.Line(peer, apiRoot=f"{front.root}/api")
        answer: tuple[int, dict[str, str], Any] = (429, headers, {"ok": False, "error": "ratelimited"})
        async with line.running():
            front.plan = [answer]
            with pytest.raises(NotSent) as caught:
                await line.send("hello")
    assert plausible(caught.value)
