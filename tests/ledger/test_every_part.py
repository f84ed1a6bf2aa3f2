"""Statements that the other tests of the ledger do not reach, on both engines."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import msgspec
import pytest

from channels.messages import ChatAddress
from gateway.base.clock import ManualClock
from gateway.ledger.activation_rows import Activation
from gateway.ledger.forget_requests import ForgetRequest
from gateway.ledger.heartbeat_rows import HeartbeatState
from gateway.ledger.job_rows import NewJob
from gateway.ledger.rows import Arrival, NewOutbound, Unasked
from gateway.ledger.spending_rows import Limit, NewCall, Spent
from gateway.ledger.word_erasure import Erasure
from gateway.settings.quiet_hours import UnaskedRule
from tests.ledger.engines import open_at

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from gateway.ledger.protocol import Ledger

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
GROUP = ChatAddress(channel="telegram", kind="group", id="-100")
DAY = "2026-03-01"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON)


@pytest.fixture
async def ledger(tmp_path: Path, clock: ManualClock, engine: str) -> AsyncIterator[Ledger]:
    opened = await open_at(tmp_path / "ledger.sqlite", clock)
    yield opened
    await opened.close()


def arrival(number: int, payload: str = '{"text": "words"}') -> Arrival:
    names = {"key": f"u:{number}", "alias": f"m:{number}", "conversation": GROUP.address, "session": "s", "sender": "42"}
    return Arrival(**names, payload=payload, received_at=NOON)


async def test_what_calls_cost_is_counted_and_limited_by_all_that_they_have_in_common(ledger: Ledger) -> None:
    limits = [
        Limit(name="agent", same="agent", usd=1.0),
        Limit(name="background", same="background", tokens=1000),
        Limit(name="session", same="session", usd=1.0),
        Limit(name="source", of="the job", same="source", usd=1.0),
        Limit(name="within", within="s", usd=1.0),
    ]
    call = NewCall(
        day=DAY, agent="main", session="s", model="m", background=True, tokens=10, usd=0.25, origin="person", source="job:a"
    )
    first = await ledger.spending.reserve(call, limits)
    assert first.shares == {"agent": 0.25, "background": 0.01, "session": 0.25, "source": 0.25, "within": 0.25}
    assert first.row is not None
    await ledger.spending.settle_call(first.row, Spent(input=4, output=2, cost=0.5, estimated=True))
    assert (await ledger.spending.reserve(call, limits, force=True)).shares["agent"] == 0.75
    assert (await ledger.spending.reserve(call, limits)).shares["agent"] == 1.0
    refused = await ledger.spending.reserve(call, limits)
    assert refused.row is None
    assert refused.broken == limits[0]
    assert await ledger.spending.cost_since(DAY) == 1.0
    for by, name in (("model", "m"), ("origin", ""), ("source", "job:a")):
        (row,) = await ledger.spending.usage(DAY, by)
        assert (row.name, row.calls, row.input, row.cost, row.unpriced, row.open, row.estimated) == (name, 3, 4, 1.0, 0, 2, 1)
    (spent,) = await ledger.spending.spent_on(DAY)
    assert (spent.session, spent.background, spent.calls, spent.tokens, spent.cost) == ("s", True, 3, 26, 1.0)
    assert await ledger.spending.calls_since(DAY) == []
    assert await ledger.spending.of_sessions(["s", "t"], NOON) == {"s": (26, 1.0)}
    assert await ledger.spending.of_sessions(["s", "t"], NOON + timedelta(days=2)) == {}, "what was before does not count"
    await ledger.spending.allow("s")
    assert [await ledger.spending.use_allowance("s", turn) for turn in ("a", "b", "a")] == [True, False, True]
    assert [await ledger.spending.first_time(day, "x") for day in (DAY, DAY, "2026-03-02", DAY)] == [True, False, True, True]


async def test_what_is_kept_by_name_is_read_as_it_was_written(ledger: Ledger) -> None:
    activation = Activation(mode="always", by="42", at=NOON)
    await ledger.activations.put("telegram:default:group:-100", activation)
    assert await ledger.activations.all() == {"telegram:default:group:-100": activation}
    await ledger.activations.put("telegram:default:group:-100", None)
    assert await ledger.activations.all() == {}
    await ledger.heartbeats.put("main", HeartbeatState(last=NOON, row=3))
    await ledger.heartbeats.put("main", HeartbeatState(last=NOON, row=4))
    assert await ledger.heartbeats.get("main") == HeartbeatState(last=NOON, row=4)
    request = ForgetRequest(id="r", agent="main", session="s", place="p", space="g", person="42", name="Ann")
    await ledger.forget_requests.put(request)
    await ledger.forget_requests.put(request)
    assert await ledger.forget_requests.all() == [request]
    await ledger.forget_requests.remove("r")
    assert await ledger.forget_requests.all() == []
    assert await ledger.begin_restored() is None


async def test_words_are_removed_from_rows_that_have_ended(ledger: Ledger) -> None:
    (row, _) = (await ledger.inbox.accept("telegram:default", [arrival(1), arrival(2)])).rows
    turn = await ledger.turns.claim("s", "main", [row.id])
    await ledger.turns.finish(turn.id, "done", [NewOutbound(conversation=GROUP, text="your words")])
    wanted = Erasure(
        request="r",
        conversation=GROUP.address,
        sessions=frozenset({"s"}),
        person="42",
        everything=True,
        holds=lambda text: "words" in text,
    )
    assert await ledger.words.subagents(GROUP.address, "42", lambda _: True) == []
    assert await ledger.words.erase(wanted) == 2, "one waits for its answer, and the answer waits to be sent"
    (due,) = await ledger.outbox.due(["telegram:default"])
    await ledger.outbox.sending(due.id)
    await ledger.outbox.sent(due.id, "p")
    await ledger.inbox.settle([row.id + 1], "ignored")
    assert await ledger.words.erase(wanted) == 0
    assert [one.payload for one in await ledger.inbox.rows([row.id, row.id + 1])] == ["", ""]
    assert (await ledger.outbox.latest(["sent"]))[0].text == ""
    await ledger.leave_no_trace()


async def test_words_are_removed_from_ended_jobs_and_from_notices_to_the_owner(ledger: Ledger) -> None:
    owner = ChatAddress(channel="telegram", kind="direct", id="1")
    new = NewJob(agent="main", name="say SECRET", schedule="once", kind="prompt", text="say SECRET", sources=("guest:SECRET",))
    jobs = [
        await ledger.jobs.add(msgspec.structs.replace(new, asked_in=at), NOON, "UTC") for at in ("group", "group", "private")
    ]
    ended = [await ledger.jobs.change(msgspec.structs.replace(one, state="done", next_at=None)) for one in jobs[1:]]
    rule = UnaskedRule(zone=ZoneInfo("UTC"), per_day=9)
    unasked = Unasked(agent="main", source=f"job:{ended[0].id}", name="say SECRET", rule=rule, counts=True)
    notices = [("n1", "set up “say SECRET”", None), ("n2", "other", None), ("n3", "“SECRET” is done", unasked)]
    rows = [NewOutbound(conversation=owner, text=text, key=key, unasked=mark) for key, text, mark in notices]
    await ledger.outbox.enqueue(rows)
    for _ in rows:
        (due,) = await ledger.outbox.due(["telegram:default"])
        await ledger.outbox.sending(due.id)
        await ledger.outbox.sent(due.id, due.key)
    words = Erasure(
        request="r",
        conversation=GROUP.address,
        sessions=frozenset({"group"}),
        person="42",
        everything=False,
        holds=lambda text: "SECRET" in text,
    )
    assert await ledger.words.erase(words) == 0
    assert {one.text for one in await ledger.outbox.latest(["sent"])} == {"", "other"}
    planned, removed, private = [await ledger.jobs.get(one.id) for one in jobs]
    assert (removed.name, removed.text, removed.sources, removed.state) == ("removed", "", (), "done")
    assert (planned.text, private.text) == ("say SECRET", "say SECRET")
    assert (await ledger.words.erase(words)) == 0


async def test_a_message_that_nobody_asked_for_waits_goes_comes_back_and_is_told_of(ledger: Ledger, clock: ManualClock) -> None:
    quiet = UnaskedRule(zone=ZoneInfo("UTC"), per_day=1)
    rules = {"main": quiet}
    for number in range(3):
        unasked = Unasked(agent="main", source=f"job:{number}", name="n", rule=quiet, counts=True)
        await ledger.outbox.enqueue([NewOutbound(conversation=GROUP, text=f"{number}", key=f"k{number}", unasked=unasked)])
    assert await ledger.unasked.release(rules) == 0
    tally = await ledger.tally()
    assert (tally.held, tally.kept, tally.outbox) == (0, 2, {"ready": 1})
    clock.set(NOON + timedelta(days=1))
    (kept,) = await ledger.unasked.untold({"main": "2026-03-02"})
    assert (kept.count, kept.over) == (2, True)
    await ledger.unasked.tell(kept, NewOutbound(conversation=GROUP, text="two were kept"))
    assert await ledger.unasked.untold({"main": "2026-03-02"}) == []
    first, _ = await ledger.unasked.waiting()
    await ledger.unasked.send(first.id)
    assert (await ledger.tally()).kept == 1
    clock.set(NOON + timedelta(days=40))
    look = await ledger.outbox.poll(["telegram:default"])
    assert look.expired
    await ledger.outbox.clock_set_back(60)
    await ledger.outbox.retry_now("telegram:default")
    assert await ledger.outbox.bounced(GROUP.address, "nothing", "gone", hold=True) is False
    assert await ledger.outbox.bounced(GROUP.address, "nothing", "gone", hold=False) is False
    assert await ledger.inbox.knows(GROUP.address, "1") is False
    assert await ledger.inbox.written_as(GROUP.address, "1", "42") is None
    while await ledger.sweep():
        pass
    assert (await ledger.tally()).kept == 0
