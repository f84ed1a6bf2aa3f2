"""Telegram's limits are kept, and what it asks for beyond them is obeyed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from channels.errors import NotSent
from channels.telegram.pacing import KEPT_FREE, Pacer
from tests.channels.telegram_line import ANNA, FAMILY, GROUP, PRIVATE, opened
from tests.peers.hasty import FastClock
from tests.peers.telegram_flood import Flood
from tests.peers.telegram_methods import Refused

if TYPE_CHECKING:
    from collections.abc import Callable


async def patiently(clock: FastClock, sending: Callable[[], object]) -> None:
    """Do as the outbox does: wait when told to, and try again."""
    while True:
        try:
            await sending()  # type: ignore[misc]
        except NotSent as refusal:
            await clock.sleep(refusal.retry_after or 0)
        else:
            return


async def test_waiting_beforehand_takes_no_turn_and_leaves_nothing_to_wait_for() -> None:
    clock = FastClock()
    pacer = Pacer(clock)
    await pacer.free("1")
    await pacer.turn("1")
    await pacer.free("1")
    await pacer.free("1")
    assert clock.slept == [1.0]
    await pacer.turn("1")
    assert clock.slept == [1.0]
    pacer.hold("1", 60)
    await pacer.free("1")
    assert clock.slept == [1.0], "a long wait is left to the sending itself, which says so"


@given(st.lists(st.tuples(st.sampled_from(["1", "2", "-3", "-4"]), st.floats(0, 3)), max_size=60), st.booleans())
def test_the_limits_are_never_overstepped(steps: list[tuple[str, float]], shown: bool) -> None:
    clock = FastClock()
    flood = Flood(clock.monotonic)
    pacer = Pacer(clock)

    async def send(chat: str) -> None:
        await pacer.turn(chat)
        flood.check("sendMessage", {"chat_id": chat})

    async def all_of_it() -> None:
        for chat, pause in steps:
            if shown and pacer.spare(chat):
                flood.check("sendMessage", {"chat_id": chat})
            await patiently(clock, lambda chat=chat: send(chat))
            await clock.sleep(pause)

    asyncio.run(all_of_it())
    assert flood.refusals == 0


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 20)), min_size=1, max_size=60))
def test_thirty_a_second_is_the_most_over_all_chats(bursts: list[tuple[int, int]]) -> None:
    clock = FastClock()
    sent: list[float] = []
    pacer = Pacer(clock)

    async def all_of_it() -> None:
        for number, (chat, count) in enumerate(bursts):
            for step in range(count):
                await pacer.turn(f"{chat}:{number}:{step}")
                sent.append(clock.monotonic())

    asyncio.run(all_of_it())
    assert all(later - first >= 1 - 1e-9 for first, later in zip(sent, sent[30:], strict=False))
    assert clock.monotonic() <= len(sent) / 30 + 1


async def test_a_long_answer_to_a_group_waits_and_provokes_nothing() -> None:
    async with opened() as line:
        line.peer.flood = Flood(line.clock.monotonic)
        line.peer.chats.group(FAMILY)
        for number in range(45):
            await patiently(line.clock, lambda number=number: line.send(f"part {number}", GROUP))
        assert line.peer.chats.said(FAMILY) == [f"part {number}" for number in range(45)]
        assert line.peer.flood.refusals == 0


async def test_previews_leave_answers_their_turns() -> None:
    clock = FastClock()
    pacer = Pacer(clock)
    taken = 0
    for _ in range(50):
        taken += pacer.spare("-5")
        await clock.sleep(1)
    assert taken == 20 - KEPT_FREE
    began = clock.monotonic()
    await pacer.turn("-5")
    assert clock.monotonic() == began


async def test_when_telegram_asks_to_wait_nothing_is_sent_there_before() -> None:
    async with opened() as line:
        line.peer.flood = Flood(line.clock.monotonic, penalty=40)
        line.peer.fault("sendMessage", "retry_after", seconds=40)
        with pytest.raises(NotSent) as first:
            await line.send("hello")
        line.peer.flood.hold(ANNA)
        with pytest.raises(NotSent) as second:
            await line.send("hello")
        await line.channel.typing(PRIVATE)
        await line.channel.react(PRIVATE, "1", "👍")
        await line.channel.draft(PRIVATE, "t", "x")
        await patiently(line.clock, lambda: line.send("hello"))
        assert first.value.retry_after == 40
        assert second.value.retry_after == pytest.approx(40.1)
        assert (line.peer.flood.defied, line.peer.chats.said(ANNA)) == (0, ["hello"])


async def test_other_chats_go_on_while_one_waits_until_a_second_must() -> None:
    clock = FastClock()
    pacer = Pacer(clock)
    pacer.hold("1", 60)
    await pacer.turn("2")
    pacer.hold("2", 30)
    with pytest.raises(NotSent) as caught:
        await pacer.turn("3")
    assert caught.value.retry_after == pytest.approx(30.1)
    await clock.sleep(31)
    await pacer.turn("3")


async def test_a_wait_during_a_pause_is_obeyed() -> None:
    clock = FastClock()
    pacer = Pacer(clock)
    await pacer.turn("1")
    waiting = asyncio.ensure_future(pacer.turn("1"))
    await asyncio.sleep(0)
    pacer.hold("1", 100)
    with pytest.raises(NotSent):
        await waiting


async def test_without_limits_nothing_waits_but_what_telegram_asks_for_is_obeyed() -> None:
    clock = FastClock()
    pacer = Pacer(clock, on=False)
    for _ in range(100):
        await pacer.turn("-5")
    assert clock.slept == []
    pacer.hold("-5", 5)
    await pacer.turn("-5")
    assert clock.slept == [pytest.approx(5.1)]


async def test_many_chats_do_not_fill_the_memory() -> None:
    clock = FastClock()
    pacer = Pacer(clock, on=False)
    for number in range(3000):
        await pacer.turn(str(number))
        await clock.sleep(0.2)
    assert pacer.chats <= 1001


async def test_the_peers_flood_gate_is_strict() -> None:
    clock = FastClock()
    flood = Flood(clock.monotonic)
    flood.check("sendMessage", {"chat_id": "1"})
    with pytest.raises(Refused, match="Too Many Requests"):
        flood.check("sendMessage", {"chat_id": "1"})
    with pytest.raises(Refused):
        flood.check("sendChatAction", {"chat_id": "1"})
    assert (flood.refusals, flood.defied) == (2, 1)
    for number in range(29):
        flood.check("sendMessage", {"chat_id": f"u{number}"})
    with pytest.raises(Refused):
        flood.check("sendMessage", {"chat_id": "one too many"})


async def test_a_topic_counts_with_its_group() -> None:
    async with opened() as line:
        line.peer.flood = Flood(line.clock.monotonic)
        line.peer.chats.group(FAMILY, topics=(7,))
        for number in range(6):
            await line.send(f"{number}", replace(GROUP, thread="7") if number % 2 else GROUP)
        assert line.peer.flood.refusals == 0
