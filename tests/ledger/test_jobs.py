"""Jobs in the ledger: kept over restarts, fired once per instant with what they send, logged within bounds, and recovered from damage."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from channels.messages import ChatAddress
from gateway.base.clock import ManualClock
from gateway.base.errors import InvalidTransition
from gateway.ledger.job_columns import flat_job, read_details
from gateway.ledger.job_rows import Job, JobStep, LeftOut, NewJob
from gateway.ledger.jobs import KEPT_RUNS
from gateway.ledger.rows import IN_DOUBT, Arrival, NewOutbound
from memory.audience import Audience
from tests.ledger.engines import open_at
from tests.ledger.test_recovery import DAMAGE, damaged
from tests.properties import examples

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from gateway.ledger.protocol import Ledger

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
HOME = ChatAddress(channel="telegram", kind="direct", id="42")
WATER = NewJob(
    agent="main", name="water", schedule="every 3600 since 2026-03-01T12:00:00+00:00", kind="message", text="Water the plants."
)


def arrival(job: Job, instant: datetime) -> Arrival:
    key = f"job:{job.id}:{instant.isoformat()}"
    return Arrival(
        key=key, alias=key, conversation=HOME.address, session="s", sender=job.name, payload="{}", received_at=instant
    )


def prompt(job: Job, instant: datetime, **more: Any) -> JobStep:
    return JobStep(job=job.id, due=instant, fire=instant, arrival=arrival(job, instant), next_at=instant + HOUR, **more)


def reminder(job: Job, instant: datetime, **more: Any) -> JobStep:
    message = NewOutbound(conversation=HOME, text=job.text, key=f"j:{job.id}:{instant:%H%M}")
    return JobStep(job=job.id, due=instant, fire=instant, message=message, line="reminded", next_at=instant + HOUR, **more)


@pytest.fixture
async def clock() -> ManualClock:
    return ManualClock(NOON)


@pytest.fixture
async def ledger(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Ledger]:
    opened = await open_at(tmp_path / "ledger.sqlite", clock)
    yield opened
    await opened.close()


ADDRESSES = st.none() | st.just("none") | st.builds(ChatAddress, channel=st.text(), kind=st.just("group"), id=st.text())


@pytest.mark.files
@given(
    st.builds(
        NewJob,
        agent=st.just("main"),
        name=st.text(),
        schedule=st.text(),
        kind=st.sampled_from(["message", "prompt"]),
        text=st.text(),
        session=st.sampled_from(["main", "isolated"]),
        audience=st.sampled_from([Audience(), Audience("group", "g-1")]),
        owner=st.booleans(),
        deliver=ADDRESSES,
        model=st.none() | st.text(),
        tools=st.none() | st.lists(st.text()).map(tuple),
        daily_usd=st.none() | st.floats(0, 9),
        urgent=st.booleans(),
        catch_up_seconds=st.none() | st.integers(0, 10**6),
        sources=st.lists(st.text()).map(tuple),
    )
)
def test_what_people_decide_is_read_as_it_was_written_and_fields_of_later_versions_are_ignored(new: NewJob) -> None:
    written = flat_job(new)["details"]
    read = read_details(written)
    assert {name: getattr(new, name) for name in read} == read
    assert len(read) == 14
    assert read_details(written.replace("{", '{"later":[1],', 1)) == read


async def test_jobs_are_kept_over_a_restart(tmp_path: Path) -> None:
    first = await open_at(tmp_path / "ledger.sqlite", ManualClock(NOON))
    job = await first.jobs.add(WATER, NOON + HOUR, "Europe/Berlin")
    assert (job.id.isalpha(), len(job.id), job.state, job.next_at) == (True, 5, "active", NOON + HOUR)
    await first.close()
    second = await open_at(tmp_path / "ledger.sqlite", ManualClock(NOON))
    assert await second.jobs.all() == [job]
    assert await second.jobs.get(job.id) == job
    assert await second.jobs.get("zzzzz") is None
    await second.close()


async def test_jobs_of_an_agent_and_of_a_session(ledger: Ledger) -> None:
    here = await ledger.jobs.add(replace(WATER, asked_in="agent:main:main"), NOON + HOUR, "UTC")
    there = await ledger.jobs.add(replace(WATER, agent="work"), NOON, "UTC")
    assert await ledger.jobs.all() == [there, here]
    assert await ledger.jobs.all(agent="work") == [there]
    assert await ledger.jobs.all(asked_in="agent:main:main") == [here]
    assert (await ledger.jobs.count("main"), await ledger.jobs.count("none")) == (1, 0)
    assert await ledger.jobs.remove(here.id)
    assert not await ledger.jobs.remove(here.id)
    with pytest.raises(InvalidTransition):
        await ledger.jobs.change(here)


async def test_what_is_due_comes_in_the_order_of_instants_then_of_adding(ledger: Ledger) -> None:
    jobs = [await ledger.jobs.add(replace(WATER, name=f"{n}"), NOON + n % 3 * HOUR, "UTC") for n in range(9)]
    await ledger.jobs.pause(jobs[0].id, "")
    due, later = await ledger.jobs.due(NOON + HOUR)
    assert ([job.name for job in due], later) == (["3", "6", "1", "4", "7"], NOON + 2 * HOUR)
    assert [job.name for job in (await ledger.jobs.due(NOON + HOUR, limit=2))[0]] == ["3", "6"]
    assert await ledger.jobs.earliest() == NOON


async def test_a_prompt_fires_once_and_its_message_waits_in_the_inbox(ledger: Ledger, clock: ManualClock) -> None:
    job = await ledger.jobs.add(replace(WATER, kind="prompt"), NOON, "UTC")
    done = await ledger.jobs.step(prompt(job, NOON))
    assert (done.outcome, done.row and done.row.state) == ("fired", "waiting")
    assert (await ledger.jobs.step(prompt(job, NOON))).outcome == "changed", "its next instant is another one"
    after = await ledger.jobs.get(job.id)
    assert after is not None
    assert (after.next_at, after.last_at) == (NOON + HOUR, NOON)
    assert len(await ledger.inbox.waiting()) == 1
    assert [(run.state, run.result) for run in await ledger.jobs.log(job.id, 9)] == [("fired", "waiting")]


@pytest.mark.files
async def test_an_instant_that_fired_never_fires_again_even_if_the_job_says_so(tmp_path: Path, clock: ManualClock) -> None:
    path = tmp_path / "ledger.sqlite"
    for kind, step in (("prompt", prompt), ("message", reminder)):
        first = await open_at(path, clock)
        job = await first.jobs.add(replace(WATER, kind=kind), NOON, "UTC")
        await first.jobs.step(step(job, NOON))
        await first.jobs.remove(job.id)
        again = await first.jobs.add(replace(WATER, kind=kind), NOON, "UTC")
        await first.close()
        rewritten(path, "UPDATE job SET id = ? WHERE id = ?", (job.id, again.id))
        second = await open_at(path, clock)
        for row in await second.inbox.waiting():
            await second.inbox.settle([row.id], "answered")
        assert (await second.jobs.step(step(job, NOON))).outcome == "known", (
            "the log is gone, and the message is known nevertheless"
        )
        await second.close()


def rewritten(path: Path, sql: str, values: tuple[str, ...]) -> None:
    db = apsw.Connection(str(path))
    db.execute(sql, values)
    db.close()


async def test_a_reminder_is_queued_and_its_conversation_is_told(ledger: Ledger) -> None:
    job = await ledger.jobs.add(WATER, NOON, "UTC")
    assert (await ledger.jobs.step(reminder(job, NOON))).outcome == "fired"
    (chunk,) = await ledger.outbox.due(["telegram:default"])
    assert chunk.text == "Water the plants."
    assert [event.line for event in await ledger.context_events.pending(HOME.address)] == ["reminded"]


async def test_while_a_run_is_not_answered_the_next_one_is_skipped_and_logged(ledger: Ledger) -> None:
    job = await ledger.jobs.add(replace(WATER, kind="prompt"), NOON, "UTC")
    first = await ledger.jobs.step(prompt(job, NOON))
    assert first.row is not None
    turn = None
    for n in range(1, 4):
        if n == 2:
            turn = await ledger.turns.claim("s", "main", [first.row.id])
        assert (await ledger.jobs.step(prompt(job, NOON + n * HOUR))).outcome == "busy"
    assert turn is not None
    await ledger.turns.finish(turn.id, "done")
    assert (await ledger.jobs.step(prompt(job, NOON + 4 * HOUR))).outcome == "fired"
    log = [(run.instant - NOON, run.state, run.result) for run in await ledger.jobs.log(job.id, 9)]
    assert log == [
        (4 * HOUR, "fired", "waiting"),
        *((n * HOUR, "skipped", None) for n in (3, 2, 1)),
        (0 * HOUR, "fired", "done"),
    ]


async def test_a_run_by_hand_changes_nothing_of_the_schedule(ledger: Ledger) -> None:
    job = await ledger.jobs.add(replace(WATER, kind="prompt"), NOON + HOUR, "UTC")
    await ledger.jobs.pause(job.id, "")
    at = NOON + timedelta(minutes=3)
    step = JobStep(job=job.id, by_hand=True, fire=at, arrival=arrival(job, at))
    assert (await ledger.jobs.step(step)).outcome == "fired"
    after = await ledger.jobs.get(job.id)
    assert after is not None
    assert (after.state, after.last_at) == ("paused", None)
    (run,) = await ledger.jobs.log(job.id, 9)
    assert run.by_hand


@pytest.mark.parametrize("kind", ["message", "prompt"])
async def test_a_job_whose_chat_refuses_twice_in_a_row_is_paused(ledger: Ledger, clock: ManualClock, kind: Any) -> None:
    job = await ledger.jobs.add(replace(WATER, kind=kind), NOON, "UTC")

    async def run(number: int, end: str) -> str:
        at = NOON + number * HOUR
        clock.set(at)
        done = await ledger.jobs.step((prompt if kind == "prompt" else reminder)(job, at))
        if done.row is not None:
            turn = await ledger.turns.claim("s", "main", [done.row.id])
            await ledger.turns.finish(turn.id, "done", [NewOutbound(conversation=HOME, text="the plants are dry")])
        for chunk in await ledger.outbox.due(["telegram:default"]):
            await ledger.outbox.sending(chunk.id)
            await (ledger.outbox.sent(chunk.id, "1") if end == "sent" else ledger.outbox.dead(chunk.id, end))
        return done.outcome

    refused = "Forbidden: bot was kicked from the group chat"
    ends = [refused, "sent", refused, "may have arrived: timeout", refused, "expired", refused, refused]
    assert [await run(n, end) for n, end in enumerate(ends)] == ["fired"] * len(ends)
    assert await run(len(ends), "sent") == "refused"
    after = await ledger.jobs.get(job.id)
    assert after is not None
    assert (after.state, after.reason, after.next_at) == ("paused", refused, None)
    clock.move(60)
    await ledger.jobs.change(replace(after, state="active", next_at=clock.now(), reason=""))
    assert (await ledger.jobs.step((prompt if kind == "prompt" else reminder)(job, clock.now()))).outcome == "fired", (
        "it was resumed"
    )


async def test_a_job_ends_after_its_only_instant(ledger: Ledger) -> None:
    job = await ledger.jobs.add(WATER, NOON, "UTC")
    await ledger.jobs.step(replace(reminder(job, NOON), next_at=None))
    after = await ledger.jobs.get(job.id)
    assert after is not None
    assert (after.state, after.next_at) == ("done", None)
    assert await ledger.jobs.earliest() is None


async def test_the_log_keeps_the_newest_runs_and_the_sweep_forgets_old_ones(ledger: Ledger, clock: ManualClock) -> None:
    job = await ledger.jobs.add(WATER, NOON, "UTC")
    ended = await ledger.jobs.add(WATER, NOON, "UTC")
    await ledger.jobs.step(replace(reminder(ended, NOON), next_at=None))
    for n in range(KEPT_RUNS + 20):
        at = NOON + n * HOUR
        out = LeftOut(first=at, until=at, state="skipped", reason="off")
        await ledger.jobs.step(JobStep(job=job.id, due=at, left_out=out, next_at=at + HOUR))
    log = await ledger.jobs.log(job.id, 1000)
    assert len(log) == KEPT_RUNS
    assert log[0].instant == NOON + (KEPT_RUNS + 19) * HOUR
    clock.move(40 * 86_400)
    while await ledger.sweep():
        pass
    assert await ledger.jobs.log(job.id, 1000) == []
    assert [one.id for one in await ledger.jobs.all()] == [job.id]


async def test_instants_that_were_left_out_are_found_when_the_clock_was_set_back(ledger: Ledger) -> None:
    job = await ledger.jobs.add(WATER, NOON, "UTC")
    out = LeftOut(first=NOON, until=NOON + 4 * HOUR, state="missed", reason="off")
    span = (NOON, NOON + 4 * HOUR)
    await ledger.jobs.step(JobStep(job=job.id, due=NOON, left_out=out, skipped=(span,), next_at=NOON + 5 * HOUR))
    assert [one.id for one in await ledger.jobs.skipped_ahead(NOON + HOUR)] == [job.id]
    assert await ledger.jobs.skipped_ahead(NOON + 4 * HOUR) == []
    await ledger.jobs.reckon(replace(job, next_at=NOON + 2 * HOUR))
    ((found,), _) = await ledger.jobs.due(NOON + 2 * HOUR)
    assert (await ledger.jobs.step(reminder(found, NOON + 2 * HOUR))).outcome == "fired"
    assert {(run.state, run.instant) for run in await ledger.jobs.log(job.id, 9)} == {
        ("missed", NOON),
        ("fired", NOON + 2 * HOUR),
    }


async def lived(path: Path) -> None:
    """A ledger whose jobs were changed after its only copy: 0 has fired and has another text, 1 is gone, 9 is new."""
    clock = ManualClock(NOON)
    ledger = await open_at(path, clock)
    jobs = [
        await ledger.jobs.add(replace(WATER, name=f"job{n}", text=f"{n} " + "w" * 700), NOON + HOUR, "UTC") for n in range(9)
    ]
    await ledger.backup()
    clock.set(NOON + HOUR)
    await ledger.jobs.step(reminder(jobs[0], NOON + HOUR))
    found = await ledger.jobs.get(jobs[0].id)
    assert found is not None
    await ledger.jobs.change(replace(found, text="another text"))
    await ledger.jobs.remove(jobs[1].id)
    await ledger.jobs.add(replace(WATER, name="job9"), NOON + 2 * HOUR, "UTC")
    await ledger.close()


async def jobs_in(path: Path) -> tuple[dict[str, Job], str]:
    ledger = await open_at(path, ManualClock(NOON + 2 * HOUR))
    found = {one.name: one for one in await ledger.jobs.all()}
    await ledger.close()
    return found, ledger.warning or ""


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("jobs") / "ledger.sqlite"
    asyncio.run(lived(path))
    return path


@pytest.mark.files
async def test_the_hourly_copy_gives_jobs_back_and_doubts_what_was_due_since(closed: Path, tmp_path: Path) -> None:
    shutil.copytree(closed.parent, tmp_path, dirs_exist_ok=True)
    (tmp_path / "ledger.sqlite").write_bytes(b"rubbish" * 9000)
    found, told = await jobs_in(tmp_path / "ledger.sqlite")
    assert sorted(found) == [f"job{number}" for number in range(9)], "the copy had no more"
    assert {one.state for one in found.values()} == {"active"}
    assert {one.unsure_until for one in found.values()} == {NOON + 2 * HOUR}
    assert "9 jobs" in told
    assert "homebody cron list" in told


@pytest.mark.files
@settings(max_examples=examples(25), deadline=None)
@given(damage=DAMAGE)
def test_damage_loses_no_job_and_makes_none_fire_twice(
    closed: Path, damage: list[tuple[Callable[..., None], int, int]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(closed.parent, folder, dirs_exist_ok=True)
        path = damaged(Path(folder) / "ledger.sqlite", damage)
        found, told = asyncio.run(jobs_in(path))
        assert found.keys() >= {"job0", *(f"job{number}" for number in range(2, 9))}
        fired = found["job0"]
        assert fired.last_at == NOON + HOUR or fired.unsure_until == NOON + 2 * HOUR, "it has fired at one o'clock"
        if "job1" in found:
            assert found["job1"].unsure_until is not None, "it was removed"
            assert "changed or removed" in told
        assert not told or IN_DOUBT not in told
