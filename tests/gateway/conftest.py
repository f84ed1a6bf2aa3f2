"""A whole house in one process: real ledger, transcripts, workspace and index; a scripted model and a clock that tests turn."""

from __future__ import annotations

import asyncio
import contextlib
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from agent.models.scripted import ScriptedModel
from channels.live import Done, Reply
from gateway.app.dependencies import Dependencies
from gateway.app.gateway import Gateway
from gateway.base.clock import TickingClock
from gateway.base.paths import Paths
from gateway.settings.root import Settings
from tests.both_engines import storage_at
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from channels.live import LiveEvent
    from channels.terminal.link import Link


class Talk:
    """One terminal in a house."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.frames: list[LiveEvent] = []
        self._arrived = asyncio.Event()
        self._reading = asyncio.ensure_future(self._read())
        self._said = 0

    async def _read(self) -> None:
        async for frame in self.link.frames():
            self.frames.append(frame)
            self._arrived.set()

    async def send(self, text: str, **hints: str) -> str:
        self._said += 1
        key = f"k{id(self)}-{self._said}"
        await self.link.say(text, key=key, hints=hints)
        return key

    async def until(self, wanted: Callable[[], Any]) -> Any:
        async with asyncio.timeout(PATIENCE):
            while not (found := wanted()):
                self._arrived.clear()
                await self._arrived.wait()
        return found

    async def facts(self, key: str) -> dict[str, Any]:
        done = await self.until(lambda: next((f for f in self.frames if isinstance(f, Done) and f.key == key), None))
        await self.until(lambda: len(self.replies()) >= sum(f.facts["chunks"] for f in self.frames if isinstance(f, Done)))
        return dict(done.facts)

    async def ask(self, text: str, **hints: str) -> dict[str, Any]:
        return await self.facts(await self.send(text, **hints))

    def replies(self) -> list[str]:
        return [frame.text for frame in self.frames if isinstance(frame, Reply)]


class Street:
    """Where houses stand: opens one on the same state again and again."""

    def __init__(self, root: Path, settings: dict[str, Any]) -> None:
        self.root = root
        self.clock = TickingClock(datetime(2026, 3, 1, 9, 30, tzinfo=UTC))
        self.model = ScriptedModel()
        given: dict[str, Any] = {
            "agents": {"defaults": {"workspace": str(root / "workspace"), "userTimezone": "Europe/Berlin"}},
            "messages": {"queue": {"mode": "followup", "debounceMs": 0}},
            "storage": storage_at(root),
        }
        defaults = given["agents"]["defaults"]
        defaults |= {"model": "scripted/model"} | settings.pop("agent", {})
        self.settings = Settings.model_validate(given | settings)
        self.workspace = root / "workspace"
        self.further: dict[str, Any] = {}
        """What else the houses are built from, such as a fetcher."""

    @contextlib.asynccontextmanager
    async def house(self) -> AsyncIterator[tuple[Gateway, Talk]]:
        on = Dependencies(
            settings=self.settings,
            paths=Paths(self.root / "home"),
            env={},
            clock=self.clock,
            random=random.Random(7),
            **self.further,
        )
        house = await Gateway.open(on)
        house.model_registry.put("scripted/model", self.model)
        started = asyncio.Event()
        running = asyncio.ensure_future(house.run(started.set))
        try:
            await asyncio.wait([running, asyncio.ensure_future(started.wait())], return_when=asyncio.FIRST_COMPLETED)
            talk = Talk(house.terminal.attach("local"))
            yield house, talk
            await talk.link.close()
        finally:
            house.stop()
            await running
            await house.close()

    def notes(self) -> str:
        return "\n".join(path.read_text() for path in sorted((self.workspace / "memory").glob("2*.md")))


@pytest.fixture
def street(tmp_path: Path) -> Callable[..., Street]:
    return lambda **settings: Street(tmp_path, settings)
