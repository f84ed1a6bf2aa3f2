"""``homebody migrate``: takes over the state of Clawdbot or OpenClaw."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.cli.invocation import Invocation, pass_invocation, say, tell

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.migration.foreign_state import Program


@click.group()
def migrate() -> None:
    """Take over settings, keys, notes, conversations, people, jobs and skills of a similar program.

    Its own files are only read. This installation has to be new: use --profile NAME beside one that is in use.
    """


def _options(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.argument("path", type=click.Path(path_type=Path)),
        click.option("--dry-run", is_flag=True, help="Report what would be taken over, and write nothing."),
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
    ):
        command = option(command)
    return command


@migrate.command(name="from-clawdbot")
@_options
@pass_invocation
def from_clawdbot(invocation: Invocation, path: Path, dry_run: bool, as_json: bool) -> None:
    """Take over the state of Clawdbot in the folder PATH, usually ~/.clawdbot. Stop it first."""
    _migrate(invocation, "clawdbot", path, dry_run=dry_run, as_json=as_json)


@migrate.command(name="from-openclaw")
@_options
@pass_invocation
def from_openclaw(invocation: Invocation, path: Path, dry_run: bool, as_json: bool) -> None:
    """Take over the state of OpenClaw in the folder PATH, usually ~/.openclaw. Stop it first."""
    _migrate(invocation, "openclaw", path, dry_run=dry_run, as_json=as_json)


def _migrate(invocation: Invocation, program: Program, path: Path, *, dry_run: bool, as_json: bool) -> None:
    from gateway.backup.unfinished_restore import marked, unfinished
    from gateway.migration import importer
    from gateway.migration.foreign_state import open_state

    shown = sys.stderr.isatty() and not as_json

    def progress(text: str) -> None:
        if shown:
            click.echo(f"\r\x1b[K{text} …", nl=False, err=True)

    state = open_state(program, path.expanduser().absolute(), Path.home())
    invocation.may_be_restoring = True
    if marked(invocation.paths.home) is not None and (broken_off := unfinished(invocation.paths.home)) is not None:
        raise broken_off
    profile = ("--profile", invocation.paths.profile) if invocation.paths.profile else ()
    command = shlex.join(("homebody", *profile, "migrate", f"from-{program}", str(state.folder)))
    try:
        report = importer.migrate(state, invocation.paths, os.environ, dry_run=dry_run, progress=progress, command=command)
    except KeyboardInterrupt:
        if invocation.paths.migration_marker.exists():
            say(f"Interrupted: it is taken over in part. Go on with: {command}", err=True)
        raise
    finally:
        click.echo("\r\x1b[K" if shown else "", nl=False, err=True)
    last = (
        "Nothing was written. Without --dry-run it is taken over."
        if dry_run
        else f"It is in {invocation.paths.home} now; {state.folder} is unchanged. Go on with: homebody chat"
    )
    facts = {**report.facts(), "dryRun": dry_run, "from": str(state.folder), "home": str(invocation.paths.home)}
    tell(facts, "\n".join([*report.text_lines(), last]), as_json=as_json)
