"""``homebody channels list`` and ``new``: the channels that are installed, and the package of a new one."""

from __future__ import annotations

import shlex
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import click

from gateway.base import errors
from gateway.cli.invocation import Invocation, pass_invocation, tell


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_invocation
def list_channels(invocation: Invocation, as_json: bool) -> None:
    """List the channels that can be used: those that come with Homebody, and those of installed packages."""
    found = installed(invocation)
    width = max(len(one["name"]) for one in found)
    lines = [f"{one['name']:{width}}  {one['from']}{'' if one['on'] else ', not set up'}" for one in found]
    tell({"channels": found}, "\n".join(lines), as_json=as_json)


def installed(invocation: Invocation) -> list[dict[str, Any]]:
    """Return each channel: its name, where it comes from, and whether the settings have an account of it."""
    from channels.built_in import BUILT_IN
    from gateway.supervision.platforms import ENTRY_POINTS

    settings = invocation.loaded.settings.channels
    found = [
        {"name": one.name, "from": "comes with Homebody", "on": bool(settings.section(one.name).names())} for one in BUILT_IN
    ]
    for entry in sorted(entry_points(group=ENTRY_POINTS)):
        where = f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.value
        plugin = settings.plugins.get(entry.name)
        found.append({"name": entry.name, "from": where, "on": plugin is not None and plugin.enabled})
    return found


@click.command("new")
@click.argument("name")
@click.option("--into", type=click.Path(path_type=Path), help="The folder to make, instead of homebody-NAME here.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_invocation
def new_channel(invocation: Invocation, name: str, into: Path | None, as_json: bool) -> None:
    """Write the package of a new channel, with its tests, which runs as it is.

    NAME is the platform's name in small letters, such as irc or rocket-chat. Nothing is written over. docs/adding-a-channel.md
    goes on from there.
    """
    from channels.testing import new_package

    if why := new_package.why_not(name, {one["name"] for one in installed(invocation)}):
        raise errors.UsageError(why, hint="Choose another name: homebody channels list shows those that are taken.")
    folder = into or Path(f"homebody-{name}")
    try:
        files = new_package.write(name, folder)
    except FileExistsError as error:
        raise errors.UsageError(str(error), hint="Choose another folder with --into FOLDER.") from error
    except OSError as error:
        raise errors.StorageFailed(f"the package could not be written into {folder}: {error}") from error
    place = shlex.quote(str(folder))
    python = shlex.quote(sys.executable)
    steps = [
        f"{python} -m pip install --editable {place}'[test]'",
        f"{python} -m pytest --rootdir {place} {place}",
        "homebody channels list",
    ]
    listed = "\n".join(f"  {path}" for path in files)
    words = f"Wrote {len(files)} files into {folder}:\n{listed}\nNext:\n" + "\n".join(f"  {step}" for step in steps)
    tell(
        {"name": name, "folder": str(folder), "files": files, "next": steps},
        words,
        as_json=as_json,
    )
