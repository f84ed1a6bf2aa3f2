"""Opens what the settings name: the ledger, and the sessions and transcripts of the agents."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from agent.timing import Clock
from gateway.base.errors import StorageFailed
from gateway.base.paths import Paths
from gateway.ledger.open_ledger import LEDGER, need_driver, open_ledger
from gateway.ledger.protocol import Ledger
from gateway.sessions.store import sessions_in
from gateway.settings.storage_settings import StorageSettings

if TYPE_CHECKING:
    from gateway.sessions.protocol import SessionStore

_CONTAINER: Final = re.compile("[0-9a-f]{12}")
SIDES: Final = ("-wal", "-shm", "-open")
"""Endings of files that belong to the ledger's."""


class Storage(Protocol):
    """The state of this process: one ledger, and the sessions of each agent, with their transcripts."""

    @property
    def ledger(self) -> Ledger:
        """The ledger, open."""
        ...

    def sessions(self, agent: str) -> SessionStore:
        """Return the sessions of an agent, which ``load`` reads. Whoever writes them must be the only one."""
        ...

    async def close(self) -> None:
        """Finish what is pending, and close the ledger."""
        ...


async def open_storage(
    paths: Paths, settings: StorageSettings, clock: Clock, *, committed: Callable[[float], None] = lambda _: None
) -> Storage:
    """Open the storage that the settings name, or make it. The caller holds the state lock. See ``open_ledger``.

    Raises:
        StorageFailed: it cannot be used, or what it needs is not installed.
    """
    if settings.url is not None:
        finish_renames(paths.state)
        refuse_both(paths)
    ledger = await open_ledger(paths.state, settings, clock, committed=committed)
    if settings.url is None:
        return FileStorage(ledger, paths, clock)
    from gateway.ledger.postgres.ledger import PostgresLedger
    from gateway.storage.postgres_storage import PostgresStorage

    assert isinstance(ledger, PostgresLedger)
    try:
        await ledger.belong_to(home_name(paths))
    except BaseException:  # also when cancelled: an open ledger would hold its lock
        await ledger.close()
        raise
    return PostgresStorage(ledger, settings.url.get_secret_value(), settings.schema_name, clock)


def home_name(paths: Paths) -> str:
    """Return what tells a home from others: its folder, and the machine, whose name in a container means nothing."""
    machine = socket.gethostname()
    return str(paths.home) if _CONTAINER.fullmatch(machine) else f"{paths.home} on {machine}"


def sessions_to_read(paths: Paths, settings: StorageSettings, clock: Clock) -> Callable[[str], SessionStore]:
    """Return what gives the sessions of an agent to a process that only reads them. A gateway may run.

    Raises:
        StorageFailed: what it needs is not installed, or there are conversations in files while the settings name PostgreSQL.
    """
    if settings.url is None:
        return lambda agent: sessions_in(paths.sessions(agent), clock)
    need_driver()
    refuse_both(paths)
    from gateway.storage import postgres_storage

    return postgres_storage.sessions_to_read(settings.url.get_secret_value(), settings.schema_name, clock)


def refuse_both(paths: Paths) -> None:
    """Raise StorageFailed where conversations are files while the settings name PostgreSQL: of before the move, or from a backup."""
    if found := conversations_in_files(paths):
        raise StorageFailed(
            "the settings name PostgreSQL, and there are conversations in files, too",
            where=str(found[0]),
            hint="Take them along with `homebody storage migrate --to postgresql`, or move the folder away to go on without them.",
        )


def finish_renames(state: Path) -> None:
    """Finish the renaming of a ledger's file that was ended in the middle: what belongs together gets one name. Raises OSError."""
    file = state / LEDGER
    for side in SIDES:
        beside = Path(f"{file}{side}")
        moved = sorted(state.glob(f"{LEDGER}.moved-*{side}"))
        alone = [one for one in moved if not Path(str(one).removesuffix(side)).exists()]
        if file.exists() and not beside.exists() and alone:  # an earlier version renamed the log first
            alone[-1].rename(beside)
        elif not file.exists() and beside.exists():
            mains = sorted(one for one in state.glob(f"{LEDGER}.moved-*Z"))
            if mains and not Path(f"{mains[-1]}{side}").exists():
                beside.rename(f"{mains[-1]}{side}")


def conversations_in_files(paths: Paths) -> list[Path]:
    """Return the folders of sessions that hold records or transcripts."""
    patterns = ("sessions.json*", "*.jsonl", "archive/*.jsonl.gz")
    return [
        folder
        for folder in sorted(paths.agents.glob("*/sessions"))
        if any(True for pattern in patterns for _ in folder.glob(pattern))
    ]


class FileStorage:
    """Implements ``Storage``: sessions and transcripts are files in the home."""

    def __init__(self, ledger: Ledger, paths: Paths, clock: Clock) -> None:
        self.ledger = ledger
        self._paths = paths
        self._clock = clock

    def sessions(self, agent: str) -> SessionStore:
        """See the protocol."""
        return sessions_in(self._paths.sessions(agent), self._clock)

    async def close(self) -> None:
        """See the protocol."""
        await self.ledger.close()
