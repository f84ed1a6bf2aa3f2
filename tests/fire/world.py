"""One person, one platform, one model and one house that gets killed: what happened is judged from outside the house."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from gateway.api import api_client
from gateway.base.errors import HomebodyError
from tests.fire import power
from tests.fire.model import CHANGES, DEEDS, PredictableModel
from tests.fire.platforms import Document, Platform, WatchedTelegram

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

QUIET_SECONDS = 120.0
STOP_SECONDS = 60.0
"""More than a house takes at most to end in order."""
TRACER_SECONDS = 30.0
"""How long strace may go on after the gateway that it traces."""
STATE = Path("state/state")
_QUESTION = re.compile(r"/approve (\S+) once")


_RULES = [{"decision": "ask", "tool": "edit"}, {"decision": "allow", "tool": "spawn", "untrusted": True}]
"""Changes of files are asked about where a scenario wants a question; sub-agents are started also where a webhook's text is in view."""


@dataclass(frozen=True)
class Kill:
    """SIGKILL at the ``when``-th call of one system call, counted in each thread; or at one of the places of ``agent.fault_injection``.

    It is counted from the start of the gateway, or, with ``after`` (such as ``("model", 3)``), from the moment on when a peer has the
    third request and is about to answer it: that reaches the places where several threads take turns. With ``error`` nobody is
    killed: from then on so many calls (``lasts``) fail, as on a disk that is full (ENOSPC) or broken (EIO), and then all is well.

    Written ``fdatasync:5``, ``write:2@model:3``, ``after-accept:1``, or ``pwrite64:7=ENOSPC*20``.
    """

    call: str
    when: int
    after: tuple[str, int] | None = None
    error: str = ""
    lasts: int = 1

    def __str__(self) -> str:
        fails = f"={self.error}*{self.lasts}" if self.error else ""
        behind = "" if self.after is None else f"@{self.after[0]}:{self.after[1]}"
        return f"{self.call}:{self.when}{fails}{behind}"

    @classmethod
    def parse(cls, text: str) -> Kill:
        """The reverse of ``str``. Raises ValueError."""
        place, _, moment = text.partition("@")
        place, _, fails = place.partition("=")
        call, _, when = place.rpartition(":")
        peer, _, count = moment.partition(":")
        error, _, lasts = fails.partition("*")
        return cls(call, int(when), (peer, int(count)) if moment else None, error, int(lasts or 1))

    @property
    def named(self) -> bool:
        """Whether it is a place of ``agent.fault_injection``, for which no strace is needed."""
        return self.call.startswith(("before-", "after-"))

    @property
    def injection(self) -> str:
        """The same for strace."""
        what = f"error={self.error}" if self.error else "signal=KILL"
        until = f"..{self.when + self.lasts - 1}" if self.error else ""
        return f"inject={self.call}:{what}:when={self.when}{until}"


class Nursery:
    """Makes gateways (see ``tests/fire/nursery.py``)."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._lock = asyncio.Lock()

    @classmethod
    @contextlib.asynccontextmanager
    async def opened(cls):
        """Use the one of this process: it is started once, because all that it imports takes seconds."""
        yield cls(await asyncio.to_thread(_nursery))

    async def spawn(self, home: Path, **how: Any) -> int:
        """Make a gateway that waits; ``how`` is what else ``tests/fire/nursery.py`` takes."""
        async with self._lock:
            self._say({"home": str(home), "log": str(home / "log"), **how})
            return int((await self.hear())["pid"])

    def go(self, pid: int) -> None:
        self._say({"go": pid})

    def _say(self, what: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what).encode() + b"\n")
        self._process.stdin.flush()

    async def hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        return dict(json.loads(await asyncio.to_thread(self._process.stdout.readline)))


@functools.cache
def _nursery() -> subprocess.Popen[bytes]:
    program = Path(__file__).with_name("nursery.py")
    process = subprocess.Popen([sys.executable, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["ready"]

    def end() -> None:
        process.communicate()

    atexit.register(end)
    return process


class Life:
    """One gateway process, from its birth to its end."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.strace: asyncio.subprocess.Process | None = None
        self._descriptor = os.pidfd_open(pid)
        self._ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(self._descriptor, self._over)

    def _over(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)
        self._ended.set()

    @property
    def over(self) -> bool:
        return self._ended.is_set()

    async def end(self, number: int = signal.SIGTERM) -> None:
        """Send a signal if it lives still, and wait for its end. Sent again, for where writes fail a signal can be overheard."""
        for again in (number, number, signal.SIGKILL):
            if not self.over:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, again)
            if await self.until_over(STOP_SECONDS):
                break
        await self.wait()

    async def wait(self) -> None:
        await self._ended.wait()
        if self.strace is not None:
            await _over(self.strace, self.pid)

    async def until_over(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), seconds)
        return self.over


