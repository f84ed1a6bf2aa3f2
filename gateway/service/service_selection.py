"""Which service manager this machine has, and which service belongs to these paths."""

from __future__ import annotations

import os
import pwd
import shutil
import sys
from collections.abc import Mapping, Sequence
from grp import getgrgid
from pathlib import Path

from gateway.base.errors import HomebodyError, UsageError
from gateway.base.paths import Paths
from gateway.service.launchd import LaunchdService
from gateway.service.service_manager import ServiceManager, gateway_command, program, service_name
from gateway.service.systemd import OWN_HOME, OWN_USER, SYSTEM_FOLDER, Account, SystemdService

_BOOTED = Path("/run/systemd/system")
"""There where systemd runs the machine (sd_booted(3))."""
_NO_MANAGER = (
    "Run it in the background: homebody start. In a container, let the container engine restart it (docker/compose.yaml)."
)


def available(platform: str = sys.platform, booted: Path = _BOOTED) -> str:
    """Return "launchd", "systemd", or "" for a machine that has neither."""
    if platform == "darwin":
        return "launchd"
    return "systemd" if booted.is_dir() and shutil.which("systemctl") else ""


def user_service(paths: Paths, env: Mapping[str, str], platform: str = sys.platform) -> ServiceManager:
    """Return the service of this user for these paths, installed or not."""
    home = Path(env.get("HOME") or Path.home())
    if platform == "darwin":
        return LaunchdService(
            name=service_name(paths),
            folder=home / "Library" / "LaunchAgents",
            command=gateway_command(paths),
            home=paths.home,
            logs=paths.logs,
            uid=os.getuid(),
            path=_path(env),
        )
    config = Path(env.get("XDG_CONFIG_HOME") or home / ".config")
    return SystemdService(
        name=service_name(paths),
        folder=config / "systemd" / "user",
        command=[*gateway_command(paths), "--restart-on-stall"],
        home=paths.home,
        path=_path(env),
    )


def system_service(
    paths: Paths,
    env: Mapping[str, str],
    *,
    run_as: str | None = None,
    workspaces: Sequence[Path] = (),
    folder: Path = SYSTEM_FOLDER,
) -> SystemdService:
    """Return the service of the system. It runs as ``run_as``: by default who called sudo, else a user of its own.

    Raises:
        UsageError: there is no such user, it is root, or it cannot reach this program.
    """
    account = account_of(run_as or env.get("SUDO_USER") or OWN_USER)
    home = account.home / (f".homebody-{paths.profile}" if paths.profile else ".homebody")
    start = Path(program()[0])
    if account.dedicated and any(start.is_relative_to(private) for private in ("/root", "/home")):
        raise UsageError(
            f"the user {account.name} cannot read this program, because it lies in a home folder",
            where=str(start),
            hint="Clone it into /opt/homebody and install it from there, or run the service as yourself: --run-as NAME",
        )
    of_account = Paths(home, None, paths.profile)
    own = [account.home / (f"homebody-{paths.profile}" if paths.profile else "homebody")]
    return SystemdService(
        name=service_name(paths),
        folder=folder,
        command=[*gateway_command(of_account), "--restart-on-stall"],
        home=home,
        workspaces=() if account.dedicated else tuple(workspaces) or own,
        account=account,
    )


def account_of(name: str) -> Account:
    """Return a user of this machine; the service's own one need not exist yet. Raises UsageError."""
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        if name == OWN_USER:
            return Account(name=name, group=name, home=OWN_HOME, is_new=True)
        raise UsageError(f"this machine has no user {name!r}", hint="Give an existing one: --run-as NAME") from None
    if found.pw_uid == 0:
        hint = f"Leave out --run-as: then it runs as a user of its own, {OWN_USER}."
        raise UsageError("the service does not run as root, which nothing could confine", hint=hint)
    return Account(name=name, group=getgrgid(found.pw_gid).gr_name, home=Path(found.pw_dir))


def installed(paths: Paths, env: Mapping[str, str], *, system_folder: Path = SYSTEM_FOLDER) -> ServiceManager | None:
    """Return the service that runs the gateway of these paths; None if there is none."""
    own = user_service(paths, env)
    if own.serves(paths.home):
        return own
    unit = any_system_service(paths, folder=system_folder)
    return unit if unit is not None and unit.serves(paths.home) else None


def any_system_service(paths: Paths, *, folder: Path = SYSTEM_FOLDER) -> SystemdService | None:
    """Return the installed service of the system of that name, whichever user and folder it is for; None if there is none."""
    unit = SystemdService(
        name=service_name(paths),
        folder=folder,
        command=gateway_command(paths),
        home=paths.home,
        account=Account(name="", group="", home=paths.home.parent),
    )
    return unit if unit.file.exists() else None


def check_can_install(manager: ServiceManager, *, system: bool, kind: str | None = None) -> None:
    """Raise HomebodyError where this machine or this user cannot have the service."""
    found = available() if kind is None else kind
    if not found:
        raise HomebodyError("this machine has neither systemd nor launchd", hint=_NO_MANAGER)
    if system and found != "systemd":
        raise UsageError("--system is for systemd", hint="Leave it out: homebody service install")
    if system and os.geteuid() != 0:
        again = " ".join(["sudo", *program(), "service", "install", "--system"])
        raise UsageError("a system service is installed by root", hint=f"Run: {again}")
    if not system and found == "systemd" and os.geteuid() == 0:
        hint = "Run: homebody service install --system   (the service gets a user of its own)"
        raise UsageError("the gateway does not run as root, whose commands nothing could confine", hint=hint)
    if manager.file.exists() and not manager.serves(manager.home):
        raise UsageError(
            f"a service {manager.name} exists already, for another folder",
            where=str(manager.file),
            hint="Give this one a profile of its own: homebody --profile NAME service install",
        )


def _path(env: Mapping[str, str]) -> str:
    """Return the folders of the PATH that exist, so that commands and MCP servers are found as in the owner's shell."""
    folders = dict.fromkeys(folder for folder in env.get("PATH", "").split(":") if folder.startswith("/"))
    return ":".join(folder for folder in folders if Path(folder).is_dir())
