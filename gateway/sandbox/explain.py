"""Says what a command can see, write, reach and use, for people who ask and for programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from agent.tools.protocol import Origin
from gateway.sandbox import places
from gateway.sandbox.protocol import Standing
from gateway.settings.root import AgentProfile

_LANDLOCK_LACKS = (
    "names, sizes and times of all files of this machine can be asked for, though not what is in them",
    "the mode and owner of your own files elsewhere can be changed",
    "there is no /proc, /dev/shm or unix socket, so ps, multiprocessing and database servers do not work",
)
_UNCONFINED = ("everything that the gateway's user can read, write and reach, but for the gateway's environment",)


def explanation(
    profile: AgentProfile, *, owner: Standing, others: Standing, given: places.Places, refused: Mapping[str, str]
) -> dict[str, Any]:
    """Return the description of one agent's commands. ``owner`` is for the owner in private, ``others`` for every other origin."""
    standings: dict[str, Standing] = {origin: owner if origin == "owner" else others for origin in get_args(Origin)}
    return {
        "agent": profile.id,
        "workspace": str(profile.workspace),
        "workspaceAccess": profile.settings.sandbox.workspace_access,
        "origins": {origin: _of(standing, profile, given) for origin, standing in standings.items()},
        "refusedPaths": dict(refused),
        "limits": _limits(profile, owner),
    }


def _of(standing: Standing, profile: AgentProfile, given: places.Places) -> dict[str, Any]:
    access = profile.settings.sandbox.workspace_access
    said: dict[str, Any] = {"rung": standing.rung, "reason": standing.reason, "hint": standing.hint, "runs": standing.usable}
    if standing.rung == "off":
        nothing: tuple[str, ...] = ()
        seen = _UNCONFINED if standing.usable else nothing
        return said | {
            "reads": seen,
            "writes": seen,
            "reaches": ("the network",) if standing.usable else nothing,
            "lacks": nothing,
        }
    workspace = (str(profile.workspace),) if access != "none" else ()
    return said | {
        "reads": (
            *(path for path in places.PROGRAMS[:3]),
            "settings of programs in /etc, by name",
            *given.readable,
            *workspace,
        ),
        "writes": (
            *(workspace if access == "rw" else ()),
            "a private /tmp" if standing.rung == "bwrap" else "a private folder for temporary files",
        ),
        "reaches": ("nothing; with the network allowed by a rule or an answer: the internet and this machine's network",),
        "hidden": (
            "homes",
            "the state folder and its socket",
            "other agents' workspaces",
            "other processes",
            "keys of the gateway",
        ),
        "lacks": _LANDLOCK_LACKS if standing.rung == "landlock" else (),
    }


def _limits(profile: AgentProfile, standing: Standing) -> dict[str, Any]:
    said = profile.exec.limits
    return {
        "timeoutSeconds": profile.exec.timeout_sec,
        "processes": said.processes,
        "memoryMb": said.memory_mb,
        "fileMb": said.file_mb,
        "cpuSeconds": said.cpu_sec,
        "tmpMb": said.tmp_mb if standing.rung == "bwrap" else None,
    }
