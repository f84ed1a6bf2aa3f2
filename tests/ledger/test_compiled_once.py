"""The ledger's statements are compiled once: what they cost beside their work."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import apsw
import pytest

from channels.messages import ChatAddress
from gateway.base.clock import ManualClock
from gateway.ledger.rows import NewOutbound
from tests.ledger.test_spending_totals import open_at
from tests.ledger.test_turn_costs import Turns

if TYPE_CHECKING:
    from pathlib import Path

CHAT = ChatAddress(channel="internal", account="default", kind="direct", id="x")


@pytest.mark.files
async def test_statements_of_a_turn_are_compiled_once(tmp_path: Path) -> None:
    """SQLite asks what a statement may do whenever it compiles it. The pragma that says how a commit is synced is compiled each time."""
    asked: Counter[int] = Counter()

    def authorize(action: int, *_: str | None) -> int:
        asked[action] += action != apsw.SQLITE_PRAGMA
        return apsw.SQLITE_OK

    async with open_at(tmp_path / "ledger.sqlite", ManualClock(datetime(2026, 3, 1, 12, tzinfo=UTC))) as (connection, ledger):
        turns = Turns(ledger, ManualClock(connection.now()))
        await connection.run_outside(lambda engine: setattr(engine.db, "authorizer", authorize))
        for _ in range(3):
            before = asked.total()
            turn = await turns.begin()
            await turns.spend(0.5)
            await ledger.turns.finish(turn, "done", [NewOutbound(conversation=CHAT, text="hello")])
            (due,) = await ledger.outbox.due(["internal:default"])
            await ledger.outbox.sending(due.id)
            await ledger.outbox.sent(due.id, "1")
    assert asked.total() == before
