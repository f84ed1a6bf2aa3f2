"""Open pages are told of changes that none of them made."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from channels.messages import ChatAddress
from gateway.api.handlers.job_requests import JobHandlers
from gateway.ledger.rows import NewOutbound
from gateway.ledger.spending_rows import NewCall, Spent
from gateway.page.outside_changes import OutsideChanges
from tests.approvals.house import Farm, asked, value
from tests.page.desk import desk

if TYPE_CHECKING:
    from pathlib import Path


@dataclass
class Watched:
    watched: bool = True
    told: list[str] = field(default_factory=list)

    def publish(self, kind: str) -> None:
        self.told.append(kind)


async def test_only_what_differs_is_told() -> None:
    hub, facts = Watched(), {"approvals": 1, "jobs": 1}

    def fact(name: str) -> object:
        async def read() -> int:
            return facts[name]

        return read

    looking = OutsideChanges(hub, {name: fact(name) for name in facts})  # type: ignore[misc]
    await looking.check()
    assert hub.told == []
    facts["jobs"] = 2
    await looking.check()
    await looking.check()
    assert hub.told == ["jobs"]


async def test_facts_that_cannot_be_read_do_not_hide_others() -> None:
    hub, count = Watched(), 0

    async def broken() -> int:
        raise OSError("gone")

    async def counting() -> int:
        nonlocal count
        count += 1
        return count

    looking = OutsideChanges(hub, {"settings": broken, "memory": counting})
    await looking.check()
    await looking.check()
    assert hub.told == ["memory"]


async def test_nothing_is_looked_at_once_nobody_watches() -> None:
    hub, looks, last = Watched(), 0, asyncio.Event()

    async def fact() -> int:
        nonlocal looks
        looks += 1
        hub.watched = looks != 3
        if not hub.watched:
            last.set()
        return looks

    async def at_once(_: float) -> None:
        await asyncio.sleep(0)

    looking = OutsideChanges(hub, {"jobs": fact}, sleep=at_once)
    looking.begin()
    looking.begin()
    await last.wait()
    for _ in range(20):
        await asyncio.sleep(0)
    assert (looks, hub.told) == (3, ["jobs", "jobs"])
    hub.watched = True
    looking.begin()
    for _ in range(20):
        await asyncio.sleep(0)
    looking.stop()
    assert looks > 3
    assert hub.told[:3] == ["jobs", "jobs", "jobs"]


async def test_changes_of_the_house_are_seen_wherever_they_are_made(tmp_path: Path) -> None:
    async with desk(tmp_path) as page:
        house, hub = page.house, Watched()
        facts = dict(house.page_facts())
        logs = facts.pop("logs")
        looking = OutsideChanges(hub, facts)
        await page("memory.log", agent="main")  # the templates are in the journal by then
        await looking.check()
        jobs = JobHandlers(house.automation.jobs, house.deps.clock, settings=lambda: house.settings.current)
        job = (await jobs.add("in 1 day", "x"))["job"]["id"]
        await looking.check()
        await jobs.pause(job)
        await looking.check()
        assert hub.told == ["jobs", "jobs"]
        await asyncio.to_thread(house.rules.stored.switch, "git", on=False)
        await looking.check()
        await asyncio.to_thread((tmp_path / "home/homebody.yaml").write_text, "logging: {level: debug}\n")
        await looking.check()
        await page("memory.write", agent="main", path="memory/new.md", text="x\n", expected=None)
        await looking.check()
        await looking.check()
        assert hub.told[2:] == ["approvals", "settings", "memory"]
        place = ChatAddress(channel="telegram", kind="direct", id="42")
        await house.ledger.outbox.enqueue([NewOutbound(conversation=place, text="tea")])
        await looking.check()
        (letter,) = await house.ledger.outbox.latest(("ready",))
        for change in (house.ledger.outbox.dead(letter.id, "the chat is gone"), house.ledger.outbox.forget(letter.id)):
            await change
            await looking.check()
        spending = house.ledger.spending
        call = NewCall(day="2026-11-26", agent="main", session="s", model="m", background=False, tokens=1, usd=0.5)
        row = (await spending.reserve(call, ())).row
        await looking.check()
        await spending.settle_call(row or 0, Spent(input=3, cost=0.25))
        await looking.check()
        await looking.check()
        assert hub.told[5:] == ["health", "health", "health", "costs", "costs"]
        log = house.deps.paths.logs / "homebody.jsonl"
        await asyncio.to_thread(log.parent.mkdir, parents=True, exist_ok=True)
        before = await logs()
        await asyncio.to_thread(log.write_text, "{}\n")
        assert await logs() != before


async def test_a_page_that_is_opened_is_told_what_changed_while_none_was() -> None:
    hub, now = Watched(watched=False), {"jobs": 1}

    async def fact() -> int:
        return now["jobs"]

    looking = OutsideChanges(hub, {"jobs": fact})
    looking.begin()
    await asyncio.sleep(0.05)
    now["jobs"], hub.watched = 2, True
    looking.begin()
    await asyncio.sleep(0.05)
    looking.stop()
    assert hub.told == ["jobs"]


async def test_a_question_and_its_answer_are_seen(tmp_path: Path) -> None:
    farm, hub = Farm(tmp_path), Watched()
    wire = farm.wire()
    async with farm.house(wire) as house:
        looking = OutsideChanges(hub, {"approvals": house.page_facts()["approvals"]})
        await looking.check()
        question = await asked(wire, "plough field")
        await looking.check()
        await wire.say(value(question, "deny"), event="button")
        await wire.until(lambda: any(text.startswith("so: ") for text in wire.said()))
        await looking.check()
    assert hub.told == ["approvals", "approvals"]
