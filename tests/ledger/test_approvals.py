"""Turns that wait for an owner's decision: asked, decided and resumed once each, whatever comes between."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import apsw
import pytest

from channels.messages import ChatAddress
from gateway.base.clock import ManualClock
from gateway.base.errors import InvalidTransition
from gateway.ledger import schema
from gateway.ledger.rows import Arrival, NewApproval, NewOutbound, Turn
from tests.ledger.engines import open_at

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from gateway.ledger.protocol import Ledger

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
PLACE = ChatAddress(channel="telegram", kind="direct", id="42")
HALF_AN_HOUR = timedelta(minutes=30)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON)


@pytest.fixture
async def ledger(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Ledger]:
    ledger = await open_at(tmp_path / "ledger.sqlite", clock)
    yield ledger
    await ledger.close()


async def begun(ledger: Ledger, number: int = 1) -> Turn:
    arrival = Arrival(
        key=f"u:{number}",
        alias=f"m:{number}",
        conversation=PLACE.address,
        session="s",
        sender="42",
        payload="{}",
        received_at=NOON,
    )
    (row,) = (await ledger.inbox.accept("telegram:default", [arrival])).rows
    return await ledger.turns.claim("s", "main", [row.id])


def question(name: str, clock: ManualClock, number: int = 1) -> NewApproval:
    return NewApproval(
        id=name,
        round=number,
        session="s",
        transcript="t",
        agent="main",
        place=PLACE,
        call=f"1/{name}",
        payload='{"summary": "run `rm notes`"}',
        fingerprint=f"f{number}",
        expires=clock.now() + HALF_AN_HOUR,
    )


def asking(name: str) -> NewOutbound:
    return NewOutbound(conversation=PLACE, text=f"May I? {name}", key=f"ask-{name}")


async def test_a_suspended_turn_frees_its_place_and_its_message_is_not_given_out_again(
    ledger: Ledger, clock: ManualClock
) -> None:
    turn = await begun(ledger)
    assert await ledger.turns.suspend(turn.id, [question("a", clock)], [asking("a")]) is None
    assert await ledger.turns.unfinished() == []
    assert await ledger.inbox.waiting() == []
    assert [row.text for row in await ledger.outbox.due(["telegram:default"])] == ["May I? a"]
    tally = await ledger.tally()
    assert (tally.running, tally.suspended) == (0, 1)
    other = await begun(ledger, 2)
    await ledger.turns.finish(other.id, "done")


async def test_a_decision_resumes_the_turn_once(ledger: Ledger, clock: ManualClock) -> None:
    turn = await begun(ledger)
    await ledger.turns.suspend(turn.id, [question("a", clock)], [])
    first = await ledger.approvals.decide("a", 1, "approved", always=True, by="42")
    again = await ledger.approvals.decide("a", 1, "denied", by="43")
    assert first is not None
    assert again is not None
    assert (first.changed, first.resumed, first.approval.always) == (True, True, True)
    assert (again.changed, again.resumed, again.approval.state, again.approval.decided_by) == (False, False, "approved", "42")
    assert [one.id for one in await ledger.turns.unfinished()] == [turn.id]


async def test_of_several_questions_the_last_decision_resumes(ledger: Ledger, clock: ManualClock) -> None:
    turn = await begun(ledger)
    await ledger.turns.suspend(turn.id, [question("a", clock), question("b", clock)], [])
    first, last = await ledger.approvals.decide("b", 1, "denied"), await ledger.approvals.decide("a", 1, "approved")
    assert first is not None
    assert last is not None
    assert (first.resumed, last.resumed) == (False, True)


async def test_waiting_counts_neither_as_an_attempt_nor_as_age(ledger: Ledger, clock: ManualClock) -> None:
    turn = await begun(ledger)
    await ledger.turns.suspend(turn.id, [question("a", clock)], [])
    clock.move(29 * 60)
    await ledger.approvals.decide("a", 1, "approved")
    (resumed,) = await ledger.turns.unfinished()
    assert resumed.started_at == clock.now()
    assert (await ledger.turns.retry(turn.id)).attempt == 1
    (row,) = await ledger.inbox.rows(turn.inbox)
    assert row.attempts == 1


async def test_a_yes_that_comes_too_late_is_none(ledger: Ledger, clock: ManualClock) -> None:
    turn = await begun(ledger)
    await ledger.turns.suspend(turn.id, [question("a", clock)], [])
    clock.move(30 * 60)
    assert [one.id for one in await ledger.approvals.overdue()] == ["a"]
    late = await ledger.approvals.decide("a", 1, "approved", always=True, by="42")
    assert late is not None
    assert (late.approval.state, late.approval.always, late.resumed) == ("expired", False, True)


async def test_a_decision_about_what_was_asked_before_does_not_count(ledger: Ledger, clock: ManualClock) -> None:
    turn = await begun(ledger)
    await ledger.turns.suspend(turn.id, [question("a", clock)], [asking("a")])
    await ledger.approvals.decide("a", 1, "approved")
    await ledger.turns.suspend(turn.id, [question("a", clock, 2)], [])
    stale = await ledger.approvals.decide("a", 1, "approved")
    assert stale is not None
    assert (stale.changed, stale.approval.state, stale.approval.fingerprint) == (False, "pending", "f2")


async def test_asking_again_after_a_crash_asks_once(ledger: Ledger, clock: ManualClock) -> None:
    turn = await begun(ledger)
    await ledger.turns.suspend(turn.id, [question("a", clock)], [asking("a")])
    with pytest.raises(InvalidTransition):
        await ledger.turns.suspend(turn.id, [question("a", clock)], [asking("a")])
    await ledger.approvals.decide("a", 1, "denied")
    still = await ledger.turns.suspend(turn.id, [question("a", clock)], [asking("a")])
    assert still is not None, "it was decided: the turn has nothing to wait for"
    assert still.state == "running"
    assert len(await ledger.outbox.latest(["ready"])) == 1


async def test_a_turn_that_ends_withdraws_its_questions(ledger: Ledger, clock: ManualClock) -> None:
    turn = await begun(ledger)
    await ledger.turns.suspend(turn.id, [question("a", clock), question("b", clock)], [])
    assert await ledger.approvals.withdraw("s", "stopped by its owner") == [turn.id]
    assert await ledger.approvals.withdraw("s", "stopped by its owner") == []
    await ledger.turns.finish(turn.id, "stopped")
    assert {one.state for one in await ledger.approvals.of_turn(turn.id)} == {"withdrawn"}


@pytest.mark.files
async def test_a_ledger_of_the_version_before_keeps_its_turns_and_what_refers_to_them(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    db = apsw.Connection(str(path))
    db.pragma("foreign_keys", "ON")
    for step in schema.STEPS[:5]:
        db.execute(step)
    db.execute("INSERT INTO meta VALUES ('epoch', 'e')")
    db.execute(
        "INSERT INTO turn VALUES ('a', 's', 'main', 'running', 2, 7, NULL, NULL), ('b', 's', 'main', 'done', 1, 5, 6, NULL)"
    )
    db.execute("INSERT INTO tool_call VALUES ('a', '1/c', 'exec', 'h', 'effect', 'started', NULL)")
    db.execute(
        "INSERT INTO inbox (account, pkey, skey, conversation, session, sender, payload, received_at, state, turn, attempts) "
        "VALUES ('telegram:default', 'u:1', 'm:1', ?, 's', '42', '{}', 0, 'claimed', 'a', 2)",
        (PLACE.address,),
    )
    db.execute("PRAGMA user_version = 5")
    db.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
    db.close()
    ledger = await open_at(path, ManualClock(NOON))
    try:
        assert ledger.warning is None
        (turn,) = await ledger.turns.unfinished()
        assert (turn.id, turn.attempt, len(turn.inbox)) == ("a", 2, 1)
        call = await ledger.turns.tool_call("a", "1/c")
        assert call is not None
        assert call.state == "started"
        await ledger.turns.suspend("a", [question("q", ManualClock(NOON))], [])
        await ledger.approvals.decide("q", 1, "denied")
        await ledger.turns.finish("a", "done")
    finally:
        await ledger.close()
    db = apsw.Connection(str(path))
    assert db.execute("PRAGMA foreign_key_check").fetchall() == []
    assert db.execute("SELECT count(*) FROM turn").fetchall() == [(2,)]
    db.pragma("foreign_keys", "ON")
    db.execute("DELETE FROM turn")
    assert db.execute("SELECT (SELECT count(*) FROM tool_call), (SELECT count(*) FROM approval)").fetchall() == [(0, 0)]
    db.close()


async def test_turns_in_the_midst_of_their_work_come_before_those_that_waited(ledger: Ledger, clock: ManualClock) -> None:
    """Else a restart would mix the steps of two turns in one history."""
    first = await begun(ledger)
    await ledger.turns.suspend(first.id, [question("a", clock)], [])
    clock.move(60)
    second = await begun(ledger, 2)
    await ledger.approvals.decide("a", 1, "approved")
    assert [(turn.id, turn.waited) for turn in await ledger.turns.unfinished()] == [(second.id, False), (first.id, True)]
    await ledger.turns.retry(first.id)
    assert [(turn.id, turn.waited) for turn in await ledger.turns.unfinished()] == [(first.id, False), (second.id, False)]
