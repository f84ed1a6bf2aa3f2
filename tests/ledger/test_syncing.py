"""Which commits of the ledger are synced, what becomes of the others, and calls that wait for the next one."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from channels.messages import ChatAddress
from gateway.base.clock import ManualClock
from gateway.ledger.rows import NewOutbound
from gateway.ledger.spending_rows import NewCall, Spent
from gateway.ledger.sqlite import SqliteLedger
from gateway.ledger.sqlite_engine import Mark, read_log
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

CALL = NewCall(day="2026-01-01", agent="main", session="s", model="m", background=False, tokens=10, usd=0.5)
ANNA = ChatAddress(channel="terminal", kind="direct", id="anna")


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[SqliteLedger]:
    ledger = await SqliteLedger.open(tmp_path / "ledger.sqlite", ManualClock(datetime(2026, 1, 1, tzinfo=UTC)))
    await ledger.outbox.enqueue([NewOutbound(conversation=ANNA, text="begun")])
    yield ledger
    await ledger.close()


def marked(ledger: SqliteLedger) -> int:
    """How much of the log must be there, whatever happens: it is not synced before the mark counts it."""
    mark = Mark.read(ledger.path.with_name(f"{ledger.path.name}-open"))
    assert mark is not None
    return mark.committed


def written(ledger: SqliteLedger) -> int:
    return read_log(ledger.path.with_name(f"{ledger.path.name}-wal").read_bytes()).committed


async def test_what_no_promise_rests_on_is_written_at_once_and_synced_soon(ledger: SqliteLedger) -> None:
    assert marked(ledger) == written(ledger)
    before = marked(ledger)
    await ledger.spending.reserve(CALL, [])
    assert written(ledger) > before, "the end of the process loses it"
    async with asyncio.timeout(PATIENCE):
        while marked(ledger) == before:  # noqa: ASYNC110 - it is in a file
            await asyncio.sleep(0.01)
    assert marked(ledger) == written(ledger)


async def test_a_promise_syncs_what_was_written_before_it(ledger: SqliteLedger) -> None:
    await ledger.spending.reserve(CALL, [])
    await ledger.outbox.enqueue([NewOutbound(conversation=ANNA, text="hello")])
    await ledger.tally()  # the mark is written before the next call is answered
    assert marked(ledger) == written(ledger)


async def test_reading_syncs_nothing_and_is_not_taken_for_it(ledger: SqliteLedger) -> None:
    before = marked(ledger)
    await ledger.spending.reserve(CALL, [])
    for _ in range(3):
        await ledger.tally()
        await ledger.outbox.due(["terminal:default"])
    assert marked(ledger) in {before, written(ledger)}  # on a slow machine the pause may be over
    await ledger.outbox.enqueue([NewOutbound(conversation=ANNA, text="hello")])
    await ledger.tally()
    assert marked(ledger) == written(ledger)


async def test_a_booking_waits_for_the_next_call_and_comes_before_it(ledger: SqliteLedger) -> None:
    reserved = await ledger.spending.reserve(CALL, [])
    assert reserved.row is not None
    booking = asyncio.ensure_future(ledger.spending.settle_call(reserved.row, Spent(input=3, output=4, cost=0.25)))
    await asyncio.sleep(0)
    [row] = await ledger.spending.usage("2026-01-01")
    assert (row.input, row.output, row.cost, row.open) == (3, 4, 0.25, 0)
    await booking


async def test_a_booking_that_no_call_follows_is_written_by_itself(ledger: SqliteLedger) -> None:
    reserved = await ledger.spending.reserve(CALL, [])
    assert reserved.row is not None
    async with asyncio.timeout(PATIENCE):
        await ledger.spending.settle_call(reserved.row, Spent(input=3))


async def test_a_booking_is_written_when_the_ledger_is_closed(tmp_path: Path) -> None:
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    ledger = await SqliteLedger.open(tmp_path / "ledger.sqlite", clock)
    reserved = await ledger.spending.reserve(CALL, [])
    assert reserved.row is not None
    booking = asyncio.ensure_future(ledger.spending.settle_call(reserved.row, Spent(input=3)))
    await asyncio.sleep(0)
    await ledger.close()
    await booking
    again = await SqliteLedger.open(tmp_path / "ledger.sqlite", clock)
    [row] = await again.spending.usage("2026-01-01")
    assert (row.input, row.open) == (3, 0)
    await again.close()
