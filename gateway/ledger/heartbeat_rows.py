"""When each agent's last heartbeat was, so that a restart neither repeats nor forgets one."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from gateway.ledger.database import Database
from gateway.ledger.thread import LedgerConnection
from gateway.ledger.values import clean

PREFIX: Final = "heartbeat:"
"""Of the names of these rows in ``meta``."""


class HeartbeatState(Struct, frozen=True, kw_only=True):
    """``last`` is the latest instant that was used, ``row`` its message in the inbox, ``failures`` how many failed before it in a row.

    ``day`` is the owner's date on which the present session of heartbeats began. ``away_told``: the owner was told of a pause.
    """

    last: datetime
    row: int | None = None
    failures: int = 0
    day: str = ""
    away_told: bool = False


class HeartbeatLedger(Protocol):
    """The heartbeats of all agents."""

    async def get(self, agent: str) -> HeartbeatState | None:
        """Return an agent's state; None before its first one."""
        ...

    async def put(self, agent: str, state: HeartbeatState) -> None:
        """Store an agent's state."""
        ...


class HeartbeatsPart:
    """Implements ``HeartbeatLedger``."""

    def __init__(self, connection: LedgerConnection) -> None:
        self._connection = connection

    async def get(self, agent: str) -> HeartbeatState | None:
        def work(db: Database) -> Any:
            return db.execute("SELECT value FROM meta WHERE name = ?", (f"{PREFIX}{clean(agent)}",)).fetchone()

        found = await self._connection.run(work)
        return None if found is None else _read(str(found[0]))

    async def put(self, agent: str, state: HeartbeatState) -> None:
        written = {name: getattr(state, name) for name in HeartbeatState.__struct_fields__} | {"last": state.last.isoformat()}

        def work(db: Database) -> None:
            query = "INSERT INTO meta VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
            db.execute(query, (f"{PREFIX}{clean(agent)}", json.dumps(written)))

        await self._connection.run(work)


def _read(written: str) -> HeartbeatState | None:
    """Fields of later versions are ignored; what cannot be read counts as the first time."""
    try:
        raw = json.loads(written)
        state = HeartbeatState(last=datetime.fromisoformat(raw["last"]))
        return replace(state, row=raw["row"], failures=int(raw["failures"]), day=raw["day"], away_told=bool(raw["away_told"]))
    except (KeyError, TypeError, ValueError):
        return None
