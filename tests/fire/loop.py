"""The kill loop: SIGKILL at the n-th system call, n = 1, 2, ... until a run comes through untouched, for each call and scenario.

``python tests/fire/loop.py`` runs all of it and prints the table; ``--kills 400`` a sample, drawn by HOMEBODY_FIRE_SEED or else by the
day, or with ``--disk`` of writes that fail for a while; ``--kill after-accept:1`` that kill alone, in each scenario. Ends with 1
when anything was lost, doubled without a mark, done twice, or written badly, and prints for each such run the command that repeats
it. Without strace only the places that ``agent/fault_injection.py`` names are tried, and the table says so.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shlex
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from gateway.supervision.crash_loop import NAME as STARTS
from gateway.supervision.crash_loop import TOO_OFTEN
from gateway.turns.interrupted import MAX_ATTEMPTS
from tests.fire.platforms import PLATFORMS, away
from tests.fire.scenarios import SCENARIOS, Scenario, Verdict, judge
from tests.fire.world import STATE, Kill, Nursery, Stuck, World, missing_tools, told_missing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence

    from tests.fire.platforms import Platform

CALLS = ("fdatasync", "fsync", "pwrite64", "write", "sendto", "recvfrom", "ftruncate", "unlink")
FURTHEST = 400
"""No call is made more often than this in one life of these houses; the loop ends before, at the first clean run."""


AGAIN = 2
"""How often a gateway that ended is started again; once is enough, and a second time would show what it left behind."""

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

STEPS = {
    "accept": 4,
    "claim": 3,
    "retry": 1,
    "reserve": 8,
    "settle_call": 8,
    "begin_call": 6,
    "end_call": 6,
    "transcript": 16,
    "sessions": 5,
    "settle": 1,
    "finish": 3,
    "suspend": 2,
    "decide": 2,
    "sending": 3,
    "sent": 3,
}
"""The durable steps, by the names of ``agent.fault_injection``, and about how often they are taken in one life."""
STEPS_BY_ITSELF = {"step": 3, "start": 1, "announce": 1, "accept": 6, "claim": 6, "finish": 6, "transcript": 24}
"""The same for what a house does by itself, besides or instead."""
PLACES = tuple(f"{moment}-{step}" for step in STEPS | STEPS_BY_ITSELF for moment in ("before", "after"))
STEADY = ("telegram webhook", "whatsapp without reports")
"""Platforms that do not go away; all others do so for some seconds in one run of each scenario, in which nobody is killed."""
UNKILLED = Kill("after-never", 1)
TOLD_EVERY = 20
"""Runs after which a long sample says how far it has come."""


@dataclass
class Row:
    """One line of the table."""

    runs: int = 0
    kills: int = 0
    verdict: Verdict = field(default_factory=Verdict)
    failures: list[str] = field(default_factory=list)

    def add(self, kills: int, verdict: Verdict, again: str) -> None:
        self.runs += 1
        self.kills += kills
        self.verdict.problems += verdict.problems
        self.verdict.marked += verdict.marked
        self.verdict.strays += verdict.strays
        self.verdict.unknown += verdict.unknown
        self.verdict.given_up += verdict.given_up
        self.failures += [f"{told}\n  again: {again}" for told in verdict.told]


class Fire:
    """Runs scenarios under kills. ``youths`` keeps, for each scenario that needs one, the folder of a house that lived a while."""

    def __init__(
        self, folder: Path, nursery: Nursery, *, delivery: dict[str, Any] | None = None, again: str = "make fire"
    ) -> None:
        self._folder = folder
        self._again = again
        self._nursery = nursery
        self._delivery = delivery or {}
        self.youths: dict[str, Path] = {}
        self._count = 0
        self.reach = 0
        self.rows: dict[str, Row] = {name: Row() for name in SCENARIOS}

    async def grow(self, scenarios: Iterable[Scenario]) -> None:
        for scenario in scenarios:
            if scenario.youth and scenario.name not in self.youths:
                folder = self._folder / f"youth-{len(self.youths)}"
                peer = PLATFORMS[scenario.platform]()
                async with World(folder, self._nursery, settings=self._settings(scenario), platform=peer) as world:
                    life = await world.start()
                    for text in scenario.youth:  # one by one: long texts that come together are taken for parts of one
                        await world.say(text)
                        assert await world.quiet(life)
                    await life.end()
                self.youths[scenario.name] = folder

    async def run(
        self,
        scenario: Scenario,
        kills: tuple[Kill, ...],
        *,
        between: Callable[[Path], None] = lambda _root: None,
        platform: Callable[[], Platform] | None = None,
    ) -> bool:
        """Live once for each kill and once more without; judge, and return whether the first kill hit.

        ``between`` may meddle with what a dead house left.
        """
        self._count += 1
        root = self._folder / f"run-{self._count}"
        how = f"--scenario {shlex.quote(scenario.name)} --kill {','.join(map(str, kills))}"
        if "delivery" in self._delivery:
            how += f" --delivery {self._delivery['delivery']}"
        hits = 0
        youth = self.youths[scenario.name] if scenario.youth else None
        peer = (platform or PLATFORMS[scenario.platform])()
        how += f"  # with {peer.outage}" if peer.outage else ""
        acts = {"prepare": scenario.prepare, "posts": dict(scenario.posts), "caller": scenario.caller}
        async with World(
            root, self._nursery, settings=self._settings(scenario), platform=peer, grown_from=youth, **acts
        ) as world:
            world.decides, world.beats = scenario.decides, "job “heartbeat”" in scenario.acts
            world.meanwhile, world.files, world.corrections = dict(scenario.meanwhile), scenario.files, scenario.corrections
            await world.say(*(text for text in scenario.says if text not in world.meanwhile))
            try:
                ended = True
                for kill in kills:
                    ended = await world.live(kill)
                    hits += (hit := ended or world.refused())
                    self.reach = world.reach()
                    if not hit:
                        break
                    between(root)
                    if len(kills) >= TOO_OFTEN:  # it is to go on, and not to pause over its crashes
                        (root / STATE / STARTS).unlink(missing_ok=True)
                ended = ended or any(
                    kill.error for kill in kills
                )  # what the disk held up until the end is done by the next life
                for _ in range(AGAIN):
                    ended = ended and await world.live()
                if late := list(world.meanwhile):  # no life came so far
                    world.meanwhile.clear()
                    await world.say(*late)
                if world.said_since_quiet:  # also what was said to a gateway that was closing: it is kept for the next one
                    await world.live()
                verdict = await judge(scenario, world, refused=any(kill.error for kill in kills))
            except (Stuck, OSError) as stuck:  # the house, or what the person uses
                verdict = Verdict()
                verdict.wrong("stuck", f"{type(stuck).__name__}: {stuck}")
        self._note(scenario, hits, verdict, how)
        if not verdict.problems:
            shutil.rmtree(root)
        return hits > 0

    def _note(self, scenario: Scenario, hits: int, verdict: Verdict, how: str) -> None:
        row = self.rows[scenario.name]
        row.add(hits, verdict, f"{self._again} ARGS={shlex.quote(how)}")
        if verdict.problems:  # at once: a loop of hours may be ended before its table
            sys.stderr.write("".join(f"! {failure}\n" for failure in row.failures[-len(verdict.told) :]))

    async def exhaust(self, scenario: Scenario, call: str, after: tuple[str, int] | None = None) -> None:
        """Kill at the first, second, ... of one call until a run comes through."""
        for when in range(1, FURTHEST):
            if not await self.run(scenario, (Kill(call, when, after),)):
                return

    def _settings(self, scenario: Scenario) -> dict[str, Any]:
        return scenario.settings | {"telegram": self._delivery}

    def table(self) -> str:
        head = "| scenario | runs | kills | lost | doubled unmarked | effects twice | bad transcripts | other "
        head += "| marked | unknown | strays | given up |"
        lines = [head, "|---" * 12 + "|"]
        for name, row in ((name, row) for name, row in self.rows.items() if row.runs):
            found = Counter(row.verdict.problems)
            named = [found.pop(kind, 0) for kind in ("lost", "doubled", "effect twice", "transcript")]
            tidy = (row.verdict.marked, row.verdict.unknown, row.verdict.strays, row.verdict.given_up)
            cells = (name, row.runs, row.kills, *named, found.total(), *tidy)
            lines.append("| " + " | ".join(map(str, cells)) + " |")
        return "\n".join(lines)

    @property
    def so_far(self) -> str:
        """What was done up to now, in words."""
        rows = self.rows.values()
        totals = [sum(counts) for counts in ((row.kills for row in rows), (row.verdict.marked for row in rows))]
        return f"{totals[0]} kills, {len(self.failures)} problems, {totals[1]} marked"

    @property
    def failures(self) -> list[str]:
        return [failure for row in self.rows.values() for failure in row.failures]


def sample(
    dice: random.Random, scenarios: Sequence[Scenario], *, calls: bool = True
) -> Iterator[tuple[Scenario, tuple[Kill, ...]]]:
    """Draw kills for ever, those at frequent calls more often; one in four is followed by another inside the recovery.

    The scenarios are drawn in rounds, so that each is tried as often as any other. One kill in five falls upon a named place; without
    ``calls`` all do. One run in ten is killed while each attempt is made that a turn has, so that it is given up.
    """
    while True:
        for scenario in dice.sample(scenarios, len(scenarios)):
            yield scenario, _kills_of(dice, scenario, calls=calls)


def _kills_of(dice: random.Random, scenario: Scenario, *, calls: bool) -> tuple[Kill, ...]:
    """Draw what a run is killed by."""
    if dice.random() < 0.1:
        return tuple(Kill(f"before-{dice.choice(('transcript', 'settle_call', 'finish'))}", 1) for _ in range(MAX_ATTEMPTS))
    kills = [_drawn(dice, scenario) if calls and dice.random() < 0.8 else _drawn_by_name(dice, scenario) for _ in range(2)]
    return tuple(kills if dice.random() < 0.25 else kills[:1])


REFUSED = {"pwrite64": 40, "write": 20, "fdatasync": 16, "fsync": 4, "ftruncate": 1, "linkat": 1, "rename": 2}
"""System calls that a bad disk lets fail, and how often they are drawn."""


def disk_faults(dice: random.Random, scenarios: Sequence[Scenario]) -> Iterator[tuple[Scenario, tuple[Kill, ...]]]:
    """Draw writes that fail for a while, for ever."""
    while True:
        scenario = dice.choice(scenarios)
        (call,) = dice.choices(list(REFUSED), list(REFUSED.values()))
        near = dice.random() < 0.7
        after = dice.choice(moments(scenario)) if near else None
        when = dice.randint(1, 6 if near else 40)
        yield scenario, (Kill(call, when, after, dice.choice(("ENOSPC", "EIO", "EDQUOT")), dice.choice((1, 2, 3, 4))),)


def _drawn(dice: random.Random, scenario: Scenario) -> Kill:
    (call,) = dice.choices(list(REACH), list(REACH.values()))
    near = dice.random() < 0.5
    after = dice.choice(moments(scenario)) if near else None
    return Kill(call, dice.randint(1, 6 if near else REACH[call]), after)


def _drawn_by_name(dice: random.Random, scenario: Scenario) -> Kill:
    steps = STEPS | STEPS_BY_ITSELF if scenario.acts else STEPS
    (step,) = dice.choices(list(steps), list(steps.values()))
    return Kill(f"{dice.choice(('before', 'after'))}-{step}", dice.randint(1, steps[step]))


def seed_of_the_day() -> int:
    """HOMEBODY_FIRE_SEED, or else today's date: so that other kills are drawn every day, and the same ones all day long."""
    return int(os.environ.get("HOMEBODY_FIRE_SEED") or f"{datetime.now(UTC):%Y%m%d}")