@dataclass
class World:
    """Peers that outlive every gateway, and the folder that the gateways share. Use with ``async with``."""

    root: Path
    nursery: Nursery
    settings: dict[str, Any] = field(default_factory=dict)
    platform: Platform = field(default_factory=WatchedTelegram)
    model: PredictableModel = field(default_factory=PredictableModel)
    grown_from: Path | None = None
    meanwhile: dict[str, tuple[str, int]] = field(default_factory=dict)
    """What the person says once a peer has been asked so often in one life, such as ``("model", 2)``."""
    files: dict[str, Document] = field(default_factory=dict)
    """What comes with something that the person says."""
    corrections: dict[str, str] = field(default_factory=dict)
    """What the person says not anew, but by changing what they had said."""
    prepare: Callable[[Path], Awaitable[None]] | None = None
    """What is changed in the folder before the first house lives in it."""
    posts: dict[str, dict[str, str]] = field(default_factory=dict)
    """Bodies with which hooks are called, by the hook."""
    caller: Callable[[World], Awaitable[None]] | None = None
    """Calls the hooks, from the first life on until each was taken."""
    beats: bool = False
    """Whether a heartbeat is due."""
    posted: set[str] = field(default_factory=set, init=False)
    decides: str = ""
    """What the person answers to each question about what the agent may do: ``once`` or ``deny``."""
    asked: dict[str, int] = field(default_factory=dict, init=False)
    """The names of the questions that the person was asked, and how many changes had been made when they were asked it."""
    _calling: asyncio.Future[None] | None = field(default=None, init=False)
    said_since_quiet: bool = field(default=False, init=False)
    """Whether the person said something after a gateway was last found to be quiet, such as while it closed."""

    async def __aenter__(self) -> Self:
        await self.platform.__aenter__()
        await self.model.__aenter__()
        if self.grown_from is not None:
            shutil.copytree(self.grown_from, self.root, symlinks=True)
            self.platform.age()  # what the house heard in its youth keeps its numbers
        else:
            (self.root / "person" / "homebody").mkdir(parents=True)
            (self.root / "state").mkdir(mode=0o700)
            for name in (DEEDS, CHANGES):
                (self.root / "person" / "homebody" / name).write_text("# Deeds\n\n<end>\n")
        self.furnish()
        if self.prepare is not None:
            await self.prepare(self.root)
        if self.caller is not None:
            self._calling = asyncio.ensure_future(self.caller(self))
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._calling is not None:
            self._calling.cancel()
            await asyncio.gather(self._calling, return_exceptions=True)
        await self.platform.__aexit__(*error)
        await self.model.__aexit__(*error)

    def furnish(self) -> None:
        """Write the settings."""
        (self.root / "state" / "homebody.json").write_text(json.dumps(self._settings()))
        (self.root / "state" / "homebody.json").chmod(0o600)

    def _settings(self) -> dict[str, Any]:
        window = self.settings.get("window", 200_000)
        provider = {
            "baseUrl": self.model.url,
            "apiKey": "none",
            "api": "openai-completions",
            "models": [{"id": "m", "contextWindow": window, "maxTokens": 1000}],
        }
        defaults = {
            "model": "fire/m",
            "userTimezone": "UTC",
            "skipBootstrap": True,
            "memorySearch": {"enabled": False},
            **self.settings.get("agent", {}),
        }
        kind = self.platform.kind
        return {
            "gateway": {"port": self.platform.port_of_house},
            "messages": {"queue": {"mode": "followup", "debounceMs": 0, **self.settings.get("queue", {})}},
            "approvals": {"rules": _RULES},
            "models": {"mode": "replace", "providers": {"fire": provider}},
            "agents": {"defaults": defaults},
            "channels": {kind: {**self.platform.settings(), **self.settings.get(kind, {})}},
        }

    async def say(self, *texts: str) -> None:
        for text in texts:
            self.said_since_quiet = True
            if text in self.corrections:
                await self.platform.correct(self.corrections[text], text)
            else:
                await self.platform.hear(text, self.files.get(text))

    async def decide(self) -> None:
        """Answer the questions that the person sees and did not answer yet."""
        for text in self.said():
            for name in _QUESTION.findall(text):
                if name not in self.asked:
                    self.asked[name] = len(self.changes())
                    await self.say(f"/approve {name} {self.decides}")

    async def start(self, kill: Kill | None = None, *, recorded: bool = False, **how: Any) -> Life:
        if kill is not None and kill.named:
            kill, how = None, how | {"fault": str(kill)}
        pid = await self.nursery.spawn(self.root, heavy=self.platform.heavy, **how)
        life = Life(pid)
        self.model.calls = self.platform.sends = self.platform.fetches = 0
        if kill is not None and kill.after is None:
            life.strace = await _under_strace(pid, kill, self.root / "calls")

        if recorded:
            assert life.strace is None, "two cannot watch one process"
            life.strace = await _attached(
                pid, self.root.parent / f"{self.root.name}.record", f"trace={power.CALLS}", power.RECORD
            )

        async def watch(peer: str, count: int) -> None:
            if self.decides and peer == self.platform.kind:
                await self.decide()
            for text in [text for text, moment in self.meanwhile.items() if moment == (peer, count)]:
                del self.meanwhile[text]
                await self.say(text)
            if kill is not None and (peer, count) == kill.after and not life.over and life.strace is None:
                life.strace = await _under_strace(pid, kill, self.root / "calls")

        self.model.watcher = self.platform.watcher = watch
        self.nursery.go(pid)
        return life

    async def quiet(self, life: Life) -> bool:
        """Wait until the house has nothing left to do; False when it died before. Raises TimeoutError when it never gets there."""
        async with asyncio.timeout(QUIET_SECONDS):
            while not life.over:
                self.said_since_quiet = False  # what is said while the status is asked for is not in it
                if not self.platform.unconfirmed and await self._idle() and not self.said_since_quiet:
                    return True
                await asyncio.sleep(0.04)
        return False

    async def until_paused(self) -> dict[str, Any]:
        """Wait until the house says that it paused; return its status."""
        async with asyncio.timeout(QUIET_SECONDS):
            while True:
                with contextlib.suppress(HomebodyError, OSError, ValueError):  # it is not open yet
                    status = await api_client.ask(self.root / STATE, "status")
                    if status["paused"]:
                        return dict(status)
                await asyncio.sleep(0.04)

    async def _idle(self) -> bool:
        try:
            facts = await api_client.ask(self.root / STATE, "status")
        except (HomebodyError, OSError, ValueError):
            return False
        if not self.platform.tells_all and any(channel["state"] != "connected" for channel in facts["channels"].values()):
            return False
        if self.posts and (len(self.posted) < len(self.posts) or facts["unasked"]["held"] or await self._jobs_are_due()):
            return False
        if self.beats and not all(one["next"] and _is_ahead(one["next"]) for one in facts["heartbeats"]):
            return False
        under_way = [count for state, count in facts["outbox"].items() if state in {"ready", "sending", "ambiguous"}]
        return not (facts["inbox"]["waiting"] or facts["turns"]["running"] or any(under_way))

    async def _jobs_are_due(self) -> bool:
        """Whether a job is still to fire: those that repeat are not due again for a long while."""
        try:
            found = (await api_client.ask(self.root / STATE, "jobs.list"))["jobs"]
            return any(not one["nextAt"] or not _is_ahead(one["nextAt"]) for one in found)
        except (HomebodyError, OSError, ValueError):
            return True

    async def live(self, kill: Kill | None = None) -> bool:
        """Let a gateway work until it is done and told to end. Returns whether it ended before, or the kill hit it."""
        (self.root / "calls").unlink(missing_ok=True)
        life = await self.start(kill)
        done = False
        try:
            done = await self.quiet(life)
        except TimeoutError:
            raise Stuck(f"{self.root}: not quiet after {QUIET_SECONDS} s") from None
        finally:
            await life.end(signal.SIGTERM if done else signal.SIGKILL)
        return not done or not _ended_gently(self.root)

    # -- what came of it ---------------------------------------------------------------------------------------------

    def said(self) -> list[str]:
        """What the person reads from the bot, in order."""
        return self.platform.shown()

    def deeds(self) -> list[str]:
        text = (self.root / "person" / "homebody" / DEEDS).read_text()
        return [line.removeprefix("- ") for line in text.splitlines() if line.startswith("- ")]

    def changes(self) -> list[str]:
        text = (self.root / "person" / "homebody" / CHANGES).read_text()
        return [line.removeprefix("- ") for line in text.splitlines() if line.startswith("- ")]

    def notes(self) -> str:
        """The daily notes, together."""
        return "\n".join(path.read_text() for path in self._memory() if re.fullmatch(r"[\d-]{10}\.md", path.name))

    def farewells(self) -> list[str]:
        """What was written about sessions that were left."""
        return [text for path in self._memory() if "# The end of a conversation" in (text := path.read_text())]

    def received(self) -> list[Path]:
        """The files of messages that the house keeps."""
        return sorted((self.root / "person" / "homebody" / "inbox").glob("*"))

    def _memory(self) -> list[Path]:
        return sorted((self.root / "person" / "homebody" / "memory").glob("2*.md"))

    def reach(self) -> int:
        """How often one thread of the last life made the traced call."""
        if not (self.root / "calls").exists():
            return 0
        threads = Counter(line.split()[0] for line in (self.root / "calls").read_text(errors="replace").splitlines())
        return max(threads.values(), default=0)

    def refused(self) -> bool:
        """Whether a call of the last life was made to fail."""
        return (self.root / "calls").exists() and "(INJECTED)" in (self.root / "calls").read_text(errors="replace")

    def transcripts(self) -> list[Path]:
        return sorted((self.root / "state" / "agents" / "main" / "sessions").glob("*.jsonl"))


