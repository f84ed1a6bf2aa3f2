"""Runs confinement plans as the runner does: in a child with nothing of ours."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

from gateway.base.paths import Paths
from gateway.sandbox import restrict
from gateway.sandbox.command_sandbox import CommandSandbox
from gateway.sandbox.protocol import Request
from gateway.settings.root import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gateway.sandbox.protocol import Confined

PROGRAM = (sys.executable, "-I", "-S", restrict.__file__)


def run(plan: Confined, *, program: Sequence[str] = PROGRAM, **options: Any) -> subprocess.CompletedProcess[str]:
    """Execute a plan; its program is started with a key in the environment, which must not get any further."""
    reading, writing = os.pipe()
    data = json.dumps(plan.to_json()).encode()

    def feed() -> None:
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(data)

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        return subprocess.run(
            [*program, str(reading)],
            **{"capture_output": True, "stdin": subprocess.DEVNULL} | options,
            text=True,
            check=False,
            pass_fds=(reading,),
            env={"SOME_API_KEY": "sk-canary"},
            timeout=200,
            start_new_session=True,
        )
    finally:
        os.close(reading)
        feeder.join()


class Confining:
    """The sandbox of an installation in a folder of the test."""

    def __init__(self, place: Path, settings: dict[str, Any] | None = None) -> None:
        self.state, self.workspace = place / ".homebody", place / "workspace"
        for folder in (self.state, self.workspace):
            folder.mkdir(exist_ok=True)
        (self.state / "secret").write_text("sk-canary")
        said = {"agents": {"defaults": {"workspace": str(self.workspace)}}} | (settings or {})
        self.settings = Settings.model_validate(said)
        self.sandbox = CommandSandbox(Paths(self.state), lambda: self.settings)

    async def plan(self, *argv: str, **request: Any) -> Confined:
        """Confine a command, or a text for the shell."""
        command = argv if len(argv) > 1 else ("/bin/sh", "-c", argv[0])
        known = {"cwd": str(self.workspace), "workspace": str(self.workspace), "agent": "main"}
        return await self.sandbox.confine(Request(argv=command, **known | request))

    async def run(self, *argv: str, **request: Any) -> subprocess.CompletedProcess[str]:
        """Run a command confined, and return what came of it."""
        return run(await self.plan(*argv, **request))


def in_terminal(plan: Confined, typed: bytes, ready: bytes) -> tuple[int, bytes]:
    """Execute a plan with a terminal of 30 rows and 100 columns, and type once ``ready`` has been shown."""
    import fcntl
    import struct
    import termios

    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    reading, writing = os.pipe()
    os.write(writing, json.dumps(plan.to_json()).encode())
    os.close(writing)
    wrapper = () if plan.rung == "bwrap" else ("/usr/bin/setsid", "--ctty", "--wait")
    process = subprocess.Popen(
        [*wrapper, sys.executable, "-I", "-S", restrict.__file__, str(reading)],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        pass_fds=(reading,),
        start_new_session=True,
    )
    os.close(reading)
    os.close(slave)
    shown = b""
    try:
        while True:
            piece = os.read(master, 4096)
            shown += piece
            if ready in shown and typed:
                os.write(master, typed)
                typed = b""
    except OSError:  # the terminal's last user is gone
        return process.wait(), shown
    finally:
        os.close(master)
