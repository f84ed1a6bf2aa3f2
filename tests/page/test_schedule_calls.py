"""The page's calendar of jobs."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from gateway.api.answers import json_answer
from gateway.api.handlers.job_calendar import MOST_OF_JOB
from gateway.api.handlers.job_requests import JobHandlers
from gateway.base.errors import UsageError
from gateway.ledger.spending_rows import NewCall, Spent
from tests.page.desk import Desk, desk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[Desk]:
    async with desk(tmp_path, agents={"defaults": {"userTimezone": "Europe/Berlin"}}) as made:
        made.calls |= JobHandlers(
            made.house.automation.jobs, made.house.deps.clock, settings=lambda: made.house.settings.current
        ).calls()
        yield made


async def test_the_days_have_the_instants_of_jobs_in_the_owners_time(page: Desk) -> None:
    job = (await page("jobs.add", when="every day at 7:30", text="Water the plants"))["job"]["id"]
    found = await page("jobs.calendar", start="2026-03-02", days=7)
    assert (found["zone"], found["today"], found["start"]) == ("Europe/Berlin", "2026-03-01", "2026-03-02")
    assert found["due"] == [{"job": job, "at": f"2026-03-0{day}T07:30+01:00"} for day in range(2, 9)]
    assert found["jobs"][0]["words"] == "At 07:30 every day"


async def test_the_clock_change_does_not_move_a_job_on_the_calendar(page: Desk) -> None:
    await page("jobs.add", when="every day at 7:30", text="x")
    found = await page("jobs.calendar", start="2026-03-28", days=2)
    assert [one["at"] for one in found["due"]] == ["2026-03-28T07:30+01:00", "2026-03-29T07:30+02:00"]


async def test_a_moved_job_and_a_paused_one_show_at_once(page: Desk) -> None:
    job = (await page("jobs.add", when="2026-03-03 09:00", text="x"))["job"]["id"]
    await page("jobs.change", job=job, when="2026-03-04 10:00")
    found = await page("jobs.calendar", start="2026-03-02", days=7)
    assert found["due"] == [{"job": job, "at": "2026-03-04T10:00+01:00"}]
    await page("jobs.pause", job=job)
    assert (await page("jobs.calendar", start="2026-03-02", days=7))["due"] == []


async def test_a_job_of_every_minute_does_not_fill_the_calendar(page: Desk) -> None:
    job = (await page("jobs.add", when="every 1 minute", text="x"))["job"]["id"]
    found = await page("jobs.calendar", start="2026-03-02", days=7)
    assert (len(found["due"]), found["oftener"]) == (MOST_OF_JOB, [job])
    assert found["due"][0]["at"].startswith("2026-03-02T00:0")


async def test_past_runs_stand_on_their_day_and_costs_beside_their_job(page: Desk) -> None:
    job = (await page("jobs.add", when="every day at 7:30", text="x"))["job"]["id"]
    await page("jobs.run", job=job)
    spending = page.house.ledger.spending
    call = NewCall(
        day="2026-03-01", agent="main", session="s", model="m", background=False, tokens=9, usd=1.0, source=f"job:{job}"
    )
    row = (await spending.reserve(call, [])).row
    assert row is not None
    await spending.settle_call(row, Spent(input=5, output=2, cost=0.25))
    found = await page("jobs.calendar", start="2026-03-01", days=1)
    (run,) = found["runs"]
    assert (run["job"], run["state"], run["byHand"]) == (job, "fired", True)
    assert found["costs"][job] == {"calls": 1, "usd": 0.25, "tokens": 7, "unpriced": 0}


async def test_a_typed_schedule_is_said_in_words_before_it_is_saved(page: Desk) -> None:
    found = await page("jobs.preview", when="every weekday at 9")
    assert found["words"] == "At 09:00 on Monday through Friday"
    assert found["next"] == [f"2026-03-0{day}T09:00:00+01:00" for day in (2, 3, 4)]
    once = await page("jobs.preview", when="tomorrow at 9", zone="Asia/Tokyo")
    assert (once["once"], once["next"]) == (True, ["2026-03-02T01:00:00+01:00"])
    wrong = await page("jobs.preview", when="when the cows come home")
    assert "every weekday" in wrong["hint"]
    assert wrong["problem"]
    assert (await page("jobs.calendar", start="2026-03-01", days=7))["jobs"] == []


@pytest.mark.parametrize(("start", "days"), [("x", 7), ("2026-03-01", 0), ("2026-03-01", 63), ("9999-12-31", 7), ("", 1)])
async def test_a_span_that_is_none_is_refused(page: Desk, start: str, days: int) -> None:
    with pytest.raises(UsageError, match="no span of a calendar"):
        await page("jobs.calendar", start=start, days=days)


@pytest.mark.parametrize("usd", [float("inf"), float("nan"), float("-inf"), -1, True, "5"])
async def test_a_budget_that_is_no_finite_amount_is_refused(page: Desk, usd: object) -> None:
    with pytest.raises(UsageError, match="no budget of a day"):
        await page("jobs.add", when="every day at 9", text="x", kind="task", daily_usd=usd)
    job = (await page("jobs.add", when="every day at 9", text="x", kind="task", daily_usd=0.5))["job"]["id"]
    with pytest.raises(UsageError, match="no budget of a day"):
        await page("jobs.change", job=job, daily_usd=usd)
    assert (await page("jobs.show", job=job))["job"]["usdPerDay"] == 0.5


async def test_the_calendar_shows_jobs_that_an_earlier_version_stored_wrongly(page: Desk) -> None:
    stored = page.house.ledger.jobs
    for number, change in enumerate(({"daily_usd": math.inf}, {"daily_usd": math.nan}, {"schedule": "cron:nonsense"})):
        added = (await page("jobs.add", when="every day at 9", text=f"x{number}", kind="task"))["job"]["id"]
        job = await stored.get(added)
        assert job is not None
        await stored.change(replace(job, **change))
    found = await page("jobs.calendar", start="2026-03-02", days=1)
    assert {(one["name"], one["usdPerDay"]) for one in found["jobs"]} == {("x0", None), ("x1", None), ("x2", None)}
    assert {one["at"] for one in found["due"]} == {"2026-03-02T09:00+01:00"}
    json.dumps(found, allow_nan=False)


def test_no_answer_holds_numbers_that_json_lacks() -> None:
    assert json_answer({"a": [math.inf, 1.5, (math.nan,)], "b": True}).body == b'{"a": [null, 1.5, [null]], "b": true}'
