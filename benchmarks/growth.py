"""Measures what everything costs when there is more of it: at 1, 10 and 100 times the sessions, notes, jobs and history.

    PYTHONPATH=. python benchmarks/growth.py                     all three sizes, a table, and the exponent of each figure
    PYTHONPATH=. python benchmarks/growth.py --svg FILE          the plot, too (docs/pictures/growth.svg)
    PYTHONPATH=. python benchmarks/growth.py --scales 1 10       smaller ones

At 1 there are 100 sessions with ten entries each, 200 notes, 100 jobs with ten runs each, one conversation of 25 turns, and 100 calls of
models more on each of two days, today's and the next, with budgets of each kind. A state is made fast and with what a use of years leaves:
five real turns of one session go through a gateway, and each further session gets the entries of that one through the same stores, its
record, and its rows of the ledger; the long conversation gets them over and over. What was made is checked by its counts: every table has
its share of rows, and none is unfinished. It was not compared with a home that was in use for years. Figures are CPU time, since other work
on the machine moves everything else; turns are medians. In the long conversation the thread of the event loop counts alone, and what the
search index does after some turns is a figure of its own. An exponent is the slope of figure against size, both as logarithms: 0 is
constant, 1 linear.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
from msgspec import structs
from msgspec.structs import replace

from agent.models.scripted import ScriptedModel
from agent.transcript.entries import Opened
from agent.transcript.transcript import Transcript
from benchmarks.jobs import cpu_of, fill
from channels.live import Done
from gateway.app.dependencies import Dependencies
from gateway.app.gateway import Gateway
from gateway.base.clock import SystemClock
from gateway.base.paths import Paths
from gateway.base.state_lock import describe
from gateway.settings.root import Settings
from memory.audience import OWNER

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from agent.transcript.entries import Entry

SESSIONS, NOTES, JOBS, CALLS, TURNS_EACH = 100, 200, 100, 100, 5
LONG_TURNS = 25
"""Turns of the one conversation that is longer, times the scale: at 100 they still fit the model's window."""
SEED, LONG = "seed", "long"
SCALES = (1, 10, 100)
STEP_SECONDS = 200
"""How long before the next session each one was used, so that all lie within what the ledger keeps."""
COPIED, IDLE = 40.0, 30.0
"""Seconds after the start from which idle CPU counts (the ledger's first copy is made by then), and for how long."""
SETTLED = 3.0
"""Seconds after which the search index has taken up what was said."""
LOOKS, TURNS_A_LOOK = 5, 20
LONGEST = 300.0
"""Seconds after which the measurements in a gateway are given up."""
WORDS = "garden kitchen painter letter money week plan house train doctor bread window school paper river stone lamp".split()  # noqa: SIM905
IN_LONG = ("turn in a long conversation, event loop", "search index, after turns in it")
CONSTANT = ("warm turn", "first turn of a session", *IN_LONG, "idle, CPU in a minute")
"""Figures that must not depend on the size: an exponent of at most 0.1. Others: at most 1.15, which a sort has at these sizes."""
MOST, MOST_CONSTANT = 1.15, 0.1


def settings_of(root: Path) -> dict[str, Any]:
    return {
        "agents": {
            "defaults": {
                "model": "scripted/model",
                "workspace": str(root / "workspace"),
                "userTimezone": "UTC",
                "heartbeat": {"every": 0},
            }
        },
        "session": {"reset": {"mode": "none"}, "maintenance": {"maxEntries": 1_000_000}},
        "budgets": {of: {"usd": 1e6, "tokens": 10**12} for of in ("day", "agent", "session", "background")},
        "gateway": {"port": 0},
    }


async def opened(root: Path) -> Gateway:
    on = Dependencies(
        settings=Settings.model_validate(settings_of(root)),
        paths=Paths(root / "home"),
        env={},
        clock=SystemClock(),
        random=random.Random(1),
    )
    house = await Gateway.open(on)
    house.model_registry.put(
        "scripted/model", ScriptedModel(lambda _: "The plumber comes on Thursday at nine.", name="scripted/model")
    )
    return house


class Talk:
    """A person at the terminal of a gateway in this process."""

    def __init__(self, house: Gateway) -> None:
        self.link = house.terminal.attach("growth")
        self.frames = self.link.frames()

    async def say(self, key: str, session: str) -> float:
        """Return the CPU seconds of the turn, all threads together."""
        began = time.process_time()
        await self.link.say("When does the plumber come, and where is the spare key?", key=key, hints={"session": session})
        async for frame in self.frames:
            if isinstance(frame, Done) and frame.key == key:
                break
        return time.process_time() - began


