"""What installing and removing a service does, as a list of actions that can be shown before they are carried out."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from gateway.base.errors import HomebodyError, StorageFailed
from gateway.config.secrets import NAMES

SECONDS = 180.0
"""How long a command of the service manager may take; stopping a gateway takes up to a minute."""


@dataclass(frozen=True, slots=True)
class Ran:
    """The result of a command."""

    code: int
    out: str = ""
    err: str = ""

    @property
    def output(self) -> str:
        """What it printed, for an error."""
        return (self.err.strip() or self.out.strip() or f"exit code {self.code}")[:500]


class CommandRunner(Protocol):
    """Runs programs of the machine, such as systemctl."""

    def __call__(self, *command: str) -> Ran:
        """Run a command to its end. A program that does not exist gives code 127."""
        ...


def run_command(*command: str) -> Ran:
    """Run a program of this machine."""
    try:
        done = subprocess.run(  # noqa: S603 - the service managers' own programs
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
            stdin=subprocess.DEVNULL,
            env={name: value for name, value in os.environ.items() if not NAMES.search(name)},
        )
    except FileNotFoundError:
        return Ran(127, err=f"{command[0]}: not found")
    except subprocess.TimeoutExpired:
        return Ran(124, err=f"no answer within {SECONDS:.0f} seconds")
    return Ran(done.returncode, done.stdout, done.stderr)


@dataclass(frozen=True, slots=True)
class Write:
    """Write a file."""

    path: Path
    text: str
    mode: int = 0o644

    def __str__(self) -> str:
        return f"write {self.path}"


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a file or a link, if it exists."""

    path: Path

    def __str__(self) -> str:
        return f"delete {self.path}"


@dataclass(frozen=True, slots=True)
class Run:
    """Run a command. If it fails, ``otherwise`` is told and the rest goes on; without it the failure is an error with ``hint``."""

    command: tuple[str, ...]
    otherwise: str = ""
    hint: str = ""

    def __str__(self) -> str:
        return f"run   {shlex.join(self.command)}"


Action: TypeAlias = Write | Delete | Run


def carry_out(actions: Sequence[Action], runner: CommandRunner, tell: Callable[[str], None]) -> None:
    """Carry out actions in their order. ``tell`` is given remarks for people.

    Raises:
        StorageFailed: a file cannot be written or deleted.
        HomebodyError: a command failed.
    """
    for action in actions:
        if isinstance(action, Write):
            _write(action)
        elif isinstance(action, Delete):
            try:
                action.path.unlink(missing_ok=True)
            except OSError as error:
                raise StorageFailed.from_os(error, "delete this file", action.path) from error
        else:
            ran = runner(*action.command)
            if ran.code and action.otherwise:
                tell(action.otherwise)
            elif ran.code:
                raise HomebodyError(f"failed: {ran.output}", where=shlex.join(action.command), hint=action.hint)


def _write(action: Write) -> None:
    fresh = action.path.with_name(f".{action.path.name}.new")
    try:
        action.path.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_text(action.text, encoding="utf-8")
        fresh.chmod(action.mode)
        fresh.replace(action.path)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise StorageFailed.from_os(error, "write this file", action.path) from error
