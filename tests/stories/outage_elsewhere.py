"""Slack and Discord are away for seconds while replies are due."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from tests.stories.platforms import PEOPLE, Platform
from tests.stories.stage import Story, settings, together, until
from tests.stories.talk import RESTART, Script, Seen, Talk, controls, judge
from tests.stories.wire import Away

if TYPE_CHECKING:
    from tests.stories.model import Model
    from tests.stories.stage import Stage

AFTERWARDS = 120.0


async def slack_and_discord(stage: Stage) -> None:
    """Both at once in each way, for 5 and 30 s (and 300 s where the story is told long)."""
    spans = (5.0, 30.0, 300.0) if stage.long else (5.0, 30.0)
    told: dict[tuple[str, Away], tuple[Talk, str]] = {}

    async def one(number: int, way: Away) -> None:
        await asyncio.sleep(number * 2.0)  # starting costs two seconds of CPU each
        for kind, talk in (await _one_way(stage, way, spans)).items():
            told[kind, way] = talk

    await together(*(one(number, way) for number, way in enumerate(Away)))
    for (kind, way), (talk, waits) in sorted(told.items(), key=lambda one: (one[0][0], list(Away).index(one[0][1]))):
        found = judge(talk)
        restarts = sum(bool(RESTART.search(one.text)) for one in talk.seen)
        figures = f"{len(talk.spoken)} said; {found}; back after {waits}"
        stage.hold(f"{kind} {way}: every reply arrives, doubles are marked", not found.broken, figures)
        stage.hold(f"{kind} {way}: no restart is spoken of where there was none", not restarts, f"{restarts} times")
    stage.control("lost, doubled, led astray and disordered replies", controls(talk for talk, _ in told.values()))


async def _one_way(stage: Stage, way: Away, spans: tuple[float, ...]) -> dict[str, tuple[Talk, str]]:
    name = way.value.replace(" ", "-")
    async with (
        Platform("slack") as slack,
        Platform("discord") as discord,
        stage.model() as model,
        stage.house(f"elsewhere-{name}") as house,
    ):
        both = {"slack": slack, "discord": discord}
        sections = {kind: platform.settings() for kind, platform in both.items()}
        house.settle(settings(model, channels=sections, session={"dmScope": "per-channel-peer"}))
        await house.start()
        for platform in both.values():
            await platform.until_connected(120)
        scripts = {kind: Script(stage.seed + len(kind) + 10 * len(name)) for kind in both}
        waits: dict[str, list[str]] = {kind: [] for kind in both}
        for kind, platform in both.items():
            await _say(platform, scripts[kind])
        for kind, platform in both.items():
            waits[kind].append(f"start {await _answered(platform, scripts[kind], 60)}")
        for span in spans:
            await _while_away(both, model, scripts, way, span)
            for kind, took in zip(
                both, await asyncio.gather(*(_answered(both[kind], scripts[kind], AFTERWARDS) for kind in both)), strict=True
            ):
                waits[kind].append(f"{span:.0f} s: {took}")
        await asyncio.sleep(4)
        await house.end()
        talks = {kind: await _talk(platform, scripts[kind]) for kind, platform in both.items()}
        failed = {kind: platform.failed for kind, platform in both.items()}
    return {kind: (talk, f"{'; '.join(waits[kind])}; {failed[kind]} calls failed") for kind, talk in talks.items()}


async def _while_away(both: dict[str, Platform], model: Model, scripts: dict[str, Script], way: Away, span: float) -> None:
    model.hold()
    wanted = model.calls + sum(len(PEOPLE[kind]) for kind in both)
    for kind, platform in both.items():
        await _say(platform, scripts[kind])
    await until(lambda: model.calls >= wanted, 30)
    away = [asyncio.create_task(platform.be_away(way, span)) for platform in both.values()]
    await asyncio.sleep(0.2)
    model.release()
    await asyncio.gather(*away)


async def _say(platform: Platform, script: Script) -> None:
    for user in PEOPLE[platform.kind]:
        await platform.say(user, script.line(user))


async def _answered(platform: Platform, script: Script, seconds: float) -> str:
    """Wait until every token was seen; say how long it took."""
    began = time.monotonic()
    while True:
        missing = judge(await _talk(platform, script)).lost
        took = time.monotonic() - began
        if not missing:
            return f"{took:.0f} s"
        if took > seconds:
            return f"{len(missing)} missing after {seconds:.0f} s"
        await asyncio.sleep(0.5)


async def _talk(platform: Platform, script: Script) -> Talk:
    seen = [Seen(user, text, 0.0) for user in PEOPLE[platform.kind] for text in await platform.texts(user)]
    return Talk(tuple(script.spoken), tuple(seen))


STORIES = {"outage-elsewhere": Story(slack_and_discord, 420)}
