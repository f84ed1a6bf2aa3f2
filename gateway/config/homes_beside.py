"""Finds workspaces that an agent of another home of this person uses as well: profiles, and homes that lie beside this one.

What one of them is told is then found by the other, and both write there. Each home's settings are read for it, so it is asked
where an agent is added, at the start, and by the doctor alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from gateway.base.errors import HomebodyError
from gateway.base.paths import Paths
from gateway.settings.root import Settings

_HOMES = ".homebody*"
_OF_A_RESTORE = re.compile(r"\.(?:before-restore|to-restore|restoring)(?:-|$)")
"""What a restore keeps or prepares beside a home is nobody's."""


class SharedWorkspace(Struct, frozen=True):
    """The workspace of ``agent`` is that of ``other``, too, an agent of the home ``beside``."""

    agent: str
    workspace: Path
    other: str
    beside: Paths

    def as_text(self) -> str:
        """Return what is wrong, as a sentence without its end."""
        whose = f"the profile {self.beside.profile}" if self.beside.profile else f"the home {self.beside.home}"
        return f"{self.workspace}, the workspace of the agent {self.agent}, is that of {self.other} of {whose}, too"

    def mend(self, settings: Settings) -> str:
        """Return the command that gives the agent a folder of its own."""
        places = [place for place, entry in enumerate(settings.agents.list) if entry.id == self.agent]
        key = f"'agents.list[{places[0]}].workspace'" if places else "agents.defaults.workspace"
        return f"Give it a folder of its own: homebody config set {key} {self.workspace}-2"


def shared_workspaces(settings: Settings, paths: Paths, env: Mapping[str, str]) -> list[SharedWorkspace]:
    """Return each workspace of these settings that another home's agent has as well; homes that cannot be looked at are left out.

    Blocking. Never raises: it is a warning, and nothing is to fail by it.
    """
    try:
        return _shared(settings, paths, env)
    except (HomebodyError, OSError, ValueError):
        return []


def _shared(settings: Settings, paths: Paths, env: Mapping[str, str]) -> list[SharedWorkspace]:
    own = {agent: os.path.realpath(settings.agent(agent).workspace) for agent in settings.agent_ids}
    return [
        SharedWorkspace(agent, Path(folder), other, beside)
        for beside, other, theirs in _workspaces_beside(paths, env)
        for agent, folder in own.items()
        if folder == theirs
    ]


def _workspaces_beside(paths: Paths, env: Mapping[str, str]) -> Iterator[tuple[Paths, str, str]]:
    from gateway.config.load import load

    for beside in _homes_beside(paths, env):
        try:
            settings = load(beside, env).settings
            found = [(agent, os.path.realpath(settings.agent(agent).workspace)) for agent in settings.agent_ids]
        except (HomebodyError, OSError, ValueError):  # it does not start with them, and its own commands tell why
            continue
        yield from ((beside, agent, folder) for agent, folder in found)


def _homes_beside(paths: Paths, env: Mapping[str, str]) -> Iterator[Paths]:
    usual = Paths.find({**env, "HOMEBODY_CONFIG": ""}, profile="default").home
    near = paths.home.parent.glob(f"{paths.home.name.split('-')[0]}*")
    for home in sorted({*Path.home().glob(_HOMES), *usual.parent.glob(f"{usual.name}*"), *near}):
        used = any(map(os.path.exists, (home / "state", *Paths(home).config_names())))  # false where one may not look
        if used and not _OF_A_RESTORE.search(home.name) and os.path.realpath(home) != os.path.realpath(paths.home):
            name = home.name.removeprefix(f"{usual.name}-")
            profile = name if home.parent == usual.parent and name != home.name else ""
            yield Paths(home, profile=profile)