async def make(root: Path, scale: int) -> None:
    """Make the state of a house of that size."""
    (root / "home" / "state").mkdir(parents=True, mode=0o700)
    (root / "home" / "homebody.yaml").write_text(json.dumps(settings_of(root)), encoding="utf-8")
    dice = random.Random(scale)
    for n in range(NOTES * scale):
        day = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(days=n % 700)
        path = root / "workspace" / "memory" / f"{day:%Y-%m-%d}-{n}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = "".join(f"- {' '.join(dice.choices(WORDS, k=9))} {dice.randrange(10**6)}\n" for _ in range(8))
        path.write_text(f"# Notes of {day:%Y-%m-%d}\n\n{lines}", encoding="utf-8")
    house = await opened(root)
    running = asyncio.ensure_future(house.run())
    talk = Talk(house)
    for n in range(TURNS_EACH):
        await talk.say(f"seed{n}", SEED)
    with contextlib.suppress(TimeoutError):
        # To wait for more confirms what was shown. Later would be too late: a large state takes minutes to make.
        await asyncio.wait_for(anext(talk.frames), 1)
    await house.agents["main"].quiet()
    store = house.agents["main"].store
    record = next(one for one in store.all() if one.turns == TURNS_EACH)
    whole = (await Transcript.load(store.transcript(record.session), SystemClock())).entries
    for n in range(1, SESSIONS * scale):
        session, key = f"{record.session}{n:06}", f"{record.key}-{n}"
        copy = await Transcript.load(store.transcript(session), SystemClock())
        for entry in whole:
            body = replace(entry.body, session=session, key=key) if isinstance(entry.body, Opened) else entry.body
            await copy.append(entry.id.partition(":")[0] + f"-{n}" * (not isinstance(entry.body, Opened)), body, durable=False)
        await copy.settle()
        at = record.spoken - timedelta(seconds=n * STEP_SECONDS)
        await store.put(structs.replace(record, session=session, key=key, started=at, spoken=at))
    long = structs.replace(record, session=f"{record.session}-{LONG}", key=record.key.replace(SEED, LONG))
    transcript = await Transcript.load(store.transcript(long.session), SystemClock())
    await transcript.append("open", replace(whole[0].body, session=long.session, key=long.key), n=0, durable=False)
    await lengthen(transcript, whole[1:], LONG_TURNS * scale)
    await store.put(long)
    await house.calls()["memory.sync"](agent="main")
    await talk.link.close()
    house.stop()
    await running
    await house.close()
    multiply(root / "home" / "state" / "ledger.sqlite", SESSIONS * scale)
    book(root / "home" / "state" / "ledger.sqlite", CALLS * scale)
    await fill(root / "home" / "state", JOBS * scale)


async def lengthen(transcript: Transcript, pattern: Sequence[Entry], turns: int) -> None:
    """Fill a transcript with so many turns, the ones of another over and over."""
    each = [[*entries] for _, entries in groupby(pattern, lambda entry: entry.id.partition(":")[0])]
    for n in range(turns):
        for entry in each[n % len(each)]:
            await transcript.append(f"{entry.id.partition(':')[0]}-{n}", entry.body, durable=False)
    await transcript.settle()


SHIFTED = {"received_at", "ended_at", "started_at", "at", "created_at", "not_before", "expires"}
NAMED = {
    "turn": ("id", "session"),
    "inbox": ("pkey", "skey", "session", "turn", "message"),
    "outbox": ("key", "turn"),
    "spending": ("session",),
}


def multiply(ledger: Path, count: int) -> None:
    """Give each further session the rows that the real one has, under its own names and a little earlier."""
    db = apsw.Connection(str(ledger))
    with db:
        for table, named in NAMED.items():
            columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
            values = [
                f"{name} || '-' || n.i"
                if name in named
                else f"{name} - n.i * {STEP_SECONDS} * 1000000"
                if name in SHIFTED
                else f"date((at - n.i * {STEP_SECONDS} * 1000000) / 1000000, 'unixepoch')"
                if name == "day"
                else f"(SELECT max(id) FROM {table}) + n.i * 1000 + id"
                if name in {"id", "place"}
                else name
                for name in columns
            ]
            db.execute(
                f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count - 1}) "
                f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(values)} FROM {table}, n"
            )
    for table, ended in {"inbox": "answered", "outbox": "sent", "turn": "done"}.items():
        if db.execute(f"SELECT 1 FROM {table} WHERE state <> '{ended}'").fetchone():
            raise SystemExit(f"{table} has rows that are not {ended}")
    for table in NAMED:
        rows = db.execute(f"SELECT count(*) FROM {table}").get
        if rows % count:
            raise SystemExit(f"{table} has {rows} rows for {count} sessions: not every session has the same")
    db.close()


