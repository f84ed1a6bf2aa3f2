"""Measures what jobs in the store cost a gateway that has nothing to do: its start, its memory, and its idle CPU.

    python benchmarks/jobs.py [JOBS] [SECONDS]     10,000 jobs with ten runs each, and a minute of idling, unless said

A gateway without jobs is measured beside it, because other work on the machine moves both alike: starts in turns, idling at the same
time. That takes three minutes, most of them waiting.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from gateway.base.clock import SystemClock
from gateway.base.state_lock import describe
from gateway.ledger.job_rows import NewJob
from gateway.ledger.sqlite import SqliteLedger

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUNDS = 3
SETTLE = 6.0
"""Seconds after the start at which memory is read: the scheduler and its imports are there by then."""
COPIED = 40.0
"""Seconds after the start from which idle CPU counts: the ledger's first copy of the hour is made by then."""


@dataclass
class Figures:
    start: float
    start_cpu: float
    rss: float


async def fill(state: Path, count: int) -> None:
    """Store jobs that are not due within a day, with a log of ten runs each."""
    ledger = await SqliteLedger.open(state / "ledger.sqlite", SystemClock())
    now = datetime.now(UTC)
    text = "Look at the calendar, the mail and the weather, and tell me in three lines what matters today."
    for start in range(0, count, 100):
        await asyncio.gather(
            *(
                ledger.jobs.add(
                    NewJob(agent="main", name=f"job {n}", schedule=f"cron {n % 60} {n % 24} * * 1-5", kind="prompt", text=text),
                    now + timedelta(days=1, seconds=n),
                    "UTC",
                )
                for n in range(start, min(start + 100, count))
            )
        )
    runs = (
        "INSERT INTO job_run (job, instant, at, state, reason, by_hand, inbox) "
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10) "
        "SELECT job.id, job.created_at - i * 86400000000, job.created_at - i * 86400000000, 'fired', '', 0, i FROM job, n"
    )
    await ledger.close()
    db = apsw.Connection(str(ledger.path))
    db.execute(runs)
    db.close()


@contextmanager
def gateway(root: Path) -> Iterator[tuple[int, float, float]]:
    """Yield the process of a gateway that listens, and what its start took: seconds, and seconds of CPU."""
    env = {"PATH": os.environ["PATH"], "HOME": str(root), "HOMEBODY_HOME": str(root / "home")}
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "gateway", "gateway"], env=env, stderr=subprocess.DEVNULL)
    try:
        while (holder := describe(root / "home" / "state" / "gateway.lock")) is None or not holder.http_port:
            if process.poll() is not None:
                raise SystemExit("the gateway did not start")
            time.sleep(0.005)
        with urllib.request.urlopen(f"http://127.0.0.1:{holder.http_port}/healthz", timeout=30) as answer:
            answer.read()
        yield process.pid, time.perf_counter() - began, cpu_of(process.pid)
    finally:
        process.terminate()
        process.wait()


def measure(root: Path) -> Figures:
    with gateway(root) as (pid, start, start_cpu):
        time.sleep(SETTLE)
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
        rss = int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024
        return Figures(start, start_cpu, rss)


def idle(homes: dict[str, Path], seconds: float) -> dict[str, float]:
    """Return the share of a CPU that each gateway uses, in percent. They idle beside each other: neither keeps the other from it."""
    with ExitStack() as stack:
        pids = {name: stack.enter_context(gateway(root))[0] for name, root in homes.items()}
        time.sleep(COPIED)
        before = {name: cpu_of(pid) for name, pid in pids.items()}
        time.sleep(seconds)
        return {name: (cpu_of(pid) - before[name]) / seconds * 100 for name, pid in pids.items()}


def cpu_of(pid: int) -> float:
    spent = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[11:13]
    return sum(map(int, spent)) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 60.0
    with tempfile.TemporaryDirectory() as folder:
        homes = {"no jobs": Path(folder) / "without", f"{count:,} jobs": Path(folder) / "with"}
        for name, root in homes.items():
            (root / "home").mkdir(parents=True)
            (root / "home" / "homebody.yaml").write_text("gateway: {port: 0}\n", encoding="utf-8")
            (root / "home" / "state").mkdir(mode=0o700)
            asyncio.run(fill(root / "home" / "state", 0 if name == "no jobs" else count))
        found: dict[str, list[Figures]] = {name: [] for name in homes}
        for _ in range(ROUNDS):
            for name, root in homes.items():
                found[name].append(measure(root))
        resting = idle(homes, seconds)
    for name, figures in found.items():
        start, work, rss = (statistics.median(getattr(one, what) for one in figures) for what in ("start", "start_cpu", "rss"))
        print(
            f"{name:14} start {start * 1000:6.0f} ms ({work * 1000:4.0f} ms of CPU, "
            f"at least {min(one.start_cpu for one in figures) * 1000:.0f})   at rest {rss:5.1f} MB   idle CPU {resting[name]:5.2f} %"
        )
    print("bars with jobs: start at most 1200 ms, +10 MB, idle CPU at most 0.3 %")


if __name__ == "__main__":
    main()