def moments(scenario: Scenario) -> list[tuple[str, int]]:
    """When peers are asked during a scenario that is left alone."""
    kind = PLATFORMS[scenario.platform].kind
    asked = {
        "model": 3 * len(scenario.says) + 2 * len(scenario.acts),
        kind: len(scenario.answers) + len(scenario.acts),
        "file": len(scenario.files),
    }
    return [(peer, count) for peer, most in asked.items() for count in range(1, most + 1)]


async def burn(jobs: AsyncIterator[Any] | Iterator[Any], at_once: int) -> None:
    """Run coroutines from ``jobs``, some at a time."""

    async def worker() -> None:
        for job in jobs:
            await job

    await asyncio.gather(*(worker() for _ in range(at_once)))


def _given(among: Iterable[str]) -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--kills", type=int, default=0, help="so many runs drawn at random instead of all")
    options.add_argument("--disk", action="store_true", help="with --kills: let writes fail for a while instead of killing")
    options.add_argument("--seconds", type=float, default=0, help="draw no more after this time")
    options.add_argument("--seed", type=int, default=seed_of_the_day())
    options.add_argument("--at-once", type=int, default=len(os.sched_getaffinity(0)) + 1, help="runs at the same time")
    options.add_argument("--scenario", choices=among, action="append")
    options.add_argument("--call", choices=(*CALLS, *PLACES), action="append")
    options.add_argument("--kill", type=_kills, action="append", help="such as write:2@model:3, or two of them with a comma")
    options.add_argument("--delivery", choices=("edit", "plain"), default=None)
    return options.parse_args()


