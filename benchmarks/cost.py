"""What months of conversation cost, against an Anthropic API of our own that computes its prompt cache and bills it.

    python benchmarks/cost.py              prints all tables (docs/cost.md has them)
    python benchmarks/cost.py week         only the runs whose names begin so
    python benchmarks/cost.py --json       as JSON

Three scripts: a working week (120 turns in five days, 52 silences over five minutes, 36 turns with tools whose results have 387,000
characters together, daily resets), such a week with breaks of one and of ten hours, with resets and without, and a month (300 turns in
bursts, tool results of 1 to 50 thousand characters, summaries, weekly resets; the model's real window is smaller than the settings
say, so that some requests overflow). Time is turned by hand; words, sizes and silences come from a seeded generator.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from agent.models.adapters.anthropic import AnthropicModel
from agent.models.catalog.known_models import facts_of
from channels.live import Done
from gateway.agents.session_contexts import main_key
from gateway.app.dependencies import Dependencies
from gateway.app.gateway import Gateway
from gateway.base.clock import ManualClock
from gateway.base.paths import Paths
from gateway.settings.root import Settings
from tests.peers.anthropic import Say
from tests.peers.caching_anthropic import CachingPeer

MODEL = "anthropic/claude-opus-4-5"
WORDS = (  # noqa: SIM905  (a list of words reads badly)
    "the plan for garden and kitchen moves to a later day because painters need more time than we thought and nobody told us "
    "so please look at what the letter says about money then write down who has to call whom before the week is over"
).split()


@dataclass(frozen=True)
class Turn:
    """One thing said: after how many seconds of silence, what, and how long the tool results are that it needs."""

    silence: float
    text: str
    results: tuple[int, ...] = ()


def prose(dice: random.Random, chars: int) -> str:
    words = []
    while sum(map(len, words)) + len(words) < chars:
        words.append(dice.choice(WORDS) if dice.random() > 0.04 else str(dice.randrange(10, 9999)))
    return " ".join(words)


def week(dice: random.Random) -> list[Turn]:
    """120 turns in five days: 48 silences of 6 to 180 minutes within days, four nights, the rest under five minutes."""
    long = set(dice.sample([n for n in range(120) if n % 24], 48))
    tools = set(dice.sample(range(120), 36))
    sizes = [dice.randrange(2000, 19_500) for _ in range(36)]
    scale = 387_000 / sum(sizes)
    turns = []
    for n in range(120):
        if n and n % 24 == 0:
            silence = 0.0  # the night is added by the day's own start
        elif n in long:
            silence = 60 * 6 * (30 ** dice.random())
        else:
            silence = dice.uniform(20, 200)
        results = (round(sizes.pop() * scale),) if n in tools else ()
        turns.append(Turn(silence if n % 24 else -1, prose(dice, dice.randrange(60, 500)), results))
    return turns


def long_breaks(dice: random.Random) -> list[Turn]:
    """120 turns in five days, four bursts of six a day: an hour between bursts, ten hours after the third and over night."""
    sizes = [round(500 * 100 ** ((n + 0.5) / 36)) for n in range(36)]
    dice.shuffle(sizes)
    tools = set(dice.sample(range(1, 120), 36))
    turns = []
    for n in range(120):
        if n % 6 == 0:
            silence = 0.0 if n == 0 else 36_000.0 if n // 6 % 4 in (3, 0) else 3600.0
        else:
            silence = dice.choices((120.0, 420.0, 20.0), (6, 3, 1))[0]
        longest = dice.choices(((20, 160), (200, 900), (2000, 6000)), (70, 22, 8))[0]
        turns.append(Turn(silence, prose(dice, dice.randrange(*longest)), (sizes.pop(),) if n in tools else ()))
    return turns


def month(dice: random.Random) -> list[Turn]:
    """300 turns in thirty days: two bursts of five a day; every third turn uses tools, with results of 1 to 50 thousand characters."""
    turns = []
    for n in range(300):
        if n % 10 == 0:
            silence = -1.0
        elif n % 5 == 0:
            silence = dice.uniform(1.5, 7) * 3600
        else:
            silence = dice.uniform(20, 200) if dice.random() < 0.8 else dice.uniform(6, 40) * 60
        text = "/new" if n % 70 == 69 else prose(dice, dice.randrange(60, 700))
        count = dice.choice((1, 1, 2)) if dice.random() < 0.35 and text != "/new" else 0
        turns.append(Turn(silence, text, tuple(round(1000 * 50 ** dice.random()) for _ in range(count))))
    return turns


class Person:
    """The model's side: answers by what the request ends with, and reads the files that it is told to."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.calls = 0
        self.opening: dict[str, Any] = {}
        """The body of the first request."""

    def __call__(self, body: dict[str, Any]) -> Say:
        self.opening = self.opening or body
        last = body["messages"][-1]["content"][-1]
        text = last.get("text", "")
        if "[Memory flush]" in text:
            note = f"- {prose(self.dice, 500)}"
            return self._calls([("write", {"path": "memory/today.md", "content": note, "mode": "append"})])
        if "[Summary request]" in text:
            return self._says("## Goal\n" + prose(self.dice, 2500))
        if "[Title request]" in text:
            return self._says("plans and letters")
        if "read: " in text:
            paths = text.rpartition("read: ")[2].split()
            return self._calls([("read", {"path": path}) for path in paths])
        if "[Cache refresh]" in text or (last["type"] == "tool_result" and "Appended to" in json.dumps(last)):
            return self._says("NO_REPLY")
        return self._says(prose(self.dice, self.dice.randrange(200, 1200)))

    def _says(self, words: str) -> Say:
        return Say(({"type": "text", "text": words},))

    def _calls(self, wanted: list[tuple[str, dict[str, Any]]]) -> Say:
        blocks = []
        for name, arguments in wanted:
            self.calls += 1
            blocks.append({"type": "tool_use", "id": f"toolu_{self.calls}", "name": name, "input": arguments})
        return Say(tuple(blocks), stop="tool_use")


