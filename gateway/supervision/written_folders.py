"""The folders that a gateway writes to, and what is not kept while the disk of one is full."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from pathlib import Path

    from gateway.base.paths import Paths
    from gateway.settings.root import Settings


class WrittenFolder(Struct, frozen=True):
    """``lost``: what is not kept while its disk is full; "" where the gateway cannot work at all then."""

    path: Path
    lost: str = ""


def written_folders(paths: Paths, settings: Settings | None) -> list[WrittenFolder]:
    """Return them; what the gateway cannot do without comes first. Without settings that is all that is known."""
    needed = [WrittenFolder(path) for path in dict.fromkeys((paths.home, paths.state, paths.local, paths.agents))]
    if settings is None:
        return needed
    workspaces = [(settings.agent(agent).workspace, f"notes and files of {agent}") for agent in settings.agent_ids]
    others = [*workspaces, (paths.memory, "what searches of notes need"), (paths.logs, "log lines")]
    if settings.logging.file:
        others.append((settings.logging.file, "log lines"))
    return [*needed, *(WrittenFolder(path, lost) for path, lost in others)]


def existing(path: Path) -> Path:
    """Return the path, or the nearest of its parents that exists."""
    return next(one for one in (path, *path.parents) if one.exists())
