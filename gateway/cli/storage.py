"""``homebody storage``: where ledger, sessions and transcripts are, and moving them."""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.invocation import Invocation, pass_invocation, tell

if TYPE_CHECKING:
    from pathlib import Path

    from gateway.storage.moving import Moved

AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def storage() -> None:
    """Show where messages and conversations are kept, and move them into PostgreSQL or back (docs/postgresql.md)."""


@storage.command()
@AS_JSON
@pass_invocation
def status(invocation: Invocation, as_json: bool) -> None:
    """Say where the ledger and conversations are, and what the database says of itself."""
    from gateway.ledger.open_ledger import LEDGER
    from gateway.storage.moving import server_facts
    from gateway.storage.open_storage import conversations_in_files

    settings, file = invocation.loaded.settings.storage, invocation.paths.state / LEDGER
    if settings.url is None:
        facts: dict[str, Any] = {"engine": "sqlite", "where": str(file), "bytes": file.stat().st_size if file.exists() else 0}
    else:
        facts = {"engine": "postgresql", "where": f"schema {settings.schema_name}", **server_facts(settings)}
    folders = conversations_in_files(invocation.paths)
    facts["folders"] = [str(folder) for folder in folders]
    tell(facts, _status_words(facts, file), as_json=as_json)


def _status_words(facts: dict[str, Any], file: Path) -> str:
    size = f"({facts['bytes'] // 1024} KB)"
    if facts["engine"] == "sqlite":
        return (
            f"The ledger is the file {facts['where']} {size}."
            if file.exists()
            else f"The ledger will be the file {facts['where']}."
        )
    lines = [f"The ledger is in PostgreSQL {facts['server']}, {facts['where']} {size}."]
    lines.append("One gateway uses it at a time, unless they are a cluster, and copies of it are the server's business.")
    lines.append(f"Sessions in it: {facts['sessions']}. Transcripts: {facts['transcripts']}.")
    if facts["replica"]:
        lines.append("! This server is a replica, and takes no changes: name the primary in storage.url.")
    elif facts["readOnly"]:
        lines.append(
            "! The database or this user is set to read-only (default_transaction_read_only): the gateway cannot start."
        )
    if facts["missing"]:
        names = ", ".join(facts["missing"])
        lines.append(
            f"! Tables are missing: {names}. Restore the database from a backup; the gateway cannot go on without them."
        )
    if not facts["version"]:
        lines.append("It is not made yet: the first start of the gateway makes it.")
    if file.exists():
        also = "There is one in the file, too, and no gateway starts with both"
        lines.append(f"{also}: homebody storage migrate --to postgresql ({file})")
    elif facts["folders"]:
        also = "There are conversations in files, too, and no gateway starts with both"
        lines.append(f"{also}: homebody storage migrate --to postgresql ({facts['folders'][0]})")
    return "\n".join(lines)


@storage.command()
@click.option(
    "--to",
    "target",
    type=click.Choice(["postgresql", "file"]),
    required=True,
    help="Where to: the database of storage.url, or files.",
)
@click.option("--dry-run", is_flag=True, help="Copy and compare everything, then undo it.")
@AS_JSON
@pass_invocation
def migrate(invocation: Invocation, target: str, dry_run: bool, as_json: bool) -> None:
    """Move messages and conversations, and compare each row on both sides. No gateway may run.

    The settings name the database: homebody config set storage.url
    """
    from gateway.base.home_lock import whole_home
    from gateway.storage.moving import to_file, to_postgres

    shown = sys.stderr.isatty() and not as_json

    def told(table: str, rows: int) -> None:
        if shown:
            click.echo(f"\r\033[K{table}: {rows} rows", err=True, nl=False)

    invocation.paths.prepare()
    try:
        with whole_home(invocation.paths):
            move = to_postgres if target == "postgresql" else to_file
            moved = move(invocation.paths, invocation.loaded.settings.storage, datetime.now(UTC), dry_run=dry_run, told=told)
    finally:
        if shown:
            click.echo("\r\033[K", err=True, nl=False)
    tell(asdict(moved) | {"dryRun": dry_run}, _words(moved, target, dry_run=dry_run), as_json=as_json)


def _words(moved: Moved, target: str, *, dry_run: bool) -> str:
    rows = sum(moved.rows.values())
    if dry_run:
        return f"All {rows} rows of {moved.source} can be moved to {moved.target}. Nothing was changed."
    then = (
        f"The former schema is called {moved.former} now. Go on with the files: homebody config unset storage.url"
        if target == "file"
        else f"The former files are {', '.join(filter(None, (moved.former, *moved.former_folders)))}. Start the gateway: it goes on there."
    )
    return f"{rows} rows were moved from {moved.source} to {moved.target}, and each is the same there.\n{then}"
