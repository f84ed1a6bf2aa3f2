"""A cluster as real processes: its database, the platform that is played here, the people who write, and the gateways."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from channels.messages import ChatAddress
from gateway.base.clock import SystemClock
from gateway.ledger.job_rows import NewJob
from gateway.schedules.schedule import At, to_text
from tests import postgres_server, programs
from tests.fire.model import CHANGES, DEEDS, PredictableModel
from tests.peers.telegram import TelegramPeer

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parents[2]
FORKED = Path(__file__).with_name("forked_gateway.py")
OWNER, GUEST = 4711, 5001
AGENTS = ("anna", "bob", "carl", "dora")
BOTS = {"a": "123456789", "b": "223456789", "c": "323456789"}
"""The bots of Telegram: ``c`` is shared by carl, to whom its owner writes, and dora, to whom another person does."""
_TOKEN = ":AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsa01"
PEOPLE = {"anna": ("a", OWNER), "bob": ("b", OWNER), "carl": ("c", OWNER), "dora": ("c", GUEST)}
"""Who is written to, by whom, on which bot."""
OWNED = ("anna", "bob", "carl")
REMIND_EVERY, TASK_EVERY = 3.0, 11.0
JOBS_SECONDS = 900.0


class DatabaseWay(Protocol):
    """What leads a gateway to the database. ``env`` tells it where that begins."""

    @property
    def env(self) -> dict[str, str]: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...


Line = TypeVar("Line", bound=DatabaseWay)


class Process(Generic[Line]):
    """One gateway, which is started again when it ends. ``line`` leads it to the database."""

    def __init__(self, name: str, root: Path, line: Line, *, forked: bool) -> None:
        self.name, self.root, self.line = name, root, line
        self.program = [str(FORKED)] if forked else ["-m", "gateway"]
        self.process: programs.Program | None = None

    def env(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root / "person"),
            "HOMEBODY_HOME": str(self.root / "state"),
            "HOMEBODY_GATEWAY": self.name,
            **self.line.env,
            "PYTHONPATH": str(ROOT),
            "TZ": "UTC",
        }

    def start(self, *, crashes: int = 0) -> None:
        """Start it as if it had crashed so often just before: those of the play itself would pause it."""
        starts = self.root / "state" / "gateways" / self.name / "starts.json"
        starts.unlink(missing_ok=True)
        if crashes:
            starts.write_text(json.dumps([(time.time(), False)] * crashes))
        with (self.root / f"{self.name}.log").open("ab") as log:
            self.process = programs.start(
                [sys.executable, *self.program, "gateway"],
                env=self.env(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.root,
            )

    async def command(self, *words: str) -> str:
        """Run a command of the product about this gateway; return what it prints."""
        command = [sys.executable, "-m", "gateway", *words]
        done = await asyncio.to_thread(programs.run, command, env=self.env(), cwd=self.root, capture_output=True, text=True)
        return f"{done.stdout}{done.stderr}"

    def send(self, number: int) -> None:
        if self.process is not None:
            self.process.send_signal(number)

    def kill(self) -> None:
        """Kill it at once, without waiting for its end."""
        self.send(signal.SIGKILL)

    @property
    def ended(self) -> int | None:
        return None if self.process is None else self.process.poll()

    async def wait(self, seconds: float) -> bool:
        """Wait for its end; return whether it came."""
        assert self.process is not None
        try:
            await asyncio.to_thread(self.process.wait, seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    async def end(self, seconds: float = 20.0) -> bool:
        """Have it end in order; return whether it did within the time."""
        self.send(signal.SIGCONT)
        self.send(signal.SIGTERM)
        if await self.wait(seconds):
            return True
        self.kill()
        await self.wait(seconds)
        return False


@dataclass
class Spoken:
    """What was said to one agent."""

    words: list[str] = field(default_factory=list)
    deeds: list[str] = field(default_factory=list)


class Cluster(Generic[Line]):
    """The peers, the database and the gateways. Start it with ``async with``.

    ``lines`` are as many as there are gateways; ``agents`` are some of ``PEOPLE``, with the bots that they need, and ``asking`` those of
    them that ask their owner before each edit.
    """

    def __init__(
        self,
        root: Path,
        database: str,
        lines: Sequence[Line],
        *,
        lease: float,
        dice: random.Random,
        forked: bool,
        agents: Sequence[str] = AGENTS,
        asking: Sequence[str] = (),
    ) -> None:
        self.root, self.server, self.lease, self.dice = root, postgres_server.server(), lease, dice
        self.database = database
        self.model = PredictableModel()
        self.agents, self.asking = tuple(agents), tuple(asking)
        bots = dict.fromkeys(PEOPLE[name][0] for name in agents)
        self.bots = {name: TelegramPeer(token=BOTS[name] + _TOKEN, checked=False) for name in bots}
        self.lines = list(lines)
        self.gateways = [Process(f"g{number}", root, line, forked=forked) for number, line in enumerate(self.lines)]
        self.spoken = {name: Spoken() for name in agents}
        self.reminders: dict[str, tuple[str, float]] = {}
        self.tasks: dict[str, tuple[str, float]] = {}
        self._stack = contextlib.AsyncExitStack()

    @property
    def url(self) -> str:
        """Where the database is, past the lines."""
        return self.server.url(self.database)

    async def __aenter__(self) -> Self:
        import psycopg

        async with await psycopg.AsyncConnection.connect(self.server.url(), autocommit=True) as admin:
            await admin.execute(f"CREATE DATABASE {self.database}".encode())
        for one in (self.model, *self.bots.values(), *self.lines):
            await self._stack.enter_async_context(one)
        self.furnish()
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(one.end() for one in self.gateways))
        await self._stack.aclose()
        shutil.copy(self.server.folder / "log", self.root / "postgres.log")

    def furnish(self) -> None:
        (self.root / "state").mkdir(mode=0o700)
        (self.root / "person").mkdir()
        for name in self.agents:
            workspace = self.root / f"workspace-{name}"
            workspace.mkdir()
            for file in (DEEDS, CHANGES):
                (workspace / file).write_text("# Deeds\n\n<end>\n")
        file = self.root / "state" / "homebody.json"
        file.write_text(json.dumps(self.settings()))
        file.chmod(0o600)

    def settings(self) -> dict[str, Any]:
        accounts = {
            name: {
                "botToken": bot.token,
                "apiRoot": bot.root,
                "allowFrom": [str(OWNER), str(GUEST)],
                "pollTimeoutSeconds": 2,
                "pacing": False,
            }
            for name, bot in self.bots.items()
        }
        model = {"id": "m", "contextWindow": 200_000, "maxTokens": 1000}
        provider = {"baseUrl": self.model.url, "apiKey": "none", "api": "openai-completions", "models": [model]}
        agents = {
            "defaults": {
                "model": "fire/m",
                "userTimezone": "UTC",
                "skipBootstrap": True,
                "memorySearch": {"enabled": False},
                "heartbeat": {"every": 0},
                "unaskedPerDay": 10_000,
            },
            "list": [{"id": name, "workspace": str(self.root / f"workspace-{name}")} for name in self.agents],
        }
        match = {"channel": "telegram"}
        peer = {"kind": "direct", "id": str(GUEST)}
        return {
            "gateway": {"port": 0},
            "storage": {"url": f"postgresql://homebody@/{self.database}"},
            "cluster": {"enabled": True, "leaseSeconds": self.lease},
            "budgets": {"enabled": False},  # a slow machine plays for so long that a day's tokens would not do
            "messages": {"queue": {"mode": "followup", "debounceMs": 0}},
            "models": {"mode": "replace", "providers": {"fire": provider}},
            "approvals": {"rules": [{"decision": "ask", "tool": "edit", "agent": name} for name in self.asking]},
            "agents": agents,
            "bindings": [
                *(
                    {"agentId": "dora", "match": {**match, "accountId": "c", "peer": peer}}
                    for name in self.agents
                    if name == "dora"
                ),
                *({"agentId": name, "match": {**match, "accountId": PEOPLE[name][0]}} for name in self.agents if name in OWNED),
            ],
            "channels": {"telegram": {"accounts": accounts}},
        }

    async def plan(self) -> None:
        """Add reminders and tasks that are due one after the other, each once."""
        from gateway.ledger.postgres.ledger import PostgresLedger

        ledger = await PostgresLedger.open(self.url, SystemClock())
        begins = datetime.now(UTC) + timedelta(seconds=8)
        for kind, every, due in (("message", REMIND_EVERY, self.reminders), ("prompt", TASK_EVERY, self.tasks)):
            for number in range(int(JOBS_SECONDS / every)):
                agent = OWNED[number % len(OWNED)]
                instant = begins + timedelta(seconds=number * every)
                word = f"{'r' if kind == 'message' else 't'}{agent}{number:04d}"
                job = NewJob(
                    agent=agent,
                    name=word,
                    schedule=to_text(At(instant)),
                    kind=kind,  # type: ignore[arg-type]
                    text=f"tell me {word}",
                    session="isolated",
                    deliver=ChatAddress(channel="telegram", account=PEOPLE[agent][0], kind="direct", id=str(OWNER)),
                    urgent=True,
                )
                await ledger.jobs.add(job, instant, "UTC")
                due[word] = agent, instant.timestamp()
        await ledger.close()

    def start(self) -> None:
        for one in self.gateways:
            one.start()

    async def talk(self) -> None:
        """Write to each agent now and then."""
        while True:
            name = self.dice.choice(self.agents)
            await self.say(name, deed=name in OWNED and self.dice.random() < 0.4)
            await asyncio.sleep(self.dice.uniform(0.1, 1.5))

    async def say(self, name: str, *, deed: bool) -> str:
        """Tell an agent something, or to do something; return the word by which the answer is known."""
        return await self._say(name, "please do" if deed else "tell me", deed=deed)

    async def change(self, name: str) -> str:
        """Have an agent do what its owner is asked about before; return the word by which the answer is known."""
        return await self._say(name, "please change", deed=True)

    async def _say(self, name: str, what: str, *, deed: bool) -> str:
        bot, person = PEOPLE[name]
        spoken = self.spoken[name]
        word = f"{name}{len(spoken.words):04d}"
        spoken.words.append(word)
        if deed:
            spoken.deeds.append(word)
        await self.bots[bot].say(person, f"{what} {word}", name="Anna" if person == OWNER else "Guest")
        return word

    def shown(self, name: str) -> list[str]:
        """What the person who writes to an agent sees of the bot."""
        bot, person = PEOPLE[name]
        return [text for who, text in self.bots[bot].transcript(person) if who == "bot"]

    def deeds(self, name: str) -> list[str]:
        text = "".join((self.root / f"workspace-{name}" / file).read_text() for file in (DEEDS, CHANGES))
        return [line.removeprefix("- ") for line in text.splitlines() if line.startswith("- ")]

    async def until(self, condition: Any, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if condition():
                return True
            await asyncio.sleep(0.2)
        return False
