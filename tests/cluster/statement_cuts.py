"""Gateways whose connection to PostgreSQL is cut at each statement in turn: before it is sent, after it was done, within its answer.

    python tests/cluster/statement_cuts.py                 # all of it, on two lanes
    python tests/cluster/statement_cuts.py --every 20      # a sample: each twentieth statement

What is played: a gateway starts, answers a message that has an effect, fires a job, asks for an approval and acts by it, and ends in order;
with two gateways one is killed or ends, and the other takes everything over. Statement 1 of each is struck, then 2, and so on, until there
are no more. After each cut all that was said must be answered, and in the end be answered, done and fired once, in order
(``judging.py``). Prints a table of what was cut, and zeros or what is wrong; exits with 1 then.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from gateway.api.api_client import ask
from gateway.base.errors import HomebodyError
from tests import postgres_server
from tests.cluster.forked_gateway import AGAIN
from tests.cluster.judging import Found, Watch, all_answered, judge
from tests.cluster.playing import OWNER, PEOPLE, Cluster, Process
from tests.peers.statement_line import WAYS, StatementLine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

    from tests.peers.statement_line import Way

KINDS: Final = ("alone", "pair")
AGENT, ASKING = "anna", "bob"
"""The second one asks its owner before it does anything."""
LEASE: Final = 8.0
SETTLE_SECONDS: Final = 300.0
"""In which everything must be whole after a cut. Far more than it takes, so that a busy machine is no fault."""
MISSES: Final = 3
"""After so many numbers in a row that no statement had, there are no more: how many there are differs a little."""
QUESTION: Final = re.compile(r"/approve (\S+) once")
CLAIM: Final = b'{"token": "agent:'
"""What only the statement holds by which a lease is taken."""
EXPIRE: Final = """
UPDATE pgmq.q_homebody_lease SET vt = clock_timestamp() WHERE message->>'token' IN (
    SELECT token FROM homebody.cluster_holder WHERE gateway LIKE %(dead)s);
