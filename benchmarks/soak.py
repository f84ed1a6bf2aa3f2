"""Has weeks pass for one gateway in minutes, and judges whether it grows: memory, descriptors, threads, tasks, logs.

    PYTHONPATH=. python benchmarks/soak.py                 eight simulated weeks
    PYTHONPATH=. python benchmarks/soak.py --days 3        a few days, which show descriptors, threads, tasks and lost messages
    PYTHONPATH=. python benchmarks/soak.py --json FILE     every day's sample, too
    PYTHONPATH=. python benchmarks/soak.py --days 28 --trace    which code holds what came in the second half (slow)
    PYTHONPATH=. python benchmarks/soak.py --days 28 --peaks    when most memory is taken for a moment, each day

The gateway runs in this process under a clock that is many times as fast as the system's (``gateway.base.clock.PacedClock``): slow
while something is under way, so that limits of model calls mean what they mean, and fast in between. Thirty people write to it on five
platforms; a model, those platforms and a mailbox run in processes of their own (``soak_world.py``). Jobs, heartbeats, daily and idle
resets, flushes, compactions, hourly copies of the ledger, archiving and rotation of logs happen as they fall due.

What does not go by that clock: limits of network calls and keep-alives (asyncio's timers), the watchdog, the age of files, and what
wakes the scheduler (APScheduler and its guard): its work is asked for every simulated minute instead.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import gzip
import json
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.heap_growth import Growth, Peaks
from benchmarks.heap_shares import SHARES, shares
from benchmarks.soak_world import NAMES
from benchmarks.throughput import free_port
from gateway.app.dependencies import Dependencies
from gateway.app.gateway import Gateway
from gateway.base.clock import PacedClock
from gateway.base.heap import keep_heap_small
from gateway.base.paths import Paths
from gateway.logs.log_setup import configure
from gateway.logs.redaction import Redactor
from gateway.settings.root import Settings

DAYS = 56
WARM_UP_DAYS = 7
BUSY, QUIET = 20.0, 6000.0
SLOWER = 3.0
"""How much slower the clock is while allocations are traced, so that limits of time mean what they mean."""
LOG_BYTES, LOGS_KEPT = 40_000, 2
PEOPLE = {"telegram": 11, "discord": 6, "slack": 6, "whatsapp": 4, "email": 3}
FIRST = 5000
OWNER = str(FIRST)
COMPACTED = b'"kind":"compacted","id":'
JOBS = (
    ("every 1h", "Look whether anything changed.", {"kind": "task"}),
    ("every 3h", "Drink some water.", {"kind": "reminder"}),
    ("every day at 07:30", "Say what is on today.", {"kind": "task", "session": "main"}),
)
"""When, what, and as what kind."""


def settings(root: Path, url: str, channels: dict[str, Any], port: int) -> Settings:
    """A house of thirty guests, one of them the owner. Windows are small, so that they fill within days."""
    channels["telegram"]["allowFrom"] = [OWNER, "*"]
    model = {"id": "claude", "contextWindow": 200_000, "maxTokens": 4000, "cost": {"input": 0.01, "output": 0.01}}
    provider = {"baseUrl": url, "apiKey": "sk-soak", "api": "anthropic-messages", "models": [model]}
    return Settings.model_validate(
        {
            "agents": {
                "defaults": {
                    "model": "soak/claude",
                    "workspace": str(root / "workspace"),
                    "userTimezone": "UTC",
                    "contextTokens": 24_000,
                    "heartbeat": {"every": "1h"},
                }
            },
            "models": {"providers": {"soak": provider}},
            "channels": channels,
            "session": {"dmScope": "per-channel-peer", "reset": {"mode": "daily+idle", "idleMinutes": 240}},
            "messages": {"inbound": {"debounceMs": 0}},
            "gateway": {"port": port},
            "budgets": {"day": {"usd": 1000, "tokens": 10**9}, "background": {"usd": 1000, "tokens": 10**9}},
            "logging": {"maxBytes": LOG_BYTES, "keep": LOGS_KEPT},
        }
    )


class World:
    """The processes of ``soak_world.py``."""

    async def open(self, names: list[str]) -> None:
        self.model, self.people = await self._start("model"), await self._start(",".join(names))
        self.url = json.loads(await self.model.stdout.readline())["url"]
        self.channels = json.loads(await self.people.stdout.readline())["settings"]
        self.answered: dict[int, asyncio.Future[None]] = {}
        self.missing: dict[int, Any] = {}
        self.late = 0
        self._reading = asyncio.ensure_future(self._read())

    async def _start(self, role: str) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        command = (sys.executable, str(Path(__file__).with_name("soak_world.py")), role)
        return await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, env={**os.environ, "PYTHONPATH": "."}, limit=2**24
        )

    async def _read(self) -> None:
        while line := await self.people.stdout.readline():
            facts = json.loads(line)
            if "missed" in facts:
                self.missing[facts["id"]] = facts
                print(f"not answered yet: {facts}", file=sys.stderr, flush=True)
            elif facts["late"]:
                del self.missing[facts["id"]]
                self.late += 1
            if (waiting := self.answered.pop(facts["id"], None)) is not None:
                waiting.set_result(None)

    def tell(self, **facts: Any) -> None:
        self.people.stdin.write(json.dumps(facts).encode() + b"\n")

    async def say(self, number: int, now: float, platform: str, person: int, text: str) -> None:
        self.answered[number] = asyncio.get_running_loop().create_future()
        self.tell(id=number, now=now, platform=platform, person=person, text=text)
        await self.answered[number]

    async def close(self) -> None:
        for process in (self.people, self.model):
            process.stdin.close()
        self._reading.cancel()
        for process in (self.people, self.model):
            try:
                await asyncio.wait_for(process.wait(), 15)
            except TimeoutError:
                process.kill()
                await process.wait()


@dataclass
class Sample:
    """What the gateway holds at the end of a day."""

    day: int
    figures: dict[str, float]
    types: Counter[str] = field(default_factory=Counter)


def compactions_in(folder: Path) -> int:
    """Count the summaries in all transcripts."""
    plain = sum(file.read_bytes().count(COMPACTED) for file in folder.rglob("*.jsonl"))
    return plain + sum(gzip.decompress(file.read_bytes()).count(COMPACTED) for file in folder.rglob("*.jsonl.gz"))


def size_of(path: Path) -> int:
    """Return the size of all files in a folder, or of those whose names begin like this one's. Without lists: they would be seen."""
    folder, start = (str(path), "") if path.is_dir() else (str(path.parent), path.name)
    found = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir() and not start:
                found += size_of(Path(entry.path))
            elif entry.name.startswith(start):
                with contextlib.suppress(FileNotFoundError):  # an old copy, which is removed
                    found += entry.stat().st_size
    return found


