"""Copies a skill to the folder of installed ones, and removes it from there."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agent.errors import InvalidSkill
from agent.skills.header import Header, read_header
from gateway.base.errors import StorageFailed, UsageError
from gateway.skills import skill_folder as folders
from gateway.skills.skill_folder import SKILL_FILE, Content
from gateway.skills.trust import SkillTrust

LEFT_OUT: Final = frozenset({".git", ".github", "__pycache__", "node_modules", ".venv", ".DS_Store"})
"""Files and folders that are no part of a skill and are not copied."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A skill that lies somewhere and can be installed."""

    folder: Path
    header: Header
    content: Content


def candidate(path: Path) -> Candidate:
    """Look at a skill before it is installed. ``path`` is its folder, or the SKILL.md in it.

    Raises:
        UsageError: there is no skill, or none that can be used.
    """
    folder = path.parent if path.name == SKILL_FILE else path
    found = Path(os.path.realpath(folder))
    if not found.is_dir() or not (found / SKILL_FILE).is_file():
        raise UsageError(
            f"{folder} is no folder with a {SKILL_FILE}", hint="Give the folder of one skill: homebody skills install PATH"
        )
    try:
        content = folders.read(found, leave_out=LEFT_OUT)
        return Candidate(found, read_header(content.text, found.name), content)
    except InvalidSkill as error:
        raise UsageError(f"{folder} cannot be used as a skill: {error}") from error


def install(one: Candidate, managed: Path, trust: SkillTrust) -> Path:
    """Copy a skill, approve what was copied, and return its folder. One of the same name is replaced.

    Raises:
        UsageError: it is not any more as it was looked at.
        StorageFailed: it cannot be written.
    """
    target = managed / one.header.name
    try:
        managed.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _fresh(managed) as fresh:
            copied = folders.read(
                one.folder, leave_out=LEFT_OUT, keep=lambda name, data, runs: _write(fresh / name, data, runs=runs)
            )
            if copied.digest != one.content.digest or folders.read(fresh).digest != copied.digest:
                raise UsageError(
                    f"{one.folder} changed since it was shown", hint="Install it again, and look at what has changed."
                )
            trust.approve(one.header.name, copied.digest)
            _replace(target, fresh)
    except InvalidSkill as error:
        raise UsageError(f"{one.folder} cannot be used as a skill any more: {error}") from error
    except OSError as error:
        raise StorageFailed.from_os(error, "copy the skill", target) from error
    return target


def remove(folder: Path) -> None:
    """Delete the folder of an installed skill. Raises StorageFailed."""
    try:
        with _fresh(folder.parent) as aside:
            folder.rename(aside / folder.name)
    except OSError as error:
        raise StorageFailed.from_os(error, "remove the skill", folder) from error


@contextmanager
def _fresh(managed: Path) -> Iterator[Path]:
    """Make a folder whose name no skill can have, and remove what is left of it."""
    fresh = Path(tempfile.mkdtemp(prefix=".skill-", dir=managed))
    try:
        yield fresh
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _replace(target: Path, fresh: Path) -> None:
    with _fresh(target.parent) as aside:
        if os.path.lexists(target):
            target.rename(aside / "former")
        fresh.rename(target)


def _write(path: Path, data: bytes, *, runs: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with os.fdopen(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o700 if runs else 0o600), "wb"
    ) as file:
        file.write(data)
