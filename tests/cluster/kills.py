"""Clusters of gateways as real processes, on a real PostgreSQL, in trouble of every kind while people write.

    python tests/cluster/kills.py --kills 2 --pauses 1
    python tests/cluster/kills.py --strikes 600 --gateways 3 --clusters 3 --seed 1
    python tests/cluster/kills.py --statements --every 20     # connections that are cut at each statement in turn (statement_cuts.py)

Each bot of a Telegram that is played here belongs to one agent or two. People write to all of them the whole time, have them do things that
must be done once, and have reminders and tasks that are due all the while. Gateways are killed, stopped, cut off, drained and moved, their
database is restarted and crashes, and connections are cut at single statements (``troubles.py``). In the end each message must have been
answered once and in order, everything been done at most once, each job have fired once, no fence have gone back, and every agent
have had a holder within two leases (``judging.py``). Prints a table of zeros, or what is wrong, and exits with 1 then.

Some clusters run side by side, each with a server of its own; each of them makes a new one after some strikes. What happens in it follows
from its seed, but for what depends on the speed of the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import atexit
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests import postgres_server
from tests.cluster.judging import Found, Watch, all_answered, answered, jobs_are_done, judge
from tests.cluster.playing import Cluster
from tests.cluster.troubles import SETTLE_SECONDS, Troubles
from tests.peers.database_line import DatabaseLine

WEIGHTS = {
    "kill": 8,
    "kill at a statement": 12,
    "kill in a take-over": 8,
    "pause": 4,
    "pause at a statement": 7,
    "short pause": 1,
    "restart of the database": 1,
    "crash of the database": 2,
    "sessions ended": 1,
    "line cut at a statement": 2,
    "partition": 2,
    "drain": 1,
    "stop in order": 1,
    "move": 1,
    "rest": 1,
}
"""How often each kind of trouble is drawn."""


def tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def play(kinds: list[str], *, seed: int, gateways: int, lease: float, folder: Path, forked: bool) -> Found:
    """Play one cluster from its beginning to its end."""
    found = Found()
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)  # so that its gateways end, too
    socket = postgres_server.server().folder
    lines = [DatabaseLine(folder / "lines" / f"g{number}", socket) for number in range(gateways)]
    cluster = Cluster(folder, f"cluster{seed}", lines, lease=lease, dice=random.Random(seed), forked=forked)
    async with cluster:
        await cluster.plan()
        watch = Watch(cluster, found)
        troubles = Troubles(cluster, watch, found, tell)
        for name in cluster.spoken:  # a bot may not begin a conversation
            await cluster.say(name, deed=False)
        cluster.start()
        talking = asyncio.ensure_future(cluster.talk())
        watching = asyncio.ensure_future(watch.run())
        attending = asyncio.ensure_future(troubles.attend())
        try:
            if not await cluster.until(lambda: all(answered(cluster, name) for name in cluster.spoken), SETTLE_SECONDS):
                raise SystemExit("no gateway answers: " + (folder / "g0.log").read_text()[-3000:])
            for kind in kinds:
                tell(f"{time.strftime('%H:%M:%S')} seed {seed}: {kind}")
                await troubles.strike(kind)
            talking.cancel()
            until = time.time()
            await cluster.until(lambda: all_answered(cluster) and jobs_are_done(cluster, until), SETTLE_SECONDS)
            await asyncio.sleep(1.0)  # what would come twice comes now
        finally:
            for task in (tasks := (talking, watching, attending)):
                task.cancel()
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(result, Exception):
                    raise result
        await judge(cluster, found, until)
    return found


def drawn(seed: int, count: int) -> list[str]:
    """Return the troubles of a cluster."""
    return random.Random(seed).choices(list(WEIGHTS), list(WEIGHTS.values()), k=count)


def one_cluster(given: argparse.Namespace, kinds: list[str], seed: int) -> Found:
    """Play a cluster in a folder, which stays where something is wrong."""
    folder = Path(tempfile.mkdtemp(prefix="homebody-cluster-", dir="/tmp"))
    found = asyncio.run(
        play(kinds, seed=seed, gateways=given.gateways[0], lease=given.lease, folder=folder, forked=given.forked)
    )
    if found.wrong():
        tell(f"seed {seed} is wrong, logs in {folder}: {json.dumps(found.wrong(), indent=1)}")
    if given.keep or found.wrong():
        tell(f"logs: {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return found


def in_lanes(given: argparse.Namespace) -> list[Found]:
    """Play clusters side by side, as processes of their own, until there were enough strikes."""
    results: list[Found] = []
    running: dict[int, subprocess.Popen[bytes]] = {}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    atexit.register(lambda: [process.terminate() for process in running.values()])
    seeds = iter(range(given.seed, given.seed + -(-given.strikes // given.each)))
    logs = Path(tempfile.mkdtemp(prefix="homebody-clusters-", dir="/tmp"))
    tell(f"each cluster writes what happens to {logs}/SEED")
    while True:
        while len(running) < given.clusters and (seed := next(seeds, None)) is not None:
            gateways = given.gateways[seed % len(given.gateways)]
            command = [sys.executable, __file__, "--one", "--seed", str(seed), "--strikes", str(given.each)]
            command += ["--gateways", str(gateways), "--lease", str(given.lease), *(["--keep"] if given.keep else [])]
            command += [] if seed % 10 == 0 else ["--forked"]
            with (logs / str(seed)).open("wb") as log:
                running[seed] = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        if not running:
            return results
        for seed in [seed for seed, process in running.items() if process.poll() is not None]:
            del running[seed]
            results.append(read(logs / str(seed)))
            tell(
                f"{time.strftime('%H:%M:%S')} seed {seed}: {'WRONG' if results[-1].wrong() else 'zeros'}; {summary(results, given)}"
            )
        time.sleep(0.5)


def read(log: Path) -> Found:
    """Return what a cluster found; shows its log where something is wrong."""
    *lines, last = log.read_text(errors="replace").splitlines() or [""]
    if not last.startswith("{"):
        tell("\n".join([f"{log.name} could not be played:", *lines[-20:], last]))
        return Found(ended=[f"seed {log.name} could not be played"])
    told = json.loads(last)
    found = Found(**{**told, "kinds": Counter(told["kinds"])})
    if found.wrong():
        tell("\n".join(lines))
    return found


def summed(results: list[Found]) -> Found:
    """Return all that was found."""
    total = Found()
    for one in results:
        for name, value in vars(one).items():
            before = getattr(total, name)
            setattr(total, name, max(before, value) if name in {"slowest", "late"} else before + type(before)(value))
    return total


def summary(results: list[Found], given: argparse.Namespace) -> str:
    """Return one line of figures."""
    total = summed(results)
    kills = sum(count for kind, count in total.kinds.items() if kind.startswith("kill"))
    pauses = total.kinds["pause"] + total.kinds["pause at a statement"]
    return (
        f"{kills} kills, {pauses} pauses, {total.said} messages, {total.deeds} effects, {total.jobs} jobs: {len(total.lost)} lost, "
        f"{len(total.doubled)} doubled, {len(total.out_of_order)} out of order, {len(total.effects_twice)} effects twice, "
        f"{len(total.effects_lost)} effects lost, {len(total.fired_twice)} fired twice, {len(total.not_fired)} not fired, "
        f"{len(total.fences_back)} fences back, {len(total.too_slow)} too slow, {len(total.ended)} ended; "
        f"{total.marked} said to be a repeat, {total.unknown} effects of unknown outcome, {total.given_up} given up; longest without a "
        f"holder {total.slowest:.1f} s at leases of {given.lease:g} s (this program came {total.late:.1f} s late at most)"
    )


def main() -> int:
    if "--statements" in sys.argv:
        from tests.cluster import statement_cuts

        sys.argv.remove("--statements")
        return statement_cuts.main()
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--pauses", type=int, default=2)
    parser.add_argument(
        "--strikes", type=int, default=0, help="so many of all kinds, drawn by the seed, in place of kills and pauses"
    )
    parser.add_argument("--kind", help="troubles of this kind alone, as often as --strikes says")
    parser.add_argument("--each", type=int, default=25, help="strikes after which a new cluster is made")
    parser.add_argument("--clusters", type=int, default=1, help="how many run side by side")
    parser.add_argument("--gateways", type=int, nargs="+", default=[2], help="several numbers: clusters have them in turn")
    parser.add_argument("--lease", type=float, default=6.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--keep", action="store_true", help="keep the folders with the logs")
    parser.add_argument(
        "--forked", action="store_true", help="have gateways that begin anew be forked, which saves most of the CPU time"
    )
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one or not given.strikes or given.kind:
        kinds = drawn(given.seed, given.strikes) if given.strikes else ["kill"] * given.kills + ["pause"] * given.pauses
        if given.kind:
            kinds = [given.kind] * given.strikes
        elif not given.strikes:
            random.Random(given.seed).shuffle(kinds)
        results = [one_cluster(given, kinds, given.seed)]
    else:
        results = in_lanes(given)
    total = summed(results)
    if not given.one:
        for kind, count in sorted(total.kinds.items()):
            tell(f"{count:6}  {kind}")
    tell(f"seed {given.seed}, {' or '.join(map(str, given.gateways))} gateways: {summary(results, given)}")
    if given.one:
        tell(json.dumps(vars(total)))
    return int(bool(total.wrong()))


if __name__ == "__main__":
    sys.exit(main())
