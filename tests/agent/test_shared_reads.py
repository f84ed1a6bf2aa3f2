"""Reads that are shared: each is of the time after it was asked for, and those who ask at once share one."""

from __future__ import annotations

import asyncio
import itertools
import threading
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.shared_reads import SharedReads
from tests.properties import examples


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.booleans(), st.integers(0, 3)), max_size=30))
def test_what_is_returned_was_read_after_it_was_asked_for(asked: list[tuple[str, bool, int]]) -> None:
    time, lock = itertools.count(), threading.Lock()
    running = dict.fromkeys("ab", 0)

    def read(key: str) -> tuple[str, int]:
        with lock:
            running[key] += 1
            assert running[key] == 1, "one at a time"
            began = next(time)
        with lock:
            running[key] -= 1
        return key, began

    async def ask(reads: SharedReads, key: str, *, given_up: bool, later: int) -> None:
        for _ in range(later):
            await asyncio.sleep(0)
        with lock:
            now = next(time)
        waiting = asyncio.ensure_future(reads.get(key, partial(read, key)))
        if given_up:
            await asyncio.sleep(0)
            waiting.cancel()
            return
        found, began = await waiting
        assert found == key
        assert began > now

    async def all_ask() -> None:
        reads = SharedReads()
        await asyncio.gather(*(ask(reads, key, given_up=given_up, later=later) for key, given_up, later in asked))

    asyncio.run(all_ask())


async def test_those_who_ask_while_one_runs_share_the_next_one() -> None:
    reads, may_end, runs = SharedReads(), threading.Event(), itertools.count(1)

    def read() -> int:
        run = next(runs)
        if run == 1:
            may_end.wait(10)
        return run

    first = asyncio.ensure_future(reads.get("one", read))
    await asyncio.sleep(0.05)
    others = [asyncio.ensure_future(reads.get("one", read)) for _ in range(200)]
    given_up, *left = others
    await asyncio.sleep(0)
    given_up.cancel()
    may_end.set()
    assert await first == 1
    assert set(await asyncio.gather(*left)) == {2}
    assert await reads.get("one", read) == 3


async def test_an_error_reaches_all_who_asked_and_the_next_one_reads_again(caplog: pytest.LogCaptureFixture) -> None:
    reads, fails = SharedReads(), True

    def read() -> str:
        if fails:
            raise OSError("gone")
        return "there"

    found = await asyncio.gather(*(reads.get("one", read) for _ in range(5)), return_exceptions=True)
    assert [str(one) for one in found] == ["gone"] * 5
    alone = asyncio.ensure_future(reads.get("one", read))
    await asyncio.sleep(0)
    alone.cancel()
    await asyncio.sleep(0.05)
    fails = False
    assert await reads.get("one", read) == "there"
    assert not caplog.records


async def test_nobody_waits_for_a_read_that_cannot_begin_any_more() -> None:
    reads, may_end = SharedReads(), threading.Event()
    first = asyncio.ensure_future(reads.get("one", lambda: may_end.wait(10)))
    await asyncio.sleep(0.05)
    next_one = asyncio.ensure_future(reads.get("one", lambda: True))
    ending = asyncio.ensure_future(asyncio.get_running_loop().shutdown_default_executor())
    await asyncio.sleep(0.05)
    may_end.set()
    assert await first
    await ending
    for coming in (next_one, reads.get("one", lambda: True)):
        with pytest.raises(RuntimeError):
            await asyncio.wait_for(coming, 5)
