"""The disk that holds the state is full for a while, and the gateway is killed and started meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from typing import TYPE_CHECKING

from tests.stories.botapi import BotApi
from tests.stories.stage import Story, calm, settings, until
from tests.stories.talk import Script, Seen, Talk, controls, judge

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.stories.stage import Stage

PEOPLE = [91, 5_400_000_007, 93]
SIZE_MB = 300
FULL = "full"


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path | None]:
    """Lend a file system of ``SIZE_MB``, or nothing to who may not mount one."""
    place = folder / "disk"
    place.mkdir(parents=True)
    mounted = os.geteuid() == 0 and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m,mode=0700", "tmpfs", place], capture_output=True, check=False
    ).returncode == 0  # fmt: skip
    try:
        yield place if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", "-l", place], check=False)


def fill(place: Path) -> None:
    """Write until nothing more can be written."""
    with contextlib.suppress(OSError), (place / FULL).open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"\0" * size)


async def disk(stage: Stage) -> None:
    """What is taken on a full disk is answered when there is room; the owner is told when it begins and ends; the log lives."""
    with small_disk(stage.folder) as place:
        if place is None:
            stage.hold("a full disk", held=True, figures="not told: only root may mount a small file system")
            return
        for killed in (False, True):
            await _full(stage, place / ("killed" if killed else "alive"), place, killed=killed)


async def _full(stage: Stage, state: Path, place: Path, *, killed: bool) -> None:
    how = "killed and started meanwhile" if killed else "the gateway alive"
    bots, script = BotApi(seed=stage.seed), Script(stage.seed + killed)
    await bots.port.open()
    try:
        async with stage.model() as model, stage.house(f"disk-{killed}", state_at=state) as house:
            house.settle(settings(model, channels={"telegram": bots.settings(PEOPLE)}))
            await house.start()
            bots.say(PEOPLE[0], script.line(PEOPLE[0]))
            await until(lambda: bool(bots.shown), 120)
            fill(place)
            began = len(bots.shown)
            for chat in PEOPLE:
                bots.say(chat, script.line(chat))
            await asyncio.sleep(8)
            if killed:
                await house.end(signal.SIGKILL)
                await house.start()
                for chat in PEOPLE:
                    bots.say(chat, script.line(chat))
            told_of = await until(lambda: any(_is_about_disk(one.text) for one in bots.shown[began:]), 45)
            (place / FULL).unlink()
            ended = len(bots.shown)
            back = await until(lambda: not judge(_talk(script, bots)).lost, 60)
            over = await until(lambda: any(_is_about_disk(one.text) for one in bots.shown[ended:]), 45)
            for chat in PEOPLE:
                bots.say(chat, script.line(chat))
            await until(lambda: not judge(_talk(script, bots)).lost, 60)
            await calm(lambda: len(bots.shown), 2, 10)
            before = _logged(state)
            code = await house.end()
            after = _logged(state)
    finally:
        await bots.port.close()
    talk = _talk(script, bots)
    found = judge(talk)
    when = f"{back:.0f} s after there was room" if back is not None else "never"
    stage.hold(
        f"full disk, {how}: nothing lost, nothing doubled unmarked",
        not found.broken and not found.told,
        f"{len(talk.spoken)} said; {found}; answered {when}",
    )
    stage.hold(f"full disk, {how}: told when it begins", told_of is not None, _when(told_of))
    stage.hold(f"full disk, {how}: told when it is over", over is not None, _when(over))
    stage.hold(
        f"full disk, {how}: the log lives afterwards, and the end is in order",
        after > before and code == 0,
        f"{after - before} lines at the end, exit code {code}",
    )
    stage.control(f"lost, doubled, led astray and disordered replies ({how})", controls([talk]))


def _when(seconds: float | None) -> str:
    return "never" if seconds is None else f"within {seconds:.0f} s"


def _is_about_disk(text: str) -> bool:
    return "disk" in text.lower() and not text.startswith("answer")


def _logged(state: Path) -> int:
    return sum(len(file.read_bytes().splitlines()) for file in (state / "logs").glob("*")) if (state / "logs").exists() else 0


def _talk(script: Script, bots: BotApi) -> Talk:
    return Talk(tuple(script.spoken), tuple(Seen(str(one.chat), one.text, one.at) for one in bots.shown))


STORIES = {"full-disk": Story(disk, 300)}
