"""What a week of heartbeats costs, against an Anthropic API of our own that computes its prompt cache and bills it.

    python benchmarks/heartbeat_cost.py            a week: 120 turns in five days, a beat every half hour day and night
    python benchmarks/heartbeat_cost.py --days 1   a shorter one

The conversation is that of ``benchmarks/cost.py``. It is held twice, without heartbeats and with a HEARTBEAT.md of five tasks, and
the difference is what they cost: their own calls, less what the main session saves because its prompt is still in the cache. Prices
are those of the built-in list (``agent/models/catalog/prices.py``), and no prefix below 4,096 tokens is cached, as published for
the model.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.messages import Usage
from agent.models.adapters.anthropic import AnthropicModel
from agent.models.catalog.known_models import facts_of
from agent.models.catalog.prices import PriceList
from benchmarks.cost import MODEL, Person, Turn, label, prose, week
from channels.terminal.link import Exchange
from gateway.app.dependencies import Dependencies
from gateway.app.gateway import Gateway
from gateway.base.clock import ManualClock
from gateway.base.paths import Paths
from gateway.settings.root import Settings
from tests.peers.caching_anthropic import Bill, CachingPeer

if TYPE_CHECKING:
    from tests.peers.anthropic import Say

STEP = 1800
MINUTE = 60
OWNER_CHARS = 2500
"""What an agent knows of its owner after a week or two; with less, the prompt is too short for the cache of this model."""
LEAST_TOKENS = 4096
SESSION = "agent:main:heartbeat"
TASKS = """\
# Heartbeat

- On weekdays at 8: read today's and yesterday's notes; tell me what is still open, in three lines at most.
- If a note names an appointment within the next two hours that I was not told of, remind me.
- On Fridays at 17: is the shopping list older than a week? Then ask what is missing.
- Once a day: lift what will still matter in months from yesterday's note into MEMORY.md.
- If the backup note (notes/backup.md) has no entry of the last three days, tell me.
"""


def is_beat(body: dict[str, Any]) -> bool:
    return "# HEARTBEAT.md" in json.dumps(body["messages"][0])


class Owner(Person):
    """The model's side: nothing is due in any heartbeat."""

    def __call__(self, body: dict[str, Any]) -> Say:
        return self._says("HEARTBEAT_OK") if is_beat(body) else super().__call__(body)


class Days:
    """A house over some days, in steps of half an hour at most."""

    def __init__(self, house: Gateway, clock: ManualClock) -> None:
        self.house = house
        self.clock = clock

    async def pass_by(self, seconds: float) -> None:
        while seconds > 0:
            self.clock.move(max(1, min(seconds, STEP) - MINUTE))
            seconds -= STEP
            await self.look()

    async def look(self) -> None:
        """Do what is due, and again what had to wait for something else that was."""
        await self._tick()
        self.clock.move(MINUTE)
        await self._tick()

    async def _tick(self) -> None:
        await self.house.schedule.tick()
        while any(map(self._works, (SESSION, "agent:main:main"))):  # noqa: ASYNC110  (nobody announces it)
            await asyncio.sleep(0.005)
        await self.house.agents["main"].quiet()

    def _works(self, session: str) -> bool:
        return self.house.lanes.busy(session) or self.house.lanes.queued(session) > 0


async def run(turns: list[Turn], root: Path, *, days: int, every: str | int, tasks: str = TASKS) -> CachingPeer:
    """Hold the conversation, and let time pass until so many days are over; return the peer with its bills."""
    began = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
    clock = ManualClock(began)
    peer = CachingPeer(clock, Owner(5), label=lambda body: "heartbeat" if is_beat(body) else label(body), least=LEAST_TOKENS)
    runner = await peer.start()
    workspace = root / "workspace"
    defaults = {"model": MODEL, "workspace": str(workspace), "userTimezone": "UTC", "heartbeat": {"every": every}}
    settings = Settings.model_validate({"agents": {"defaults": defaults}})
    house = await Gateway.open(
        Dependencies(settings=settings, paths=Paths(root / "home"), env={}, clock=clock, random=random.Random(1))
    )
    (workspace / "USER.md").write_text(f"# Your owner\n\n{prose(random.Random(2), OWNER_CHARS)}\n")
    if tasks:
        (workspace / "HEARTBEAT.md").write_text(tasks)
    facts = facts_of("anthropic", "claude-opus-4-5")
    house.model_registry.put(MODEL, AnthropicModel("claude-opus-4-5", key="k", facts=facts, base_url=peer.url))
    running = asyncio.ensure_future(house.run())
    link = house.terminal.attach("bench")
    frames, dice, passing = link.frames(), random.Random(3), Days(house, clock)
    try:
        await passing.look()
        for n, turn in enumerate(turns):
            if turn.silence < 0 and n:
                today = clock.now().replace(hour=9, minute=0, second=0)
                await passing.pass_by(
                    (max(today + timedelta(days=1), clock.now() + timedelta(hours=5)) - clock.now()).total_seconds()
                )
            elif turn.silence > 0:
                await passing.pass_by(turn.silence)
            paths = []
            for index, size in enumerate(turn.results):
                path = workspace / "data" / f"{n}-{index}.txt"
                path.parent.mkdir(exist_ok=True, parents=True)
                path.write_text("\n".join(prose(dice, 90) for _ in range(max(1, size // 92))))
                paths.append(f"data/{path.name}")
            await link.say(turn.text + (f" read: {' '.join(paths)}" if paths else ""), key=f"t{n}")
            exchange = Exchange(f"t{n}")
            async for frame in frames:
                exchange.hear(frame)
                if exchange.over:
                    break
            await house.agents["main"].quiet()
        await passing.pass_by((began + timedelta(days=days) - clock.now()).total_seconds())
    finally:
        await link.close()
        house.stop()
        await running
        await house.close()
        await runner.cleanup()
    return peer


def dollars(bill: Bill) -> float:
    """What a bill comes to by the built-in prices."""
    price = PriceList().find("anthropic", "claude-opus-4-5")
    assert price is not None
    written = bill.written_5m + bill.written_1h
    usage = Usage(input=bill.fresh, output=bill.output, cache_read=bill.read, cache_write=written)
    return price.of_usage(usage, written_for_an_hour=bill.written_1h)


async def compare(days: int, turns: list[Turn]) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        without = await run(turns, Path(one), days=days, every=0)
        beating = await run(turns, Path(two), days=days, every="30m")
    beats = beating.bills["heartbeat"]
    return {
        "without": dollars(without.bill),
        "with": dollars(beating.bill),
        "more": dollars(beating.bill) - dollars(without.bill),
        "beats": beats.calls,
        "ofBeats": dollars(beats),
        "readShare": beats.read / beats.prompt,
        "oneBeat": dollars(beats) / beats.calls,
    }


def main() -> None:
    days = int(sys.argv[sys.argv.index("--days") + 1]) if "--days" in sys.argv else 7
    found = asyncio.run(compare(days, week(random.Random(11))[: 24 * min(days, 5)]))
    if "--json" in sys.argv:
        print(json.dumps(found, indent=1))
        return
    print("| days | without | with heartbeats | more | beats | their own calls | read from cache | one beat |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|")
    print(
        f"| {days} | ${found['without']:.2f} | ${found['with']:.2f} | ${found['more']:.2f} | {found['beats']} | ${found['ofBeats']:.2f} "
        f"| {100 * found['readShare']:.0f} % | ${found['oneBeat']:.4f} |"
    )


if __name__ == "__main__":
    main()
