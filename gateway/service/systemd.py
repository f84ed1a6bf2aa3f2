"""The gateway as a systemd service: of one user, or of the system with a user of its own or a given one.

The unit is ``Type=notify`` with a watchdog (``gateway.supervision.service_notify``), and SIGTERM goes to the gateway alone, so that
what its agents run may end with the turn that started it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gateway.service.actions import Action, CommandRunner, Delete, Run, Write
from gateway.service.service_manager import ServiceState

STOP_SECONDS = 60
"""More than the gateway takes to finish turns, write their memory and send replies."""
WATCHDOG_SECONDS = 60
"""More than ``gateway.supervision.watchdog.HOPELESS``, after which the process ends by itself and says where it was blocked."""
SYSTEM_FOLDER = Path("/etc/systemd/system")
OWN_USER = "homebody"
OWN_HOME = Path("/var/lib/homebody")

_CONFINED = """\
# Left out on purpose, because commands are confined by bubblewrap, which makes namespaces and mounts /proc in them (docs/confinement.md):
# ProtectKernelTunables=, ProtectKernelLogs=, ProcSubset=, RestrictNamespaces=, PrivateUsers=, and ~@mount in SystemCallFilter=.
# Left out because programs such as Node compile while they run: MemoryDenyWriteExecute=.
"""
_FOR_EVERYBODY = """\
UMask=0077
MemoryMax=4G
TasksMax=1024
NoNewPrivileges=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallErrorNumber=EPERM
SystemCallFilter=@system-service @mount landlock_create_ruleset landlock_add_rule landlock_restrict_self seccomp
SystemCallFilter=~@clock @cpu-emulation @debug @module @obsolete @raw-io @reboot @swap
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
"""
_OF_THE_SYSTEM = """\
CapabilityBoundingSet=
AmbientCapabilities=
ProtectSystem=strict
PrivateTmp=yes
PrivateDevices=yes
PrivateMounts=yes
ProtectProc=invisible
ProtectClock=yes
ProtectHostname=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
RemoveIPC=yes
KeyringMode=private
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The user that a system service runs as. ``is_new``: it has to be made. ``home`` is its home folder."""

    name: str
    group: str
    home: Path
    is_new: bool = False

    @property
    def dedicated(self) -> bool:
        """Whether it is the service's own user, which has no other files."""
        return self.home == OWN_HOME


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemdService:
    """A unit. ``account`` None makes a unit of the user's own manager, whose files are in ``folder``.

    ``home`` is the folder of settings and state, ``workspaces`` the folders of the agents, both of which the service may write.
    ``path`` is the PATH of the service.
    """

    name: str
    folder: Path
    command: Sequence[str]
    home: Path
    workspaces: Sequence[Path] = ()
    account: Account | None = None
    path: str = ""
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """See ``ServiceManager.kind``."""
        return "systemd (system)" if self.account else "systemd (user)"

    @property
    def file(self) -> Path:
        """The unit."""
        return self.folder / f"{self.name}.service"

    def text(self) -> str:
        """Return the unit."""
        account = self.account
        head = [
            f"# {'A system' if account else 'A user'} service, written by `service install`, which also renews it.",
            *([_CONFINED.rstrip()] if account else []),
        ]
        environment = {"HOMEBODY_HOME": str(self.home), **({"PATH": self.path} if self.path else {}), **self.env}
        if account:
            environment = {"HOME": str(account.home), **environment}
        of_account = [f"User={account.name}", f"Group={account.group}", *self._writable(account)] if account else []
        keys = "/etc/homebody.env" if account else "%h/.config/homebody.env"
        return "\n".join(
            [
                *head,
                "",
                "[Unit]",
                "Description=Homebody, a personal agent",
                *(["After=network-online.target", "Wants=network-online.target"] if account else []),
                "",
                "[Service]",
                "Type=notify",
                f"ExecStart={' '.join(_quoted(part).replace('$', '$$') for part in self.command)}",
                "ExecReload=/bin/kill -HUP $MAINPID",
                "Restart=on-failure",
                "RestartSec=5",
                "RestartPreventExitStatus=2 3",
                "TimeoutStartSec=300",
                f"TimeoutStopSec={STOP_SECONDS}",
                f"WatchdogSec={WATCHDOG_SECONDS}",
                "KillMode=mixed",
                *(f"Environment={_quoted(f'{name}={value}')}" for name, value in environment.items()),
                f"EnvironmentFile=-{keys}",
                *of_account,
                *_FOR_EVERYBODY.splitlines(),
                *(_OF_THE_SYSTEM.splitlines() if account else []),
                "",
                "[Install]",
                f"WantedBy={'multi-user' if account else 'default'}.target",
                "",
            ]
        )

    def _writable(self, account: Account) -> list[str]:
        if account.dedicated:
            return [f"StateDirectory={OWN_HOME.name}", "StateDirectoryMode=0700", "ProtectHome=yes"]
        places = [self.home, *self.workspaces]
        return ["ProtectHome=read-only", *(f"ReadWritePaths={_quoted(str(place))}" for place in places)]

    def serves(self, home: Path) -> bool:
        """See ``ServiceManager.serves``."""
        try:
            return f"Environment={_quoted(f'HOMEBODY_HOME={home}')}" in self.file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            return False

    def state(self, runner: CommandRunner) -> ServiceState:
        """See ``ServiceManager.state``."""
        if not self.file.exists():
            return ServiceState(installed=False)
        printed = runner(*self._systemctl("show", self._unit, "--property=ActiveState,UnitFileState,MainPID"))
        facts = dict(line.split("=", 1) for line in printed.out.splitlines() if "=" in line)
        pid = facts.get("MainPID", "0")
        return ServiceState(
            installed=True,
            active=facts.get("ActiveState", "unknown"),
            enabled=facts.get("UnitFileState") == "enabled",
            pid=int(pid) if pid.isdigit() else 0,
            outdated=self.file.read_text(encoding="utf-8", errors="replace") != self.text(),
        )

    def install(self) -> Sequence[Action]:
        """See ``ServiceManager.install``."""
        account = self.account
        made: list[Action] = []
        if account and account.is_new:
            place = ("--create-home", "--home-dir", str(account.home), "--shell", "/usr/sbin/nologin")
            hint = "Make this user by hand, or run the service as an existing one: --run-as NAME"
            made.append(Run(("useradd", "--system", "--user-group", *place, account.name), hint=hint))
        if account and not account.dedicated:
            folders = tuple(str(place) for place in (self.home, *self.workspaces))
            made.append(Run(("install", "-d", "-m", "0700", "-o", account.name, "-g", account.group, *folders)))
        # A service that has just been written is not linked to the login, so it goes on when its user logs out.
        lasting = Run(
            ("loginctl", "enable-linger"),
            otherwise="It ends when you log out. To keep it running: sudo loginctl enable-linger $USER",
        )
        return [
            *made,
            Write(self.file, self.text()),
            Run(self._systemctl("daemon-reload"), hint=self._hint),
            Run(self._systemctl("enable", self._unit), hint=self._hint),
            *([] if account else [lasting]),
            Run(self._systemctl("restart", self._unit), hint=f"See why: {self.log_command()}"),
        ]

    def remove(self) -> Sequence[Action]:
        """See ``ServiceManager.remove``."""
        gone = "It did not run any more."
        return [
            Run(self._systemctl("disable", "--now", self._unit), otherwise=gone),
            Delete(self.file),
            Run(self._systemctl("daemon-reload"), otherwise="systemd forgets it at the next start of the machine."),
        ]

    def start(self) -> Sequence[Action]:
        """See ``ServiceManager.start``."""
        return [Run(self._systemctl("start", self._unit), hint=f"{self._hint} See why: {self.log_command()}")]

    def stop(self) -> Sequence[Action]:
        """See ``ServiceManager.stop``."""
        return [Run(self._systemctl("stop", self._unit), hint=self._hint)]

    def restart(self) -> Sequence[Action]:
        """See ``ServiceManager.restart``."""
        return [Run(self._systemctl("restart", self._unit), hint=f"{self._hint} See why: {self.log_command()}")]

    def log_command(self) -> str:
        """See ``ServiceManager.log_command``."""
        return f"journalctl {'' if self.account else '--user '}-u {self.name} -n 50"

    @property
    def _unit(self) -> str:
        return f"{self.name}.service"

    @property
    def _hint(self) -> str:
        if self.account:
            return "A system service is changed as root: put sudo in front."
        return (
            "The service manager of your user must run: log in directly (ssh or the console, not su or sudo), "
            "or run: sudo loginctl enable-linger $USER"
        )

    def _systemctl(self, *arguments: str) -> tuple[str, ...]:
        return ("systemctl", *(() if self.account else ("--user",)), *arguments)


_PLAIN = re.compile(r"[\w@+=:,./-]+")


def _quoted(text: str) -> str:
    """Write a word for a unit: % stands for itself, and quotes are put where needed."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return escaped if _PLAIN.fullmatch(text) else f'"{escaped}"'
