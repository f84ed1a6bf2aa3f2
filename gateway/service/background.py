"""The gateway as a process in the background, where no service manager runs it: started, found by the state lock, and stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gateway.base.errors import AlreadyRunning, HomebodyError
from gateway.base.paths import Paths
from gateway.base.state_lock import Holder, boot_id, describe
from gateway.service.service_manager import gateway_command

CONSOLE = "console.log"
"""In the folder of logs: what the process printed on its console; it is emptied at each start."""
START_SECONDS = 120.0
STOP_SECONDS = 90.0
_ENDING_SECONDS = 2.0
_EVERY = 0.1
_TOLD_EVERY = 5.0
_LAST_LINES = 12


@dataclass(frozen=True, slots=True)
class Started:
    """A gateway that answers. ``already``: it ran before."""

    pid: int
    already: bool = False


def running(paths: Paths) -> Holder | None:
    """Return the gateway that runs; None if none does.

    Raises:
        AlreadyRunning: a conversation in a terminal uses the state folder.
    """
    holder = describe(paths.lock)
    if holder is None or holder.socket or not holder.pid:
        return holder
    raise AlreadyRunning(
        f"a conversation in a terminal (process {holder.pid}) is using this folder",
        where=str(paths.state),
        hint="End it there (Ctrl-D), then run the command again.",
    )


def start(paths: Paths, env: Mapping[str, str], tell: Callable[[str], None]) -> Started:
    """Start a gateway that goes on when the terminal is closed, and wait until it serves.

    Raises:
        AlreadyRunning: see ``running``.
        HomebodyError: it ended at once; ``tell`` was given what it printed.
    """
    found = running(paths)
    if found is not None:
        return Started(found.pid, already=True)
    paths.prepare()
    console = paths.logs / CONSOLE
    with console.open("wb") as out:
        console.chmod(0o600)
        process = subprocess.Popen(  # noqa: S603 - this program itself
            [*gateway_command(paths), "--background"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd=paths.home,
            env=dict(env),
            start_new_session=True,
        )
    _wait_until_it_serves(process, paths, console, tell)
    return Started(process.pid)


def stop(paths: Paths, tell: Callable[[str], None], *, longest: float = STOP_SECONDS) -> int | None:
    """Stop the running gateway and wait until it has finished what is under way. Returns its process id; None if none ran.

    Raises:
        AlreadyRunning: see ``running``.
        HomebodyError: it belongs to another user or container, or has not ended after ``longest`` seconds.
    """
    holder = running(paths)
    if holder is None:
        return None
    if not _is_here(holder):
        if not _outlasts(holder, paths):
            return None
        raise HomebodyError(
            "the process that uses this folder is not visible from here, in a container perhaps",
            where=str(paths.state),
            hint="Stop it where it was started (docker compose -f docker/compose.yaml stop).",
        )
    try:
        os.kill(holder.pid, signal.SIGTERM)
    except ProcessLookupError:
        pass  # it ended just now
    except PermissionError as error:
        hint = f"Stop it as that user, or as root: sudo kill {holder.pid}"
        raise HomebodyError(f"the gateway (process {holder.pid}) belongs to another user", hint=hint) from error
    began = told = time.monotonic()
    tell(f"Stopping the gateway (process {holder.pid}): running turns may finish ...")
    while (now := describe(paths.lock)) is not None and now.pid in {holder.pid, 0}:
        waited = time.monotonic() - began
        if waited > longest:
            hint = f"Wait and run `homebody stop` again. To end it at once (what it does resumes at the next start): kill -9 {holder.pid}"
            raise HomebodyError(f"the gateway (process {holder.pid}) has not ended after {waited:.0f} seconds", hint=hint)
        if time.monotonic() - told >= _TOLD_EVERY:
            told = time.monotonic()
            tell(f"  still finishing, after {waited:.0f} seconds")
        time.sleep(_EVERY)
    return holder.pid


def _is_here(holder: Holder) -> bool:
    """Return whether this command can see the process: one in a container it cannot."""
    elsewhere = holder.boot and boot_id() and holder.boot != boot_id()
    return bool(holder.pid and not elsewhere and _is_gateway(holder.pid))


def _outlasts(holder: Holder, paths: Paths) -> bool:
    """Return whether a process goes on to hold its lock: one that ends loses its command line a moment before."""
    until = time.monotonic() + _ENDING_SECONDS
    while (now := describe(paths.lock)) is not None and now.pid == holder.pid:
        if time.monotonic() > until:
            return True
        time.sleep(_EVERY)
    return False


def _is_gateway(pid: int) -> bool:
    """Whether the process can be ours; where there is no /proc, the lock alone says so."""
    try:
        return b"gateway" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return not Path("/proc/self").exists()


def _wait_until_it_serves(process: subprocess.Popen[bytes], paths: Paths, console: Path, tell: Callable[[str], None]) -> None:
    began = told = time.monotonic()
    while True:
        holder = describe(paths.lock)
        if holder is not None and holder.pid == process.pid and holder.socket and holder.http_port is not None:
            return
        if process.poll() is not None:
            tell(_end_of(console))
            hint = "Mend what it says, then: homebody start"
            raise HomebodyError(f"the gateway ended at once (exit code {process.returncode})", hint=hint)
        if time.monotonic() - began > START_SECONDS:
            hint = f"Look at {console}, and stop it with: homebody stop"
            raise HomebodyError(
                f"the gateway (process {process.pid}) does not serve after {START_SECONDS:.0f} seconds", hint=hint
            )
        if time.monotonic() - told >= _TOLD_EVERY:
            told = time.monotonic()
            tell(f"  still starting, after {told - began:.0f} seconds")
        time.sleep(_EVERY)


def _end_of(console: Path) -> str:
    lines = console.read_text(encoding="utf-8", errors="replace").splitlines()[-_LAST_LINES:]
    return "\n".join(f"  {line}" for line in lines) or "  (it printed nothing)"
