"""Skills in all places of one installation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from gateway.base.paths import Paths
from gateway.settings.root import Settings
from gateway.skills.catalog import Skill, SkillCatalog
from gateway.skills.trust import SkillTrust

if TYPE_CHECKING:
    from pathlib import Path


def write_skill(
    folder: Path, *, description: str = "Does it.", name: str | None = None, more: str = "", body: str = "# Do it\n"
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(
        f"---\nname: {name or folder.name}\ndescription: {description}\n{more}---\n\n{body}", "utf-8"
    )
    return folder


@dataclass
class Shelf:
    """The folders of skills, and the catalog of the agent ``main``."""

    root: Path
    said: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.workspace, self.home, self.extra = self.root / "ws", self.root / "state-home", self.root / "extra"
        for folder in (self.workspace, self.home, self.extra):
            folder.mkdir()
        self.paths = Paths(self.home)
        self.trust = SkillTrust(self.paths.state)
        self.catalog = SkillCatalog("main", self, self.paths, self.trust, self.env)

    @property
    def current(self) -> Settings:
        """See ``gateway.settings.root.SettingsInForce``."""
        return self.settings()

    def settings(self) -> Settings:
        base: dict[str, Any] = {"agents": {"defaults": {"workspace": str(self.workspace)}}}
        skills = {"load": {"extraDirs": [str(self.extra)]}, **self.said.get("skills", {})}
        return Settings.model_validate({**base, **self.said, "skills": skills})

    def own(self) -> dict[str, Skill]:
        """Return the skills that do not come with Homebody, the first of each name."""
        found: dict[str, Skill] = {}
        for one in self.catalog.scan():
            if one.place != "bundled":
                found.setdefault(one.name, one)
        return found

    def approve(self, name: str) -> None:
        self.trust.approve(name, self.own()[name].digest)


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)
