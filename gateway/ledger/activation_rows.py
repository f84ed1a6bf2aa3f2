"""What was chosen with ``/activation`` in groups: when the agent answers there."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Final, Literal, Protocol, get_args

from msgspec import Struct

from gateway.ledger.database import Database
from gateway.ledger.thread import LedgerConnection
from gateway.ledger.values import clean

PREFIX: Final = "activation:"
"""Of the names of these rows in ``meta``."""
ActivationMode = Literal["mention", "always", "off"]


class Activation(Struct, frozen=True, kw_only=True):
    """When the agent answers in a group, who chose it (a person, as ``Actor.person`` names them) and when."""

    mode: ActivationMode
    by: str
    at: datetime


class ActivationLedger(Protocol):
    """The choices of all groups."""

    async def all(self) -> dict[str, Activation]:
        """Return what was chosen, by the group's address."""
        ...

    async def put(self, group: str, activation: Activation | None) -> None:
        """Store a choice; None removes it."""
        ...


class ActivationsPart:
    """Implements ``ActivationLedger``."""

    def __init__(self, connection: LedgerConnection) -> None:
        self._connection = connection

    async def all(self) -> dict[str, Activation]:
        """See the protocol. A row that cannot be read is left out: the settings hold there."""

        def work(db: Database) -> list[tuple[str, str]]:
            found = db.execute("SELECT name, value FROM meta WHERE name >= ? AND name < ?", (PREFIX, f"{PREFIX}\U0010ffff"))
            return [(str(name), str(value)) for name, value in found]

        read = {name.removeprefix(PREFIX): _read(value) for name, value in await self._connection.run(work)}
        return {group: activation for group, activation in read.items() if activation is not None}

    async def put(self, group: str, activation: Activation | None) -> None:
        """See the protocol."""
        name = f"{PREFIX}{clean(group)}"

        def work(db: Database) -> None:
            if activation is None:
                db.execute("DELETE FROM meta WHERE name = ?", (name,))
                return
            value = json.dumps({"mode": activation.mode, "by": activation.by, "at": activation.at.isoformat()})
            db.execute("INSERT INTO meta VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", (name, value))

        await self._connection.run(work)


def _read(written: str) -> Activation | None:
    try:
        raw = json.loads(written)
        mode = next(mode for mode in get_args(ActivationMode) if mode == raw["mode"])
        return Activation(mode=mode, by=str(raw["by"]), at=datetime.fromisoformat(raw["at"]))
    except (KeyError, TypeError, ValueError, StopIteration):
        return None
