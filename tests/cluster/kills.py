"""Two gateways of a cluster as real processes, on a real PostgreSQL: killed and stopped in turn while people write.

    python tests/cluster/kills.py --kills 20 --pauses 10 --gateways 2

Each bot of a Telegram that is played here belongs to an agent. People write to all of them the whole time. A gateway is killed (SIGKILL)
and started again, or stopped (SIGSTOP) for longer than a lease and let go on. In the end each message must have been answered once and in
order, no fence may ever have gone back, and every agent that had no live holder must have had one within two leases. Prints zeros, or
what is wrong, and exits with 1 then.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from channels.messages import MARKS
from tests import postgres_server
from tests.fire.model import PredictableModel
from tests.peers.telegram import TelegramPeer

OWNER = 4711

TOKENS = ("123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsa01", "223456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsa02")
NAMES = ("anna", "bob")
SETTLE_SECONDS = 120.0


@dataclass
class Found:
    """What was seen, and what is wrong."""

    kills: int = 0
    pauses: int = 0
    said: int = 0
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    out_of_order: list[str] = field(default_factory=list)
    fences_back: list[str] = field(default_factory=list)
    slowest: float = 0.0
    marked: int = 0

    def wrong(self, lease: float) -> bool:
        return bool(self.lost or self.doubled or self.out_of_order or self.fences_back or self.slowest > 2 * lease + 1)


class Process:
    """One gateway."""

    def __init__(self, name: str, root: Path) -> None:
        self.name, self.root = name, root
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        (self.root / "state" / "gateways" / self.name / "starts.json").unlink(missing_ok=True)  # so many kills would pause it
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root / "person"),
            "HOMEBODY_HOME": str(self.root / "state"),
            "HOMEBODY_GATEWAY": self.name,
            "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
            "TZ": "UTC",
        }
        with (self.root / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "gateway", "gateway"],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.root,
            )

    def send(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def end(self, number: int = signal.SIGTERM, seconds: float = 30.0) -> None:
        if self.process is None:
            return
        self.process.send_signal(signal.SIGCONT)
        self.process.send_signal(number)
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Cluster:
    """The peers, the database and the gateways."""

    def __init__(self, root: Path, url: str, gateways: int, lease: float, dice: random.Random) -> None:
        self.root, self.url, self.lease, self.dice = root, url, lease, dice
        self.model = PredictableModel()
        self.bots = {name: TelegramPeer(token=token, checked=False) for name, token in zip(NAMES, TOKENS, strict=True)}
        self.gateways = [Process(f"g{number}", root) for number in range(gateways)]
        self.words: dict[str, list[str]] = {name: [] for name in self.bots}
        self.found = Found()
        self._down: set[str] = set()

    def furnish(self) -> None:
        (self.root / "state").mkdir(mode=0o700)
        (self.root / "person").mkdir()
        accounts = {
            name: {
                "botToken": bot.token,
                "apiRoot": bot.root,
                "allowFrom": [str(OWNER)],
                "pollTimeoutSeconds": 2,
                "pacing": False,
            }
            for name, bot in self.bots.items()
        }
        settings: dict[str, Any] = {
            "gateway": {"port": 0},
            "storage": {"url": self.url},
            "cluster": {"enabled": True, "leaseSeconds": self.lease},
            "messages": {"queue": {"mode": "followup", "debounceMs": 0}},
            "models": {
                "mode": "replace",
                "providers": {
                    "fire": {
                        "baseUrl": self.model.url,
                        "apiKey": "none",
                        "api": "openai-completions",
                        "models": [{"id": "m", "contextWindow": 200_000, "maxTokens": 1000}],
                    }
                },
            },
            "agents": {
                "defaults": {
                    "model": "fire/m",
                    "userTimezone": "UTC",
                    "skipBootstrap": True,
                    "memorySearch": {"enabled": False},
                },
                "list": [{"id": name, "workspace": str(self.root / f"workspace-{name}")} for name in self.bots],
            },
            "bindings": [{"agentId": name, "match": {"channel": "telegram", "accountId": name}} for name in self.bots],
            "channels": {"telegram": {"accounts": accounts}},
        }
        file = self.root / "state" / "homebody.json"
        file.write_text(json.dumps(settings))
        file.chmod(0o600)

    async def talk(self) -> None:
        """Write to each bot now and then."""
        while True:
            for name, bot in self.bots.items():
                word = f"{name}{len(self.words[name]):04d}"
                self.words[name].append(word)
                await bot.say(OWNER, f"tell me {word}")
            await asyncio.sleep(self.dice.uniform(0.1, 0.8))

    def shown(self, name: str) -> list[str]:
        return [text for who, text in self.bots[name].transcript(OWNER) if who == "bot"]

    def answered(self, name: str) -> list[str]:
        return [word for text in self.shown(name) for word in re.findall(r"heard (\w+)", text)]

    async def watch(self) -> None:
        """Look at fences, and how long a token has no live holder."""
        import psycopg

        fences: dict[str, int] = {}
        free: dict[str, float] = {}
        query = (
            "SELECT t.token, t.fence, coalesce(h.gateway, ''), t.vt > clock_timestamp() "
            "FROM cluster_token t LEFT JOIN cluster_holder h USING (token)"
        )
        while True:
            await asyncio.sleep(0.1)
            with contextlib.suppress(psycopg.Error):
                async with await psycopg.AsyncConnection.connect(self.url, options="-c search_path=homebody") as connection:
                    rows = await (await connection.execute(query)).fetchall()
                now = time.monotonic()
                for token, fence, holder, held in rows:
                    if fence < fences.get(token, 0):
                        self.found.fences_back.append(f"{token}: {fences[token]} -> {fence}")
                    fences[token] = fence
                    if holder and held and holder.partition(".")[0] not in self._down:
                        free.pop(token, None)
                    else:
                        self.found.slowest = max(self.found.slowest, now - free.setdefault(token, now))

    async def strike(self, kind: str) -> None:
        """Kill or stop one gateway; another one has to go on meanwhile."""
        one = self.dice.choice(self.gateways)
        tell(f"{kind} {one.name}")
        self._down.add(one.name)
        if kind == "kill":
            one.send(signal.SIGKILL)
            one.process.wait()
            self.found.kills += 1
            await asyncio.sleep(self.dice.uniform(0.2, 1.6 * self.lease))
            one.start()
        else:
            one.send(signal.SIGSTOP)
            self.found.pauses += 1
            await asyncio.sleep(self.lease * self.dice.uniform(1.3, 2.2))
            one.send(signal.SIGCONT)
        self._down.discard(one.name)
        before = {name: len(self.words[name]) for name in self.bots}
        await self.until(lambda: all(len(set(self.answered(name))) >= before[name] for name in self.bots))

    async def until(self, condition: Any, seconds: float = SETTLE_SECONDS) -> bool:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if condition():
                return True
            await asyncio.sleep(0.05)
        return False

    def judge(self) -> Found:
        found = self.found
        for name in self.bots:
            answered, asked = self.answered(name), self.words[name]
            found.said += len(asked)
            found.lost += [word for word in asked if word not in answered]
            for word in asked:
                texts = [text for text in self.shown(name) if f"heard {word}" in text]
                plain = [text for text in texts if not is_marked(text)]
                found.marked += len(texts) - len(plain)
                if len(plain) > 1:
                    found.doubled.append(word)
            first = list(dict.fromkeys(answered))
            found.out_of_order += [one for one, other in zip(first, sorted(first), strict=True) if one != other][:5]
        return found


def tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def is_marked(text: str) -> bool:
    """Whether a message says that it may be a repeat."""
    return text.startswith(tuple(one.strip() for one in MARKS))


async def run(given: argparse.Namespace, folder: Path) -> Found:
    dice = random.Random(given.seed)
    url = postgres_server.server().url()
    cluster = Cluster(folder, url, given.gateways, given.lease, dice)
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(cluster.model)
        for bot in cluster.bots.values():
            await stack.enter_async_context(bot)
        cluster.furnish()
        for one in cluster.gateways:
            one.start()
        tasks = [asyncio.ensure_future(cluster.talk())]
        try:
            if not await cluster.until(lambda: all(len(cluster.answered(name)) > 2 for name in cluster.bots)):
                raise SystemExit("no gateway answers: " + (folder / "g0.log").read_text()[-3000:])
            tasks.append(asyncio.ensure_future(cluster.watch()))
            strikes = ["kill"] * given.kills + ["pause"] * given.pauses
            dice.shuffle(strikes)
            for kind in strikes:
                await cluster.strike(kind)
            tasks[0].cancel()
            await cluster.until(lambda: all(set(cluster.words[name]) <= set(cluster.answered(name)) for name in cluster.bots))
            await asyncio.sleep(1.0)  # what would come twice comes now
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.gather(*(asyncio.to_thread(one.end) for one in cluster.gateways))
        return cluster.judge()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--pauses", type=int, default=2)
    parser.add_argument("--gateways", type=int, default=2)
    parser.add_argument("--lease", type=float, default=6.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--keep", action="store_true", help="keep the folder with the logs")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="homebody-cluster-"))
    found = asyncio.run(run(given, folder))
    tell(
        f"{found.kills} kills, {found.pauses} pauses, {found.said} messages (seed {given.seed}): {len(found.lost)} lost, "
        f"{len(found.doubled)} doubled, {len(found.out_of_order)} out of order, {len(found.fences_back)} fences back; "
        f"{found.marked} said to be a repeat; longest without a holder {found.slowest:.1f} s at leases of {given.lease:.0f} s"
    )
    for what in ("lost", "doubled", "out_of_order", "fences_back"):
        if getattr(found, what):
            tell(f"{what}: {', '.join(getattr(found, what)[:20])}")
    wrong = found.wrong(given.lease)
    if wrong or given.keep:
        tell(f"logs: {folder}")
    else:
        import shutil

        shutil.rmtree(folder, ignore_errors=True)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
