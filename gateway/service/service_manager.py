"""What a service manager can do for the gateway, whichever it is."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gateway.base.paths import Paths
from gateway.service.actions import Action, CommandRunner


@dataclass(frozen=True, slots=True)
class ServiceState:
    """The state of a service. ``active`` in the manager's own word, ``pid`` 0 if it does not run.

    ``outdated``: the file on disk is not what this version would write.
    """

    installed: bool
    active: str = ""
    enabled: bool = False
    pid: int = 0
    outdated: bool = False

    @property
    def running(self) -> bool:
        """Whether the manager has started it."""
        return self.active in {"active", "activating", "reloading", "running"}


class ServiceManager(Protocol):
    """One way to run the gateway as a service. What changes the machine is returned as actions."""

    @property
    def kind(self) -> str:
        """Such as "systemd (user)"."""
        ...

    @property
    def name(self) -> str:
        """The name by which the manager knows it."""
        ...

    @property
    def home(self) -> Path:
        """The folder of settings and state that it serves."""
        ...

    @property
    def file(self) -> Path:
        """The file that describes it to the manager."""
        ...

    def text(self) -> str:
        """Return the text of the service's file."""
        ...

    def serves(self, home: Path) -> bool:
        """Return whether the file on disk is the service of this home."""
        ...

    def state(self, runner: CommandRunner) -> ServiceState:
        """Ask for the state."""
        ...

    def install(self) -> Sequence[Action]:
        """Return what installs and starts it."""
        ...

    def remove(self) -> Sequence[Action]:
        """Return what stops and removes it."""
        ...

    def start(self) -> Sequence[Action]:
        """Return what starts it."""
        ...

    def stop(self) -> Sequence[Action]:
        """Return what stops it, until the next start of the machine."""
        ...

    def restart(self) -> Sequence[Action]:
        """Return what restarts it."""
        ...

    def log_command(self) -> str:
        """Return the command that shows what it printed."""
        ...


def service_name(paths: Paths) -> str:
    """Return the name of the service: one for each profile."""
    return f"homebody-{paths.profile}" if paths.profile else "homebody"


def program() -> list[str]:
    """Return the command that starts this installation, by full path, so that it works without a PATH."""
    own = Path(sys.prefix) / "bin" / "homebody"
    return [str(own)] if own.exists() else [sys.executable, "-m", "gateway"]


def gateway_command(paths: Paths) -> list[str]:
    """Return the command that runs the gateway of these paths."""
    profile = ["--profile", paths.profile] if paths.profile else []
    config = ["--config", str(paths.chosen_config)] if paths.chosen_config else []
    return [*program(), "--home", str(paths.home), *profile, *config, "gateway"]
