"""Opens what the settings name: the ledger, and the sessions and transcripts of the agents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from agent.timing import Clock
from gateway.base.paths import Paths
from gateway.ledger.protocol import Ledger
from gateway.ledger.storage import open_ledger
from gateway.sessions.protocol import SessionStore
from gateway.sessions.store import sessions_in
from gateway.settings.storage import StorageSettings


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
    return FileStorage(await open_ledger(paths.state, settings, clock, committed=committed), paths, clock)


def sessions_to_read(paths: Paths, _settings: StorageSettings, clock: Clock) -> Callable[[str], SessionStore]:
    """Return what gives the sessions of an agent to a process that only reads them. A gateway may run."""
    return lambda agent: sessions_in(paths.sessions(agent), clock)


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
