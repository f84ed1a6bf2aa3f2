"""``homebody update``: brings a clone up to date and restarts the gateway, or names the command that does."""

from __future__ import annotations

import os
import shlex
import subprocess
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.invocation import Invocation, pass_invocation, tell

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@click.option("--dry-run", is_flag=True, help="Show what would be run.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_invocation
def update(invocation: Invocation, dry_run: bool, as_json: bool) -> None:
    """Get a newer Homebody and restart the gateway.

    Whether it can read your state is shown by homebody upgrade, which updates nothing.

    In a clone this runs `git pull` and installs what the new version needs. Installed by pipx, uv, pip or as a container, the
    program is updated by that tool: its command is printed.
    """
    from gateway.base.installation import find_installation

    found = find_installation()
    facts: dict[str, Any] = {"installedBy": found.way, "command": found.update_command, "updated": False, "restarted": False}
    if dry_run or found.way != "checkout":
        then = "" if found.way == "container" else "\n    homebody restart"
        tell(facts, f"Update with:\n\n    {found.update_command}{then}", as_json=as_json)
        return
    before = version_of(found.root)
    pull(found.root, quiet=as_json)
    after = version_of(found.root)
    facts |= {"updated": before != after, "from": before, "to": after}
    if before != after:
        _make(found.root, quiet=as_json)
        facts["restarted"] = _restart(invocation)
    tell(facts, _update_text(facts), as_json=as_json)


def _update_text(facts: dict[str, Any]) -> str:
    if not facts["updated"]:
        return f"This is the newest version already ({facts['from']})."
    restarted = "The gateway was restarted." if facts["restarted"] else "No gateway was running."
    return f"Updated from {facts['from']} to {facts['to']}. {restarted} What changed: CHANGELOG.md"


def version_of(root: Path) -> str:
    """Return the commit of a clone, in short."""
    return _run(root, "git", "rev-parse", "--short", "HEAD", quiet=True).strip()


def pull(root: Path, *, quiet: bool) -> None:
    """Bring a clone up to date. Raises HomebodyError if its branch has commits of its own, or nobody answers."""
    _run(root, "git", "pull", "--ff-only", quiet=quiet, hint=f"Look at it there: git -C {root} status")


def _make(root: Path, *, quiet: bool) -> None:
    from pathlib import Path

    from gateway.base.installation import find_installation, links_of

    links = links_of(Path.home(), find_installation(), os.environ.get("PATH", ""))
    where = [f"LINKS={links[0].parent}"] if links else []
    command = shlex.join(["make", "-C", str(root), "install", *where])
    again = f"Run it again: {command}; the gateway that runs goes on with the former version meanwhile."
    _run(root, "make", "install", *where, quiet=quiet, hint=again)


def _restart(invocation: Invocation) -> bool:
    """Restart the gateways that run, one after the other, by the program of the new version; return whether one did."""
    from gateway.base.home_lock import running_in
    from gateway.service.service_manager import program

    names = [name for name, holder in running_in(invocation.paths.home).items() if holder.socket]
    profile = ["--profile", invocation.paths.profile] if invocation.paths.profile else []
    for name in names:
        command = [*program(), "--home", str(invocation.paths.home), *profile, "restart"]
        _run(invocation.paths.home, *command, quiet=True, gateway=name)
    return bool(names)


def _run(folder: Path, *command: str, quiet: bool, hint: str = "", gateway: str = "") -> str:
    """Run a command, whose output is shown as it comes unless ``quiet``; return the output if it was not shown."""
    from gateway.base.errors import HomebodyError

    try:
        done = subprocess.run(  # noqa: S603 - git, make, and this program
            command,
            cwd=folder,
            check=False,
            text=True,
            capture_output=quiet,
            stdin=subprocess.DEVNULL,
            env=os.environ
            | (
                {"HOMEBODY_GATEWAY": gateway} if gateway else {}
            ),  # the person who runs the command has chosen it; the gateway that is restarted needs its keys
        )
    except FileNotFoundError as error:
        raise HomebodyError(f"{command[0]} is not installed", hint=f"Install it: sudo apt install {command[0]}") from error
    if done.returncode:
        why = (done.stderr or "").strip().splitlines()[-1:] if quiet else []
        raise HomebodyError(" ".join([f"{' '.join(command[:2])} failed", *why]), where=str(folder), hint=hint)
    return done.stdout or ""
