"""What was open when a backup was made is held after a restore, and released by its owner alone."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from channels.messages import ChatAddress, Cursor
from gateway.app.backups import restored_notice
from gateway.base.clock import ManualClock
from gateway.ledger.job_rows import NewJob
from gateway.ledger.restored import hold
from gateway.ledger.rows import RESTORED, Arrival, NewOutbound
from gateway.ledger.sqlite import SqliteLedger

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 3, 1, 9, tzinfo=UTC)
CHAT = ChatAddress(channel="telegram", kind="direct", id="7")


async def lived(path: Path) -> None:
    """Leave a ledger in which a message waits, a reply is to be sent, a turn runs, and a job is due."""
    ledger = await SqliteLedger.open(path, ManualClock(NOW))
    arrivals = [
        Arrival(
            key=f"m{number}",
            alias=f"m{number}",
            conversation=CHAT.address,
            session=None,
            sender="7",
            payload="{}",
            received_at=NOW,
        )
        for number in range(2)
    ]
    await ledger.inbox.accept("telegram:", arrivals, Cursor(name="offset", value="9"))
    await ledger.outbox.enqueue([NewOutbound(key="r1", conversation=CHAT, text="not sent yet")])
    job = NewJob(agent="main", name="plants", schedule="every 3600", kind="message", text="water", deliver=CHAT)
    await ledger.jobs.add(job, NOW + timedelta(hours=1), "UTC")
    await ledger.close()


async def test_nothing_of_it_goes_on_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    await lived(path)
    later = NOW + timedelta(days=2)
    held = hold(path, "new", NOW.isoformat(), later)
    assert (held.messages, held.replies, held.jobs, held.jobs_due) == (2, 1, 1, 1)
    ledger = await SqliteLedger.open(path, ManualClock(later))
    assert ledger.warning is None
    tally = await ledger.tally()
    assert (tally.waiting, tally.running, tally.suspended) == (0, 0, 0)
    assert not {"ready", "sending", "ambiguous"} & set(tally.outbox)
    assert await ledger.inbox.cursor("telegram:", "offset") is None
    accepted = await ledger.inbox.accept(
        "telegram:",
        [Arrival(key="m1", alias="m1", conversation=CHAT.address, session=None, sender="7", payload="{}", received_at=later)],
    )
    assert not accepted.rows, "a message that the platform offers again is known"
    (reply,) = await ledger.outbox.latest(("dead",))
    assert (reply.reason, reply.text) == (RESTORED, "not sent yet")
    await ledger.outbox.revive(reply.id)
    message = (await ledger.inbox.latest(("failed",)))[0]
    assert message.reason == RESTORED
    assert (await ledger.inbox.requeue(message.id)).state == "waiting"
    await ledger.close()


async def test_jobs_that_were_due_up_to_the_first_start_never_fire(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    await lived(path)
    hold(path, "new", NOW.isoformat(), NOW + timedelta(days=1))
    started = NOW + timedelta(days=3)
    ledger = await SqliteLedger.open(path, ManualClock(started))
    about = await ledger.begin_restored()
    assert about is not None
    (job,) = await ledger.jobs.all()
    assert job.unsure_until == started
    assert await ledger.begin_restored() is None, "it is said once"
    assert "3 messages are held" in restored_notice(json.loads(json.dumps(about)))
    await ledger.close()


async def test_holding_twice_changes_nothing_more(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    await lived(path)
    hold(path, "new", NOW.isoformat(), NOW)
    again = hold(path, "newer", NOW.isoformat(), NOW)
    assert (again.messages, again.replies) == (0, 0)
