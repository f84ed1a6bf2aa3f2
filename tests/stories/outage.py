"""A platform is away for seconds while replies are due: refused, cut, silent, failing or asking to wait."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.stories.botapi import BotApi
from tests.stories.stage import Story, calm, settings, together, until
from tests.stories.talk import RESTART, Findings, Script, Seen, Talk, controls, judge
from tests.stories.wire import Away

if TYPE_CHECKING:
    from tests.stories.model import Model
    from tests.stories.stage import Stage

PEOPLE = [5_000_000_001, 71, 6_100_000_123]
"""Numbers of one to ten digits, as Telegram has them."""
AFTERWARDS = 120.0
"""Seconds within which everything must have arrived once the platform is back."""


@dataclass
class Told:
    """How one way of being away went."""

    way: Away
    findings: Findings
    talk: Talk
    waits: list[str] = field(default_factory=list)
    restarts_named: int = 0


async def telegram(stage: Stage) -> None:
    """Telegram is away for 5 and 30 s (and 300 s where the story is told long) in each way; nothing is lost or doubled unmarked."""
    spans = (5.0, 30.0, 300.0) if stage.long else (5.0, 30.0)
    told: list[Told] = []

    async def one(number: int, way: Away) -> None:
        await asyncio.sleep(number * 1.5)  # starting costs a second of CPU each
        told.append(await _one_way(stage, way, spans))

    await together(*(one(number, way) for number, way in enumerate(Away)))
    for each in sorted(told, key=lambda one: list(Away).index(one.way)):
        figures = f"{len(each.talk.spoken)} said; {each.findings}; back after {'; '.join(each.waits)}"
        stage.hold(f"telegram {each.way}: every reply arrives, doubles are marked", not each.findings.broken, figures)
        stage.hold(
            f"telegram {each.way}: what is not answered is named to its chat",
            not each.findings.lost,
            f"{len(each.findings.told)} named",
        )
        stage.hold(
            f"telegram {each.way}: no restart is spoken of where there was none",
            not each.restarts_named,
            f"{each.restarts_named} times",
        )
    stage.control("lost, doubled, led astray and disordered replies", controls(one.talk for one in told))


async def _one_way(stage: Stage, way: Away, spans: tuple[float, ...]) -> Told:
    name = way.value.replace(" ", "-")
    bots = BotApi(seed=stage.seed + len(name))
    await bots.port.open()
    script = Script(stage.seed + 100 + len(name))
    waits: list[str] = []
    try:
        async with stage.model() as model, stage.house(f"telegram-{name}") as house:
            house.settle(settings(model, channels={"telegram": bots.settings(PEOPLE)}, session={"dmScope": "per-channel-peer"}))
            await house.start()
            for chat in PEOPLE:
                bots.say(chat, script.line(chat))
            arrived = await until(lambda: not _missing(script, bots), 120)
            waits.append(f"start {'never' if arrived is None else f'{arrived:.0f} s'}")
            waits += [f"{span:.0f} s: {await _while_away(bots, model, script, way, span)}" for span in spans]
            await calm(lambda: len(bots.shown), 3, 15)
            await house.end()
            waits.append(f"{sum(bots.failed.values())} calls failed")
    finally:
        await bots.port.close()
    talk = Talk(tuple(script.spoken), tuple(Seen(str(one.chat), one.text, one.at) for one in bots.shown))
    return Told(way, judge(talk), talk, waits, sum(bool(RESTART.search(one.text)) for one in bots.shown))


async def _while_away(bots: BotApi, model: Model, script: Script, way: Away, span: float) -> str:
    """Let replies become due just when the platform goes away; tell how long after its return the last was seen."""
    model.hold()
    before = model.calls
    for chat in PEOPLE:
        bots.say(chat, script.line(chat))
    await until(lambda: model.calls >= before + len(PEOPLE), 30)
    away = asyncio.create_task(bots.be_away(way, span))
    await asyncio.sleep(0.2)
    model.release()
    await away
    back = time.monotonic()
    await until(lambda: not _missing(script, bots), AFTERWARDS)
    missing = len(_missing(script, bots))
    return f"{missing} missing after {AFTERWARDS:.0f} s" if missing else f"{time.monotonic() - back:.0f} s"


def _missing(script: Script, bots: BotApi) -> list[str]:
    everything = "\n".join(one.text for one in bots.shown)
    return [one.token for one in script.spoken if one.token not in everything]


STORIES = {"outage-telegram": Story(telegram, 420)}
