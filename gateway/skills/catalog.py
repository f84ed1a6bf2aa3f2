"""The skills of one agent: found in all places, judged by what they need, and kept until a file of theirs changes."""

from __future__ import annotations

import functools
import importlib.resources
import logging
import os
import shutil
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace
from pydantic import BaseModel, SecretStr
from pydantic.alias_generators import to_snake

from agent.errors import InvalidSkill
from gateway.base.atomic_file import stamp_of
from gateway.base.paths import Paths
from gateway.sandbox.command import PATH
from gateway.settings.root import AgentProfile, Settings, SettingsInForce
from gateway.settings.skill_settings import SkillEntry
from gateway.skills.trust import SkillTrust

if TYPE_CHECKING:
    from agent.skills.header import Header
    from gateway.skills.skill_folder import Content, Stamp

log = logging.getLogger(__name__)

FOLDER: Final = "skills"
"""Name of the folder of skills in a workspace and in the home folder."""
MOST_SKILLS: Final = 500
"""Skills of one place; what comes after them by name is not looked at."""

Place: TypeAlias = Literal["workspace", "managed", "bundled", "extra"]
State: TypeAlias = Literal["ready", "unapproved", "changed", "needs", "off", "hidden", "broken"]
"""``changed``: approved, but not as it is now. ``hidden``: one of the same name goes before it."""


class Skill(Struct, frozen=True, kw_only=True):
    """One skill that was found. ``reason`` says why it is not ready, ``hint`` what to do; both empty for one that is.

    ``folder`` is absolute, without links above the skill. ``header`` is None, and ``digest`` "", for a broken one.
    """

    name: str
    place: Place
    folder: Path
    state: State
    header: Header | None = None
    digest: str = ""
    files: tuple[tuple[str, int], ...] = ()
    missing: tuple[Missing, ...] = ()
    reason: str = ""
    hint: str = ""

    @property
    def trusted(self) -> bool:
        """Whether the owner stands for its content."""
        return self.state in {"ready", "needs", "off", "hidden"}


class _Known(Struct, frozen=True):
    stamp: Stamp
    content: Content
    header: Header | None
    problem: str


_State: TypeAlias = "tuple[object, ...]"
"""What the skills that are found depend on, beside the settings: while it is the same, so are they."""


@functools.cache
def bundled_folder() -> Path:
    """Return the folder of the skills that come with Homebody, in a checkout and in an installed wheel."""
    beside = Path(__file__).resolve().parents[2] / "bundled_skills"
    return beside if beside.is_dir() else Path(str(importlib.resources.files("bundled_skills")))


def managed_folder(paths: Paths) -> Path:
    """Return the folder of the skills that the owner installed."""
    return paths.home / FOLDER


