"""Jobs in a whole gateway: the scheduler, the queue, a model and the terminal."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from channels.messages import ChatAddress
from channels.terminal.channel import LOCAL
from gateway.base.errors import UsageError
from gateway.ledger.job_rows import Job, NewJob
from gateway.schedules.parsing import parse_schedule
from gateway.schedules.schedule import to_text
from tests.gateway.conftest import street
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gateway.app.gateway import Gateway
    from tests.gateway.conftest import Street

    Make = Callable[..., Street]

__all__ = ["street"]

HERE = ChatAddress(channel="terminal", kind="direct", id=LOCAL)


async def add(house: Gateway, schedule: str, **more: Any) -> Job:
    jobs = house.automation.jobs
    now = house.deps.clock.now()
    read = parse_schedule(schedule, zone=jobs.targets.zone("main"), now=now)
    return await jobs.add(
        NewJob(
            **{"agent": "main", "name": "water", "schedule": to_text(read), "kind": "message", "text": "Water the plants."}
            | more
        )
    )


async def results(house: Gateway, job: Job, wanted: list[str | None]) -> None:
    async with asyncio.timeout(PATIENCE):
        while [run.result for run in await house.automation.jobs.log(job.id)] != wanted:  # noqa: ASYNC110  (nobody announces it)
            await asyncio.sleep(0.02)


async def test_a_reminder_needs_no_model_and_the_conversation_knows_of_it(street: Make) -> None:
    s = street()
    s.model.reply_with(lambda _: "You are welcome.")
    async with s.house() as (house, talk):
        job = await add(house, "in 20 minutes")
        s.clock.move(20 * 60)
        await house.schedule.tick()
        await talk.until(lambda: talk.replies() == ["⏰ Water the plants."])
        assert s.model.requests == []
        await results(house, job, ["done"])
        await talk.ask("thanks, done")
        assert "reminder “water” of" in str(s.model.requests[0].messages)


async def test_what_one_agent_sent_in_the_terminal_is_told_to_no_other_that_speaks_there(street: Make, tmp_path: Path) -> None:
    s = street(
        agents={
            "defaults": {"model": "scripted/model", "userTimezone": "UTC"},
            "list": [
                {"id": "main", "workspace": str(tmp_path / "workspace")},
                {"id": "work", "workspace": str(tmp_path / "work")},
            ],
        }
    )
    s.model.reply_with(lambda _: "Well.")
    async with s.house() as (house, talk):
        await add(house, "in 20 minutes", agent="work")
        s.clock.move(20 * 60)
        await house.schedule.tick()
        await talk.until(lambda: len(talk.replies()) == 1)
        await talk.ask("hello", agent="main")
        assert "reminder “water” of" not in str(s.model.requests[-1].messages)
        await talk.ask("thanks", agent="work")
        assert "reminder “water” of" in str(s.model.requests[-1].messages)
        await talk.ask("and now?", agent="work")
        assert str(s.model.requests[-1].messages).count("reminder “water” of") == 1


async def test_a_held_reminder_and_one_that_is_due_when_quiet_hours_end_both_come_at_their_end(street: Make) -> None:
    s = street(agent={"quietHours": {"start": "10:00", "end": "11:30"}})
    async with s.house() as (house, talk):
        job = await add(house, "every 30 minutes")
        s.clock.set(datetime(2026, 3, 1, 10, 1, tzinfo=UTC))
        await house.schedule.tick()
        assert talk.replies() == []
        s.clock.set(datetime(2026, 3, 1, 10, 30, 1, tzinfo=UTC))
        await house.schedule.tick()
        await talk.until(lambda: len(talk.replies()) == 2)
        runs = await house.automation.jobs.log(job.id)
        assert [run.state for run in runs] == ["fired", "fired"]


async def test_a_prompt_is_answered_in_a_session_of_its_own_that_begins_anew_each_time(street: Make) -> None:
    s = street()
    s.model.reply_with(lambda _: "The plants are dry.")
    async with s.house() as (house, talk):
        job = await add(house, "every 1 hour", kind="prompt", session="isolated", text="Look at the plants.")
        sessions = set()
        for n in range(1, 3):
            s.clock.move(3600)
            await house.schedule.tick()
            await talk.until(lambda n=n: len(talk.replies()) == n)
            await results(house, job, ["done"] * n)
            record = house.agents["main"].store.get(job.session_key)
            assert record is not None
            sessions.add(record.session)
        assert talk.replies() == ["The plants are dry."] * 2
        assert len(sessions) == 2
        assert "Look at the plants." in str(s.model.requests[-1].messages)


async def test_a_job_for_a_model_that_is_not_there_is_refused(street: Make) -> None:
    s = street()
    async with s.house() as (house, _):
        with pytest.raises(UsageError, match="cannot be used") as refused:
            await add(house, "every 1 hour", kind="prompt", model="nobody/has-this")
        assert "homebody models list" in refused.value.hint
        with pytest.raises(UsageError, match="there is no agent 'gone'") as refused:
            await add(house, "every 1 hour", agent="gone")
        assert "homebody agents add gone" in refused.value.hint


async def test_a_job_whose_model_is_taken_out_of_the_settings_is_told_once_and_paused(street: Make) -> None:
    own = {"baseUrl": "http://127.0.0.1:9/v1", "models": [{"id": "small"}, {"id": "large"}]}
    s = street(models={"providers": {"own": own}})
    async with s.house() as (house, _):
        job = await add(house, "every 1 hour", kind="prompt", model="own/large", text="Look at the plants.")
        fewer = street(models={"providers": {"own": own | {"models": [{"id": "small"}]}}}).settings
        house.settings.replace(fewer)
        house.model_registry.adopt(fewer.models)
        s.clock.move(3600)
        await house.schedule.tick()
        (paused,) = await house.automation.jobs.list()
        assert (paused.id, paused.state) == (job.id, "paused")
        assert paused.reason == "its model 'own/large' is not among those of its provider"
        with pytest.raises(UsageError, match="not among those of its provider"):
            await add(house, "every 1 hour", kind="prompt", model="own/medium")
    assert s.model.requests == []


async def test_jobs_that_were_due_while_nobody_was_there_fire_at_the_start(street: Make) -> None:
    s = street()
    async with s.house() as (house, _):
        await add(house, "in 20 minutes")
    s.clock.set(s.clock.now() + timedelta(hours=2))
    async with s.house() as (house, talk):
        await house.schedule.tick()
        await talk.until(talk.replies)
        assert "It was due on" in talk.replies()[0]
