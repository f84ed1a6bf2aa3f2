"""What confinement costs a command: the time from starting `true` to its end, bare and confined, turn by turn in one run.

PYTHONPATH=. python benchmarks/sandbox.py [COMMANDS]
"""

from __future__ import annotations

import asyncio
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.base.clock import SystemClock
from gateway.base.paths import Paths
from gateway.runner.runner_client import Runner
from gateway.sandbox.command_sandbox import CommandSandbox
from gateway.sandbox.protocol import Request
from gateway.settings.root import Settings

if TYPE_CHECKING:
    from gateway.sandbox.protocol import Confined

MOST = 25.0
"""Milliseconds that bubblewrap may add to a command."""


def house(place: Path, means: str) -> CommandSandbox:
    said = {"tools": {"exec": {"sandbox": means}}, "agents": {"defaults": {"workspace": str(place / "workspace")}}}
    return CommandSandbox(Paths(place / "state"), lambda: Settings.model_validate(said))


async def timed(runner: Runner, plan: Confined) -> float:
    began = time.perf_counter()
    process = await runner.start(plan, timeout=60)
    async for _ in process.chunks():
        pass
    end = await process.exit()
    assert end.code == 0, end
    return (time.perf_counter() - began) * 1000


async def main(commands: int) -> int:
    place = Path(tempfile.mkdtemp())
    for folder in ("workspace", "state"):
        (place / folder).mkdir()
    runner = Runner(SystemClock())
    plans: dict[str, Confined] = {}
    workspace = str(place / "workspace")
    for means in ("off", "bwrap", "landlock"):
        before = resource.getrusage(resource.RUSAGE_SELF)
        began = time.perf_counter()
        standing = await house(place, means).standing("main")
        after = resource.getrusage(resource.RUSAGE_SELF)
        own = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000
        print(
            f"{means:9} tried in {(time.perf_counter() - began) * 1000:6.0f} ms, {own:4.0f} ms of processor time in the gateway"
        )
        if standing.usable:
            request = Request(argv=("/usr/bin/true",), cwd=workspace, workspace=workspace, agent="main")
            plans[means] = await house(place, means).confine(request)
    times: dict[str, list[float]] = {means: [] for means in plans}
    for _ in range(commands):
        for means, plan in plans.items():
            times[means].append(await timed(runner, plan))
    await runner.close()
    bare = statistics.median(times["off"])
    for means, taken in times.items():
        middle = statistics.median(taken)
        print(
            f"{means:9} median {middle:6.1f} ms, p95 {statistics.quantiles(taken, n=20)[-1]:6.1f} ms, {middle - bare:+5.1f} ms beside bare"
        )
    added = statistics.median(times["bwrap"]) - bare if "bwrap" in times else 0.0
    print(f"bubblewrap adds {added:.1f} ms; the bar is {MOST:.0f} ms")
    return 0 if added <= MOST else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)))
