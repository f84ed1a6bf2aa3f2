"""The product as its owner has it: the installed command, a home of its own, processes that are started, stopped and killed."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import shutil
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

LEFT_OUT = ("_API_KEY", "_AUTH_TOKEN", "_BOT_TOKEN", "_APP_TOKEN", "_BASE_URL", "_PROXY", "_proxy", "_HOST")
"""Ends of names of variables by which the person who runs a story would take part in it."""
_DIE_WITH_PARENT = 1


def command() -> str:
    """Return the installed command: ``HOMEBODY`` in the environment, or the one beside this Python."""
    given = os.environ.get("HOMEBODY") or str(Path(sys.executable).parent / "homebody")
    found = shutil.which(given)
    if found is None:
        raise FileNotFoundError(f"no command homebody at {given}: `make story` installs it, or set HOMEBODY to its path")
    return str(Path(found).absolute())


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Return what it printed, as JSON."""
        return json.loads(self.out)


@dataclass
class House:
    """One home with its state, and the gateway that runs in it.

    folder: where all of it is kept; ``gateway.log`` in it is what the gateway printed.
    more: variables of the environment beside those of a plain shell.
    nice: added to the gateway's niceness.
    limit: largest file that the gateway may write, in bytes, or None.
    """

    folder: Path
    more: dict[str, str] = field(default_factory=dict)
    nice: int = 0
    state_at: Path | None = None
    gateway: asyncio.subprocess.Process | None = None
    starts: int = 0

    def __post_init__(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        self.state.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._log: IO[bytes] | None = None

    @property
    def home(self) -> Path:
        """The owner's home folder."""
        return self.folder / "home"

    @property
    def state(self) -> Path:
        """The folder of ``HOMEBODY_HOME``."""
        return self.state_at or self.folder / "state-of-house"

    @property
    def workspace(self) -> Path:
        """The main agent's workspace."""
        return self.home / "homebody"

    @property
    def printed(self) -> str:
        """All that its gateways printed."""
        log = self.folder / "gateway.log"
        return log.read_text(errors="replace") if log.exists() else ""

    def settle(self, settings: dict[str, Any]) -> None:
        """Write the settings file."""
        file = self.state / "homebody.json"
        file.write_text(json.dumps(settings, indent=1))
        file.chmod(0o600)

    def environ(self) -> dict[str, str]:
        """Return the environment of every process of this house."""
        kept = {
            key: value
            for key, value in os.environ.items()
            if not key.endswith(LEFT_OUT) and not key.startswith(("HOMEBODY", "PYTHON"))
        }
        return {
            **kept,
            "HOME": str(self.home),
            "HOMEBODY_HOME": str(self.state),
            "PYTHONUNBUFFERED": "1",
            "TERM": "xterm",
            **self.more,
        }

    async def start(self) -> None:
        """Start the gateway; ``until_up`` waits for it."""
        self._log = self._log or (self.folder / "gateway.log").open("ab")
        self._log.write(f"==== start {time.time():.3f}\n".encode())
        self._log.flush()
        self.starts += 1
        self.gateway = await asyncio.create_subprocess_exec(
            command(), "gateway", stdin=asyncio.subprocess.DEVNULL, stdout=self._log, stderr=self._log,
            env=self.environ(), cwd=self.folder, preexec_fn=self._prepare, start_new_session=True,
        )  # fmt: skip

    def _prepare(self) -> None:
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        os.nice(self.nice)

    @property
    def runs(self) -> bool:
        """Whether the gateway is a living process."""
        return self.gateway is not None and self.gateway.returncode is None

    async def end(self, how: signal.Signals = signal.SIGTERM, patience: float = 60.0) -> int | None:
        """End the gateway by a signal, by SIGKILL when it takes longer than ``patience`` seconds; return its exit code."""
        if self.gateway is None:
            return None
        with contextlib.suppress(ProcessLookupError):
            self.gateway.send_signal(how)
        try:
            return await asyncio.wait_for(self.gateway.wait(), patience)
        except TimeoutError:
            self.gateway.kill()
            await self.gateway.wait()
            return None

    async def run(self, *arguments: str, given: str = "", patience: float = 120.0) -> Done:
        """Run one command to its end."""
        process = await asyncio.create_subprocess_exec(
            command(), *arguments, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env=self.environ(), cwd=self.folder, start_new_session=True,
        )  # fmt: skip
        try:
            out, err = await asyncio.wait_for(process.communicate(given.encode()), patience)
        except TimeoutError:
            process.kill()
            await process.wait()
            return Done(-1, "", f"took longer than {patience:.0f} s")
        return Done(process.returncode or 0, out.decode(errors="replace"), err.decode(errors="replace"))

    def vitals(self) -> dict[str, float]:
        """Return the gateway's memory in MB (``rss``) and its CPU seconds so far (``cpu``)."""
        if self.gateway is None:
            return {}
        try:
            status = Path(f"/proc/{self.gateway.pid}/status").read_text()
            spent = Path(f"/proc/{self.gateway.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
        except OSError:
            return {}
        rss = next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")), 0)
        return {"rss": rss / 1024, "cpu": sum(map(int, spent)) / os.sysconf("SC_CLK_TCK")}

    def notes(self) -> dict[str, str]:
        """Return the Markdown of the workspace, by path."""
        files = sorted(self.workspace.rglob("*.md")) if self.workspace.exists() else []
        return {str(file.relative_to(self.workspace)): file.read_text(errors="replace") for file in files}

    async def dismiss(self) -> None:
        """Kill what still runs."""
        if self.runs:
            await self.end(signal.SIGKILL)
        if self._log is not None:
            self._log.close()
            self._log = None
