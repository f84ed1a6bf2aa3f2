"""The database is away for longer than a lease, again and again, while an agent works: that is no fault of its message."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from gateway.turns.interrupted import MAX_ATTEMPTS
from tests.cluster.judging import all_answered
from tests.cluster.statement_cuts import AGENT, LEASE, SETTLE_SECONDS, played

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.postgres, pytest.mark.long]


async def test_outages_that_last_longer_than_a_lease_do_not_have_a_message_given_up(tmp_path: Path) -> None:
    async with played(tmp_path, gateways=2, seed=11) as cuts:
        cluster = cuts.cluster
        first, second = cluster.gateways
        await cuts.first_words(first)
        await cuts.stands_by(second)
        works_on = asyncio.Event()
        asked = 0

        async def wait(_kind: str, _number: int) -> None:
            nonlocal asked
            asked += 1
            await works_on.wait()

        cluster.model.watcher = wait
        await cluster.say(AGENT, deed=True)
        for number in range(1, MAX_ATTEMPTS + 2):
            assert await cluster.until(lambda number=number: asked >= number, SETTLE_SECONDS), "the turn goes on"
            for one in cluster.gateways:
                cuts.watch.begin(one.name)
            await asyncio.to_thread(cluster.server.stop)
            await asyncio.sleep(LEASE + 1)
            cluster.server.start()  # here, as it ends with the thread that starts it
            for one in cluster.gateways:
                cuts.watch.end(one.name, gone=False)
        works_on.set()
        assert await cluster.until(lambda: all_answered(cluster), SETTLE_SECONDS), cluster.shown(AGENT)
        assert not [text for text in cluster.shown(AGENT) if "gave it up" in text]
        assert asked > MAX_ATTEMPTS + 1
    assert cuts.found.wrong(timed=False) == {}
