"""Checks the process: does the gateway run and answer, and what did one that crashed leave behind?"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from gateway.api import unix_socket
from gateway.base.errors import HomebodyError
from gateway.doctor.checked_installation import Installation, in_thread
from gateway.doctor.finding import Check, Finding, ok

_UNFINISHED: Final = re.compile(r"\..+\.(\d+)\.tmp|ledger\.sqlite\.copy\.part(-wal|-journal)?")
"""Names of files that are written before they get their own name."""
OLD_SECONDS: Final = 3600.0


async def _examine(installation: Installation) -> list[Finding]:
    holder = installation.holder
    found = await in_thread(_leftovers, installation)
    if holder is None:
        return [Finding(level="note", what="no gateway is running", mend="homebody start"), *found]
    if not holder.socket:
        return [ok(f"a conversation in a terminal (process {holder.pid}) uses this folder; no gateway is running"), *found]
    try:
        status = await installation.status()
    except HomebodyError as error:
        why = "Commands and conversations in the terminal do not reach it."
        what = f"a gateway runs (process {holder.pid}), but does not answer: {error.message}"
        return [Finding(level="error", what=what, where=str(installation.paths.local), why=why, mend=error.hint), *found]
    assert status is not None
    if not installation.gateway_serves:
        return [ok(f"a conversation in a terminal (process {status['pid']}) uses this folder; no gateway is running"), *found]
    notices = [Finding(level="warning", what=str(notice), mend="homebody status") for notice in status["notices"]]
    return [
        ok(f"the gateway has been running since {installation.local_time(holder.started)} (process {status['pid']})"),
        *notices,
        *found,
    ]


def _leftovers(installation: Installation) -> list[Finding]:
    return [*_socket(installation), *_unfinished(installation)]


def _socket(installation: Installation) -> Iterator[Finding]:
    wanted = installation.paths.local / unix_socket.SOCKET
    if installation.holder is None and os.path.lexists(wanted) and _is_socket_or_link(wanted):
        yield Finding(
            level="note",
            what="the socket of a gateway that is gone was left behind",
            where=str(wanted),
            why="The next start replaces it.",
            mend="Nothing has to be done; homebody doctor --fix removes it.",
            fix=partial(_clear, wanted, installation),
        )


def _is_socket_or_link(path: Path) -> bool:
    mode = path.lstat().st_mode
    return stat.S_ISSOCK(mode) or stat.S_ISLNK(mode)


async def _clear(wanted: Path, installation: Installation) -> str:
    async with installation.alone():
        await in_thread(unix_socket.clear, wanted)
    return f"removed {wanted}"


def _unfinished(installation: Installation) -> Iterator[Finding]:
    home = installation.paths.home
    places = [
        home,
        installation.paths.state,
        *installation.paths.agents.glob("*"),
        *installation.paths.agents.glob("*/sessions"),
    ]
    left = [path for folder in places if folder.is_dir() for path in folder.iterdir() if _is_left(path, installation)]
    if left:
        size = sum(path.lstat().st_size for path in left)
        yield Finding(
            level="note",
            what=f"{len(left)} unfinished files were left behind by a crash ({size:,} bytes)",
            where=str(left[0]),
            why="They are of no use to anybody.",
            mend="homebody doctor --fix removes them.",
            fix=partial(_remove, left, installation),
        )


def _is_left(path: Path, installation: Installation) -> bool:
    found = _UNFINISHED.fullmatch(path.name)
    if found is None or not path.is_file() or path.is_symlink() or time.time() - path.lstat().st_mtime < OLD_SECONDS:
        return False
    if found[1] is None:
        return installation.holder is None
    return not Path("/proc", found[1]).exists() if Path("/proc/self").exists() else installation.holder is None


async def _remove(left: list[Path], installation: Installation) -> str:
    def work() -> int:
        gone = [path for path in left if _is_left(path, installation)]
        for path in gone:
            path.unlink()
        return len(gone)

    return f"removed {await in_thread(work)} unfinished files"


GATEWAY = Check(name="gateway", examine=_examine, quick=True)
