"""Checks where secrets are: in the settings themselves, and in files that others can read."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from gateway.config.effective import ROOT
from gateway.config.normalize import FieldType
from gateway.config.syntax_tree import KeyPath, dotted_key
from gateway.doctor.checked_installation import Installation, in_thread
from gateway.doctor.file_access import PERMISSIONS
from gateway.doctor.finding import Check, Finding, ok
from gateway.doctor.service_units import folders, units

_REFERENCES: Final = ("env:", "file:", "${")
_SHOWN: Final = 8


def inline_secrets(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield the settings that hold a secret itself, and no reference to one."""
    for path in _secrets(given, ROOT, ()):
        yield dotted_key(path)


def _secrets(value: Any, types: FieldType, path: KeyPath) -> Iterator[KeyPath]:
    if isinstance(value, Mapping):
        for key, child in value.items():
            yield from _secrets(child, types.under(str(key)) or FieldType(()), (*path, str(key)))
    elif isinstance(value, list):
        for place, child in enumerate(value):
            yield from _secrets(child, types.under(place) or FieldType(()), (*path, place))
    elif isinstance(value, str) and types.secret and value.strip() and not value.startswith(_REFERENCES):
        yield path


def _examine_inline(installation: Installation) -> Iterator[Finding]:
    found = list(inline_secrets(installation.checked.given))
    for key in found[:_SHOWN]:
        yield Finding(
            level="note",
            what="the secret stands in the settings file itself",
            where=key,
            why="Whoever sees the file has it: a copy, a backup, a screen that you share, a version control.",
            mend=f"Put it into a file (chmod 600), then: homebody config set {shlex.quote(key)} file:PATH. Or env:NAME, for a variable.",
        )
    if len(found) > _SHOWN:
        yield Finding(level="note", what=f"{len(found) - _SHOWN} more secrets stand in the settings file", mend="As above.")
    if not found:
        yield ok("no secret stands in the settings file itself")


def _examine_files(installation: Installation) -> Iterator[Finding]:
    found: list[Finding] = []
    for path in {*_referred(installation), *_of_services(installation)}:
        found += _of(path)
    for profile in installation.profiles:
        found += _workspace(profile.workspace)
    yield from found or [ok("only you can read the files of secrets and your notes")]


def _referred(installation: Installation) -> Iterator[Path]:
    """Yield the files that the settings name as holding a secret, as ``file:PATH`` or under a key such as ``tokenFile``."""
    beside = installation.paths.config_file().parent

    def below(value: Any, key: str) -> Iterator[Path]:
        if isinstance(value, Mapping):
            for name, child in value.items():
                yield from below(child, str(name))
        elif isinstance(value, list):
            for child in value:
                yield from below(child, key)
        elif isinstance(value, str) and (value.startswith("file:") or key.lower().endswith("tokenfile")):
            yield beside / Path(value.removeprefix("file:")).expanduser()

    yield from below(installation.checked.given, "")


def _of_services(installation: Installation) -> Iterator[Path]:
    home = Path(installation.env.get("HOME") or Path.home())
    for unit in units(folders(home)):
        yield from unit.environment
    for path in (home / ".config/homebody.env", home / ".homebody.env"):
        if path.exists():
            yield path


def _of(path: Path) -> Iterator[Finding]:
    try:
        mode, owner = path.stat().st_mode, path.stat().st_uid
    except OSError:
        return
    if mode & 0o077:
        ours = owner == os.geteuid()
        yield Finding(
            level="error" if mode & 0o007 else "warning",
            what="this file of secrets can be read by other users of this machine",
            where=str(path),
            why="Whoever reads it has the keys in it.",
            mend=f"{'' if ours else 'sudo '}chmod 600 {shlex.quote(str(path))}",
            fix=partial(_tighten, path) if ours else None,
        )


async def _tighten(path: Path) -> str:
    await in_thread(path.chmod, 0o600)
    return f"took the rights of other users off {path}"


def _workspace(workspace: Path) -> Iterator[Finding]:
    """Notes may be shared on purpose, with a group of the machine or a program that syncs them: it is told and not changed."""
    try:
        mode = workspace.stat().st_mode
    except OSError:
        return
    if mode & 0o005 and all(_enterable(folder) for folder in workspace.resolve().parents):
        yield Finding(
            level="warning",
            what="every user of this machine can read your notes",
            where=str(workspace),
            why="The workspace and the folders above it are open to all users.",
            mend=f"chmod 700 {shlex.quote(str(workspace))}, unless another program has to read it",
        )


def _enterable(folder: Path) -> bool:
    return bool(stat.S_IMODE(folder.stat().st_mode) & 0o001)


INLINE = Check(name="inline-secrets", examine=_examine_inline)
FILES = Check(name="secret-files", examine=_examine_files)
OWN_FILES = Check(name="permissions", examine=PERMISSIONS.examine)
