"""The gateway as a launchd agent of one user (macOS)."""

from __future__ import annotations

import plistlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gateway.service.actions import Action, CommandRunner, Delete, Run, Write
from gateway.service.service_manager import ServiceState

STOP_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchdService:
    """A property list in ``folder`` (``~/Library/LaunchAgents``), for the login session of the user ``uid``."""

    name: str
    folder: Path
    command: Sequence[str]
    home: Path
    logs: Path
    uid: int
    path: str = ""

    kind = "launchd"

    @property
    def file(self) -> Path:
        """The property list."""
        return self.folder / f"{self.name}.plist"

    def text(self) -> str:
        """Return the property list."""
        environment = {"HOMEBODY_HOME": str(self.home), **({"PATH": self.path} if self.path else {})}
        facts = {
            "Label": self.name,
            "ProgramArguments": list(self.command),
            "EnvironmentVariables": environment,
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "ThrottleInterval": 5,
            "ExitTimeOut": STOP_SECONDS,
            "ProcessType": "Background",
            "Umask": 0o077,
            "StandardOutPath": str(self.logs / "console.log"),
            "StandardErrorPath": str(self.logs / "console.log"),
        }
        return plistlib.dumps(facts, sort_keys=False).decode()

    def serves(self, home: Path) -> bool:
        """See ``ServiceManager.serves``."""
        try:
            found = plistlib.loads(self.file.read_bytes())
            return bool(found["EnvironmentVariables"]["HOMEBODY_HOME"] == str(home))
        except (OSError, plistlib.InvalidFileException, KeyError, TypeError, ValueError):
            return False

    def state(self, runner: CommandRunner) -> ServiceState:
        """See ``ServiceManager.state``."""
        if not self.file.exists():
            return ServiceState(installed=False)
        printed = runner("launchctl", "print", self._target)
        state = re.search(r"^\s*state = (.+)$", printed.out, re.MULTILINE)
        pid = re.search(r"^\s*pid = (\d+)$", printed.out, re.MULTILINE)
        return ServiceState(
            installed=True,
            active=state[1].strip() if state else "not loaded",
            enabled=printed.code == 0,
            pid=int(pid[1]) if pid else 0,
            outdated=self.file.read_text(encoding="utf-8", errors="replace") != self.text(),
        )

    def install(self) -> Sequence[Action]:
        """See ``ServiceManager.install``."""
        return [Write(self.file, self.text()), *self.start()]

    def remove(self) -> Sequence[Action]:
        """See ``ServiceManager.remove``."""
        return [*self.stop(), Delete(self.file)]

    def start(self) -> Sequence[Action]:
        """See ``ServiceManager.start``."""
        return [
            Run(
                ("launchctl", "bootout", self._target), otherwise=" "
            ),  # otherwise a list that was loaded before stays in force
            Run(
                ("launchctl", "bootstrap", f"gui/{self.uid}", str(self.file)),
                hint="Log in at the Mac itself once, then try again.",
            ),
        ]

    def stop(self) -> Sequence[Action]:
        """See ``ServiceManager.stop``."""
        return [Run(("launchctl", "bootout", self._target), otherwise="It did not run any more.")]

    def restart(self) -> Sequence[Action]:
        """See ``ServiceManager.restart``."""
        return self.start()

    def log_command(self) -> str:
        """See ``ServiceManager.log_command``."""
        return f"tail -n 50 '{self.logs / 'console.log'}'"

    @property
    def _target(self) -> str:
        return f"gui/{self.uid}/{self.name}"
