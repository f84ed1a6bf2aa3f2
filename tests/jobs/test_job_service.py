"""Jobs: added, changed, paused, run by hand, and fired when they are due."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from channels.messages import ChatAddress
from gateway.base.errors import UsageError
from gateway.ledger.job_rows import NewJob
from gateway.routing.routed_message import decode_received
from gateway.settings.quiet_hours import DailyHours, UnaskedRule
from memory.audience import Audience
from tests.jobs.bench import BERLIN, HOME, NOON, Bench

if TYPE_CHECKING:
    from pathlib import Path

    from gateway.ledger.job_rows import JobKind

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


async def test_a_reminder_is_sent_at_its_time_and_once(bench: Bench) -> None:
    job = await bench.add("in 20 minutes")
    await bench.until(NOON + 20 * MINUTE - timedelta(seconds=1))
    assert await bench.sent() == []
    await bench.until(NOON + 20 * MINUTE)
    assert await bench.sent() == ["⏰ Water the plants."]
    await bench.until(2 * DAY)
    assert await bench.sent() == []
    assert (await bench.jobs.find(job.id)).state == "done"
    assert bench.told == []


async def test_a_prompt_goes_to_the_agent_with_the_rules_of_its_job(bench: Bench) -> None:
    job = await bench.add(
        "tomorrow at 9",
        kind="prompt",
        session="isolated",
        model="m",
        tools=("read",),
        daily_usd=0.5,
        sources=("web:a",),
    )
    await bench.until("2026-11-24T09:00")
    (row,) = bench.handed
    message = decode_received(row)
    assert (row.account, message.inbound.text, message.inbound.conversation) == ("schedule", "Water the plants.", HOME)
    assert message.route is not None
    assert (message.route.session, message.route.agent) == (f"agent:main:job:{job.id}", "main")
    assert message.automation is not None
    rules = message.automation
    assert (rules.origin, rules.name, rules.source, rules.fresh) == ("schedule", "water", f"job:{job.id}", True)
    assert (rules.model, rules.allow, rules.daily_usd, rules.sources) == ("m", ("read",), 0.5, ("web:a",))
    assert f"{message.inbound.at:%H:%M}" == "08:00"


async def test_the_budget_of_a_job_that_is_done_can_be_raised_for_a_run_by_hand(bench: Bench) -> None:
    job = await bench.add("in 1 hour", kind="prompt", session="isolated", daily_usd=0.02)
    await bench.until(HOUR)
    assert (await bench.jobs.find(job.id)).state == "done"
    changed = await bench.jobs.change(job.id, daily_usd=0.8)
    assert (changed.state, changed.daily_usd) == ("done", 0.8)
    with pytest.raises(UsageError, match="no instant that is still to come"):
        await bench.jobs.change(job.id, daily_usd=0.9, text="Another text.")
    bench.clock.set(NOON + HOUR + MINUTE)
    await bench.jobs.run_now(job.id)
    automation = decode_received(bench.handed[-1]).automation
    assert automation is not None
    assert automation.daily_usd == 0.8


@pytest.mark.parametrize(
    ("more", "session"),
    [
        ({}, "agent:main:main"),
        ({"asked_in": "agent:main:telegram:group:-1", "audience": Audience("group", "g")}, "agent:main:telegram:group:-1"),
        ({"asked_in": "agent:main:main"}, "agent:main:main"),
    ],
)
async def test_a_prompt_in_the_main_session_is_in_that_of_who_asked(bench: Bench, more: dict[str, Any], session: str) -> None:
    await bench.add("in 1 hour", kind="prompt", **more)
    await bench.until(HOUR)
    route = decode_received(bench.handed[0]).route
    assert route is not None
    assert route.session == session


async def test_a_prompt_that_delivers_nowhere_is_silent(bench: Bench) -> None:
    await bench.add("in 1 hour", kind="prompt", deliver="none", session="isolated")
    await bench.until(HOUR)
    assert decode_received(bench.handed[0]).inbound.conversation.channel == "internal"


async def test_two_jobs_in_the_same_second_both_fire_in_the_order_of_adding(bench: Bench) -> None:
    for name in ("one", "two", "three"):
        await bench.add("0 18 * * *", text=name)
    await bench.until("2026-11-23T18:00")
    assert await bench.sent() == ["⏰ one", "⏰ two", "⏰ three"]


async def test_a_job_that_takes_longer_than_its_interval_never_queues_up(bench: Bench) -> None:
    bench.answers = False
    job = await bench.add("every 10 minutes", kind="prompt")
    await bench.until(HOUR)
    assert len(bench.handed) == 1
    await bench.ledger.inbox.settle([bench.handed[0].id], "answered")
    await bench.until(10 * MINUTE)
    assert len(bench.handed) == 2
    states = [state for _, state, _ in await bench.runs(job)]
    assert states == ["fired", *["skipped"] * 5, "fired"]
    assert (await bench.runs(job))[1][2] == "the run before it has not ended"


async def test_a_job_may_be_paused_resumed_changed_and_removed(bench: Bench) -> None:
    job = await bench.add("every 1 hour")
    await bench.jobs.pause(job.id)
    await bench.until(5 * HOUR)
    assert await bench.sent() == []
    resumed = await bench.jobs.resume(job.id)
    assert resumed.next_at == NOON + 6 * HOUR, "the hours of the meantime are not made up"
    changed = await bench.jobs.change(job.id, text="Feed the cat.", name="cat")
    assert changed.next_at == resumed.next_at
    await bench.until(HOUR)
    assert await bench.sent() == ["⏰ Feed the cat."]
    assert (await bench.jobs.find("CAT")).id == job.id
    assert (await bench.jobs.remove(job.id)).name == "cat"
    await bench.until(DAY)
    assert await bench.sent() == []
    with pytest.raises(UsageError, match="any more"):
        await bench.jobs.pause(job.id)


async def test_a_run_by_hand_is_logged_and_leaves_the_schedule_alone(bench: Bench) -> None:
    job = await bench.add("tomorrow at 9", kind="prompt")
    bench.answers = False
    run = await bench.jobs.run_now(job.id)
    assert (run.by_hand, run.state, run.result) == (True, "fired", "waiting")
    with pytest.raises(UsageError, match="not ended"):
        await bench.jobs.run_now(job.id)
    assert (await bench.jobs.find(job.id)).next_at == job.next_at


async def test_what_a_person_runs_by_hand_is_sent_in_quiet_hours(bench: Bench) -> None:
    bench.targets.quiet = DailyHours(start="00:00", end="23:59")
    job = await bench.add("every day at 9", urgent=False)
    task = await bench.add("every day at 9", kind="prompt", urgent=False, name="task")
    other = await bench.add("every day at 9", urgent=False, name="other")
    await bench.jobs.run_now(other.id, "the agent's call")
    assert await bench.sent() == []
    await bench.jobs.run_now(job.id, "pressed", by_person=True)
    assert await bench.sent() == ["⏰ Water the plants."]
    await bench.jobs.run_now(task.id, by_person=True)
    rules = decode_received(bench.handed[-1]).automation
    assert rules is not None
    assert rules.urgent
    assert not (await bench.jobs.find(task.id)).urgent, "its own firings wait as before"


async def test_a_job_is_found_by_its_id_or_its_only_name(bench: Bench) -> None:
    one = await bench.add("every 1 hour", name="one")
    await bench.add("every 1 hour", name="twin")
    await bench.add("every 1 hour", name="twin", agent="work")
    assert (await bench.jobs.find(f" {one.id.upper()} ")).id == one.id
    with pytest.raises(UsageError, match="several"):
        await bench.jobs.find("twin")
    assert (await bench.jobs.find("twin", "work")).agent == "work"
    with pytest.raises(UsageError, match="there is no job 'none'") as unknown:
        await bench.jobs.find("none")
    assert f"{one.id} (one)" in unknown.value.hint


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"text": "  "}, "the text of a job is empty"),
        ({"text": "w" * 8001}, "8001 characters"),
        ({"name": "n" * 81}, "81 characters"),
        ({"name": "two\nlines"}, "one line"),
        ({"schedule": "cron 99 * * * *"}, "schedule cannot be used"),
        ({"schedule": "every 0 since 2026-01-01T00:00:00+00:00"}, "schedule cannot be used"),
        ({"schedule": "at 2020-01-01T00:00:00"}, "schedule cannot be used"),
        ({"zone": "Mars/Phobos"}, "no time zone"),
        ({"catch_up_seconds": -1}, "made up"),
        ({"catch_up_seconds": 10**12}, "made up"),
        ({"deliver": "none"}, "sent somewhere"),
        ({"agent": "gone"}, "there is no 'gone'"),
    ],
)
async def test_values_that_cannot_be_used_are_refused(bench: Bench, values: dict[str, Any], says: str) -> None:
    bench.targets.gone = {"gone"}
    new = NewJob(agent="main", name="n", schedule="cron 0 9 * * *", kind="message", text="t")
    with pytest.raises(UsageError, match=says) as refused:
        await bench.jobs.add(replace(new, **values))
    assert refused.value.hint
    assert await bench.jobs.list() == []


async def test_a_guest_may_have_so_many_jobs_and_no_more(bench: Bench) -> None:
    guest = {"owner": False, "asked_in": "agent:main:telegram:dm:9", "deliver": replace(HOME, id="9")}
    for _ in range(20):
        await bench.add("every 1 hour", **guest)
    with pytest.raises(UsageError, match="20 jobs"):
        await bench.add("every 1 hour", **guest)
    await bench.add("every 1 hour")


async def test_an_instant_that_has_just_passed_fires_at_once(bench: Bench) -> None:
    bench.clock.move(59)
    await bench.add("2026-11-23 12:00")
    await bench.jobs.fire_due()
    assert [text.splitlines()[0] for text in await bench.sent()] == ["⏰ Water the plants."]


async def test_a_job_that_is_done_may_get_another_time(bench: Bench) -> None:
    job = await bench.add("in 1 hour")
    await bench.until(2 * HOUR)
    assert await bench.sent() == ["⏰ Water the plants."]
    with pytest.raises(UsageError, match="still to come"):
        await bench.jobs.change(job.id, text="Again.")
    with pytest.raises(UsageError, match="has passed"):
        await bench.jobs.resume(job.id)
    again = await bench.jobs.change(job.id, schedule=f"at {(NOON + 3 * HOUR).isoformat()}", text="Again.")
    assert again.state == "active"
    await bench.until(HOUR)
    assert await bench.sent() == ["⏰ Again."]


@pytest.mark.parametrize("what", ["main", "m"])
async def test_a_job_whose_agent_or_model_is_gone_is_told_once_and_paused(bench: Bench, what: str) -> None:
    job = await bench.add("every 1 hour", kind="prompt", model="m")
    bench.targets.gone = {what}
    await bench.until(5 * HOUR)
    assert len(bench.told) == 1
    assert f"there is no '{what}' any more" in bench.told[0]
    assert f"Add {what}." in bench.told[0]
    assert f"homebody cron resume {job.id}" in bench.told[0]
    assert (await bench.jobs.find(job.id)).state == "paused"
    with pytest.raises(UsageError, match="any more"):
        await bench.jobs.resume(job.id)
    bench.targets.gone = set()
    await bench.jobs.resume(job.id)
    await bench.until(HOUR)
    assert len(bench.handed) == 1


async def test_a_job_whose_chat_refuses_is_told_once_and_paused(bench: Bench) -> None:
    job = await bench.add("every 1 hour", deliver=ChatAddress(channel="telegram", kind="group", id="-5"))
    for _ in range(4):
        await bench.until(HOUR)
        for chunk in await bench.ledger.outbox.due(["telegram:default"]):
            await bench.ledger.outbox.sending(chunk.id)
            await bench.ledger.outbox.dead(chunk.id, "Forbidden: bot was kicked")
    assert (await bench.jobs.find(job.id)).state == "paused"
    (told,) = bench.told
    assert "Forbidden: bot was kicked" in told
    assert f"homebody cron resume {job.id}" in told


async def test_a_reminder_in_quiet_hours_is_held_once_and_an_urgent_one_is_not(bench: Bench) -> None:
    bench.targets.quiet = DailyHours(start="22:00", end="07:00")
    job = await bench.add("0 * * * *")
    await bench.add("0 23 * * *", text="Urgent.", urgent=True)
    for _ in range(10):
        await bench.until(HOUR)
        await bench.sent()
    await bench.until("2026-11-24T06:59")
    assert await bench.sent() == ["⏰ Urgent."]
    assert [state for at, state, _ in await bench.runs(job) if "Tue" in at or at == "Mon 23:00"] == ["skipped"] * 8
    assert {why for at, _, why in await bench.runs(job) if "Tue" in at} == {
        "what was due before it is held until quiet hours end"
    }
    assert (await bench.jobs.log(job.id, 20))[-1].result == "done"
    await bench.until("2026-11-24T07:00")
    await bench.ledger.unasked.release({"main": UnaskedRule(zone=BERLIN, quiet=bench.targets.quiet)})
    assert await bench.sent() == ["⏰ Water the plants."]
    await bench.until(HOUR)
    assert await bench.sent() == ["⏰ Water the plants."]


async def test_jobs_go_on_in_the_next_process(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "ledger.sqlite")
    async with bench.process():
        await bench.add("every 1 hour")
        await bench.until(HOUR)
    async with bench.process():
        assert await bench.sent() == ["⏰ Water the plants."]
        await bench.until(HOUR)
        assert await bench.sent() == ["⏰ Water the plants."]


@pytest.mark.parametrize("kind", ["message", "prompt"])
async def test_a_request_to_run_it_now_that_is_repeated_long_after_runs_it_once(bench: Bench, kind: JobKind) -> None:
    job = await bench.add("every day at 9", kind=kind)
    for minutes in (0, 5, 60):
        bench.clock.set(bench.clock.now() + timedelta(minutes=minutes))
        await bench.jobs.run_now(job.id, "turn-7/c1")
        await bench.sent()
    assert len([run for run in await bench.jobs.log(job.id) if run.state == "fired"]) == 1
    await bench.jobs.run_now(job.id, "turn-8/c1")
    assert len([run for run in await bench.jobs.log(job.id) if run.state == "fired"]) == 2, "another request is another run"


async def test_a_repeat_while_the_run_is_at_work_is_no_error(bench: Bench) -> None:
    bench.answers = False
    job = await bench.add("every day at 9", kind="prompt")
    await bench.jobs.run_now(job.id, "turn-7/c1")
    await bench.jobs.run_now(job.id, "turn-7/c1")
    with pytest.raises(UsageError, match="has not ended yet"):
        await bench.jobs.run_now(job.id, "turn-8/c1")
    assert len(bench.handed) == 1


async def test_jobs_of_an_agent_that_is_not_here_wait_until_it_is(bench: Bench) -> None:
    """Where a cluster's gateway has the lease on an agent and has not taken it up yet."""
    job = await bench.add("in 20 minutes")
    bench.targets.gone = {"main"}
    bench.jobs.here = lambda agent: agent not in bench.targets.gone
    bench.clock.set(NOON + 21 * MINUTE)
    await bench.jobs.fire_due()
    assert (await bench.jobs.find(job.id)).state == "active"
    bench.targets.gone = set()
    await bench.jobs.look_again()
    await bench.jobs.fire_due()
    assert [text.splitlines()[0] for text in await bench.sent()] == ["⏰ Water the plants."]