def book(ledger: Path, count: int) -> None:
    """Book calls of further sessions on the day of the measurements, which may be the next one by then."""
    db = apsw.Connection(str(ledger))
    columns = [row[1] for row in db.execute("PRAGMA table_info(spending)") if row[1] != "id"]
    values = [
        {"day": "date('now', (n.i % 2) || ' days')", "session": "session || '-call-' || n.i"}.get(name, name)
        for name in columns
    ]
    with db:
        db.execute(
            f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {2 * count}) INSERT INTO spending "
            f"({', '.join(columns)}) SELECT {', '.join(values)} FROM n, (SELECT * FROM spending ORDER BY id LIMIT 1)"
        )
    db.close()


async def timed(work: Callable[[], Awaitable[Any]], times: int = 9) -> float:
    """Return the median CPU seconds of doing something, the first time left out."""
    took = []
    for _ in range(times + 1):
        began = time.process_time()
        await work()
        took.append(time.process_time() - began)
    return statistics.median(took[1:])


async def in_long_conversation(talk: Talk) -> dict[str, float]:
    """Return the CPU seconds that a turn takes on the event loop, and those of the search index after turns that make it look."""
    turns: list[float] = []
    looks: list[float] = []
    for look in range(1 + LOOKS):
        for n in range(TURNS_A_LOOK):
            began = time.thread_time()
            await talk.say(f"l{look}-{n}", LONG)
            turns.append(time.thread_time() - began)
        began = time.process_time()
        await asyncio.sleep(SETTLED)
        looks.append(time.process_time() - began)
    return dict(zip(IN_LONG, (statistics.median(turns[TURNS_A_LOOK:]), statistics.median(looks[1:])), strict=True))


async def inside(root: Path) -> dict[str, float]:
    """Measure what happens in a gateway, in this process."""
    house = await opened(root)
    running = asyncio.ensure_future(house.run())
    await asyncio.sleep(1)
    talk = Talk(house)
    for n in range(20):  # the first turns import and connect
        await talk.say(f"w{n}", "warm")
    calls, agent = house.calls(), house.agents["main"]
    found = {
        "warm turn": statistics.median([await talk.say(f"t{n}", "warm") for n in range(60)]),
        "first turn of a session": statistics.median([await talk.say(f"n{n}", f"new{n}") for n in range(40)]),
        **await in_long_conversation(talk),
        "memory search": await timed(lambda: agent.memory.search("kitchen painter river", audience=OWNER)),
        "sync of unchanged notes": await timed(lambda: calls["memory.sync"](agent="main"), 5),
        "page: sessions": await timed(calls["sessions.list"], 5),
        "page: jobs": await timed(calls["jobs.list"], 5),
        "page: notes": await timed(lambda: calls["memory.files"](agent="main"), 5),
        "page: costs": await timed(calls["costs"], 5),
        "page: outbox": await timed(calls["outbox.list"], 5),
        "status": await timed(calls["status"], 5),
        "tick of the schedule": await timed(house.schedule.tick, 15),
    }
    await talk.link.close()
    house.stop()
    await running
    await house.close()
    return found


def environment(root: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(root), "HOMEBODY_HOME": str(root / "home")}


