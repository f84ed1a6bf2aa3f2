"""The kill loop: SIGKILL at the n-th system call, n = 1, 2, ... until a run comes through untouched, for each call and scenario.

``python tests/fire/loop.py`` runs all of it and prints the table; ``--kills 400 --seed 7`` a sample. Ends with 1 when anything was
lost, doubled without a mark, done twice, or written badly.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.fire.scenarios import SCENARIOS, Scenario, Verdict, judge
from tests.fire.world import Kill, Nursery, Stuck, WatchedTelegram, World, missing_tools

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence

CALLS = ("fdatasync", "fsync", "pwrite64", "write", "sendto", "recvfrom", "ftruncate", "unlink")
FURTHEST = 400
"""No call is made more often than this in one life of these houses; the loop ends before, at the first clean run."""


REACH = {
    "fdatasync": 32,
    "fsync": 8,
    "pwrite64": 80,
    "write": 40,
    "sendto": 90,
    "recvfrom": 90,
    "ftruncate": 3,
    "unlink": 4,
}
"""About how often a call is made in one life, by one thread."""


@dataclass
class Row:
    """One line of the table."""

    runs: int = 0
    kills: int = 0
    verdict: Verdict = field(default_factory=Verdict)
    failures: list[str] = field(default_factory=list)

    def add(self, kills: int, verdict: Verdict, how: str) -> None:
        self.runs += 1
        self.kills += kills
        self.verdict.problems += verdict.problems
        self.verdict.marked += verdict.marked
        self.verdict.strays += verdict.strays
        self.verdict.unknown += verdict.unknown
        self.failures += [f"{how}: {told}" for told in verdict.told]


class Fire:
    """Runs scenarios under kills. ``youths`` keeps, for each scenario that needs one, the folder of a house that lived a while."""

    def __init__(self, folder: Path, nursery: Nursery, *, delivery: dict[str, Any] | None = None) -> None:
        self._folder = folder
        self._nursery = nursery
        self._delivery = delivery or {}
        self._youths: dict[str, Path] = {}
        self._count = 0
        self.reach = 0
        self.rows: dict[str, Row] = {name: Row() for name in SCENARIOS}

    async def grow(self, scenarios: Iterable[Scenario]) -> None:
        for scenario in scenarios:
            if scenario.youth and scenario.name not in self._youths:
                folder = self._folder / f"youth-{len(self._youths)}"
                async with World(folder, self._nursery, settings=self._settings(scenario)) as world:
                    await world.say(*scenario.youth)
                    assert not await world.live()
                self._youths[scenario.name] = folder

    async def run(
        self,
        scenario: Scenario,
        kills: tuple[Kill, ...],
        *,
        between: Callable[[Path], None] = lambda _root: None,
        telegram: Callable[[], WatchedTelegram] = WatchedTelegram,
    ) -> bool:
        """Live once for each kill and once more without; judge, and return whether the first kill hit.

        ``between`` may meddle with what a dead house left.
        """
        self._count += 1
        root = self._folder / f"run-{self._count}"
        how = f"{scenario.name} @ {', '.join(map(str, kills))}"
        hits = 0
        youth = self._youths.get(scenario.name)
        async with World(
            root, self._nursery, settings=self._settings(scenario), grown_from=youth, telegram=telegram()
        ) as world:
            await world.say(*scenario.says)
            try:
                for kill in kills:
                    hits += (hit := await world.live(kill))
                    if not hit:
                        break
                    between(root)
                if hits == len(kills):
                    await world.live()
                self.reach = world.reach()
                verdict = await judge(scenario, world)
            except Stuck as stuck:
                verdict = Verdict()
                verdict.wrong("stuck", str(stuck))
        self.rows[scenario.name].add(hits, verdict, how)
        if not verdict.problems:
            shutil.rmtree(root)
        return hits > 0

    async def exhaust(self, scenario: Scenario, call: str, after: tuple[str, int] | None = None) -> None:
        """Kill at the first, second, ... of one call until a run comes through."""
        for when in range(1, FURTHEST):
            if not await self.run(scenario, (Kill(call, when, after),)):
                return

    def _settings(self, scenario: Scenario) -> dict[str, Any]:
        return scenario.settings | {"telegram": self._delivery}

    def table(self) -> str:
        head = "| scenario | runs | kills | lost | doubled unmarked | effects twice | bad transcripts | other | marked | unknown | strays |"
        lines = [head, "|---" * 11 + "|"]
        for name, row in self.rows.items():
            found = Counter(row.verdict.problems)
            named = [found.pop(kind, 0) for kind in ("lost", "doubled", "effect twice", "transcript")]
            tidy = (row.verdict.marked, row.verdict.unknown, row.verdict.strays)
            cells = (name, row.runs, row.kills, *named, found.total(), *tidy)
            lines.append("| " + " | ".join(map(str, cells)) + " |")
        return "\n".join(lines)

    @property
    def failures(self) -> list[str]:
        return [failure for row in self.rows.values() for failure in row.failures]


def sample(dice: random.Random, scenarios: Sequence[Scenario]) -> Iterator[tuple[Scenario, tuple[Kill, ...]]]:
    """Draw kills for ever, those at frequent calls more often; one in four is followed by another inside the recovery."""
    calls = list(REACH)
    while True:
        scenario = dice.choice(scenarios)
        kills = []
        for call in dice.choices(calls, list(REACH.values()), k=2):
            near = dice.random() < 0.5
            after = dice.choice(moments(scenario)) if near else None
            kills.append(Kill(call, dice.randint(1, 6 if near else REACH[call]), after))
        yield scenario, tuple(kills if dice.random() < 0.25 else kills[:1])


def moments(scenario: Scenario) -> list[tuple[str, int]]:
    """When peers are asked during a scenario that is left alone."""
    asked = {"model": 3 * len(scenario.says), "telegram": len(scenario.answers)}
    return [(peer, count) for peer, most in asked.items() for count in range(1, most + 1)]


async def burn(jobs: AsyncIterator[Any] | Iterator[Any], at_once: int) -> None:
    """Run coroutines from ``jobs``, some at a time."""

    async def worker() -> None:
        for job in jobs:
            await job

    await asyncio.gather(*(worker() for _ in range(at_once)))


async def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--kills", type=int, default=0, help="so many runs drawn at random instead of all")
    options.add_argument("--seconds", type=float, default=0, help="draw no more after this time")
    options.add_argument("--seed", type=int, default=int(time.time()))
    options.add_argument("--at-once", type=int, default=3)
    options.add_argument("--scenario", choices=SCENARIOS, action="append")
    options.add_argument("--call", choices=CALLS, action="append")
    options.add_argument("--delivery", choices=("edit", "plain"), default=None)
    given = options.parse_args()
    if missing := missing_tools():
        sys.exit(f"missing: {', '.join(missing)}")
    folder = Path(tempfile.mkdtemp(prefix="homebody-fire-"))
    chosen = [SCENARIOS[name] for name in given.scenario or SCENARIOS]
    began = time.monotonic()
    async with Nursery.opened() as nursery:
        fire = Fire(folder, nursery, delivery={"delivery": given.delivery} if given.delivery else None)
        await fire.grow(chosen)
        if given.kills:
            drawn = sample(random.Random(given.seed), chosen)

            def jobs() -> Iterator[Any]:
                for _ in range(given.kills):
                    if given.seconds and time.monotonic() - began > given.seconds:
                        return
                    yield fire.run(*next(drawn))

            await burn(jobs(), given.at_once)
        else:
            await burn(
                (
                    fire.exhaust(scenario, call, after)
                    for scenario in chosen
                    for after in (None, *moments(scenario))
                    for call in given.call or CALLS
                ),
                given.at_once,
            )
    lines = [f"seed {given.seed}, {time.monotonic() - began:.0f} s", "", fire.table()]
    lines += [f"! {failure}" for failure in fire.failures]
    if fire.failures:
        lines.append(f"their folders are kept in {folder}")
    else:
        shutil.rmtree(folder)
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if fire.failures else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
