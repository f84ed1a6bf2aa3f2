"""It acts by itself: a reminder, a task, a heartbeat and a reset come by the system's clock, also what a dead gateway missed."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING

from tests.stories.botapi import BotApi
from tests.stories.model import Asked, Said, echo
from tests.stories.stage import Story, settings, until
from tests.stories.talk import Script

if TYPE_CHECKING:
    from tests.stories.house import House
    from tests.stories.model import Model
    from tests.stories.stage import Stage

OWNER = 5_500_000_021
LIST = "# Heartbeat\n\n- Look whether the oven is off.\n"
BREAD, PLANTS, DOOR = "Take the bread out.", "Look at the plants.", "Lock the door."
LATEST = 20.0
"""Seconds after its time at which a job must have been seen, on a machine that may be busy with other things."""
RESET_LATEST = 150.0


async def by_itself(stage: Stage) -> None:
    """A house that is spoken to once, and then acts for a minute and a half."""
    bots, script = BotApi(seed=stage.seed), Script(stage.seed)
    flushed: list[float] = []

    def mind(asked: Asked) -> Said:
        if asked.is_flush:
            flushed.append(time.time())
            return Said("NO_REPLY")
        if PLANTS in asked.last_words:
            return Said("The plants are dry.")
        if "oven" in asked.last_words:
            return Said("The oven is still on!")
        return echo(asked)

    await bots.port.open()
    try:
        async with stage.model(mind=mind) as model, stage.house("by-itself") as house:
            house.settle(
                settings(
                    model,
                    defaults={"heartbeat": {"every": "1m"}},
                    channels={"telegram": bots.settings([OWNER])},
                    session={"reset": {"mode": "idle", "idleMinutes": 1}},
                )
            )
            house.workspace.mkdir(parents=True)
            (house.workspace / "HEARTBEAT.md").write_text(LIST)
            await house.start()
            await _acts(stage, house, bots, script, model)
            at = await until(lambda: bool(flushed), RESET_LATEST)
            stage.hold("an idle conversation is reset without a message of anybody", at is not None)
            heart = await until(lambda: any("oven is still on" in one for one in bots.texts(OWNER)), RESET_LATEST)
            stage.hold("a heartbeat goes through HEARTBEAT.md and its answer comes", heart is not None)
            stage.hold("nothing that the model was asked was out of order", not model.wrong, "; ".join(model.wrong)[:200])
            for text in (BREAD, DOOR, "The plants are dry."):
                times = sum(text in one for one in bots.texts(OWNER))
                stage.hold(f"“{text}” came once", times == 1, f"{times} times")
            await house.end()
    finally:
        await bots.port.close()


async def _acts(stage: Stage, house: House, bots: BotApi, script: Script, model: Model) -> None:
    bots.say(OWNER, script.line(OWNER, "good evening"))
    await until(lambda: bool(bots.shown), 120)
    asked = model.calls
    due = await _add(stage, house, 15, BREAD)
    await _comes(stage, bots, BREAD, due, "a reminder comes at its time")
    stage.hold("a reminder asks no model", model.calls == asked, f"{model.calls - asked} calls")
    due = await _add(stage, house, 10, PLANTS, "--task")
    await _comes(stage, bots, "The plants are dry.", due, "a task is answered at its time")
    due = await _add(stage, house, 10, DOOR)
    await house.end(signal.SIGKILL)
    await asyncio.sleep(max(0.0, due + 3 - time.time()))
    began = time.time()
    await house.start()
    await _comes(stage, bots, DOOR, began, "a reminder that was due while the gateway was dead comes after its start")


async def _add(stage: Stage, house: House, seconds: int, text: str, *more: str) -> float:
    """Add a job by the command line; return when it is due."""
    done = await house.run("cron", "add", f"in {seconds} seconds", text, *more)
    due = time.time() + seconds
    stage.hold(f"`homebody cron add` takes “{text}”", done.code == 0, done.err[:200])
    return due


async def _comes(stage: Stage, bots: BotApi, text: str, due: float, promise: str) -> None:
    shown = await until(lambda: any(text in one for one in bots.texts(OWNER)), max(0.0, due - time.time()) + LATEST, 0.05)
    late = time.time() - due
    stage.hold(promise, shown is not None, f"{late:+.1f} s from when the command ended" if shown is not None else "not seen")


STORIES = {"by-itself": Story(by_itself, 360)}
