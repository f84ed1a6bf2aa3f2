"""What gateways must have in common to share a ledger: one home, one time, and tables of a version that they know.

Each function says what differs and how to mend it. Nothing is changed where gateways do not fit together.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gateway.base.errors import StorageFailed

if TYPE_CHECKING:
    from psycopg import AsyncConnection

    Connection = AsyncConnection[tuple[Any, ...]]

VERSION: Final = 4
"""The version of the tables of leases and of the views: raised with each change of them (tests/postgres/test_agreement.py)."""
CLOCK_SECONDS: Final = 30.0
"""By how much the clock of a gateway may differ from the database's: what one stores another one reads (jobs, ages of turns)."""
DATABASE_TIME: Final = "SELECT extract(epoch FROM clock_timestamp())::float8"
HOME_TABLE: Final = "CREATE TABLE IF NOT EXISTS cluster_home (id text NOT NULL, name text NOT NULL);"
WHOSE: Final = "SELECT id, name FROM cluster_home"
_FILE: Final = "cluster-home"
_ID: Final = re.compile(r"[0-9A-Za-z_-]{1,64}")
_WORKING: Final = "SELECT label FROM cluster_gateway WHERE until > clock_timestamp() ORDER BY label"
_SET_CLOCK: Final = "Set both clocks, best by NTP: timedatectl set-ntp true"


@dataclass(frozen=True, slots=True)
class Home:
    """The home that gateways share. ``id`` is in a file there, ``name`` is what people know it by."""

    id: str
    name: str


def home_of(state: Path, name: str) -> Home:
    """Return the home of a folder. Several gateways may ask for the first time at once. Raises OSError and StorageFailed."""
    file = state / _FILE
    if not file.exists():
        fresh = file.with_name(f".{_FILE}.{secrets.token_hex(4)}.tmp")
        fresh.write_text(f"{secrets.token_hex(8)}\n", encoding="ascii")
        with contextlib.suppress(FileExistsError):  # another one was first
            os.link(fresh, file)
        fresh.unlink()
    id_ = file.read_bytes().decode("ascii", "replace").strip()
    if not _ID.fullmatch(id_):
        raise StorageFailed(
            "the name of this home is damaged: it is one word of letters and digits",
            where=str(file),
            hint=f"Copy the file from the home of another gateway of this cluster. If this is the only home: rm {file}",
        )
    return Home(id_, name)


async def claim(connection: Connection, home: Home, where: str) -> str | None:
    """Take the ledger for the gateways of a home; return what the owner should know where it was another one's. In a transaction.

    Raises:
        StorageFailed: gateways of another home work with it.
    """
    found = await (await connection.execute(WHOSE)).fetchall()
    if found == [(home.id, home.name)]:
        return None
    if found and found[0][0] != home.id:
        working = [str(label) for (label,) in await (await connection.execute(_WORKING)).fetchall()]
        if working:
            raise other_home(Home(*found[0]), working, where)
    await connection.execute("DELETE FROM cluster_home")
    await connection.execute("INSERT INTO cluster_home VALUES (%s, %s)", (home.id, home.name))
    if not found or found[0][0] == home.id:
        return None
    return (
        f"The database {where} was used by the gateways of another home before: {found[0][1]}. This one is {home.name}. If you moved it, "
        "nothing has to be done. If both are in use, stop this gateway, as it works on the messages, jobs and conversations of the other "
        "ones, and give it a schema of its own: homebody config set storage.schemaName NAME"
    )


def other_home(other: Home, working: list[str], where: str) -> StorageFailed:
    """Return the error of gateways whose ledger is in use by those of another home."""
    names = f" ({', '.join(working)})" if working else ""
    return StorageFailed(
        f"gateways of another home use this database{names}: {other.name}",
        where=where,
        hint="Gateways of one cluster share a home folder, or its file state/cluster-home (docs/cluster.md). For another cluster: "
        "homebody config set storage.schemaName NAME",
    )


def refuse_later(version: int, where: str) -> None:
    """Raise StorageFailed for tables that a later Homebody made."""
    if version > VERSION:
        raise StorageFailed(
            f"the tables of this cluster are of version {version}, and this Homebody knows {VERSION} at most",
            where=where,
            hint="Update this Homebody to the version of the other gateways: homebody update",
        )


def clock_trouble(before: float, there: float, after: float) -> str:
    """Return how the clock of this machine differs from the database's, in words; empty where it does not.

    The database told the time ``there`` after the moment ``before`` and before ``after``, both by the clock of this machine.
    """
    ahead = before - there if before - there > 0 else min(0.0, after - there)
    if abs(ahead) <= CLOCK_SECONDS:
        return ""
    return f"the clock of this machine is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} the database's"


async def refuse_other_time(connection: Connection, where: str, clock: Callable[[], float] = time.time) -> None:
    """Raise StorageFailed where the clock of this machine is not that of the database."""
    before = clock()
    [(there,)] = await (await connection.execute(DATABASE_TIME)).fetchall()
    if trouble := clock_trouble(before, there, clock()):
        raise StorageFailed(trouble, where=where, hint=_SET_CLOCK)
