"""Lines to PostgreSQL that break without a word, stand still for longer than a lease, or are slow."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from gateway.ledger.postgres.postgres_connection import within
from tests import postgres_server
from tests.cluster.judging import all_answered
from tests.cluster.statement_cuts import AGENT, SETTLE_SECONDS, Cuts, played
from tests.patience import PATIENCE
from tests.peers.statement_line import StatementLine

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.playing import Process

pytestmark = pytest.mark.postgres
CONNECTIONS = 5
"""How many a gateway has (docs/cluster.md)."""


async def test_a_session_that_only_listens_notices_that_nobody_is_there_any_more() -> None:
    import psycopg

    async with StatementLine(postgres_server.server().folder) as line:
        url = within(f"postgresql://homebody@127.0.0.1:{line.port}/postgres", 2.0)
        connection = await psycopg.AsyncConnection.connect(url, autocommit=True)
        await connection.execute("LISTEN nobody")
        assert line.silence() == 1
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(psycopg.OperationalError):
                await anext(connection.notifies())
        await connection.close()


async def answered(cuts: Cuts) -> None:
    assert await cuts.cluster.until(lambda: all_answered(cuts.cluster), SETTLE_SECONDS), "not everything is answered"


async def two(cuts: Cuts) -> list[Process[StatementLine]]:
    """Start two gateways; the first one holds everything."""
    holder, other = cuts.cluster.gateways
    await cuts.first_words(holder)
    await cuts.stands_by(other)
    return [holder, other]


@pytest.mark.long
async def test_each_connection_that_breaks_without_a_word_is_replaced_within_a_lease(tmp_path: Path) -> None:
    async with played(tmp_path, gateways=1, seed=1) as cuts:
        one = cuts.cluster.gateways[0]
        await cuts.first_words(one)
        for number in range(CONNECTIONS):
            assert one.line.silence(lambda place, number=number: place == number) == 1
            await cuts.cluster.say(AGENT, deed=True)
            await answered(cuts)
    assert cuts.found.wrong(timed=False) == {}


@pytest.mark.long
async def test_a_gateway_whose_machine_is_cut_off_without_a_word_is_replaced(tmp_path: Path) -> None:
    async with played(tmp_path, gateways=2, seed=2) as cuts:
        holder, other = await two(cuts)
        cuts.watch.begin(holder.name)
        await cuts.cluster.say(AGENT, deed=True)
        holder.line.hold()
        assert holder.line.silence() >= CONNECTIONS
        await cuts.cluster.say(AGENT, deed=True)
        await answered(cuts)
        assert set(cuts.watch.holders.values()) == {other.name}
        holder.line.release()
        cuts.watch.end(holder.name, gone=False)
        await cuts.cluster.say(AGENT, deed=True)
        await answered(cuts)
        await cuts.stands_by(holder)
    assert cuts.found.wrong(timed=False) == {}


@pytest.mark.long
async def test_a_line_that_stands_still_for_longer_than_a_lease_and_goes_on_changes_nothing_of_others(tmp_path: Path) -> None:
    async with played(tmp_path, gateways=2, seed=3) as cuts:
        holder, other = await two(cuts)
        for seconds in (0.5, 1.5, 2.5):
            cuts.watch.begin(holder.name)
            await cuts.cluster.say(AGENT, deed=True)
            await asyncio.sleep(cuts.cluster.dice.uniform(0.0, 0.5))  # somewhere in that turn
            holder.line.hold()
            await cuts.cluster.say(AGENT, deed=True)
            await asyncio.sleep(seconds * cuts.cluster.lease)
            holder.line.release()
            cuts.watch.end(holder.name, gone=False)
            await answered(cuts)
            await cuts.stands_by(holder)
            if other.name in cuts.watch.holders.values():
                holder, other = other, holder
    assert cuts.found.wrong(timed=False) == {}


@pytest.mark.long
async def test_a_slow_line_makes_everything_slow_and_nothing_else(tmp_path: Path) -> None:
    async with played(tmp_path, gateways=2, seed=4) as cuts:
        for line in cuts.cluster.lines:
            line.delay = 0.05  # in each direction
        holder, other = await two(cuts)
        for _ in range(3):
            await cuts.cluster.say(AGENT, deed=True)
        await answered(cuts)
        await cuts.ends(holder)
        await cuts.cluster.say(AGENT, deed=True)
        await answered(cuts)
        assert other.name in cuts.watch.holders.values()
    assert cuts.found.wrong(timed=False) == {}
