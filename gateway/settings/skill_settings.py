"""The section ``skills``: which skills agents are given, and what commands of a skill get."""

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, SecretStr

from agent.section import Section

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_RESERVED = re.compile(r"(?i)(LD_.*|PATH|HOME|PYTHON.*|NODE_OPTIONS|BASH_ENV|ENV|IFS|SHELL)")
"""Variables that decide which code programs run."""


def _variable(name: str) -> str:
    if _VARIABLE.fullmatch(name) is None or _RESERVED.fullmatch(name):
        raise ValueError(f"{name!r} cannot be set for a skill (letters, digits and _; not PATH, LD_... or the like)")
    return name


class SkillEntry(Section):
    """One skill."""

    enabled: bool = True
    """Whether agents are given this skill."""
    api_key: SecretStr | None = None
    """The key of the service that the skill uses, given to its commands in the variable that the skill names (`primaryEnv`)."""
    env: dict[Annotated[str, AfterValidator(_variable)], SecretStr] = Field(default_factory=dict)
    """Variables that only commands of this skill are given: those that start a file of its folder, or a program that it requires."""
    config: dict[str, Any] = Field(default_factory=dict)
    """What the skill itself wants to be set; a requirement such as `skills.entries.NAME.config.KEY` is met by it."""


class SkillFolders(Section):
    """Where skills are looked for besides the usual folders."""

    extra_dirs: tuple[Path, ...] = ()
    """Further folders of skills. A skill of the same name in the workspace, in the home folder or of Homebody itself goes before these."""


class SkillsSettings(Section):
    """Skills: instructions for one kind of work, which an agent reads when it needs them."""

    load: SkillFolders = SkillFolders.model_construct()
    """Where skills are looked for besides the usual folders."""
    allow_bundled: tuple[str, ...] | None = None
    """Names of those skills of Homebody itself that agents are given. Unset: all."""
    entries: dict[str, SkillEntry] = Field(default_factory=dict)
    """Settings of single skills, by name."""


class WithSkills(Section):
    """What one agent is given of the skills."""

    skills: tuple[str, ...] | None = None
    """Names of the skills that the agent is given. Unset: all."""
