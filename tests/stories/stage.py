"""What a story is given, and what it gives back."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.stories.house import House
from tests.stories.model import FLUSH, Model

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path


@dataclass(frozen=True)
class Row:
    """One promise, and whether it held."""

    promise: str
    held: bool
    figures: str = ""


class Story(NamedTuple):
    """One entry of a module's ``STORIES``.

    seconds: after how many it is given up (five minutes for each long outage come on top).
    waits: whether most of it is waiting, so that it is told beside others that wait.
    """

    tell: Callable[[Stage], Awaitable[None]]
    seconds: float
    waits: bool = True


@dataclass
class Stage:
    """Where a story takes place.

    folder: of its own; it is kept when the story fails.
    long: whether the long outages are told too.
    seed: of all dice.
    """

    folder: Path
    long: bool = False
    seed: int = 1
    rows: list[Row] = field(default_factory=list)

    def hold(self, promise: str, held: object, figures: str = "") -> None:
        """Note whether a promise held."""
        self.rows.append(Row(promise, bool(held), " ".join(figures.split())))

    def control(self, oracle: str, missed: str) -> None:
        """Note that an oracle was shown what it must find; ``missed`` names what it did not find."""
        self.rows.append(Row(f"control: {oracle}", not missed, f"not seen: {missed}" if missed else "every sabotage seen"))

    @contextlib.asynccontextmanager
    async def house(self, name: str, **more: Any) -> AsyncIterator[House]:
        """Lend a house in a folder of that name."""
        house = House(self.folder / name, **more)
        try:
            yield house
        finally:
            await house.dismiss()

    @contextlib.asynccontextmanager
    async def model(self, **more: Any) -> AsyncIterator[Model]:
        """Lend a model."""
        model = Model(**more)
        await model.port.open()
        try:
            yield model
        finally:
            await model.port.close()


def settings(model: Model, *, window: int = 128_000, defaults: dict[str, Any] | None = None, **sections: Any) -> dict[str, Any]:
    """Return settings for a house that speaks with this model only; ``defaults`` goes into ``agents.defaults``."""
    own = {"model": f"story/{model.names[0]}", "userTimezone": "UTC", "compaction": {"memoryFlush": {"systemPrompt": FLUSH}}}
    agents = {"defaults": {**own, **(defaults or {})}}
    return {"gateway": {"port": 0}, "models": model.settings(window), "agents": agents, **sections}


async def until(true: Callable[[], bool], seconds: float, pace: float = 0.1) -> float | None:
    """Wait for something to become true; return after how many seconds it did, or None."""
    began = time.monotonic()
    while not true():
        if time.monotonic() - began > seconds:
            return None
        await asyncio.sleep(pace)
    return time.monotonic() - began


async def calm(count: Callable[[], int], quiet: float, most: float) -> None:
    """Wait until a count has not changed for ``quiet`` seconds, but no longer than ``most``."""
    began = since = time.monotonic()
    last = count()
    while time.monotonic() - since < quiet and time.monotonic() - began < most:
        await asyncio.sleep(0.2)
        if count() != last:
            last, since = count(), time.monotonic()


async def together(*work: Awaitable[None]) -> None:
    """Do several things at once; the first failure ends all."""
    async with asyncio.TaskGroup() as group:
        for one in work:
            group.create_task(_run(one))


async def _run(work: Awaitable[None]) -> None:
    await work
