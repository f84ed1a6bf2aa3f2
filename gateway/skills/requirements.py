"""What a skill needs and this machine or the settings do not have, with what to do about it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, SecretStr
from pydantic.alias_generators import to_snake

from agent.skills.header import Header
from gateway.sandbox.command import PATH
from gateway.settings.root import AgentProfile, Settings
from gateway.settings.skills import SkillEntry

_SYSTEMS: Final = {"macos": "darwin", "windows": "win32"}


@dataclass(frozen=True, slots=True)
class Missing:
    """One thing that is missing: what, and what to do."""

    what: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What requirements are checked against, for one agent."""

    settings: Settings
    profile: AgentProfile
    env: Mapping[str, str]
    platform: str = sys.platform

    @property
    def path(self) -> str:
        """Where commands of the agent look for programs."""
        own = (os.path.expanduser(one) for one in self.profile.exec.path_prepend)  # noqa: PTH111 -- text for PATH
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


def programs_of(headers: Iterable[Header], there: Surroundings) -> frozenset[str]:
    """Return which of the programs that skills need are there. Looks for them: call it in a thread."""
    wanted = {name for header in headers for name in (*header.needs.bins, *header.needs.any_bins)}
    return frozenset(name for name in wanted if _is_there(name, there))


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


def _keys(wanted: Iterable[str], there: Surroundings) -> Iterator[Missing]:
    for key in wanted:
        if not _is_set(there.settings, key.split(".")):
            yield Missing(f"the setting {key} is not made", f"See docs/configuration.md, or: homebody config set {key} VALUE")


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
