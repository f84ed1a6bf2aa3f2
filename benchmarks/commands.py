"""What a command costs through the runner beside a bare subprocess, and whether much output holds up the event loop."""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.runner.commands import ran, sh
from tests.runner.hands import hands

ROUNDS = 200
BYTES = 1_000_000_000


def _median(seconds: list[float]) -> float:
    return round(statistics.median(seconds) * 1000, 2)


def _resident(pid: int | None) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) // 1024


async def _lag(stop: asyncio.Event) -> tuple[float, float]:
    """Return the longest time for which the event loop did not turn, and the most CPU time that it used between two turns, in ms."""
    late = busy = 0.0
    while not stop.is_set():
        before, used = time.perf_counter(), time.thread_time()
        await asyncio.sleep(0.002)
        late = max(late, time.perf_counter() - before - 0.002)
        busy = max(busy, time.thread_time() - used)
    return round(late * 1000, 1), round(busy * 1000, 1)


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with hands(Path(folder)) as one:
            began = time.perf_counter()
            await ran(one.runner, sh("true"))
            first = time.perf_counter() - began
            runner, bare, tool = [], [], []
            for _ in range(ROUNDS):
                began = time.perf_counter()
                await ran(one.runner, sh("exec true"))
                runner.append(time.perf_counter() - began)
                began = time.perf_counter()
                subprocess.run(["/bin/bash", "-c", "exec true"], check=True, capture_output=True)  # noqa: ASYNC221 -- what is compared with
                bare.append(time.perf_counter() - began)
                began = time.perf_counter()
                await one.exec("true")
                tool.append(time.perf_counter() - began)
            stop = asyncio.Event()
            watching = asyncio.create_task(_lag(stop))
            began = time.perf_counter()
            await one.exec(f"head -c {BYTES} /dev/zero | tr '\\0' x", yieldMs=600_000)
            streamed = time.perf_counter() - began
            stop.set()
            memory = _resident(one.runner.pid)
            late, busy = await watching
            facts = {
                "runner started in ms": round(first * 1000, 1),
                "bare subprocess ms": _median(bare),
                "through the runner ms": _median(runner),
                "tool exec ms": _median(tool),
                "runner MB": memory,
                "1 GB of output in s": round(streamed, 1),
                "longest stall of the event loop ms": late,
                "of it CPU time of the loop ms": busy,
            }
    json.dump(facts, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    asyncio.run(main())
