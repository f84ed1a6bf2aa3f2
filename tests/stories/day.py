"""A day ends: the daily reset and the idle reset come by the clock of the system, and nothing waits for the next message."""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tests.stories.botapi import BotApi
from tests.stories.model import Asked, Said, echo
from tests.stories.stage import Story, settings, together, until
from tests.stories.talk import Script
from tests.stories.zones import NAME, zone_before_midnight

if TYPE_CHECKING:
    from datetime import tzinfo

    from tests.stories.house import House
    from tests.stories.model import Model
    from tests.stories.stage import Stage

OWNER = 5_500_000_011
NOTE = "## 10:30 PM - The kitchen\nDecision: the counter is oak, order K-{number}.\n\n## 11:15 PM - The boiler\nThe service is booked.\n"
"""What the model writes in a flush: blocks that begin with headings, as the documents of such agents show them."""
LATEST = 150.0
"""Seconds after the moment at which a reset is due within which all of it must have happened."""


@dataclass(frozen=True)
class Night:
    """What was found between the reset and the next message, and after that."""

    notes: dict[str, str]
    day: str
    number: str
    flushes: int
    answered_in: float | None
    calls: int
    shown: tuple[str, ...]
    remembered_history: bool


def on_disk(night: Night) -> str:
    """Tell what is wrong with the notes, or nothing: both blocks must be in the note of the day on which they were talked about."""
    file = night.notes.get(f"memory/{night.day}.md", "")
    if f"order K-{night.number}" not in file:
        elsewhere = [name for name, text in night.notes.items() if f"order K-{night.number}" in text]
        return f"the note is not in memory/{night.day}.md but in {elsewhere}" if elsewhere else "the note is nowhere"
    if "## 10:30 PM - The kitchen" not in file or "The service is booked." not in file:
        return "a part of the note is missing"
    return ""


async def day(stage: Stage) -> None:
    """A daily reset at midnight and an idle reset after a minute, each in a house of its own."""
    nights: dict[str, Night] = {}

    async def one(kind: str, reset: dict[str, Any], due: float) -> None:
        nights[kind] = await _night(stage, kind, reset, due)

    await together(
        one("daily", {"mode": "daily", "atHour": 0, "deferMinutes": 0}, 75.0),
        one("idle", {"mode": "idle", "idleMinutes": 1}, 60.0),
    )
    for kind, night in sorted(nights.items()):
        wrong = on_disk(night)
        stage.hold(
            f"{kind} reset by the clock: the flush has run before anybody writes again",
            night.flushes == 1,
            f"{night.flushes} flushes",
        )
        stage.hold(
            f"{kind} reset: what the model wrote, headings and all, is in the note of that day",
            not wrong,
            wrong or f"memory/{night.day}.md",
        )
        file = next((name for name in night.notes if re.fullmatch(rf"memory/{night.day}-.+\.md", name)), None)
        stage.hold(f"{kind} reset: the end of the conversation is kept under its day", file, str(file))
        waited = "never" if night.answered_in is None else f"in {night.answered_in:.1f} s with {night.calls} calls of the model"
        stage.hold(
            f"{kind} reset: the next message waits for nothing",
            night.calls == 1 and night.answered_in is not None,
            f"answered {waited}",
        )
        stage.hold(f"{kind} reset: the next message begins a fresh conversation", not night.remembered_history)
        told = [text for text in night.shown if re.search(r"(?i)\b(fresh|anew|new (session|conversation))", text)]
        stage.hold(f"{kind} reset: the owner is told of it", told, "; ".join(told)[:160] or f"shown: {night.shown}"[:160])
    stage.control("a note that is missing, incomplete or under another day", _controls())


async def _night(stage: Stage, kind: str, reset: dict[str, Any], due: float) -> Night:
    bots, script, number = BotApi(seed=stage.seed), Script(stage.seed), f"{stage.seed % 9000 + 1000}"
    flushes: list[float] = []
    written: list[str] = []

    def mind(asked: Asked) -> Said:
        if not asked.is_flush:
            return echo(asked)
        if asked.results:
            return Said("NO_REPLY")
        flushes.append(time.time())
        path = re.search(r"memory/\d{4}-\d\d-\d\d\.md", asked.last_words)
        written.append(path[0] if path else "memory/today.md")
        return Said(calls=(("write", {"path": written[-1], "content": NOTE.format(number=number), "mode": "append"}),))

    await bots.port.open()
    try:
        zones = stage.folder / f"zones-{kind}"
        async with (
            stage.model(mind=mind) as model,
            stage.house(f"day-{kind}", more={"PYTHONTZPATH": f"{zones}:/usr/share/zoneinfo"}) as house,
        ):
            zone: tzinfo = UTC
            if kind == "daily":
                zone = zone_before_midnight(zones, due + 20)
            defaults = {"userTimezone": NAME if kind == "daily" else "UTC"}
            house.settle(
                settings(model, defaults=defaults, channels={"telegram": bots.settings([OWNER])}, session={"reset": reset})
            )
            await house.start()
            return await _through_the_night(house, model, bots, script, _Reset(due, zone, number, flushes))
    finally:
        await bots.port.close()


@dataclass(frozen=True)
class _Reset:
    due: float
    zone: tzinfo
    number: str
    flushes: list[float]


async def _through_the_night(house: House, model: Model, bots: BotApi, script: Script, reset: _Reset) -> Night:
    for what in ("the kitchen: what about oak for the counter?", "and the boiler, is the service booked?"):
        before = len(bots.shown)
        bots.say(OWNER, script.line(OWNER, what))
        await until(lambda before=before: len(bots.shown) > before, 120)  # type: ignore[misc]
    day = datetime.now(reset.zone)
    until_due = reset.due if reset.zone is UTC else (_midnight(day) - day).total_seconds()
    file = house.workspace / "memory"
    await asyncio.sleep(max(0.0, until_due))
    await until(lambda: bool(list(file.glob(f"{day:%Y-%m-%d}-*.md"))) and bool(reset.flushes), LATEST, 0.5)
    await asyncio.sleep(3)
    notes, flushes, calls, before = house.notes(), len(reset.flushes), model.calls, len(bots.shown)
    old = script.spoken[0].token
    line, began = script.line(OWNER, "good morning"), time.monotonic()
    bots.say(OWNER, line)
    answered = await until(lambda: any(script.spoken[-1].token in one.text for one in bots.shown), 60, 0.02)
    took = time.monotonic() - began if answered is not None else None
    await asyncio.sleep(2)
    asked = [one for one in model.asked if line in Asked(one).everything]
    remembered = bool(asked) and any(
        f"say-{old}" in str(one.get("content")) for one in asked[0]["messages"] if one["role"] != "system"
    )
    shown = tuple(one.text for one in bots.shown[before:])
    called = model.calls - calls
    await house.end()
    return Night(notes, f"{day:%Y-%m-%d}", reset.number, flushes, took, called, shown, remembered)


def _midnight(now: datetime) -> datetime:
    return (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)


def _controls() -> str:
    whole = NOTE.format(number="1234")
    right, wrong = "memory/2026-03-01.md", "memory/2026-03-02.md"
    cases = {
        "missing": {},
        "under another day": {wrong: whole},
        "incomplete": {right: whole.replace("The service is booked.", "")},
    }

    def night(notes: dict[str, str]) -> Night:
        return Night(notes, "2026-03-01", "1234", 1, 1.0, 1, (), remembered_history=False)

    missed = [name for name, notes in cases.items() if not on_disk(night(notes))]
    return ", ".join(missed + (["a sound one"] if on_disk(night({right: whole})) else []))


STORIES = {"day": Story(day, 420)}