class SkillCatalog:
    """Finds the skills of one agent. Methods block, and may be called from several threads.

    ``settings`` has the settings in force. What was read is kept by the folder's stamp; those of Homebody itself are read once.
    """

    def __init__(
        self,
        agent: str,
        settings: SettingsInForce,
        paths: Paths,
        trust: SkillTrust,
        env: Mapping[str, str],
    ) -> None:
        self.agent = agent
        self.trust = trust
        self._settings = settings
        self._managed = managed_folder(paths)
        self._env = env
        self._known: dict[Path, _Known] = {}
        self._there: Surroundings | None = None
        self._found: tuple[Skill, ...] = ()
        self._state: _State | None = None
        """The state before ``_found`` was found; None where it may have changed without a trace since."""
        self._lock = threading.Lock()

    def scan(self) -> tuple[Skill, ...]:
        """Return all skills by place, the first that count first, and by name; the same object while nothing changes."""
        settings = self._settings.current
        with self._lock:
            if self._there is None or self._there.settings is not settings:
                if self.agent not in settings.agent_ids:
                    return ()
                profile = settings.agent(self.agent)
                self._there = Surroundings(settings=settings, profile=profile, env=self._env, path=_path_of(profile))
                self._state = None
            state = self._state_of(self._there)
            if self._state is None or state != self._state:
                self._found = tuple(self._ranked(self._there))
                self._state = state if all(map(self._is_settled, self._found)) else None
            return self._found

    def ready(self) -> tuple[Skill, ...]:
        """Return the skills that the agent is given, by name."""
        return tuple(sorted((one for one in self.scan() if one.state == "ready"), key=lambda one: one.name))

    def places(self, profile: AgentProfile, settings: Settings) -> list[tuple[Place, Path]]:
        """Return the folders of skills, the first that count first."""
        found: list[tuple[Place, Path]] = [
            ("workspace", Path(os.path.realpath(profile.workspace)) / FOLDER),
            ("managed", self._managed),
            ("bundled", bundled_folder()),
        ]
        return [*found, *(("extra", Path(os.path.realpath(one.expanduser()))) for one in settings.skills.load.extra_dirs)]

    def _state_of(self, there: Surroundings) -> _State:
        """Return what changes when a file of a skill, an approval or a required program does, without reading or judging anything."""
        from gateway.skills import skill_folder as folders

        needs = [one.header.needs for one in self._found if one.header]
        programs = {name for need in needs for name in (*need.bins, *need.any_bins)}
        found: list[object] = [stamp_of(self.trust.path), {name for name in programs if _is_there(name, there)}]
        for place, folder in self.places(there.profile, there.settings):
            if place == "bundled":
                found.append(folder.stat().st_mtime_ns)
                continue
            for path in _folders(place, folder):
                try:
                    found.append((path, folders.stamp_of(path)))
                except InvalidSkill as error:
                    found.append((path, str(error)))
        return tuple(found)

    def _is_settled(self, skill: Skill) -> bool:
        """Return whether each change of a skill's files shows in its stamp."""
        known = self._known.get(skill.folder)
        return skill.place == "bundled" or (known is not None and known.content.settled)

    def _ranked(self, there: Surroundings) -> Iterator[Skill]:
        taken: set[str] = set()
        present: set[Path] = set()
        for place, folder in self.places(there.profile, there.settings):
            for path in _folders(place, folder):
                present.add(path)
                skill = self._judged(path, place, there)
                if skill.name in taken and skill.trusted:
                    above = "another place goes before it (homebody skills list)"
                    skill = replace(skill, state="hidden", reason=f"a skill of this name in {above}")
                elif skill.trusted:
                    taken.add(skill.name)
                yield skill
        self._known = {path: known for path, known in self._known.items() if path in present}

    def _judged(self, path: Path, place: Place, there: Surroundings) -> Skill:
        from gateway.skills.skill_folder import SKILL_FILE

        base = Skill(name=path.name, place=place, folder=path, state="broken")
        try:
            known = self._read(path, fixed=place == "bundled")
        except InvalidSkill as error:
            return replace(base, reason=str(error), hint="Mend it, or remove its folder.")
        if known.header is None:
            return replace(base, reason=known.problem, hint="Mend it, or remove its folder.", files=known.content.files)
        name, digest = known.header.name, known.content.digest
        skill = replace(base, header=known.header, digest=digest, files=known.content.files, state="ready")
        if place != "bundled" and digest not in (approved := self.trust.digests(name)):
            said = "changed since you approved it" if approved else "new: you have not approved it"
            return replace(
                skill,
                state="changed" if approved else "unapproved",
                reason=f"it is {said}",
                hint=f"Read {path / SKILL_FILE}, then: homebody skills approve {name}{_for(self.agent, there.settings, place)}",
            )
        if off := _switched_off(skill, there):
            return replace(skill, state="off", reason=off[0], hint=off[1])
        if lacking := missing(known.header, there):
            return replace(
                skill,
                state="needs",
                missing=lacking,
                reason="; ".join(one.what for one in lacking),
                hint=" ".join(dict.fromkeys(one.hint for one in lacking)),
            )
        return skill

    def _read(self, path: Path, *, fixed: bool) -> _Known:
        """Return what a folder holds. Raises InvalidSkill."""
        from agent.skills.header import read_header
        from gateway.skills import skill_folder as folders

        known = self._known.get(path)
        if known is not None and (fixed or (known.content.settled and folders.stamp_of(path) == known.stamp)):
            return known
        content = folders.read(path)
        header, problem = None, ""
        if known is not None and known.content.digest == content.digest:
            header, problem = known.header, known.problem
        else:
            try:
                header = read_header(content.text, path.name)
            except InvalidSkill as error:
                problem = str(error)
        made = self._known[path] = _Known(content.stamp, content, header, problem)
        return made


def _folders(place: Place, root: Path) -> list[Path]:
    """Return the folders of a place that say that they are a skill, by name. A link among them is a folder elsewhere, and not one."""
    from gateway.skills.skill_folder import SKILL_FILE

    if place == "workspace" and root.is_symlink():
        return []
    try:
        with os.scandir(root) as listing:
            names = sorted(entry.name for entry in listing if entry.is_dir(follow_symlinks=False) and entry.name[:1] != ".")
    except OSError:
        return []
    if len(names) > MOST_SKILLS:
        log.warning("%s holds %s folders; the first %s are looked at", root, len(names), MOST_SKILLS)
    return [root / name for name in names[:MOST_SKILLS] if os.path.lexists(root / name / SKILL_FILE)]


