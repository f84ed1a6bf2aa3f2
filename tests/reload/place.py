"""A house on a settings file that a test writes, for tests that change it while the house runs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import subprocess
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import yaml

from agent.models.scripted import ScriptedModel
from channels.live import Done, Reply
from gateway.app.dependencies import Dependencies
from gateway.app.gateway import Gateway
from gateway.base.clock import ManualClock
from gateway.base.paths import Paths
from gateway.config.load import load
from tests import programs
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from gateway.logs.log_setup import Closer

TOKEN = "a-token-of-the-house-0123456789"


class Place:
    """A house on a settings file that the test writes, and one terminal in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.paths = Paths(root / "home")
        self.paths.prepare()
        self.file = self.paths.home / "homebody.yaml"
        self.clock = ManualClock(datetime(2026, 3, 1, 9, 30, tzinfo=UTC))
        self.models = {name: ScriptedModel(lambda _, name=name: name, name=name) for name in ("scripted/one", "scripted/two")}
        self.base: dict[str, Any] = {
            "agents": {"defaults": {"model": "scripted/one", "userTimezone": "Europe/Berlin", "workspace": str(root / "work")}},
            "gateway": {"port": 0, "auth": {"token": TOKEN}},
        }
        self.write({})

    def write(self, given: dict[str, Any]) -> None:
        """Write the settings: the test's over the least that is needed."""
        merged = json.loads(json.dumps(self.base))
        for section, said in given.items():
            merged[section] = _over(merged.get(section, {}), said)
        self.file.write_text(yaml.safe_dump(merged))

    @contextlib.asynccontextmanager
    async def open(
        self,
        *,
        serving: bool = False,
        clock: Any = None,
        logs: Closer | None = None,
        env: dict[str, str] | None = None,
        **further: Any,
    ) -> AsyncIterator[Gateway]:
        settings = load(self.paths, env or {}).settings
        on = Dependencies(
            settings=settings,
            paths=self.paths,
            env=env or {},
            clock=clock or self.clock,
            random=random.Random(1),
            serving=serving,
            logs=logs,
            **further,
        )
        house = await Gateway.open(on)
        for name, model in self.models.items():
            house.model_registry.put(name, model)
        started = asyncio.Event()
        running = asyncio.ensure_future(house.run(started.set))
        await asyncio.wait([running, asyncio.ensure_future(started.wait())], return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            await running  # it says why it did not start
        try:
            yield house
        finally:
            house.stop()
            await running
            await house.close()


def _over(under: Any, said: Any) -> Any:
    if isinstance(under, dict) and isinstance(said, dict):
        return {key: _over(under.get(key), said.get(key, under.get(key))) for key in under | said}
    return said


async def ask(house: Gateway, text: str, **hints: str) -> str:
    """Say something in a terminal of its own, and return the reply."""
    link = house.terminal.attach("t" + str(abs(hash(text)) % 10**8))
    await link.say(text, key=text[:30], hints=hints)
    replies: list[str] = []
    chunks: int | None = None
    async with asyncio.timeout(PATIENCE):
        async for frame in link.frames():
            if isinstance(frame, Reply):
                replies.append(frame.text)
            elif isinstance(frame, Done):
                chunks = frame.facts["chunks"]
            if chunks is not None and len(replies) >= chunks:
                break
    await link.close()
    return "\n".join(replies)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not true():  # noqa: ASYNC110 -- what is waited for has no event
            await asyncio.sleep(0.01)


def listening(house: Gateway) -> list[str]:
    """Hear what the owner is told."""
    said: list[str] = []
    house.owner = _Owner(said)  # type: ignore[assignment]
    return said


class _Owner:
    def __init__(self, said: list[str]) -> None:
        self.say = said.append
        self.heard = lambda _arrived: None


async def homebody(place: Place, *arguments: str) -> str:
    """Run a command beside the house, as its owner would, and return what it prints."""
    env = {"PATH": "/usr/bin:/bin", "HOME": str(place.root), "HOMEBODY_HOME": str(place.paths.home)}
    command = [sys.executable, "-m", "gateway", *arguments]
    ran = await asyncio.to_thread(programs.run, command, env=env, stdout=subprocess.PIPE, text=True)
    return str(ran.stdout)