def label(body: dict[str, Any]) -> str:
    texts = json.dumps(body["messages"][-8:])
    marks = {
        "[Memory flush]": "flush",
        "[Summary request]": "summary",
        "[Title request]": "title",
        "[Cache refresh]": "refresh",
    }
    for mark, name in marks.items():
        if mark in texts:
            return name
    return "turns"


async def pass_until(house: Gateway, clock: ManualClock, when: datetime) -> None:
    """Let time pass as it does in a gateway: what is due happens meanwhile, within five minutes."""
    while clock.now() < when:
        clock.set(min(when, clock.now() + timedelta(minutes=5)))
        await house.schedule.tick()
        while house.lanes.running() or house.lanes.waiting(main_key("main")):  # noqa: ASYNC110  (nobody announces it)
            await asyncio.sleep(0)


async def run(
    turns: list[Turn],
    root: Path,
    *,
    agent: dict[str, Any],
    session: dict[str, Any],
    caching: bool = True,
    window: int = 200_000,
    sections: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Hold a conversation and return its figures. ``sections`` are further settings."""
    clock = ManualClock(datetime(2026, 3, 2, 9, 0, tzinfo=UTC))
    person = Person(5)
    peer = CachingPeer(clock, person, caching=caching, label=label, window=window)
    runner = await peer.start()
    workspace = root / "workspace"
    defaults = {"model": MODEL, "workspace": str(workspace), "userTimezone": "UTC", **agent}
    settings = Settings.model_validate({"agents": {"defaults": defaults}, "session": session, **(sections or {})})
    on = Dependencies(settings=settings, paths=Paths(root / "home"), env={}, clock=clock, random=random.Random(1))
    house = await Gateway.open(on)
    facts = facts_of("anthropic", "claude-opus-4-5")
    house.model_registry.put(MODEL, AnthropicModel("claude-opus-4-5", key="k", facts=facts, base_url=peer.url))
    running = asyncio.ensure_future(house.run())
    link = house.terminal.attach("bench")
    frames = link.frames()
    dice = random.Random(3)
    worst = failed = 0
    try:
        for n, turn in enumerate(turns):
            if turn.silence < 0 and n:
                today = clock.now().replace(hour=9, minute=0, second=0)
                await pass_until(house, clock, max(today + timedelta(days=1), clock.now() + timedelta(hours=5)))
            elif turn.silence > 0:
                await pass_until(house, clock, clock.now() + timedelta(seconds=turn.silence))
            paths = []
            for index, size in enumerate(turn.results):
                path = workspace / "data" / f"{n}-{index}.txt"
                path.parent.mkdir(exist_ok=True, parents=True)
                path.write_text("\n".join(prose(dice, 90) for _ in range(max(1, size // 92))))
                paths.append(f"data/{path.name}")
            text = turn.text + (f" read: {' '.join(paths)}" if paths else "")
            await link.say(text, key=f"t{n}")
            async for frame in frames:
                if isinstance(frame, Done) and frame.key == f"t{n}":
                    worst = max(worst, frame.facts["context"]["tokens"] or 0)
                    failed += frame.facts["exit"] != 0
                    break
            await house.agents["main"].quiet()
        compactions = sum(p.read_text().count('"kind":"compacted","id"') for p in (root / "home").rglob("*.jsonl"))
        pruned = sum(p.read_text().count('"kind":"pruned","id"') for p in (root / "home").rglob("*.jsonl"))
        sessions = len(list((root / "home").rglob("*.jsonl")))
    finally:
        await link.close()
        house.stop()
        await running
        await house.close()
        await runner.cleanup()
    bill = peer.bill
    bursts = _in_bursts(peer)
    return {
        "calls": bill.calls,
        "prompt": bill.prompt,
        "read": round(bill.read / bill.prompt, 4),
        "readInBursts": round(bursts, 4),
        "output": bill.output,
        "dollars": round(bill.dollars, 2),
        "per100": round(100 * bill.dollars / len(turns), 2),
        "flush": round(peer.bills["flush"].dollars, 2) if "flush" in peer.bills else 0,
        "refresh": round(peer.bills["refresh"].dollars, 2) if "refresh" in peer.bills else 0,
        "summary": round(peer.bills["summary"].dollars, 2) if "summary" in peer.bills else 0,
        "first": peer.each[0][2].prompt,
        "tools": [tool["name"] for tool in person.opening["tools"]],
        "skills": re.findall(r"- ([\w-]+)/SKILL\.md", " ".join(block["text"] for block in person.opening["system"])),
        "largest": worst,
        "compactions": compactions,
        "pruned": pruned,
        "sessions": sessions,
        "overflows": peer.overflows,
        "failed": failed,
    }


def _in_bursts(peer: CachingPeer) -> float:
    """The share read from the cache in calls within five minutes of the one before them."""
    read = prompt = 0
    for (before, _, _), (at, _, bill) in zip(peer.each, peer.each[1:], strict=False):
        if at - before < timedelta(minutes=5):
            read += bill.read
            prompt += bill.prompt
    return read / prompt if prompt else 0.0


async def measure(only: str) -> dict[str, dict[str, Any]]:
    found = {}
    runs: dict[str, tuple[list[Turn], dict[str, Any]]] = {}
    weekly = {"agent": {}, "session": {}}
    for name, given in {
        "week, all defaults": weekly,
        "week, no refresh": {**weekly, "agent": {"cacheRefresh": {"hours": 0}}},
        "week, 5 m retention": {**weekly, "agent": {"cacheRetention": "5m"}},
        "week, no caching": {**weekly, "caching": False},
    }.items():
        runs[name] = week(random.Random(11)), given
    for name, given in {
        "long breaks, all defaults": weekly,
        "long breaks, no refresh": {**weekly, "agent": {"cacheRefresh": {"hours": 0}}},
        "long breaks, no resets": {"agent": {}, "session": {"reset": {"mode": "none"}}},
        "long breaks, no resets, no refresh": {"agent": {"cacheRefresh": {"hours": 0}}, "session": {"reset": {"mode": "none"}}},
    }.items():
        runs[name] = long_breaks(random.Random(13)), given
    capped = {"contextTokens": 60_000}
    off = {**capped, "contextPruning": {"mode": "off"}}
    rule = {"reset": {"mode": "none"}}
    for name, given in {
        "month, everything on": {"agent": capped, "session": rule},
        "month, no refresh": {"agent": {**capped, "cacheRefresh": {"hours": 0}}, "session": rule},
        "month, pruning off": {"agent": off, "session": rule},
        "month, caching off": {"agent": capped, "session": rule, "caching": False},
        "month, both off": {"agent": off, "session": rule, "caching": False},
    }.items():
        runs[name] = month(random.Random(12)), {**given, "window": 38_000}
    for name, (turns, given) in runs.items():
        if name.startswith(only):
            with tempfile.TemporaryDirectory() as folder:
                found[name] = await run(turns, Path(folder), **given)
    return found


def main() -> None:
    only = next((argument for argument in sys.argv[1:] if not argument.startswith("-")), "")
    found = asyncio.run(measure(only))
    if "--json" in sys.argv:
        print(json.dumps(found, indent=1))
        return
    heads = "run | calls | prompt tokens | read from cache | in bursts | $ | $ / 100 turns | flush $ | refresh $ | summaries $"
    print(f"| {heads} | compactions | pruned | overflows | failed |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name, one in found.items():
        shares = f"{100 * one['read']:.0f} % | {100 * one['readInBursts']:.0f} %"
        money = " | ".join(f"{one[what]:.2f}" for what in ("dollars", "per100", "flush", "refresh", "summary"))
        counts = " | ".join(str(one[what]) for what in ("compactions", "pruned", "overflows", "failed"))
        print(f"| {name} | {one['calls']} | {one['prompt']:,} | {shares} | {money} | {counts} |")
    for name, one in found.items():
        print(f"first call of {name}: {one['first']:,} prompt tokens")


if __name__ == "__main__":
    main()
