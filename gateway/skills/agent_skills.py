"""The skills of one agent as its prompt, its tools and its commands use them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from agent.taint import source
from agent.tools.path_rules import workspace_path
from agent.tools.protocol import Act
from agent.tools.skill_files import SkillFile
from agent.tools.workspace_sandbox import WorkspaceSandbox
from gateway.sandbox.command import below
from gateway.settings.root import SettingsInForce
from gateway.settings.skill_settings import SkillEntry
from gateway.skills.catalog import FOLDER, Skill, SkillCatalog

_OWN: Final = {"PYTHONDONTWRITEBYTECODE": "1"}
"""Scripts of a skill leave nothing in its folder, which would change it."""


class AgentSkills:
    """Implements ``agent.tools.skill_files``. ``settings`` has the settings in force. Methods block.

    ``saw`` is called with all skills when a prompt is made and something of them changed.
    """

    def __init__(
        self,
        catalog: SkillCatalog,
        settings: SettingsInForce,
        saw: Callable[[Sequence[Skill]], None] = lambda _: None,
    ) -> None:
        self._saw = saw
        self.catalog = catalog
        self._settings = settings
        self._listed: tuple[Sequence[Skill], dict[int, str]] = (), {}
        """The skills that were listed last, and their lists by window."""

    def listing(self, window: int) -> str:
        """Return the list of skills for the prompt of a model with that window."""
        from agent.skills.listing import Listed, listing

        skills = self.catalog.scan()
        if skills is not self._listed[0]:
            self._saw(skills)
            self._listed = skills, {}
        texts = self._listed[1]
        if window not in texts:
            ready = [one for one in skills if one.state == "ready" and one.header]
            texts[window] = listing(
                [Listed(self._around(one), one.name, one.header.description) for one in ready if one.header], window
            )
        return texts[window]

    def opened(self, path: str) -> SkillFile | None:
        """See ``SkillFiles``. Raises WorkspaceFileError for a path in a skill that leads out of it."""
        if not path.startswith("/"):
            return None
        for one in self._elsewhere():
            inside = path.removeprefix(f"{one.folder}/")
            if inside != path:
                return SkillFile(WorkspaceSandbox(one.folder), workspace_path(inside), _sources(one))
        return None

    def in_workspace(self) -> Mapping[PurePosixPath, str]:
        """See ``SkillFiles``."""
        return {
            PurePosixPath(FOLDER, one.folder.name): "" if one.trusted else source("skill", one.name)
            for one in self.catalog.scan()
            if one.place == "workspace"
        }

    def outside(self, path: Path) -> str | None:
        """See ``SkillFiles``."""
        found = next((one for one in self._elsewhere() if below(str(path), str(one.folder))), None)
        return None if found is None else "".join(_sources(found))

    def readable(self) -> Sequence[str]:
        """See ``SkillCommands``: the folders of skills that are ready, and nothing else."""
        return [str(one.folder) for one in self._ready() if one.place != "workspace"]

    def variables(self, argv: Sequence[str] | None, cwd: str) -> Mapping[str, str]:
        """See ``SkillCommands``: for a command that starts a file of the skill's folder, or a program that the skill requires.

        Programs that run whatever they are told, such as an interpreter, do not count as the skill's own.
        """
        from gateway.settings.command_pattern import runs_others

        for one in self._ready() if argv else ():
            if any(below(path, str(one.folder)) for path in _started(argv or (), cwd)):
                return {**_OWN, **self._given(one)}
        for one in self._ready() if argv else ():
            own = {*one.header.needs.bins, *one.header.needs.any_bins} if one.header else set()
            if (argv or ("",))[0] in {name for name in own if not runs_others(name)}:
                return self._given(one)
        return {}

    def why_asked(self, act: Act) -> str | None:
        """Return why a command is asked about whatever rules allow: it names a skill that the owner did not approve. None for others."""
        for one in self.catalog.scan():
            if one.trusted or one.place == "bundled":
                continue
            named = one.folder.name in _parts(act.command) or str(one.folder) in act.command
            if named or below(act.cwd, str(one.folder)):
                return (
                    f"it names the skill {one.name}, which you have not approved as it is now (homebody skills show {one.name})"
                )
        return None

    def _ready(self) -> tuple[Skill, ...]:
        return self.catalog.ready()

    def _elsewhere(self) -> list[Skill]:
        """Return the skills outside of the workspace that may be read: those that count, and as untrusted text those not approved."""
        return [
            one for one in self.catalog.scan() if one.place != "workspace" and one.state in {"ready", "unapproved", "changed"}
        ]

    def _given(self, skill: Skill) -> dict[str, str]:
        """Return the variables that the settings give a skill."""
        entry = self._settings.current.skills.entries.get(skill.name) or SkillEntry()
        given = {name: value.get_secret_value() for name, value in entry.env.items()}
        variable = skill.header.key_variable if skill.header else ""
        if entry.api_key is not None and variable and variable.isidentifier():
            given.setdefault(variable, entry.api_key.get_secret_value())
        return given

    def _around(self, skill: Skill) -> str:
        return FOLDER if skill.place == "workspace" else str(skill.folder.parent)


def _sources(skill: Skill) -> tuple[str, ...]:
    return () if skill.trusted else (source("skill", skill.name),)


def _started(argv: Sequence[str], cwd: str) -> list[str]:
    """Return the files that a command starts, as they really lie: its program, and the script that it gives an interpreter."""
    from gateway.settings.command_pattern import takes_script

    words = [argv[0]] if "/" in argv[0] else []
    if takes_script(argv[0]) and len(argv) > 1 and not argv[1].startswith("-"):
        words.append(argv[1])
    return [os.path.realpath(os.path.join(cwd, word)) for word in words if "\0" not in word]  # noqa: PTH118 -- perhaps absolute


def _parts(command: str) -> set[str]:
    """Return the names in a command, taken roughly: it finds too much rather than too little."""
    plain = "".join(" " if character in "/\"'\\;&|(){}<>`$=:,*? \t\n" else character for character in command)
    return set(plain.split())