def _kills(text: str) -> tuple[Kill, ...]:
    return tuple(map(Kill.parse, text.split(",")))


def _jobs(fire: Fire, given: argparse.Namespace, chosen: Sequence[Scenario], began: float) -> Iterator[Any]:
    """Yield what is to be run."""
    traced = "strace" not in missing_tools()
    if given.kill:
        yield from (fire.run(scenario, kills) for scenario in chosen for kills in given.kill)
    elif given.kills:
        dice = random.Random(given.seed)
        drawn = disk_faults(dice, chosen) if given.disk else sample(dice, chosen, calls=traced)
        yield from () if given.disk else _outages(fire, given, chosen)
        for count in range(given.kills):
            if given.seconds and time.monotonic() - began > given.seconds:
                return
            if count and count % TOLD_EVERY == 0:
                sys.stderr.write(f"{count} of {given.kills} runs begun, {time.monotonic() - began:.0f} s; {fire.so_far}\n")
            yield fire.run(*next(drawn))
    else:
        calls = given.call or (*CALLS, *PLACES)
        yield from _outages(fire, given, chosen)
        for scenario in chosen:
            yield from (fire.exhaust(scenario, call) for call in calls if traced or call in PLACES)
            for after in moments(scenario) if traced else ():
                yield from (fire.exhaust(scenario, call, after) for call in calls if call in CALLS)


