"""Bursts of Slack events: what comes while something is stored is stored together, in order, and acknowledged after it."""

from __future__ import annotations

import asyncio
import json
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.common.backoff import Backoff
from channels.common.batched_store import TOGETHER
from channels.messages import ChatAddress, Cursor, Inbound, Sender
from channels.slack.store_queue import StoreQueue
from tests.channels.slack_line import ANNA, Line, Log
from tests.patience import PATIENCE
from tests.peers.door import BookDoor
from tests.peers.hasty import FastClock
from tests.peers.slack import SlackPeer
from tests.properties import examples

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence


class SlowDoor(BookDoor):
    """Takes a few steps of the loop for each call, and counts them."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[int] = []
        self.failures = 0

    async def accept(self, messages: Sequence[Inbound], cursor: Cursor | None = None) -> None:
        self.calls.append(len(messages))
        for _ in range(5):
            await asyncio.sleep(0)
        if self.failures:
            self.failures -= 1
            raise OSError("the disk is full")
        await super().accept(messages, cursor)


def message(number: int) -> Inbound:
    return Inbound(
        conversation=ChatAddress(channel="slack", kind="direct", id=ANNA),
        sender=Sender(id=ANNA),
        text=str(number),
        at=datetime(2026, 1, 1, tzinfo=UTC),
        key=f"k{number}",
        alias=f"a{number}",
        message_id=f"{number}.1",
    )


def queue_of(door: BookDoor) -> StoreQueue:
    return StoreQueue(door, Backoff(FastClock(), lambda: 1.0, Log(), "default"))


@settings(max_examples=examples(60))
@given(groups=st.lists(st.integers(1, 70), max_size=30), failures=st.integers(0, 3), dice=st.integers(0, 2**32))
def test_messages_are_stored_once_in_order_whatever_fails_and_whoever_stops_waiting(
    groups: list[int], failures: int, dice: int
) -> None:
    async def run() -> None:
        door, drawn, number = SlowDoor(), random.Random(dice), 0
        door.failures = failures
        queue = queue_of(door)
        waiting: list[tuple[int, asyncio.Future[None]]] = []
        for size in groups:
            some = [message(number + one) for one in range(size)]
            number += size
            waiting.append((number, queue.put(some, str(number))))
            if drawn.random() < 0.2:
                waiting[-1][1].cancel()
            if drawn.random() < 0.5:
                await asyncio.sleep(0)
            for upto, stored in waiting:  # nobody is told before it is stored
                assert not stored.done() or stored.cancelled() or len(door.messages) >= upto
        await queue.empty()
        assert door.texts == [str(one) for one in range(number)]
        assert door.cursors == ({"read": str(number)} if groups else {})
        assert all(size <= max(TOGETHER, 70) for size in door.calls)
        assert all(stored.done() for _, stored in waiting)
        await queue.close()

    asyncio.run(run())


async def test_what_waits_while_something_is_stored_is_stored_together() -> None:
    door = SlowDoor()
    queue = queue_of(door)
    await asyncio.gather(*(queue.put([message(number)], str(number)) for number in range(2 * TOGETHER)))
    assert door.calls == [TOGETHER, TOGETHER]
    await queue.close()


async def test_a_queue_that_is_closed_tells_nobody_that_something_was_stored() -> None:
    door = SlowDoor()
    queue = queue_of(door)
    waiting = [queue.put([message(number)], str(number)) for number in range(3)]
    await asyncio.sleep(0)
    await queue.close()
    assert all(one.cancelled() for one in waiting)
    assert door.messages == []


@pytest.fixture
async def peer() -> AsyncIterator[SlackPeer]:
    async with SlackPeer(ack_seconds=PATIENCE) as peer:
        yield peer


async def test_a_burst_of_many_people_is_stored_in_order_and_in_few_calls(peer: SlackPeer) -> None:
    people = [f"U{number:08d}" for number in range(40)]
    peer.home.names.update({person: f"name of {person}" for person in people})
    line = Line(peer)
    door = line.door = SlowDoor()
    async with line.running():
        for number in range(200):
            await peer.say(people[number % 40], str(number))
        await line.quiet()
    assert door.texts == [str(number) for number in range(200)]
    assert all(one.sender.name == f"name of {one.sender.id}" for one in door.messages)
    assert peer.count("users.info") == 40
    assert len(door.calls) < 200
    assert peer.given_up == []
    assert len(json.loads(door.cursors["read"])) == 40


async def test_a_message_that_cannot_be_stored_yet_is_acknowledged_once_it_is(peer: SlackPeer) -> None:
    line = Line(peer)
    async with line.running():
        line.door.refuse = OSError("the disk is full")
        await peer.say(ANNA, "one")
        await peer.say(ANNA, "two")
        await line.door.until(lambda: line.door.refused > 1)
        assert line.door.messages == []
        line.door.refuse = None
        await line.quiet()
    assert line.door.texts == ["one", "two"]
    assert peer.given_up == []