def sample(day: int, home: Path) -> Sample:
    gc.collect()
    status = Path("/proc/self/status").read_text(encoding="ascii")
    objects = gc.get_objects()
    types = Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in objects)
    figures = {
        RSS: int(status.partition("VmRSS:")[2].split()[0]) / 1024,
        **shares(),
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "threads": threading.active_count(),
        "tasks": len(asyncio.all_tasks()),
        "objects": len(objects),
        "log, MB": size_of(home / "logs") / 1e6,
        "ledger, MB": size_of(home / "state" / "ledger.sqlite") / 1e6,
        "index, MB": size_of(home / "memory") / 1e6,
        "sessions, MB": size_of(home / "agents") / 1e6,
    }
    return Sample(day, figures, types)


class Soak:
    """One run: the gateway, its people, and what was seen of it."""

    def __init__(self, root: Path, days: int, *, quiet: float, trace: bool = False, peaks: bool = False) -> None:
        self.root, self.days = root, days
        self.busy, self.quiet = (BUSY / SLOWER, quiet / SLOWER) if trace else (BUSY, quiet)
        self.growth = Growth() if trace else None
        self.peaks = Peaks() if peaks else None
        self.samples: list[Sample] = []
        self.said = self.tidied = 0
        self.clock = PacedClock(datetime.now(UTC).replace(hour=6, minute=0, second=0), self.busy)
        self.dice = random.Random(5)
        self.talking = 0

    async def run(self) -> None:
        self.world = World()
        await self.world.open(list(NAMES))
        port = free_port()
        given = settings(self.root, self.world.url, self.world.channels, port)
        paths = Paths(self.root / "home")
        paths.prepare()
        with configure(given.logging, paths, Redactor([]), console=False) as logs:
            on = Dependencies(settings=given, paths=paths, env={}, clock=self.clock, serving=True, logs=logs)
            self.gateway = await Gateway.open(on)
            (self.root / "workspace" / "HEARTBEAT.md").write_text("- Look whether the garden needs water.\n", encoding="utf-8")
            running = asyncio.ensure_future(self.gateway.run())
            self.world.tell(now=self.clock.now().timestamp(), port=port)
            try:
                await self._live()
                self.compactions = await asyncio.to_thread(compactions_in, self.root / "home" / "agents")
            finally:
                self.clock.pace = 1.0
                self.gateway.stop()
                await running
                await self.gateway.close()
                await self.world.close()

    async def _live(self) -> None:
        await asyncio.sleep(6)  # platforms connect
        for when, text, more in JOBS:
            await self.gateway.calls()["jobs.add"](when=when, text=text, **more)
        pacing = [asyncio.ensure_future(self._pace()), asyncio.ensure_future(self._tick())]
        began = self.clock.now()
        for day in range(self.days):
            for at, platform, person in self._plan(began + timedelta(days=day)):
                await self.clock.sleep((at - self.clock.now()).total_seconds())
                await self._say(platform, person)
            if day % 7 == 6:
                await self._tidy()
            await self.clock.sleep((began + timedelta(days=day + 1) - self.clock.now()).total_seconds())
            self.samples.append(sample(day + 1, self.root / "home"))
            if day - WARM_UP_DAYS > 1:
                self.samples[-2].types.clear()  # they are compared at the ends alone, and samples must not be what grows
            self._tell(self.samples[-1])
            self._look_closer(day + 1)
        if self.peaks:
            self.peaks.stop()
        for task in pacing:
            task.cancel()

    def _look_closer(self, day: int) -> None:
        if self.growth and day == min(WARM_UP_DAYS, self.days // 4):
            self.growth.start()
        if self.growth and day == self.days // 2:
            self.growth.compare_from_here()
        if self.growth and day == self.days:
            self.growth.tell()
        if self.peaks:
            self.peaks.tell(day)

    def _plan(self, day: datetime) -> list[tuple[datetime, str, int]]:
        """Who writes when on a day: each person once or twice, the owner eight times."""
        people = [(name, FIRST + n) for name, count in PEOPLE.items() for n in range(count)]
        who = [one for one in people for _ in range(self.dice.choice((0, 1, 1, 2)))] + [people[0]] * 8
        return sorted((day + timedelta(minutes=self.dice.uniform(60, 16 * 60)), *one) for one in who)

    async def _say(self, platform: str, person: int) -> None:
        self.said += 1
        wish = self.dice.choices(("", "please search, ", "please read, "), (7, 2, 1))[0]
        more = (
            300 if person == FIRST and platform == "telegram" else 12
        )  # what the owner tells is summarised before the day is over
        text = f"{wish}what do you say of {self.dice.randrange(10**6)}? " + "and then there is more to tell, " * more
        self.talking += 1
        try:
            await self.world.say(self.said, self.clock.now().timestamp(), platform, person, f"{text} #{self.said}.")
        finally:
            self.talking -= 1

    async def _tidy(self) -> None:
        """Have the notes tidied: what the model proposes is accepted."""
        self.talking += 1
        try:
            found = await self.gateway.calls()["memory.tidy"](agent="main", again=True)
            accept = [one["id"] for one in found["proposals"]]
            done = await self.gateway.calls()["memory.tidyDecide"](agent="main", accept=accept, dismiss=[])
        finally:
            self.talking -= 1
        self.tidied += sum(one["done"] for one in done["results"])

    async def _pace(self) -> None:
        """Slow while anything is under way, fast in between."""
        settled = time.monotonic()
        while True:
            await asyncio.sleep(0.003)
            now = time.monotonic()
            if self.talking or self.gateway.lanes.running():
                settled = now + 0.02
            pace = self.busy if now < settled else self.quiet
            if pace != self.clock.pace:
                self.clock.pace = pace

    async def _tick(self) -> None:
        while True:
            await self.clock.sleep(60)
            await self.gateway.schedule.tick()

    def _tell(self, one: Sample) -> None:
        figures = "  ".join(f"{name} {value:,.1f}" for name, value in one.figures.items())
        answers = f"said {self.said}, unanswered {len(self.world.missing)}, answered late {self.world.late}"
        print(f"day {one.day:3}  {figures}  {answers}", file=sys.stderr, flush=True)


def slope(values: list[float]) -> float:
    """Return the growth a week of daily values, by least squares."""
    count = len(values)
    if count < 2:
        return 0.0
    middle, mean = (count - 1) / 2, sum(values) / count
    spread = sum((n - middle) ** 2 for n in range(count))
    return 7 * sum((n - middle) * (value - mean) for n, value in enumerate(values)) / spread


RSS = "RSS, MB"
BARS = {RSS: 0.5, "descriptors": 0.5, "threads": 0.5, "tasks": 0.5, "objects": 1000.0}
"""The most that a figure may grow in a week after the warm-up. The rest is what its owner keeps: notes, conversations, costs."""
SOON = ("descriptors", "threads", "tasks")
SPARE = 6
"""What a few days show already, and how many more of each there may be at their end: one for each message would be many more."""
LOG_MB = (LOGS_KEPT + 1) * LOG_BYTES / 1e6 * 1.05
"""The most that rotated logs may take, whatever happens."""


def judge(samples: list[Sample], bars: dict[str, float]) -> list[str]:
    """Return what grew."""
    return [
        f"{name} grows by {found:.2f} a week (at most {bar:g})"
        for name, bar in bars.items()
        if (found := slope([one.figures[name] for one in samples])) > bar
    ]


def report(soak: Soak, warm: list[Sample], bars: dict[str, float]) -> list[str]:
    first, last = warm[0], warm[-1]
    answers = f"{len(soak.world.missing)} unanswered, {soak.world.late} answered late"
    work = f"{soak.compactions} summaries of conversations, {soak.tidied} changes by tidying notes"
    print(f"{len(soak.samples)} simulated days, {soak.said} messages of {sum(PEOPLE.values())} chats, {answers}; {work}")
    print(f"| figure | day 1 | day {first.day} | day {last.day} | growth a week | at most |\n|---|---:|---:|---:|---:|---:|")
    for name in last.figures:
        start, then, end = (one.figures[name] for one in (soak.samples[0], first, last))
        grown = slope([one.figures[name] for one in warm])
        print(f"| {name} | {start:,.1f} | {then:,.1f} | {end:,.1f} | {grown:+,.2f} | {bars.get(name, '')} |")
    print(f"\nRSS by week: {', '.join(f'{one.figures[RSS]:.1f}' for one in soak.samples[6::7])} MB; of its growth a week are")
    for name in SHARES:
        print(f"  {slope([one.figures[name] for one in warm]):+.2f} {name}")
    more = {name: last.types[name] - first.types[name] for name in last.types}
    print("\nkinds of objects of which there are most more than after the warm-up:")
    for name in sorted(more, key=more.__getitem__, reverse=True)[:12]:
        print(f"  {name:50} {first.types[name]:8,} -> {last.types[name]:8,}")
    found = judge(warm, bars)
    if last.figures["log, MB"] > LOG_MB:
        found.append(f"logs take {last.figures['log, MB']:.2f} MB (at most {LOG_MB:.2f})")
    found += [f"unanswered: {one}" for one in list(soak.world.missing.values())[:3]]
    for line in found or ["nothing grows"]:
        print(line)
    return found


async def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--days", type=int, default=DAYS)
    options.add_argument("--quiet", type=float, default=QUIET, help="how fast the clock is while nothing is under way")
    options.add_argument("--json", type=Path)
    options.add_argument("--keep", type=Path, help="a folder for the state, which stays")
    options.add_argument("--trace", action="store_true", help="tell which code holds more at the end than half-way")
    options.add_argument("--peaks", action="store_true", help="tell when most memory is taken for a moment")
    given = options.parse_args()
    keep_heap_small()
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(given.keep or Path(folder), given.days, quiet=given.quiet, trace=given.trace, peaks=given.peaks)
        await soak.run()
    short = given.days < 2 * WARM_UP_DAYS  # memory takes a week to fill what it may fill
    warm = soak.samples[0 if short else WARM_UP_DAYS :]
    bars = dict.fromkeys(SOON, SPARE * 7 / max(1, given.days - 1)) if short else BARS
    if given.json:
        given.json.write_text(
            json.dumps([{"day": one.day, **one.figures, "types": one.types.most_common(60)} for one in soak.samples])
        )
    return int(bool(report(soak, warm, bars)))


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
