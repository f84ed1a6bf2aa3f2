"""What a turn costs on each engine of the ledger: a message on the terminal, answered by a scripted model, on the same disk.

    PYTHONPATH=. .venv/bin/python benchmarks/storage_turn.py [TURNS]

Turns on both engines take turns, so that what else the machine does hits both alike. PostgreSQL is started from requirements/postgres.txt.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles

from agent.models.scripted import ScriptedModel
from channels.live import Done
from gateway.app.dependencies import Dependencies
from gateway.app.gateway import Gateway
from gateway.base.paths import Paths
from gateway.settings.root import Settings
from tests.postgres_server import server


class Running:
    def __init__(self, home: Path, storage: dict[str, str]) -> None:
        agent = {
            "model": "scripted/one",
            "memorySearch": {"enabled": False},
            "heartbeat": {"every": 0},
            "workspace": str(home / "work"),
        }
        self.settings = Settings.model_validate({"agents": {"defaults": agent}, "storage": storage})
        self.paths = Paths(home)
        self.took: list[float] = []

    async def begin(self) -> None:
        self.gateway = await Gateway.open(Dependencies(settings=self.settings, paths=self.paths, env={}))
        self.gateway.model_registry.put(
            "scripted/one", ScriptedModel(lambda _request: "It is under the pot.", name="scripted/one")
        )
        started = asyncio.Event()
        self.running = asyncio.ensure_future(self.gateway.run(started.set))
        await started.wait()
        self.link = self.gateway.terminal.attach("bench")
        self.frames = self.link.frames()

    async def turn(self, number: int) -> None:
        began = time.perf_counter()
        await self.link.say("Where is the key?", key=f"k{number}", hints={})
        async for frame in self.frames:
            if isinstance(frame, Done):
                break
        self.took.append(time.perf_counter() - began)

    async def end(self) -> None:
        await self.link.close()
        self.gateway.stop()
        await self.running
        await self.gateway.close()


async def main(turns: int) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        both = {
            "SQLite": Running(Path(folder) / "sqlite", {}),
            "PostgreSQL": Running(Path(folder) / "postgres", {"url": server().url()}),
        }
        for one in both.values():
            await one.begin()
        for number in range(turns + 10):
            for one in both.values():
                await one.turn(number)
        for one in both.values():
            await one.end()
    for name, one in both.items():
        took = sorted(one.took[10:])
        print(
            f"{name:10}  median {median(took) * 1e3:6.2f} ms  p95 {quantiles(took, n=20)[-1] * 1e3:6.2f} ms  least {took[0] * 1e3:6.2f} ms"
        )
    ratios = [b / a for a, b in zip(both["SQLite"].took[10:], both["PostgreSQL"].took[10:], strict=True)]
    print(f"a turn on PostgreSQL takes {median(ratios):.2f} times as long (median of pairs)")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 200))
