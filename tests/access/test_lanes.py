"""One turn at a time in a session, many sessions at once."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.queue.lanes import Lanes, Ticket
from tests.patience import PATIENCE
from tests.properties import examples


class Work:
    """Work that goes on for as many steps of the event loop as its item says, and writes down what happened."""

    def __init__(self) -> None:
        self.begun: dict[str, list[Any]] = defaultdict(list)
        self.ended: list[Any] = []
        self.cancelled: list[tuple[Any, str | None]] = []
        self.broken: list[str] = []
        self.at_once: Counter[str] = Counter()
        self.most = 0
        self.gate: asyncio.Event | None = None
        self.entered = asyncio.Event()

    async def __call__(self, ticket: Ticket[Any]) -> None:
        number, steps = ticket.item
        self.begun[ticket.session].append(number)
        if ticket.ending is not None:  # stopped before it began: it is only noted, and needs no place
            assert self.at_once[ticket.session] == 0
            self.cancelled.append((number, ticket.ending))
            return
        self.at_once[ticket.session] += 1
        assert self.at_once[ticket.session] == 1
        self.most = max(self.most, self.at_once.total())
        self.entered.set()
        try:
            if self.gate is not None:
                await self.gate.wait()
            for _ in range(steps):
                await asyncio.sleep(0)
            if steps == 3:
                raise RuntimeError(f"{number}")
            self.ended.append(number)
        except asyncio.CancelledError:
            self.cancelled.append((number, ticket.ending))
            raise
        finally:
            self.at_once[ticket.session] -= 1

    def lanes(self, limit: int = 4) -> Lanes[Any]:
        return Lanes(self, limit=limit, broken=lambda ticket, error: self.broken.append(str(error)))


@settings(max_examples=examples(60), deadline=None)
@given(
    items=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 4), st.integers(0, 3)), max_size=30),
    limit=st.integers(1, 4),
    stops=st.sets(st.integers(0, 30), max_size=5),
)
async def test_order_and_exclusivity_hold_whatever_is_submitted_and_stopped(
    items: list[tuple[str, int, int]], limit: int, stops: set[int]
) -> None:
    work = Work()
    lanes = work.lanes(limit)
    for number, (session, steps, pause) in enumerate(items):
        lanes.submit(session, (number, steps))
        for _ in range(pause):
            await asyncio.sleep(0)
        if number in stops:
            lanes.stop(session)
    await lanes.quiet()
    for session in "abc":
        assert work.begun[session] == [number for number, item in enumerate(items) if item[0] == session]
    assert work.most <= limit
    ends = sorted([*work.ended, *(number for number, _ in work.cancelled), *map(int, work.broken)])
    assert ends == list(range(len(items)))
    assert {why for _, why in work.cancelled} <= {"stop"}
    assert lanes.running() == []


async def test_sessions_run_at_the_same_time() -> None:
    work = Work()
    work.gate = asyncio.Event()
    lanes = work.lanes()
    assert [lanes.submit(session, (number, 0)) for number, session in enumerate("abab")] == [0, 0, 1, 1]
    await work.entered.wait()
    await asyncio.sleep(0)
    assert sorted(ticket.session for ticket in lanes.running()) == ["a", "b"]
    assert lanes.queued("a") == 1
    work.gate.set()
    await lanes.quiet()
    assert sorted(work.ended) == [0, 1, 2, 3]


async def test_stopping_ends_what_runs_and_what_waits_goes_on() -> None:
    work = Work()
    work.gate = asyncio.Event()
    lanes = work.lanes()
    assert not lanes.stop("a")
    lanes.submit("a", (1, 0))
    lanes.submit("a", (2, 0))
    await work.entered.wait()
    assert lanes.stop("a")
    work.gate.set()
    await lanes.quiet()
    assert work.cancelled == [(1, "stop")]
    assert work.ended == [2]
    assert not lanes.stop("a")


async def test_waiting_items_can_be_taken_together() -> None:
    work = Work()
    work.gate = asyncio.Event()
    lanes = work.lanes()
    for number in range(4):
        lanes.submit("a", (number, 0))
    await work.entered.wait()
    assert lanes.waiting("a") == [(1, 0), (2, 0), (3, 0)]
    assert lanes.waiting("a", 2) == [(1, 0), (2, 0)]
    assert lanes.waiting("b") == []
    lanes.take("a", [(1, 0), (3, 0), (9, 0)])
    lanes.take("b", [(1, 0)])
    assert lanes.waiting("a") == [(2, 0)]
    lanes.give_back("a", [(1, 0), (3, 0)])
    work.gate.set()
    await lanes.quiet()
    assert work.ended == [0, 1, 3, 2]


async def test_a_free_lane_waits_as_long_as_it_is_held_and_takes_no_place_meanwhile() -> None:
    work, gate, held = Work(), asyncio.Event(), []

    async def hold(session: str) -> None:
        held.append(session)
        if session == "a":
            await gate.wait()

    lanes: Lanes[Any] = Lanes(work, limit=1, hold=hold, broken=lambda ticket, error: work.broken.append(str(error)))
    lanes.submit("a", (1, 0))
    lanes.submit("b", (2, 0))
    await work.entered.wait()
    assert work.begun == {"b": [2]}, "the other lane has the only place"
    gate.set()
    await lanes.quiet()
    assert (work.ended, sorted(held)) == ([2, 1], ["a", "b"])


async def test_a_held_lane_can_be_drained() -> None:
    async def for_ever(_session: str) -> None:
        await asyncio.Event().wait()

    work = Work()
    lanes: Lanes[Any] = Lanes(work, hold=for_ever, broken=lambda ticket, error: work.broken.append(str(error)))
    lanes.submit("a", (1, 0))
    await asyncio.sleep(0)
    assert await lanes.drain(0) == 0
    assert (work.begun, lanes.queued("a")) == ({}, 0)


async def test_a_failing_item_is_told_and_its_lane_goes_on() -> None:
    work = Work()
    lanes = work.lanes()
    lanes.submit("a", (1, 3))
    lanes.submit("a", (2, 0))
    await lanes.quiet()
    assert work.broken == ["1"]
    assert work.ended == [2]


async def test_draining_lets_what_runs_end_and_begins_nothing_more() -> None:
    work = Work()
    work.gate = asyncio.Event()
    lanes = work.lanes(limit=1)
    for number, session in enumerate("aab"):
        lanes.submit(session, (number, 0))
    await work.entered.wait()
    draining = asyncio.create_task(lanes.drain(30))
    await asyncio.sleep(0)
    work.gate.set()
    assert await draining == 0
    assert lanes.submit("c", (9, 0)) == 0
    await lanes.quiet()
    assert work.ended == [0]
    assert work.cancelled == []


async def test_draining_cancels_what_takes_too_long_and_says_why() -> None:
    work = Work()
    work.gate = asyncio.Event()
    lanes = work.lanes()
    lanes.submit("a", (1, 0))
    lanes.submit("a", (2, 0))
    await work.entered.wait()
    assert await lanes.drain(0) == 1
    assert work.cancelled == [(1, "drain")]
    assert work.ended == []


async def test_draining_does_not_wait_for_ever_for_what_will_not_end() -> None:
    release = asyncio.Event()

    async def stubborn(_ticket: Ticket[int]) -> None:
        try:
            await release.wait()
        except asyncio.CancelledError:
            await release.wait()

    lanes: Lanes[int] = Lanes(stubborn, broken=lambda ticket, error: pytest.fail(str(error)))
    lanes.submit("a", 1)
    await asyncio.sleep(0)
    assert await lanes.drain(0, grace=0.01) == 1
    release.set()
    await lanes.quiet()


async def test_what_is_paused_while_a_lane_is_held_begins_only_when_it_goes_on() -> None:
    work, hold = Work(), asyncio.Event()
    held = asyncio.Event()

    async def wait(_session: str) -> None:
        held.set()
        await hold.wait()

    lanes: Lanes[Any] = Lanes(work, broken=lambda *_: None, hold=wait)
    lanes.submit("s", (1, 0))
    await held.wait()
    lanes.pause()
    hold.set()
    await lanes.quiet()
    assert (work.begun["s"], lanes.queued("s")) == ([], 1)
    lanes.resume()
    await lanes.quiet()
    assert work.begun["s"] == [1]


async def test_what_is_paused_while_it_waits_for_a_place_begins_only_when_it_goes_on() -> None:
    work = Work()
    work.gate = asyncio.Event()
    lanes: Lanes[Any] = Lanes(work, limit=1, broken=lambda *_: None)
    lanes.submit("a", (1, 0))
    await work.entered.wait()
    lanes.submit("b", (2, 0))
    await asyncio.sleep(0)
    lanes.pause()
    lanes.submit("c", (3, 0))
    lanes.put_first("d", (4, 0))
    work.gate.set()
    await lanes.quiet()
    assert {session: numbers for session, numbers in work.begun.items() if numbers} == {"a": [1]}
    lanes.resume()
    await lanes.quiet()
    assert {session: numbers for session, numbers in work.begun.items() if numbers} == {"a": [1], "b": [2], "c": [3], "d": [4]}


async def test_sessions_with_a_pool_of_their_own_take_no_places_from_the_others() -> None:
    work = Work()
    work.gate = asyncio.Event()
    lanes: Lanes[Any] = Lanes(
        work,
        limit=2,
        pools={"sub": 3},
        pool_of=lambda session: session[:3],
        broken=lambda ticket, error: work.broken.append(str(error)),
    )
    for n in range(20):
        lanes.submit(f"sub{n}", (n, 0))
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(lanes.running()) == 3
    lanes.submit("person", (99, 0))
    for _ in range(5):
        await asyncio.sleep(0)
    assert work.begun["person"] == [99], "it waits for none of the twenty"
    assert len(lanes.running()) == 4
    work.gate.set()
    await lanes.quiet()
    assert len(work.ended) == 21


async def test_what_waits_is_forgotten_where_another_process_goes_on_with_it() -> None:
    """What runs ends first; nothing of what waits behind it begins, whether there is a pause or not."""
    work = Work()
    work.gate = asyncio.Event()
    lanes = work.lanes()
    for number in (1, 2, 3):
        lanes.submit("left", (number, 0))
    await work.entered.wait()
    forgetting = asyncio.ensure_future(lanes.forget(lambda session: session == "left"))
    await asyncio.sleep(0)
    lanes.submit("kept", (1, 0))
    lanes.pause()
    lanes.submit("left", (4, 0))  # too late
    work.gate.set()
    await forgetting
    lanes.resume()
    await lanes.quiet()
    assert work.begun == {"left": [1], "kept": [1]}
    assert lanes.sessions() == []


async def test_what_is_handed_over_ends_by_itself_or_is_cancelled_when_its_time_is_over() -> None:
    work = Work()
    work.gate = asyncio.Event()
    lanes = work.lanes()
    for session in ("a", "b"):
        lanes.submit(session, (1, 0))
        lanes.submit(session, (2, 0))
    async with asyncio.timeout(PATIENCE):
        while not (lanes.busy("a") and lanes.busy("b")):  # noqa: ASYNC110  (nobody announces it)
            await asyncio.sleep(0)
        await lanes.forget(lambda session: session == "a", 0.01)
        assert (work.cancelled, lanes.sessions()) == ([(1, "drain")], ["b"])
        forgetting = asyncio.create_task(lanes.forget(lambda _: True))
        await asyncio.sleep(0.05)
        assert not forgetting.done(), "without a limit it waits for what runs"
        work.gate.set()
        await forgetting
    assert (work.begun, work.ended, lanes.sessions()) == ({"a": [1], "b": [1]}, [1], [])