UPDATE homebody.cluster_gateway SET until = clock_timestamp() WHERE name LIKE %(dead)s
"""
"""What time does to the leases of a gateway that is dead."""


def tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class Cuts:
    """Plays each part with a cut at one statement."""

    def __init__(self, cluster: Cluster[StatementLine], watch: Watch, found: Found) -> None:
        self.cluster, self.watch, self.found = cluster, watch, found
        self.running: set[str] = set()
        self.cut: Counter[str] = Counter()
        """How often each part was cut, by part and way."""
        self._misses: Counter[str] = Counter()
        self._now = ""
        self._jobs = 0

    async def alone(self, numbers: Iterable[int], ways: Sequence[Way] = WAYS) -> None:
        """Cut the only gateway's line at these statements of all that it does."""
        one = self.cluster.gateways[0]
        await self.first_words(one)
        parts: dict[str, Callable[[Process[StatementLine]], Awaitable[None]]] = {
            "message with an effect": self.effect,
            "job": self._job,
            "approval": self._approval,
        }
        for number in numbers:
            open_ways = [way for way in ways if any(self._goes_on(part, way) for part in (*parts, "start", "end in order"))]
            if not open_ways:
                return
            for way in open_ways:
                await self._part("end in order", one, number, way, self.ends)
                await self._part("start", one, number, way, self._starts)
                for name, play in parts.items():
                    await self._part(name, one, number, way, play)

    async def pair(self, numbers: Iterable[int], ways: Sequence[Way] = WAYS) -> None:
        """Cut the line of a gateway at these statements after it began to take over, and of one that hands over."""
        holder, other = self.cluster.gateways
        await self.first_words(holder)
        for number in numbers:
            for way in ways:
                for part, since, play in (
                    ("take-over from a killed one", CLAIM, self._killed),
                    ("take-over in order", CLAIM, self._hands_over),
                    ("handing over", b"", self._hands_over),
                ):
                    if self._goes_on(part, way):
                        await self.stands_by(other)
                        struck = other if since else holder
                        await self._part(part, struck, number, way, lambda _, p=play, h=holder: p(h), since=since)
                        holder, other = other, holder

    def _goes_on(self, part: str, way: Way) -> bool:
        return self._misses[f"{part}: {way}"] < MISSES

    async def _part(
        self,
        part: str,
        one: Process[StatementLine],
        number: int,
        way: Way,
        play: Callable[[Process[StatementLine]], Awaitable[None]],
        *,
        since: bytes = b"",
    ) -> None:
        """Play a part whose statement ``number`` is struck, if it has so many, and wait until the world is whole."""
        key = f"{part}: {way}"
        self._now = f"{part}, {way} statement {number}"
        began = time.monotonic()
        if self._goes_on(part, way):
            one.line.at(number, way, since=since)
        await play(one)
        whole = await self.cluster.until(lambda: all_answered(self.cluster), SETTLE_SECONDS)
        if not whole:
            self.found.ended.append(f"not everything is answered: {self._now}")
        if one.line.struck.is_set():
            self.cut[key] += 1
            self._now += " cut"
            self._misses[key] = 0
            one.line.struck.clear()
        else:
            self._misses[key] += 1
        one.line.never_mind()
        tell(f"{time.strftime('%H:%M:%S')} {self._now}: {time.monotonic() - began:.1f} s")

    # --- the parts ---

    async def first_words(self, one: Process[StatementLine]) -> None:
        self._start(one)
        for name in self.cluster.agents:
            await self.cluster.say(name, deed=False)
        if not await self.cluster.until(lambda: all_answered(self.cluster), SETTLE_SECONDS):
            raise RuntimeError("no gateway answers: " + (self.cluster.root / f"{one.name}.log").read_text()[-3000:])

    def _start(self, one: Process[StatementLine]) -> None:
        self.watch.end(one.name, gone=True)
        self.running.add(one.name)
        one.start()

    async def _starts(self, one: Process[StatementLine]) -> None:
        await self.cluster.say(AGENT, deed=False)
        self._start(one)

    async def ends(self, one: Process[StatementLine]) -> None:
        self.watch.begin(one.name)
        self.running.discard(one.name)
        if not await one.end(60):
            self.found.ended.append(f"does not end by SIGTERM: {self._now}")

    async def effect(self, _: Process[StatementLine]) -> None:
        await self.cluster.say(AGENT, deed=True)

    async def _job(self, one: Process[StatementLine]) -> None:
        """Add a job and wait until it is due. Where the gateway could not say whether it is stored, it may fire, once."""
        word = f"r{AGENT}{self._jobs:04d}"
        self._jobs += 1
        due = time.time() + 1.0
        place = self.cluster.root / "state" / "gateways" / one.name
        added = {"when": "in 1 second", "text": f"tell me {word}", "name": word, "kind": "reminder", "agent": AGENT}
        try:
            await ask(place, "jobs.add", **added)
        except HomebodyError:
            due = float("inf")
        self.cluster.reminders[word] = AGENT, due
        shown = await self.cluster.until(
            lambda: time.time() > due + 1 and any(word in text for text in self.cluster.shown(AGENT)),
            4.0 if due == float("inf") else SETTLE_SECONDS,
        )
        if not shown and due < float("inf"):
            self.found.not_fired.append(f"{word}: {self._now}")

    async def _approval(self, _: Process[StatementLine]) -> None:
        seen = self.questions()
        word = await self.cluster.change(ASKING)
        if not await self.cluster.until(lambda: self.questions() - seen, SETTLE_SECONDS):
            self.found.ended.append(f"nobody was asked about {word}: {self._now}")
        for name in self.questions() - seen:
            await self.cluster.bots[PEOPLE[ASKING][0]].say(OWNER, f"/approve {name} once")

    def questions(self) -> set[str]:
        """Return the names of all questions that the owner was asked."""
        return {name for text in self.cluster.shown(ASKING) for name in QUESTION.findall(text)}

    async def stands_by(self, one: Process[StatementLine]) -> None:
        """Have the other gateway there, before anything is taken from the one that holds everything."""
        if one.name not in self.running:
            self._start(one)
        if not await self.cluster.until(lambda: one.name in self.watch.members, SETTLE_SECONDS):
            raise RuntimeError(f"{one.name} does not join: " + (self.cluster.root / f"{one.name}.log").read_text()[-3000:])

    async def _killed(self, holder: Process[StatementLine]) -> None:
        import psycopg

        await self.cluster.say(AGENT, deed=True)
        await asyncio.sleep(self.cluster.dice.uniform(0.0, 0.5))  # somewhere in that turn
        self.watch.begin(holder.name)
        self.running.discard(holder.name)
        holder.kill()
        await holder.wait(10)
        async with await psycopg.AsyncConnection.connect(self.cluster.url, autocommit=True) as db:
            for statement in EXPIRE.split(";"):
                await db.execute(statement.encode(), {"dead": f"{holder.name}.%"})

    async def _hands_over(self, holder: Process[StatementLine]) -> None:
        await self.cluster.say(AGENT, deed=True)
        await self.ends(holder)

    async def attend(self) -> None:
        """Start gateways again that end by themselves, as what runs them would."""
        while True:
            for one in self.cluster.gateways:
                if one.name in self.running and (code := one.ended) is not None:
                    kind = "began anew" if code == AGAIN else f"ended by itself with {code}"
                    self.found.kinds[kind] += 1
                    tell(f"  {one.name} {kind}: {self._now}")
                    one.start()
            await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def played(folder: Path, *, gateways: int, seed: int, agents: Sequence[str] = (AGENT,)) -> AsyncIterator[Cuts]:
    """Give a cluster that does not run yet, and judge in the end what became of everything."""
    found = Found()
    lines = [StatementLine(postgres_server.server().folder) for _ in range(gateways)]
    dice = random.Random(seed)
    cluster = Cluster(folder, f"cuts{seed}", lines, lease=LEASE, dice=dice, forked=True, agents=agents, asking=[ASKING])
    async with cluster:
        watch = Watch(cluster, found)
        cuts = Cuts(cluster, watch, found)
        watching, attending = asyncio.ensure_future(watch.run()), asyncio.ensure_future(cuts.attend())
        try:
            yield cuts
            await asyncio.sleep(1.0)  # what would come twice comes now
        finally:
            for task in (watching, attending):
                task.cancel()
            for result in await asyncio.gather(watching, attending, return_exceptions=True):
                if isinstance(result, Exception):
                    raise result
        await judge(cluster, found, time.time())


