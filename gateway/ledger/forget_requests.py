"""What people asked to be forgotten, until an owner has decided."""

from __future__ import annotations

import json
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import asdict

from gateway.ledger.database import Database
from gateway.ledger.thread import LedgerConnection
from gateway.ledger.values import clean

PREFIX: Final = "forget:"
"""Of the names of these rows in ``meta``."""


class ForgetRequest(Struct, frozen=True, kw_only=True):
    """Whose words are to be forgotten, where. ``phrase``: those that hold it; empty for all. ``session`` is where it was asked."""

    id: str
    agent: str
    session: str
    place: str
    space: str
    person: str
    name: str
    phrase: str = ""


class ForgetRequestLedger(Protocol):
    """The requests of all groups."""

    async def all(self) -> list[ForgetRequest]:
        """Return what waits for a decision."""
        ...

    async def put(self, request: ForgetRequest) -> None:
        """Store a request, once for each id."""
        ...

    async def remove(self, name: str) -> None:
        """Remove a request that was decided and carried out."""
        ...


class ForgetRequestsPart:
    """Implements ``ForgetRequestLedger``."""

    def __init__(self, connection: LedgerConnection) -> None:
        self._connection = connection

    async def all(self) -> list[ForgetRequest]:
        """See the protocol. A row that cannot be read is left out."""

        def work(db: Database) -> list[str]:
            query = "SELECT value FROM meta WHERE name >= ? AND name < ? ORDER BY name"
            return [str(value) for (value,) in db.execute(query, (PREFIX, f"{PREFIX}\U0010ffff"))]

        return [request for value in await self._connection.run(work) if (request := _read(value)) is not None]

    async def put(self, request: ForgetRequest) -> None:
        """See the protocol."""
        row = (f"{PREFIX}{clean(request.id)}", json.dumps(asdict(request)))
        await self._connection.run(
            lambda db: db.execute("INSERT INTO meta VALUES (?, ?) ON CONFLICT DO NOTHING", row).fetchall()
        )

    async def remove(self, name: str) -> None:
        """See the protocol."""
        row = (f"{PREFIX}{clean(name)}",)
        await self._connection.run(lambda db: db.execute("DELETE FROM meta WHERE name = ?", row).fetchall())


def _read(written: str) -> ForgetRequest | None:
    try:
        return ForgetRequest(**{str(key): str(value) for key, value in json.loads(written).items()})
    except (AttributeError, TypeError, ValueError):
        return None