def command(root: Path, *words: str) -> float:
    """Return the CPU seconds of a command, while no gateway runs."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "gateway", *words], env=environment(root), capture_output=True, text=True, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode > 1:
        raise SystemExit(f"homebody {' '.join(words)} failed: {done.stderr[-2000:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def idle(roots: dict[int, Path]) -> dict[int, dict[str, float]]:
    """Start a gateway on each, beside each other, and leave them alone."""
    began: dict[int, subprocess.Popen[bytes]] = {}
    found: dict[int, dict[str, float]] = {}
    try:
        for scale, root in roots.items():
            process = began[scale] = subprocess.Popen(
                [sys.executable, "-m", "gateway", "gateway"], env=environment(root), stderr=subprocess.DEVNULL
            )
            while (holder := describe(root / "home" / "state" / "gateway.lock")) is None or not holder.http_port:
                if process.poll() is not None:
                    raise SystemExit("the gateway did not start")
                time.sleep(0.005)
            found[scale] = {"start": cpu_of(process.pid)}
            time.sleep(6)
            status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
            found[scale]["memory at rest, MB"] = int(status.partition("VmRSS:")[2].split()[0]) / 1024
        time.sleep(COPIED)
        before = {scale: cpu_of(process.pid) for scale, process in began.items()}
        time.sleep(IDLE)
        for scale, process in began.items():
            found[scale]["idle, CPU in a minute"] = (cpu_of(process.pid) - before[scale]) * 60 / IDLE
    finally:
        for process in began.values():
            process.terminate()
            process.wait()
    return found


def size_of(folder: Path) -> float:
    return sum(one.stat().st_size for one in folder.rglob("*") if one.is_file()) / 1e6


def measure(root: Path) -> dict[str, float]:
    here = [sys.executable, __file__, "--inside", str(root)]
    found: dict[str, float] = json.loads(subprocess.run(here, check=True, stdout=subprocess.PIPE, text=True).stdout)
    found["homebody sessions list"] = command(root, "sessions", "list", "--json")
    found["homebody usage"] = command(root, "usage")
    found["homebody doctor"] = command(root, "doctor", "--json")
    found["homebody backup create"] = command(root, "backup", "create", "--to", str(root / "backup"))
    found["state on disk, MB"] = size_of(root / "home")
    return found


def exponent(values: dict[int, float]) -> float:
    """Return the slope of figure against size, both as logarithms, by least squares."""
    points = [(math.log(scale), math.log(max(value, 1e-6))) for scale, value in values.items()]
    middle, mean = (sum(values) / len(points) for values in zip(*points, strict=True))
    spread = sum((x - middle) ** 2 for x, _ in points)
    return sum((x - middle) * (y - mean) for x, y in points) / spread if spread else 0.0


def steepest(values: dict[int, float]) -> float:
    """Return the exponent between the two largest sizes, where what is constant weighs least."""
    return exponent(dict(sorted(values.items())[-2:]))


def shown(name: str, value: float) -> str:
    if name.endswith("MB"):
        return f"{value:,.1f} MB"
    return f"{value * 1000:,.1f} ms" if value < 1 else f"{value:,.2f} s"


def report(figures: dict[str, dict[int, float]]) -> list[str]:
    """Print the table, and return what grows too fast."""
    scales = sorted(next(iter(figures.values())))
    print("| figure | " + " | ".join(f"{scale}x" for scale in scales) + " | exponent | of the last step |")
    print("|---|" + "---:|" * (len(scales) + 2))
    wrong = []
    for name, values in figures.items():
        fit, last = exponent(values), steepest(values)
        print(f"| {name} | " + " | ".join(shown(name, values[scale]) for scale in scales) + f" | {fit:.2f} | {last:.2f} |")
        most = MOST_CONSTANT if name in CONSTANT else MOST
        if (fit if name in CONSTANT else max(fit, last)) > most:
            wrong.append(f"{name}: exponent {fit:.2f}, {last:.2f} in the last step (at most {most})")
    for line in wrong or ["nothing is worse than linear, and turns are constant"]:
        print(line)
    return wrong


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--scales", type=int, nargs="+", default=SCALES)
    options.add_argument("--json", type=Path, help="a file for the figures, from which --draw draws again")
    options.add_argument("--svg", type=Path, help="a file for the plot")
    options.add_argument("--keep", type=Path, help="a folder for the states, which stay")
    options.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.inside:
        print(json.dumps(asyncio.run(asyncio.wait_for(inside(given.inside), LONGEST))))
        return 0
    figures: dict[str, dict[int, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        roots = {scale: (given.keep or Path(folder)) / f"{scale}x" for scale in given.scales}
        for scale, root in roots.items():
            began = time.monotonic()
            asyncio.run(make(root, scale))
            print(f"{scale}x was made in {time.monotonic() - began:.0f} s", file=sys.stderr)
        resting = idle(roots)
        for scale, root in roots.items():
            for name, value in (resting[scale] | measure(root)).items():
                figures.setdefault(name, {})[scale] = value
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    if given.svg:
        from benchmarks.growth_plot import draw

        given.svg.write_text(draw(figures), encoding="utf-8")
    return int(bool(report(figures)))


if __name__ == "__main__":
    sys.exit(main())
