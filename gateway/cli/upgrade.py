"""``homebody upgrade``: whether this program can read the state, and a rehearsal on a copy of it. Updating is ``homebody update``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.invocation import Invocation, pass_invocation, tell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gateway.upgrade.rehearsal import Rehearsed

_BECOMES = {
    "read": "read as it is",
    "migrated": "brought to the present version when the gateway starts, after a copy",
    "refused": "REFUSED: a later Homebody wrote it",
}


@click.command()
@click.option("--check", is_flag=True, help="Show the versions of the state's files (this is the default).")
@click.option("--rehearse", is_flag=True, help="Run this program on a copy of the state, with one turn and a scripted model.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_invocation
def upgrade(invocation: Invocation, *, check: bool, rehearse: bool, as_json: bool) -> int:
    """Check that this Homebody can read your state, before you start it.

    This updates nothing. To get a newer Homebody: homebody update.

    Exit code 1 if it cannot.
    """
    if rehearse and not check:
        result = _refused(_files(invocation)) or _rehearsed(invocation)
        tell(result.as_json(), "\n".join(_told(result)), as_json=as_json)
        return 1 if result.problems else 0
    files = _files(invocation)
    refused = any(one["becomes"] == "refused" for one in files)
    lines = [*_lines(files), "" if files else "There is no state yet."]
    lines.append(
        "Start the Homebody that wrote it, or restore a backup from before."
        if refused
        else "All of it can be read. To try it out on a copy: homebody upgrade --rehearse. To get a newer Homebody: homebody update"
    )
    tell({"files": files, "readable": not refused}, "\n".join(filter(None, lines)), as_json=as_json)
    return 1 if refused else 0


def _files(invocation: Invocation) -> list[dict[str, Any]]:
    from gateway.backup.contents import WORK
    from gateway.base.paths import private_folder
    from gateway.base.state_lock import describe
    from gateway.cli.gateway_calls import ledger_copier
    from gateway.upgrade.rehearsal import state_of

    home, state = invocation.paths.home, invocation.paths.state
    log = state / "ledger.sqlite-wal"
    if describe(invocation.paths.lock) is None and not (log.exists() and log.stat().st_size):
        return state_of(home)
    # What a gateway that runs, or one that was killed, wrote last is not in the file itself.
    copy = private_folder(state / WORK) / "upgrade.sqlite"
    ledger_copier(invocation)(copy)
    try:
        return state_of(home, copy)
    finally:
        copy.unlink(missing_ok=True)


def _refused(files: list[dict[str, Any]]) -> Rehearsed | None:
    """Return the outcome of a rehearsal that need not be made, because the state is of a later version; else None."""
    from importlib.metadata import version

    from gateway.upgrade.rehearsal import Rehearsed

    newer = [
        f"{one['example']} ({one['kind']}) is of version {one['version']}, and this Homebody knows {one['known']} at most"
        for one in files
        if one["becomes"] == "refused"
    ]
    return Rehearsed(homebody=version("homebody"), files=files, problems=newer) if newer else None


def _rehearsed(invocation: Invocation) -> Rehearsed:
    import tempfile
    from pathlib import Path

    from gateway.backup.age_encryption import Keys, key_file
    from gateway.base.clock import SystemClock
    from gateway.cli.backup_work import make
    from gateway.upgrade.rehearsal import rehearse

    near: Path = invocation.paths.home.parent
    with tempfile.TemporaryDirectory(prefix="homebody-rehearsal-", dir=near) as scratch:
        made, _, _ = make(
            invocation,
            target=Path(scratch),
            no_secrets=False,
            recipients=(_own(invocation),),
            passphrase="",
            progress=lambda _files, _bytes: None,
        )
        keys = Keys(files=(key_file(invocation.paths),))
        return rehearse(made.path, keys, Path(scratch), env=os.environ, now=SystemClock().now())


def _own(invocation: Invocation) -> str:
    from gateway.backup.age_encryption import own_recipient

    return own_recipient(invocation.paths)[0]


def _lines(files: list[dict[str, Any]], *, on_copy: bool = False) -> Iterator[str]:
    for one in files:
        number = "no version" if one["version"] is None else f"version {one['version']}"
        count = one["example"] if one["files"] == 1 else f"{one['files']} files"
        becomes = _BECOMES[one["becomes"]]
        if on_copy and one["becomes"] == "migrated":
            becomes = f"brought to version {one['known']} on the copy"
        yield f"{one['kind']:24}{number:12}{becomes} ({count})"


def _told(result: Rehearsed) -> Iterator[str]:
    counts = f"agents {len(result.agents)}, sessions {result.sessions}, jobs {result.jobs}"
    if result.agents or not result.problems:
        yield f"Homebody {result.homebody} on a copy of your state: {counts}."
    yield from _lines(result.files, on_copy=True)
    if result.problems:
        yield from (f"  problem: {problem}" for problem in result.problems)
        yield "Stay with the Homebody that wrote the state. Nothing of it was changed."
    else:
        yield "It was read, migrated where needed, and a turn was answered in it. Nothing was sent, and your state was not changed."