def _switched_off(skill: Skill, there: Surroundings) -> tuple[str, str] | None:
    """Return the setting by which the agent is not given a skill, and what to do; None where it is."""
    settings, name = there.settings.skills, skill.name
    entry = settings.entries.get(name)
    if entry is not None and not entry.enabled:
        key = f"skills.entries.{name}.enabled"
        return f"it is switched off ({key})", f"Switch it on: homebody config set {key} true"
    if skill.place == "bundled" and settings.allow_bundled is not None and name not in settings.allow_bundled:
        return "skills.allowBundled does not name it", "Add its name there."
    if there.profile.skills is not None and name not in there.profile.skills:
        return f"the agent {there.profile.id} is given other skills alone (agents.*.skills)", "Add its name there."
    return None


def _for(agent: str, settings: Settings, place: Place) -> str:
    return f" --agent {agent}" if place == "workspace" and agent != settings.default_agent else ""


_SYSTEMS: Final = {"macos": "darwin", "windows": "win32"}


class Missing(Struct, frozen=True):
    """One thing that is missing: what, and what to do."""

    what: str
    hint: str


class Surroundings(Struct, frozen=True, kw_only=True):
    """What requirements are checked against, for one agent."""

    settings: Settings
    profile: AgentProfile
    env: Mapping[str, str]
    path: str
    """Where commands of the agent look for programs."""
    platform: str = sys.platform


def _path_of(profile: AgentProfile) -> str:
    own = (os.path.expanduser(one) for one in profile.exec.path_prepend)  # noqa: PTH111 -- text for PATH
    return os.pathsep.join((*own, PATH))


def missing(header: Header, there: Surroundings) -> tuple[Missing, ...]:
    """Return what a skill needs and does not have. Looks for programs: call it in a thread."""
    needs = header.needs
    if needs.always:
        return ()
    entry = there.settings.skills.entries.get(header.name) or SkillEntry()
    return (
        *_system(needs.os, there),
        *_programs(header, there),
        *_variables(header, entry, there),
        *_keys(needs.config, there),
    )


def _system(wanted: Iterable[str], there: Surroundings) -> Iterator[Missing]:
    systems = [_SYSTEMS.get(one.casefold(), one.casefold()) for one in wanted]
    if systems and there.platform not in systems:
        yield Missing(f"it is for {', '.join(systems)} alone", f"It cannot be used on this system ({there.platform}).")


def _programs(header: Header, there: Surroundings) -> Iterator[Missing]:
    advice = f" The skill itself says: {'; '.join(header.advice)}." if header.advice else ""
    hint = f"Install it in {PATH.split(':', 1)[0]} or /usr/bin, or add its folder to tools.exec.pathPrepend.{advice}"
    for name in header.needs.bins:
        if not _is_there(name, there):
            yield Missing(f"there is no program {name}", hint)
    any_of = header.needs.any_bins
    if any_of and not any(_is_there(name, there) for name in any_of):
        yield Missing(f"there is none of the programs {', '.join(any_of)}", hint)


def _is_there(name: str, there: Surroundings) -> bool:
    return "/" not in name and "\0" not in name and shutil.which(name, path=there.path) is not None


def _variables(header: Header, entry: SkillEntry, there: Surroundings) -> Iterator[Missing]:
    for name in header.needs.env:
        key = entry.api_key is not None and name == header.key_variable
        if not (key or name in entry.env):
            known = " It is set where the gateway runs, but commands are not given that." if there.env.get(name) else ""
            yield Missing(
                f"the variable {name} is not set",
                f"Give it to the skill: homebody config set skills.entries.{header.name}.env.{name} VALUE{known}",
            )


_DESCRIBED: Final = {
    "mail.accounts": "docs/mail.md shows how to add a mail account.",
    "calendar.accounts": "docs/calendar.md shows how to add a calendar.",
}
"""Settings that are sections with an entry for each account, which no single value makes."""


def _keys(wanted: Iterable[str], there: Surroundings) -> Iterator[Missing]:
    for key in wanted:
        if not _is_set(there.settings, key.split(".")):
            mend = _DESCRIBED.get(key, f"docs/configuration.md describes it: homebody config set {key} VALUE")
            yield Missing(f"the setting {key} is not made", mend)


def _is_set(value: Any, steps: list[str]) -> bool:
    """Say whether the settings say something at a key, other than no, nothing or empty."""
    for step in steps:
        if isinstance(value, BaseModel):
            value = getattr(value, to_snake(step), None) if to_snake(step) in type(value).model_fields else None
        elif isinstance(value, Mapping):
            value = value.get(step)
        else:
            return False
    if isinstance(value, SecretStr):
        return bool(value.get_secret_value())
    if isinstance(value, BaseModel):
        return bool(value.model_fields_set)
    return bool(value)
