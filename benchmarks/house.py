"""Measures the house: start, memory at rest, and what a turn costs beside its model.

    python benchmarks/house.py            prints one line a figure, with its bar where there is one

The model answers at once unless said, and inside this process: what its SDK and HTTP cost is measured by history.py.

The first line says how fast Python is here and now, so that figures of two days or two machines can be compared: in proportion to it.
An interpreter that was built without profile-guided optimisation is slower by a quarter to a third.
"""

from __future__ import annotations

import asyncio
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from agent.models.scripted import ScriptedModel
from channels.live import Done
from gateway.app.dependencies import Dependencies
from gateway.app.gateway import Gateway
from gateway.base.clock import SystemClock
from gateway.base.paths import Paths
from gateway.base.state_lock import describe
from gateway.settings.root import Settings


def say(name: str, figure: str, bar: str = "") -> None:
    print(f"{name:52} {figure:>12}   {bar}")


def measure_machine() -> None:
    """Time a loop of additions; the least of many, as other programs only make it longer."""
    steps, best = 200_000, float("inf")
    for _ in range(25):
        began, total = time.process_time(), 0
        for step in range(steps):
            total += step
        best = min(best, time.process_time() - began)
    say("a step of a loop in Python, CPU", f"{best / steps * 1e9:.0f} ns")


def child_cpu(command: list[str], env: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure_help(env: dict[str, str]) -> None:
    command = [sys.executable, "-m", "gateway", "--help"]
    best = min(child_cpu(command, env) for _ in range(5))
    say("homebody --help, CPU", f"{best * 1000:.0f} ms", "at most 150 ms")


def measure_gateway(root: Path, env: dict[str, str]) -> None:
    (root / "home").mkdir()
    (root / "home" / "homebody.yaml").write_text("gateway: {port: 0}\n", encoding="utf-8")
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "gateway", "gateway"], env=env, stderr=subprocess.DEVNULL)
    try:
        while True:
            holder = describe(root / "home" / "state" / "gateway.lock")
            if holder is not None and holder.http_port:
                break
            if process.poll() is not None:
                raise SystemExit("the gateway did not start")
            time.sleep(0.005)
        with urllib.request.urlopen(f"http://127.0.0.1:{holder.http_port}/healthz", timeout=5) as answer:
            answer.read()
        say("gateway, start to first HTTP answer", f"{(time.perf_counter() - began) * 1000:.0f} ms")
        time.sleep(5)
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
        rss = int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024
        say("gateway at rest, RSS", f"{rss:.0f} MB", "at most 80 MB")
    finally:
        process.terminate()
        process.wait()


def measure_cold_turn(env: dict[str, str]) -> None:
    command = [sys.executable, "-m", "gateway", "agent", "-m", "hello"]
    best = min(child_cpu(command, env) for _ in range(3))
    say("homebody agent -m hello, cold, notebook, CPU", f"{best * 1000:.0f} ms", "at most 1000 ms")


class Slow(ScriptedModel):
    """A model that takes a second."""

    async def stream(self, request):
        await asyncio.sleep(1)
        async for part in super().stream(request):
            yield part


class Bench:
    """A house in this process, with a scripted model."""

    def __init__(self, root: Path) -> None:
        settings = Settings.model_validate(
            {
                "agents": {
                    "defaults": {
                        "model": "scripted/model",
                        "workspace": str(root / "workspace"),
                        "userTimezone": "UTC",
                        "maxConcurrent": 200,
                    }
                }
            }
        )
        self.on = Dependencies(
            settings=settings, paths=Paths(root / "state"), env={}, clock=SystemClock(), random=random.Random(1)
        )

    async def run(self) -> None:
        house = await Gateway.open(self.on)
        house.model_registry.put("scripted/model", ScriptedModel(lambda _: "ok"))
        running = asyncio.ensure_future(house.run())
        await self.one_after_the_other(house, "same session", 200, "same")
        await self.one_after_the_other(house, "a new session each", 100, "new{}")
        house.model_registry.put("scripted/model", Slow(lambda _: "ok"))
        await self.at_once(house, 32)
        await self.at_once(house, 200, "at most 2.5 s")
        await self.at_once(house, 200, waiting=True)
        house.stop()
        await running
        await house.close()

    async def one_after_the_other(self, house: Gateway, label: str, count: int, session: str) -> None:
        link = house.terminal.attach("bench")
        frames = link.frames()
        times = []
        cpu = time.process_time()
        for n in range(count):
            key = f"{label}{n}"
            began = time.perf_counter()
            await link.say("hello", key=key, hints={"session": session.format(n)})
            async for frame in frames:
                if isinstance(frame, Done) and frame.key == key:
                    break
            times.append((time.perf_counter() - began) * 1000)
        cpu = (time.process_time() - cpu) / count * 1000
        times.sort()
        figures = f"p50 {statistics.median(times):.1f}, p95 {times[int(len(times) * 0.95)]:.1f} ms"
        say(f"warm turn, {label}, {count} turns", figures, "p50 at most 15 ms")
        say("    its CPU, all threads together", f"{cpu:.1f} ms", "at most 6 ms")
        await link.close()

    async def at_once(self, house: Gateway, count: int, bar: str = "", *, waiting: bool = False) -> None:
        """Say something in each of many new sessions. ``waiting``: each once the one before it is stored, as one person would."""
        name = f"{'m' if waiting else 'n'}{count}"
        link = house.terminal.attach(name)
        began, cpu = time.perf_counter(), time.process_time()
        said = [link.say("hello", key=f"{name}-{n}", hints={"session": f"{name}-{n}"}) for n in range(count)]
        if waiting:
            for one in said:
                await one
        else:
            await asyncio.gather(*said)
        done = 0
        async for frame in link.frames():
            done += isinstance(frame, Done)
            if done == count:
                break
        how = "one said after the other" if waiting else "at once"
        say(f"{count} sessions {how}, a model of 1 s", f"{time.perf_counter() - began:.2f} s", bar)
        say("    CPU of each, all threads together", f"{(time.process_time() - cpu) / count * 1000:.1f} ms")
        await link.close()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "person").mkdir()
        path = os.environ["PATH"]
        env = {"PATH": path, "HOME": str(root / "person"), "HOMEBODY_HOME": str(root / "home")}
        measure_machine()
        measure_help(env)
        measure_gateway(root, env)
        measure_cold_turn(env)
        (root / "bench").mkdir()
        asyncio.run(Bench(root / "bench").run())


if __name__ == "__main__":
    main()
