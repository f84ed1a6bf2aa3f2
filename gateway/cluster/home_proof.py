"""Whether gateways that share a ledger also share their home folder, and that no two have one name.

Each process leaves its name in the folder of its gateway, where the others look for it.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gateway.base.atomic_file import write_atomically
from gateway.base.errors import StorageFailed, UsageError

if TYPE_CHECKING:
    from psycopg import AsyncConnection

    Connection = AsyncConnection[tuple[Any, ...]]

FILE: Final = "processes"
LOOK_SECONDS: Final = 0.5
NAME_ONE: Final = "Where one of them starts, give it a name of its own: export HOMEBODY_GATEWAY=NAME"
_KEPT: Final = 20
_OTHERS: Final = """
SELECT label, name FROM cluster_gateway
WHERE until > clock_timestamp() AND (NOT leaving OR trouble <> '') AND label <> %s ORDER BY 1
"""
_NAMESAKES: Final = """
SELECT name, address, extract(epoch FROM until)::float8 FROM cluster_gateway
WHERE label = %s AND until > clock_timestamp() AND (NOT leaving OR trouble <> '')
"""


async def refuse_namesake(connection: Connection, label: str, local: Path) -> None:
    """Raise UsageError where a gateway of another home works under the name that this one has.

    One that was killed does not renew its lease any more: its end is waited for. Former processes of this home are none: its lock is held.
    """
    own = await asyncio.to_thread(_names, local)
    seen: dict[str, float] = {}
    while True:
        rows = await (await connection.execute(_NAMESAKES, (label,))).fetchall()
        found = [(str(name), str(address), float(until)) for name, address, until in rows if name not in own]
        for name, address, until in found:
            if until > seen.setdefault(name, until):
                at = f" at {address}" if address else ""
                text = f"another gateway of this cluster is called {label}, too{at}"
                raise UsageError(text, where="HOMEBODY_GATEWAY", hint=NAME_ONE)
        if not found:
            return
        await asyncio.sleep(LOOK_SECONDS)


def leave_name(local: Path, name: str) -> None:
    """Leave the name of this process in its gateway's folder of the home. Blocks. Raises StorageFailed."""
    try:
        write_atomically(local / FILE, "".join(f"{one}\n" for one in [*_names(local), name][-_KEPT:]))
    except OSError as error:
        raise StorageFailed.from_os(error, "leave the name of this gateway", local / FILE) from error


async def others(connection: Connection, label: str) -> list[tuple[str, str]]:
    """Return the names that the other gateways that work now have for people, and those of their processes."""
    rows = await (await connection.execute(_OTHERS, (label,))).fetchall()
    return [(str(one), str(name)) for one, name in rows]


def elsewhere(gateways: Path, found: list[tuple[str, str]]) -> list[str]:
    """Return which of the others have not left their name in this home, of which ``gateways`` is the folder. Blocks."""
    return [label for label, name in found if name not in _names(gateways / label)]


def refuse_own_folders(agents: list[str], away: list[str], home: Path) -> None:
    """Raise UsageError where notes of these agents are in a folder of this home alone, and others with another home may answer for them.

    Their notes would differ from gateway to gateway. Where the folder is mounted at all, the record of what is untrusted in it is not.
    """
    if agents and away:
        homes = f"{away[0]} has another home" if len(away) == 1 else f"{_listed(away)} have other homes"
        folders = (
            f"workspace of {agents[0]} is a folder" if len(agents) == 1 else f"workspaces of {_listed(agents)} are folders"
        )
        raise UsageError(
            f"{homes} than this gateway, and the {folders} alone",
            where=str(home),
            hint="Mount one home at all gateways, or keep workspaces in a repository (agents.defaults.workspaceStore, docs/cluster.md)",
        )


def _listed(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _names(local: Path) -> list[str]:
    with contextlib.suppress(OSError, UnicodeError):
        return (local / FILE).read_text(encoding="utf-8").split()
    return []
