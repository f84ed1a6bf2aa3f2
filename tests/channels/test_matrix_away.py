"""A homeserver that nobody reaches for a day, against the strict peer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from channels.errors import NotSent
from tests.channels.matrix_house import House
from tests.channels.matrix_stage import ANNA
from tests.peers.matrix import MatrixPeer
from tests.peers.mood import CALM

if TYPE_CHECKING:
    from pathlib import Path

A_DAY = 24 * 3600.0


@pytest.mark.long
async def test_what_was_said_on_a_day_without_the_homeserver_is_read_in_order_and_once(tmp_path: Path) -> None:
    async with MatrixPeer(mood=CALM) as peer:
        room = peer.home.made(ANNA, direct=True)
        house = House(peer, tmp_path)
        async with house.running():
            await peer.say(room, ANNA, "before")
            await house.sink.until(lambda: "before" in house.sink.texts, "it arrived")
            await peer.go_away()
            began, tried = sum(house.clock.slept), len(house.clock.slept)
            async with asyncio.timeout(120):
                while sum(house.clock.slept) - began < A_DAY:  # noqa: ASYNC110 - the clock tells nobody
                    await asyncio.sleep(0.01)
            with pytest.raises(NotSent) as told:
                await house.send("good morning")
            assert not told.value.permanent
            assert A_DAY / 70 < len(house.clock.slept) - tried < A_DAY / 25, "it asks about once a minute"
            said = [f"message {number}" for number in range(120)]
            for text in said:
                peer.home.add(room, ANNA, "m.room.message", {"msgtype": "m.text", "body": text, "m.mentions": {}})
            await peer.come_back()
            await house.sink.until(lambda: said[-1] in house.sink.texts, "all arrived")
            assert house.sink.texts == ["before", *said]
            await house.send("good morning", attempt=2)
        assert peer.said(room) == ["good morning"]
