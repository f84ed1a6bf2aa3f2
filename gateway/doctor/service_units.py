"""Checks service files that start the gateway: does the program that they name still exist? They are only read."""

from __future__ import annotations

import os
import plistlib
import pwd
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.parsers.expat import ExpatError

from gateway.doctor.checked_installation import Installation
from gateway.doctor.finding import Check, Finding, ok

_LARGEST: Final = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A service file: the program that it starts, the files of its environment that must exist, and the user that it runs as."""

    path: Path
    program: str
    environment: tuple[Path, ...] = ()
    user: str = ""


def folders(home: Path) -> list[Path]:
    """Return where service files are: of the user, and of the system."""
    return [
        home / ".config/systemd/user",
        Path("/etc/systemd/user"),
        Path("/etc/systemd/system"),
        home / "Library/LaunchAgents",
        Path("/Library/LaunchDaemons"),
    ]


def units(places: list[Path]) -> Iterator[Unit]:
    """Yield the service files that start `homebody`."""
    for folder in places:
        for path in sorted([*folder.glob("*.service"), *folder.glob("*.plist")]):
            try:
                data = path.read_bytes()[:_LARGEST]
            except OSError:
                continue
            unit = _plist(path, data) if path.suffix == ".plist" else _systemd(path, data.decode("utf-8", "replace"))
            if unit is not None:
                yield unit


def _systemd(path: Path, text: str) -> Unit | None:
    values: dict[str, list[str]] = {}
    for line in text.replace("\\\n", " ").splitlines():
        key, separator, value = line.strip().partition("=")
        if separator and not key.startswith(("#", ";", "[")):
            values.setdefault(key.strip(), []).append(value.strip())
    command = next(iter(values.get("ExecStart", [])), "").lstrip("@-:+!")
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    if not words or not _is_ours(words):
        return None
    home = path.parents[3] if path.parent.match(".config/systemd/user") else Path.home()
    needed = [Path(_expanded(one, home)) for one in values.get("EnvironmentFile", []) if one and not one.startswith("-")]
    return Unit(
        path=path, program=_expanded(words[0], home), environment=tuple(needed), user=next(iter(values.get("User", [])), "")
    )


def _plist(path: Path, data: bytes) -> Unit | None:
    try:
        words = [str(one) for one in plistlib.loads(data).get("ProgramArguments", [])]
    except (plistlib.InvalidFileException, ExpatError, ValueError, AttributeError, TypeError):
        return None
    return Unit(path=path, program=words[0]) if words and _is_ours(words) else None


def _is_ours(words: list[str]) -> bool:
    return Path(words[0]).name == "homebody" or "homebody" in words or ("gateway" in words and "-m" in words)


def _expanded(text: str, home: Path) -> str:
    return text.replace("%h", str(home)).replace("%%", "%")


def _examine(installation: Installation) -> Iterator[Finding]:
    home = Path(installation.env.get("HOME") or Path.home())
    found = list(units(folders(home)))
    for unit in found:
        yield from _of(unit)
    if not found:
        yield ok("no service starts the gateway (docs/running.md)")


def _of(unit: Unit) -> Iterator[Finding]:
    wrong = list(_wrong(unit))
    yield from wrong or [ok(f"{unit.path} starts {unit.program}")]


def _wrong(unit: Unit) -> Iterator[Finding]:
    why, where = "The service does not start the gateway.", str(unit.path)
    there = Path(unit.program)
    if not there.is_absolute() and shutil.which(unit.program) is None:
        yield Finding(
            level="error", what=f"starts {unit.program}, which is not found", where=where, why=why, mend="Write its whole path."
        )
    elif there.is_absolute() and not there.exists():
        mend = "Run `make install` in the folder of Homebody, then correct ExecStart: command -v homebody"
        yield Finding(level="error", what=f"starts {unit.program}, which does not exist", where=where, why=why, mend=mend)
    elif there.is_absolute() and not os.access(there, os.X_OK):
        yield Finding(
            level="error",
            what=f"starts {unit.program}, which cannot be executed",
            where=where,
            why=why,
            mend=f"chmod +x {there}",
        )
    for file in unit.environment:
        if not file.exists():
            mend = f"Make it (chmod 600), or write EnvironmentFile=-{file}, then: systemctl --user daemon-reload"
            yield Finding(level="error", what=f"needs {file}, which does not exist", where=where, why=why, mend=mend)
    if unit.user and not _is_user(unit.user):
        yield Finding(
            level="error",
            what=f"runs as {unit.user}, who is no user",
            where=where,
            why=why,
            mend=f"sudo useradd --system {unit.user}",
        )


def _is_user(name: str) -> bool:
    try:
        return pwd.getpwuid(int(name)) is not None if name.isdigit() else pwd.getpwnam(name) is not None
    except KeyError:
        return name.isdigit() or "%" in name


SERVICE = Check(name="service", examine=_examine, quick=True)
