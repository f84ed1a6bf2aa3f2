"""Instants that nobody was there for: sleep, restarts, clocks that are set, zones that change, and a ledger that was damaged."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from gateway.base.errors import StorageFailed
from gateway.jobs.job_words import named
from gateway.jobs.planning import NOT_RUNNING
from tests.jobs.bench import BERLIN, NOON, Bench

if TYPE_CHECKING:
    from pathlib import Path

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


def sleep(bench: Bench, span: timedelta) -> None:
    bench.clock.set(bench.clock.now() + span)


async def test_after_sleep_the_latest_instant_fires_once_and_the_others_are_logged(bench: Bench) -> None:
    job = await bench.add("every 1 hour", kind="prompt")
    sleep(bench, 5 * HOUR + HOUR / 2)
    await bench.jobs.fire_due()
    assert len(bench.handed) == 1
    log = await bench.jobs.log(job.id)
    assert [(run.state, run.instant - NOON, run.reason) for run in log] == [
        ("fired", 5 * HOUR, ""),
        ("skipped", HOUR, NOT_RUNNING),
    ]
    assert log[1].until == NOON + 4 * HOUR
    assert bench.told == []
    assert bench.jobs.next_due == NOON + 6 * HOUR


async def test_a_late_reminder_says_that_it_is_late(bench: Bench) -> None:
    await bench.add("in 1 hour")
    sleep(bench, 3 * HOUR)
    await bench.jobs.fire_due()
    assert await bench.sent() == [
        "⏰ Water the plants.\n(It was due on Mon 23 Nov, 13:00; Homebody was not running then, or the clock was set.)"
    ]


@pytest.mark.parametrize(("kind", "limit"), [("prompt", 2 * HOUR), ("message", DAY)])
async def test_what_is_too_late_is_told_in_one_line(tmp_path: Path, kind: str, limit: timedelta) -> None:
    for late in (limit, limit + timedelta(seconds=1)):
        bench = Bench(tmp_path / f"{late}" / "ledger.sqlite")
        async with bench.process():
            job = await bench.add("in 1 hour", kind=kind)
        sleep(bench, HOUR + late)
        async with bench.process():
            fired = len(bench.handed) + len(await bench.sent())
            if late == limit:
                assert (fired, bench.told) == (1, [])
                continue
            assert fired == 0
            assert bench.told == [
                (
                    f"⏰ “water” was due on Mon 23 Nov, 13:00 and did not run: Homebody was not running then, or the clock was set. "
                    f"Run it now: `homebody cron run {job.id}`"
                )
            ]
            assert (await bench.jobs.find(job.id)).state == "done"
            bench.told.clear()
            await bench.until(2 * DAY)
            assert bench.told == [], "once"


async def test_a_job_names_its_own_limit(bench: Bench) -> None:
    await bench.add("every 1 hour", catch_up_seconds=60)
    sleep(bench, HOUR + timedelta(seconds=61))
    await bench.jobs.fire_due()
    assert await bench.sent() == []
    assert len(bench.told) == 1
    sleep(bench, HOUR - timedelta(seconds=1))
    await bench.jobs.fire_due()
    assert len(await bench.sent()) == 1


async def test_a_missed_job_is_told_with_what_is_stored_of_it_or_not_at_all(bench: Bench) -> None:
    job = await bench.add("in 1 hour")
    await bench.add("every 1 hour", kind="prompt")
    bench.clock.set(bench.clock.now() + timedelta(days=2))
    bench.refuses = True
    for _ in range(2):
        with pytest.raises(StorageFailed):
            await bench.jobs.fire_due()
    assert bench.told == []
    bench.refuses = False
    await bench.jobs.fire_due()
    (told,) = bench.told
    assert job.id in told
    queued = [chunk.text for chunk in await bench.ledger.outbox.latest(["ready"])]
    assert queued == [told]
    assert len(bench.handed) == 1, "the other one is made up"


@pytest.mark.sec(6)
async def test_in_a_notice_a_jobs_name_is_no_link(bench: Bench) -> None:
    job = await bench.add("in 1 hour", kind="prompt", name="[tap](https://evil.example) **now**")
    sleep(bench, 4 * HOUR)
    await bench.jobs.fire_due()
    (told,) = bench.told
    assert "“`[tap](https://evil.example) **now**`” was due" in told
    assert named(job).startswith("Task “`[tap](https://evil.example) **now**`”")


async def test_many_missed_jobs_are_told_in_one_message(bench: Bench) -> None:
    for _ in range(25):
        await bench.add("in 1 hour", kind="prompt")
    sleep(bench, 4 * HOUR)
    await bench.jobs.fire_due()
    (told,) = bench.told
    assert told.count("homebody cron run") == 10
    assert "and 15 more jobs: `homebody cron list` shows them all." in told


async def test_a_clock_set_back_fires_nothing_twice_and_forgets_nothing(bench: Bench) -> None:
    job = await bench.add("every 1 hour", kind="prompt")
    await bench.until(3 * HOUR)
    assert len(bench.handed) == 3
    sleep(bench, -2 * HOUR)
    await bench.jobs.fire_due()
    await bench.until(2 * HOUR)
    assert len(bench.handed) == 3
    await bench.until(HOUR)
    assert len(bench.handed) == 4
    assert [state for _, state, _ in await bench.runs(job)] == ["fired"] * 4


async def test_a_clock_that_was_years_ahead_for_a_while_stops_no_job(bench: Bench) -> None:
    job = await bench.add("0 * * * *", kind="prompt")
    once = await bench.add("in 7 hours", kind="prompt")
    await bench.until(2 * HOUR)
    sleep(bench, timedelta(days=1500))
    await bench.jobs.fire_due()
    await bench.until(3 * HOUR)
    ahead = len(bench.handed)
    assert [told for told in bench.told if once.id in told], "it was told as missed"
    sleep(bench, -timedelta(days=1500))
    await bench.jobs.fire_due()
    await bench.until(4 * HOUR)
    fired = [run.instant for run in await bench.jobs.log(job.id, 50) if run.state == "fired"]
    assert len(fired) == len(set(fired))
    back = [instant for instant in fired if instant < NOON + 100 * DAY]
    assert max(back) == bench.clock.now().replace(minute=0)
    assert len(bench.handed) == ahead + 4 + 1, "four hours and what is due once, which was left out while the clock was ahead"
    assert bench.jobs.next_due == max(back) + HOUR


async def test_an_hour_that_passed_while_the_clock_was_set_forward_is_made_up(bench: Bench) -> None:
    job = await bench.add("0 18 * * *", kind="prompt")
    await bench.until("2026-11-23T17:30")
    sleep(bench, HOUR)
    await bench.jobs.fire_due()
    assert [one[:2] for one in await bench.runs(job)] == [("Mon 18:00", "fired")]
    sleep(bench, -HOUR)
    await bench.until("2026-11-23T19:00")
    assert [one[:2] for one in await bench.runs(job)] == [("Mon 18:00", "fired")]


async def test_jobs_follow_the_owner_to_another_zone_unless_they_name_their_own(bench: Bench) -> None:
    follows = await bench.add("0 9 * * *", kind="prompt")
    stays = await bench.add("0 9 * * *", kind="prompt", zone="Europe/Berlin")
    elapsed = await bench.add("every 24 hours", kind="prompt")
    await bench.until("2026-11-24T09:00")
    bench.targets.zones["main"] = "America/New_York"
    await bench.jobs.fire_due()
    found = {job.id: job.next_at for job in await bench.jobs.list()}
    assert found[follows.id] == datetime(2026, 11, 24, 14, tzinfo=UTC)
    assert found[stays.id] == datetime(2026, 11, 25, 8, tzinfo=UTC)
    assert found[elapsed.id] == NOON + DAY


async def test_a_zone_that_changed_while_nobody_was_there_makes_up_by_the_old_one(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "ledger.sqlite")
    async with bench.process():
        job = await bench.add("0 13 * * *", kind="prompt")
    sleep(bench, 2 * HOUR)
    bench.targets.zones["main"] = "Asia/Tokyo"
    async with bench.process():
        assert len(bench.handed) == 1
        assert (await bench.jobs.find(job.id)).next_at == datetime(2026, 11, 24, 4, tzinfo=UTC)


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ("2027-03-27T12:00", "2027-03-29T12:00", ["Sun 03:00", "Mon 02:30"]),
        ("2027-10-30T12:00", "2027-11-01T12:00", ["Sun 02:30", "Mon 02:30"]),
    ],
)
async def test_both_changes_of_the_clock(tmp_path: Path, start: str, end: str, expected: list[str]) -> None:
    bench = Bench(tmp_path / "ledger.sqlite", datetime.fromisoformat(start).replace(tzinfo=BERLIN).astimezone(UTC))
    async with bench.process():
        job = await bench.add("30 2 * * *", kind="prompt")
        hours = await bench.add("0 * * * *", kind="prompt")
        await bench.until(end)
        assert [at for at, _, _ in await bench.runs(job)] == expected
        assert len({run.instant for run in await bench.jobs.log(hours.id, 60)}) == (47 if "03" in start[5:7] else 49)


async def test_what_may_have_fired_before_the_ledger_was_damaged_is_told_and_not_repeated(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    bench = Bench(path)
    async with bench.process():
        job = await bench.add("every 1 hour", kind="prompt")
        later = await bench.add("in 5 hours", kind="prompt")
        await bench.ledger.backup()
        await bench.until(HOUR)
        assert len(bench.handed) == 1
    path.write_bytes(b"rubbish" * 9000)
    shutil.rmtree(f"{path}-wal", ignore_errors=True)
    async with bench.process():
        assert len(bench.handed) == 1, "it has fired"
        (told,) = bench.told
        assert "“water” was due on Mon 23 Nov, 13:00 and may have run: the ledger is from a backup or was damaged" in told
        assert f"homebody cron run {job.id}" in told
        await bench.until(HOUR)
        assert len(bench.handed) == 2, "it goes on"
        assert {one.id for one in await bench.jobs.list()} == {job.id, later.id}
        await bench.until(4 * HOUR)
        assert (await bench.jobs.find(later.id)).state == "done"
        assert len(bench.told) == 1


async def test_starts_with_a_clock_that_is_wrong_in_both_directions_stop_no_job_and_tell_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "ledger.sqlite", NOON)
    async with bench.process():
        daily = await bench.add("0 9 * * *", kind="prompt")
        often = await bench.add("every 2 hours")
        once = await bench.add("in 3 days")
        await bench.until(2 * DAY)
    right = bench.clock.now()
    for wrong in (40 * DAY, -400 * DAY, -20_000 * DAY, 3 * DAY, -20_000 * DAY):
        bench.clock.set(right + wrong)
        async with bench.process():
            await bench.until(HOUR)
    bench.told.clear()
    bench.clock.set(right + MINUTE)
    async with bench.process():
        assert bench.told == []
        await bench.sent()
        due = {job.id: job.next_at for job in await bench.jobs.list()}
        assert due[often.id] == right + 2 * HOUR
        assert due[once.id] == NOON + 3 * DAY
        assert due[daily.id] == datetime(2026, 11, 26, 8, tzinfo=UTC)
        await bench.until(2 * DAY)
        fired = [(step.job, step.fire) for _, step, result in bench.steps if result.outcome == "fired"]
        assert len(fired) == len(set(fired))
        assert (once.id, NOON + 3 * DAY) in fired
        assert {(daily.id, due[daily.id]), (daily.id, due[daily.id] + DAY)} <= set(fired)


async def test_a_repeated_job_that_is_made_while_the_clock_is_ahead_runs_when_it_is_right_again(bench: Bench) -> None:
    sleep(bench, 40 * DAY)
    await bench.jobs.fire_due()
    job = await bench.add("every 2 hours", kind="prompt")
    sleep(bench, -40 * DAY)
    await bench.jobs.fire_due()
    await bench.until(4 * HOUR)
    assert [state for _, state, _ in await bench.runs(job)] == ["fired"] * 2
