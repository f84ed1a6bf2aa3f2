"""Rooms that were replaced by others, against the strict peer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from channels.messages import ChatAddress
from tests.channels.matrix_house import DIRECT, House
from tests.channels.matrix_stage import ANNA, BEN
from tests.peers.matrix import MatrixPeer
from tests.peers.matrix_state import BOT
from tests.peers.mood import CALM

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def peer() -> AsyncIterator[MatrixPeer]:
    async with MatrixPeer(mood=CALM) as made:
        yield made


@pytest.mark.parametrize("public", [True, False])
async def test_a_room_that_was_replaced_moves_with_its_rules_to_the_new_one(
    public: bool, peer: MatrixPeer, tmp_path: Path
) -> None:
    room = peer.home.made(ANNA, BEN, name="Kitchen")
    house = House(peer, tmp_path, groups={room.id: {}})
    house.sink.admitted = set()
    async with house.running():
        await peer.say(room, ANNA, "before")
        await house.sink.until(lambda: "before" in house.sink.texts, "it arrived")
        fresh = peer.home.upgraded(room, ANNA, BEN, public=public)
        if not public:
            peer.home.member(fresh, BOT, "invite", by=BEN)
        await peer.say(fresh, ANNA, "now here")
        await house.sink.until(lambda: "now here" in house.sink.texts, "it followed")
    newest = peer.home.upgraded(fresh, ANNA, BEN, public=True)
    house.channel = house.made()
    async with house.running():  # it also follows what happened while it was away
        await peer.say(newest, ANNA, "and again")
        await house.sink.until(lambda: "and again" in house.sink.texts, "it followed again")
    places = [ChatAddress(channel="matrix", kind="group", id=one.id) for one in (room, fresh, newest)]
    assert [one.conversation for one in house.sink.messages] == places
    assert house.sink.moves[0] == (places[0], places[1])
    assert house.sink.moves[-1] == (places[1], places[2])
    assert house.sink.added_to == []


async def test_a_private_chat_goes_on_in_the_new_room(peer: MatrixPeer, tmp_path: Path) -> None:
    chat = peer.home.made(ANNA, direct=True)
    house = House(peer, tmp_path)
    async with house.running():
        await peer.say(chat, ANNA, "before")
        await house.sink.until(lambda: "before" in house.sink.texts, "it arrived")
        fresh = peer.home.upgraded(chat, ANNA, public=True)
        await peer.say(fresh, ANNA, "now here")
        await house.sink.until(lambda: "now here" in house.sink.texts, "it followed")
        await peer.say(chat, ANNA, "a late word")
        await house.sink.until(lambda: "a late word" in house.sink.texts, "it arrived")
        await house.send("yes?")
    assert {one.conversation for one in house.sink.messages} == {DIRECT}
    assert house.sink.moves == []
    assert (peer.said(chat), peer.said(fresh)) == ([], ["yes?"])


async def test_a_room_that_only_one_side_calls_a_replacement_is_none(peer: MatrixPeer, tmp_path: Path) -> None:
    room = peer.home.made(ANNA, BEN, name="Kitchen")
    other = peer.home.made(ANNA, BEN, name="Elsewhere")
    house = House(peer, tmp_path, groups={room.id: {}})
    async with house.running():
        told = {"body": "go there", "replacement_room": other.id}
        await peer.put(room, ANNA, "m.room.tombstone", told, state_key="")
        await peer.say(other, ANNA, "here?")
        await house.sink.until(lambda: "here?" in house.sink.texts, "it arrived")
    assert house.sink.moves == []


async def test_a_replacement_that_cannot_be_joined_is_told_with_what_to_do(peer: MatrixPeer, tmp_path: Path) -> None:
    room = peer.home.made(ANNA, BEN, name="Kitchen")
    house = House(peer, tmp_path, groups={room.id: {}}, syncSeconds=1)
    async with house.running():
        fresh = peer.home.upgraded(room, ANNA, BEN)
        await peer.say(room, ANNA, "still here")
        await house.sink.until(lambda: "still here" in house.sink.texts, "it goes on")
        await peer.until(lambda: bool(house.channel.trouble))
        assert house.channel.trouble == f"Kitchen was replaced by {fresh.id}: invite the agent's account there"
        await peer.say(room, ANNA, "and now")
        await house.sink.until(lambda: "and now" in house.sink.texts, "it goes on")
    assert peer.count(f"POST /_matrix/client/v3/join/{fresh.id}") == 1