def _is_ahead(instant: str) -> bool:
    return datetime.fromisoformat(instant) > datetime.now(UTC)


class Stuck(Exception):
    """A house that never came to rest."""


def _ended_gently(root: Path) -> bool:
    lines = (root / "log").read_text(errors="replace").splitlines()
    return bool(lines) and "gateway stopped" in lines[-1]


async def _under_strace(pid: int, kill: Kill, calls: Path) -> asyncio.subprocess.Process:
    return await _attached(pid, calls, f"trace={kill.call}", ("-e", kill.injection))


async def _attached(pid: int, log: Path, what: str, options: Sequence[str]) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        *("strace", "-f", "-e", what, *options, "-o", str(log), "-p", str(pid)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    line = await process.stderr.readline()
    if b"attached" not in line and Path(f"/proc/{pid}").exists():  # noqa: ASYNC240 (not a disk)
        raise OSError(f"strace could not attach: {line.decode(errors='replace')}")
    return process


async def _over(strace: asyncio.subprocess.Process, gateway: int) -> None:
    """Wait for the end of what traced a gateway that ended. Raises Stuck, with what it still traces, where it does not end."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(strace.communicate(), TRACER_SECONDS)
        return
    traced = await asyncio.to_thread(_traced_by, strace.pid)
    for pid in (strace.pid, *traced):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    await strace.wait()
    what = "; ".join(traced.values()) or "nothing"
    raise Stuck(f"strace did not end within {TRACER_SECONDS:.0f} s of the gateway {gateway}; it traced {what}")


def _traced_by(tracer: int) -> dict[int, str]:
    """Return what a process traces, in words, by its id."""
    found: dict[int, str] = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            facts = dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
            if facts.get("TracerPid") == str(tracer):
                command = (status.parent / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                found[int(facts["Pid"])] = f"{facts['Pid']} of {facts['PPid']} ({facts['State']}) {command[:120]}"
    return found


def missing_tools() -> Sequence[str]:
    """What this machine lacks for kills at system calls. Without Linux there are no kills at all; without strace only named ones."""
    return [name for name in ("strace",) if shutil.which(name) is None] + (
        [] if hasattr(os, "pidfd_open") and sys.platform == "linux" else ["Linux with pidfd"]
    )


def told_missing() -> str:
    """The same in words, and what comes of it; empty when nothing is missing."""
    missing = missing_tools()
    if not missing:
        return ""
    rest = "none are made" if "Linux with pidfd" in missing else "only the places named in agent/fault_injection.py are tried"
    return f"kills at system calls need {' and '.join(missing)}: {rest}"