def _outages(fire: Fire, given: argparse.Namespace, chosen: Sequence[Scenario]) -> Iterator[Any]:
    """Yield a run of each scenario in which the platform is away for a while, and nobody is killed."""
    dice = random.Random(given.seed)
    for scenario in chosen:
        if scenario.platform not in STEADY:
            yield fire.run(scenario, (UNKILLED,), platform=away(scenario.platform, dice))


async def main(among: Iterable[str] = SCENARIOS, *, again: str = "make fire") -> int:
    """Do what the arguments of the command say with the scenarios ``among`` these; ``again`` is the command that repeats a run."""
    given = _given(among)
    told = told_missing()
    if "Linux with pidfd" in missing_tools() or (told and os.environ.get("CI") == "true"):
        sys.exit(told)
    folder = Path(tempfile.mkdtemp(prefix="homebody-fire-"))
    chosen = [SCENARIOS[name] for name in given.scenario or among]
    began = time.monotonic()
    async with Nursery.opened() as nursery:
        fire = Fire(folder, nursery, delivery={"delivery": given.delivery} if given.delivery else None, again=again)
        await fire.grow(chosen)
        await burn(_jobs(fire, given, chosen, began), given.at_once)
    lines = [f"seed {given.seed}, {time.monotonic() - began:.0f} s{f'; {told}' if told else ''}", "", fire.table()]
    lines += [f"! {failure}" for failure in fire.failures]
    if fire.failures:
        lines.append(f"their folders are kept in {folder}")
    else:
        shutil.rmtree(folder)
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if fire.failures else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