async def play(
    kind: str, numbers: Iterable[int], *, seed: int, folder: Path, ways: Sequence[Way] = WAYS
) -> tuple[Found, Counter[str]]:
    """Play one lane from its beginning to its end; ``kind`` is `alone` or `pair`."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)  # so that its gateways end, too
    alone = kind == "alone"
    async with played(folder, gateways=1 if alone else 2, seed=seed, agents=(AGENT, ASKING) if alone else (AGENT,)) as cuts:
        await (cuts.alone if alone else cuts.pair)(numbers, ways)
    return cuts.found, cuts.cut


def one_lane(given: argparse.Namespace) -> int:
    """Play a lane in a folder, which stays where something is wrong; the last line printed is what was found."""
    folder = Path(tempfile.mkdtemp(prefix="homebody-cuts-", dir="/tmp"))
    numbers = range(given.first, 10_000, given.every)
    began = time.monotonic()
    found, cut = asyncio.run(play(given.lane, numbers, seed=given.first, folder=folder))
    tell(f"lane {given.lane} from {given.first} took {time.monotonic() - began:.0f} s")
    if found.wrong() or given.keep:
        tell(f"{json.dumps(found.wrong(), indent=1)}\nlogs in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    tell(json.dumps({"cut": cut, "found": vars(found)}))
    return int(bool(found.wrong()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--every", type=int, default=1, help="each so-manieth statement alone")
    parser.add_argument("--first", type=int, default=1, help="the first statement that is struck")
    parser.add_argument("--lanes", type=int, default=1, help="how many lanes of each kind run side by side")
    parser.add_argument("--only", choices=KINDS, help="one kind alone")
    parser.add_argument("--keep", action="store_true", help="keep the folders with the logs")
    parser.add_argument("--lane", choices=KINDS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.lane:
        return one_lane(given)
    logs = Path(tempfile.mkdtemp(prefix="homebody-cut-lanes-", dir="/tmp"))
    tell(f"each lane writes what happens to {logs}")
    running: dict[Path, subprocess.Popen[bytes]] = {}
    for kind in [given.only] if given.only else KINDS:
        for lane in range(given.lanes):
            command = [sys.executable, __file__, "--lane", kind, "--first", str(given.first + lane * given.every)]
            command += ["--every", str(given.every * given.lanes), *(["--keep"] if given.keep else [])]
            with (logs / f"{kind}{lane}").open("wb") as log:
                running[logs / f"{kind}{lane}"] = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        for process in running.values():
            process.wait()
    finally:
        for process in running.values():
            process.terminate()
    return summed(list(running))


def summed(logs: list[Path]) -> int:
    """Print what all lanes found; return 1 where something is wrong."""
    cut, kinds, wrong = Counter[str](), Counter[str](), 0
    total: Counter[str] = Counter()
    for log in logs:
        *lines, last = log.read_text(errors="replace").splitlines() or [""]
        if not last.startswith("{"):
            tell("\n".join([f"{log.name} could not be played:", *lines[-20:], last]))
            wrong += 1
            continue
        told = json.loads(last)
        found = Found(**{**told["found"], "kinds": Counter(told["found"]["kinds"])})
        cut.update(told["cut"])
        kinds.update(found.kinds)
        total.update(
            {name: len(value) if isinstance(value, list) else value for name, value in vars(found).items() if name != "kinds"}
        )
        if found.wrong():
            wrong += 1
            tell("\n".join(lines))
    for key, count in sorted({**cut, **kinds}.items()):
        tell(f"{count:6}  {key}")
    tell(
        f"{cut.total()} cuts, {total['said']} messages, {total['deeds']} effects, {total['jobs']} jobs: {total['lost']} lost, "
        f"{total['doubled']} doubled, {total['out_of_order']} out of order, {total['effects_twice']} effects twice, "
        f"{total['effects_lost']} effects lost, {total['fired_twice']} fired twice, {total['not_fired']} not fired, "
        f"{total['fences_back']} fences back, {total['too_slow']} too slow, {total['ended']} ended; {total['marked']} said to be a "
        f"repeat, {total['unknown']} effects of unknown outcome, {total['given_up']} given up"
    )
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
