"""What the end of a turn tells other sessions and conversations: stored with it, or not at all."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from channels.messages import ChatAddress
from gateway.base.clock import ManualClock
from gateway.base.errors import InvalidTransition
from gateway.ledger.rows import Arrival, NewEvent
from tests.ledger.engines import open_at

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from gateway.ledger.protocol import Ledger

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
CHAT = ChatAddress(channel="telegram", kind="direct", id="1")


def arrival(alias: str, session: str = "s") -> Arrival:
    return Arrival(
        key=alias, alias=alias, conversation=CHAT.address, session=session, sender="1", payload="{}", received_at=NOON
    )


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[Ledger]:
    ledger = await open_at(tmp_path / "ledger.sqlite", ManualClock(NOON))
    yield ledger
    await ledger.close()


async def test_a_message_for_another_session_is_stored_once_with_the_end(ledger: Ledger) -> None:
    for number in range(2):  # two turns that tell the same: the second of the messages is known
        [row] = (await ledger.inbox.accept("schedule", [arrival(f"m{number}")])).rows
        turn = await ledger.turns.claim("s", "main", [row.id])
        finished = await ledger.turns.finish(turn.id, "done", arrivals=[("agent", arrival("result", "parent"))])
        assert [(one.session, one.account, one.alias) for one in finished.rows] == [("parent", "agent", "result")][number:]
    assert [one.alias for one in await ledger.inbox.waiting()] == ["result"]


async def test_where_the_turn_cannot_end_nothing_is_told(ledger: Ledger) -> None:
    [row] = (await ledger.inbox.accept("schedule", [arrival("m")])).rows
    turn = await ledger.turns.claim("s", "main", [row.id])
    await ledger.turns.finish(turn.id, "done")
    event = NewEvent(conversation=CHAT, line="late")
    with pytest.raises(InvalidTransition):
        await ledger.turns.finish(turn.id, "done", arrivals=[("agent", arrival("late"))], events=[event])
    assert await ledger.inbox.waiting() == []
    assert await ledger.context_events.pending(CHAT.address) == []


async def test_an_event_keeps_its_sources_and_is_told_to_the_group_under_its_present_id(ledger: Ledger) -> None:
    former, present = (ChatAddress(channel="telegram", kind="group", id=one) for one in ("-1", "-100"))
    assert (
        await ledger.context_events.pending(present.address) == []
    )  # what is remembered of this must not outlive the end of the turn
    await ledger.chat_migrations.record("telegram:default", former.id, present.id)
    [row] = (await ledger.inbox.accept("schedule", [arrival("m")])).rows
    turn = await ledger.turns.claim("s", "main", [row.id])
    events = [
        NewEvent(conversation=former, line="plain"),
        NewEvent(conversation=former, line="not", sources=("web:a", "web:b")),
    ]
    await ledger.turns.finish(turn.id, "done", events=events)
    found = await ledger.context_events.pending(present.address)
    assert [(one.line, one.sources) for one in found] == [("plain", ()), ("not", ("web:a", "web:b"))]
