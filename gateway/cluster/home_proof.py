"""Whether gateways that share a ledger also share their home folder: each leaves its name there, where the others look for it."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gateway.base.atomic_file import write_atomically
from gateway.base.errors import StorageFailed, UsageError

if TYPE_CHECKING:
    from psycopg import AsyncConnection

    Connection = AsyncConnection[tuple[Any, ...]]

FILE: Final = "processes"
_KEPT: Final = 20
_OTHERS: Final = (
    "SELECT label, name FROM cluster_gateway WHERE until > clock_timestamp() AND NOT leaving AND label <> %s ORDER BY 1"
)


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
        raise UsageError(
            f"{', '.join(away)} has another home than this gateway, and the workspace of {', '.join(agents)} is a folder alone",
            where=str(home),
            hint="Mount one home at all gateways, or keep workspaces in a repository (agents.defaults.workspaceStore, docs/cluster.md)",
        )


def _names(local: Path) -> list[str]:
    with contextlib.suppress(OSError, UnicodeError):
        return (local / FILE).read_text(encoding="utf-8").split()
    return []
