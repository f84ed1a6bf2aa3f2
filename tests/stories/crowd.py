"""Thirty people write ten messages a second to a gateway on a processor that others keep busy."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.stories.botapi import BotApi
from tests.stories.stage import Story, calm, settings, until
from tests.stories.talk import Script, Seen, Talk, controls, judge

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.stories.stage import Stage

CHATS = [5_200_000_000 + 17 * number for number in range(30)]
RATE = 10.0
"""Messages a second, of all people together."""
BUSY = 4
"""Processes that do nothing but count, on the one processor that the gateway is given too: it gets a fifth of that."""
CATCHING_UP = 90.0
"""Seconds after the last word within which all must be answered."""


async def crowd(stage: Stage) -> None:
    """Everything that is said for a minute (three where the story is told long) is answered once and in order."""
    seconds = 180.0 if stage.long else 60.0
    bots, script = BotApi(seed=stage.seed), Script(stage.seed)
    await bots.port.open()
    try:
        async with stage.model() as model, stage.house("crowd") as house:
            house.settle(settings(model, channels={"telegram": bots.settings(CHATS)}, session={"dmScope": "per-channel-peer"}))
            await house.start()
            bots.say(CHATS[0], script.line(CHATS[0]))
            await until(lambda: bool(bots.shown), 120)
            assert house.gateway is not None
            async with busy(house.gateway.pid):
                await _chatter(bots, script, seconds)
                said = time.monotonic()
                await until(lambda: len(_answered(bots, script)) == len(script.spoken), CATCHING_UP)
                lag, vitals = time.monotonic() - said, house.vitals()
            await calm(lambda: len(bots.shown), 2, 10)
            code = await house.end()
    finally:
        await bots.port.close()
    talk = Talk(tuple(script.spoken), tuple(Seen(str(one.chat), one.text, one.at) for one in bots.shown))
    found, sent = judge(talk), len(_answered(bots, script))
    waits = sorted(_waits(bots, script)) or [0.0]
    figures = (
        f"{len(script.spoken)} said in {seconds:.0f} s, {sent} answered; {found}; last one {lag:.0f} s after the last word; "
        f"p50 {waits[len(waits) // 2]:.1f} s, p99 {waits[len(waits) * 99 // 100]:.1f} s; {vitals.get('rss', 0):.0f} MB"
    )
    stage.hold(
        "30 chats on a busy processor: sent = said, in order, none doubled unmarked",
        not found.broken and not found.told,
        figures,
    )
    stage.hold(
        "each request to the model is sound, and no message stands in it twice",
        not model.wrong and _once(model.heard),
        _wrong(model.wrong),
    )
    stage.hold("SIGTERM ends it in order", code == 0, f"exit code {code}")
    stage.control("lost, doubled, led astray and disordered replies", controls([talk]))


async def _chatter(bots: BotApi, script: Script, seconds: float) -> None:
    began = time.monotonic()
    number = 0
    while (due := number / RATE) < seconds:
        await asyncio.sleep(max(0.0, began + due - time.monotonic()))
        chat = CHATS[number % len(CHATS)]
        bots.say(chat, script.line(chat))
        number += 1


def _answered(bots: BotApi, script: Script) -> set[str]:
    everything = "\n".join(one.text for one in bots.shown)
    return {one.token for one in script.spoken if one.token in everything}


def _waits(bots: BotApi, script: Script) -> list[float]:
    at: dict[str, float] = {}
    for one in bots.shown:
        for word in one.text.split():
            at.setdefault(word, one.at)
    return [at[one.token] - one.at for one in script.spoken if one.token in at]


def _once(heard: dict[str, int]) -> bool:
    return all(times == 1 for times in heard.values())


def _wrong(wrong: list[str]) -> str:
    return f"{len(wrong)} refused: {wrong[0][:120]}" if wrong else ""


@contextlib.asynccontextmanager
async def busy(pid: int) -> AsyncIterator[None]:
    """Confine a process to one processor and keep that busy meanwhile."""
    processor = max(os.sched_getaffinity(0))
    for thread in _threads(pid):
        os.sched_setaffinity(thread, {processor})

    def confine() -> None:
        os.sched_setaffinity(0, {processor})

    count = "while True: pass"
    others = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", count, preexec_fn=confine, start_new_session=True)
        for _ in range(BUSY)
    ]
    try:
        yield
    finally:
        for one in others:
            one.kill()
        await asyncio.gather(*(one.wait() for one in others))


def _threads(pid: int) -> list[int]:
    return [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()]


STORIES = {"crowd": Story(crowd, 300, waits=False)}
