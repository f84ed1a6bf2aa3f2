"""Messages that a running turn takes in, and turns that are taken back."""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from gateway.base.clock import ManualClock
from gateway.base.errors import InvalidTransition
from gateway.ledger.rows import Arrival
from tests.ledger.engines import open_at

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from gateway.ledger.protocol import Ledger

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SESSION = "agent:main:main"


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Ledger]:
    ledger = await open_at(folder / "ledger.sqlite", ManualClock(NOON))
    try:
        yield ledger
    finally:
        await ledger.close()


async def take(ledger: Ledger, count: int) -> list[int]:
    arrivals = [
        Arrival(
            key=f"u:{n}",
            alias=f"m:{n}",
            conversation="telegram:default:direct:42",
            session=SESSION,
            sender="42",
            payload="{}",
            received_at=NOON,
        )
        for n in range(count)
    ]
    return [row.id for row in (await ledger.inbox.accept("telegram:default", arrivals)).rows]


async def waiting(ledger: Ledger) -> list[int]:
    return [row.id for row in await ledger.inbox.waiting()]


async def test_a_turn_takes_further_messages_in_and_ends_them_with_itself(tmp_path: Path) -> None:
    async with opened(tmp_path) as ledger:
        one, two, three = await take(ledger, 3)
        turn = await ledger.turns.claim(SESSION, "main", [one])
        assert (await ledger.turns.join(turn.id, [two])).inbox == (one, two)
        assert await waiting(ledger) == [three]
    async with opened(tmp_path) as ledger:
        (found,) = await ledger.turns.unfinished()
        assert found.inbox == (one, two), "a restart finds all of them in the one turn"
        await ledger.turns.finish(found.id, "done")
        assert [row.state for row in await ledger.inbox.rows([one, two, three])] == ["answered", "answered", "waiting"]


async def test_a_message_that_does_not_wait_is_taken_in_by_no_turn(tmp_path: Path) -> None:
    async with opened(tmp_path) as ledger:
        one, two, three = await take(ledger, 3)
        turn, other = await ledger.turns.claim(SESSION, "main", [one]), await ledger.turns.claim("elsewhere", "main", [two])
        for rows in ([two], [three, two], [one]):
            with pytest.raises(InvalidTransition):
                await ledger.turns.join(turn.id, rows)
        assert await waiting(ledger) == [three], "what was refused has changed nothing"
        await ledger.turns.finish(turn.id, "done")
        with pytest.raises(InvalidTransition):
            await ledger.turns.join(turn.id, [three])
        assert [turn.id for turn in await ledger.turns.unfinished()] == [other.id]


async def test_a_turn_that_is_taken_back_leaves_its_messages_waiting(tmp_path: Path) -> None:
    async with opened(tmp_path) as ledger:
        one, two = await take(ledger, 2)
        turn = await ledger.turns.claim(SESSION, "main", [one])
        await ledger.turns.begin_call(turn.id, "c", "write", "h", "effect")
        await ledger.turns.release(turn.id)
        assert await ledger.turns.unfinished() == []
        assert await waiting(ledger) == [one, two]
        again = await ledger.turns.claim(SESSION, "main", [one, two])
        await ledger.turns.finish(again.id, "done")
        for ended in (turn.id, again.id):
            with pytest.raises(InvalidTransition):
                await ledger.turns.release(ended)
        assert await waiting(ledger) == []
