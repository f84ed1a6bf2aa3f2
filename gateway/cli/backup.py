"""``homebody backup``: copies of everything in one file, made while the gateway runs, checked, restored and tried out."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.invocation import Invocation, pass_invocation, say, tell

if TYPE_CHECKING:
    from gateway.backup.age_encryption import Keys
    from gateway.backup.creation import Made

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_FILE = click.argument("file", type=click.Path(path_type=Path), required=False)
_IDENTITY = click.option(
    "--identity",
    "identities",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A file with the key that opens the backup.",
)
_PASSPHRASE = click.option(
    "--passphrase", is_flag=True, help="Ask for a passphrase (or take it from HOMEBODY_BACKUP_PASSPHRASE)."
)
_EVERY = 0.5


@click.group()
def backup() -> None:
    """Make, check, restore and try out backups: everything in one file (docs/backup.md)."""


@backup.command()
@click.option("--to", "target", type=click.Path(path_type=Path), help="Write it into this folder, or as this file.")
@click.option("--no-secrets", is_flag=True, help="Leave keys and passwords out, and do not encrypt.")
@click.option(
    "--recipient", "recipients", multiple=True, help="A public key (age or SSH) that can open it, instead of your own."
)
@_PASSPHRASE
@click.option("--scheduled", is_flag=True, hidden=True)
@_JSON
@pass_invocation
def create(
    invocation: Invocation,
    *,
    target: Path | None,
    no_secrets: bool,
    recipients: tuple[str, ...],
    passphrase: bool,
    scheduled: bool,
    as_json: bool,
) -> None:
    """Make a backup. The gateway may run meanwhile."""
    from gateway.cli.backup_work import look_at_folder, make, take_away

    if scheduled:
        os.nice(10)
        look_at_folder(invocation)
    words = _new_passphrase() if passphrase else ""
    with _progress("Backing up", quiet=as_json) as progress:
        made, fresh, checked = make(
            invocation, target=target, no_secrets=no_secrets, recipients=recipients, passphrase=words, progress=progress
        )
    pruned = take_away(invocation, made.path) if scheduled else []
    facts = _facts(made) | {"checked": checked, "keyMade": fresh, "deleted": [str(path) for path in pruned]}
    text = "\n".join(_created(invocation, made, fresh=fresh and not as_json, checked=checked))
    tell(facts, text, as_json=as_json)


@backup.command()
@_FILE
@_IDENTITY
@_JSON
@pass_invocation
def verify(invocation: Invocation, *, file: Path | None, identities: tuple[Path, ...], as_json: bool) -> None:
    """Check every byte of FILE (default: the newest backup)."""
    from gateway.backup.extraction import verify as check
    from gateway.cli.backup_texts import counted
    from gateway.cli.backup_work import chosen

    path = chosen(invocation, file)
    with _progress("Checking", quiet=as_json) as progress:
        checked = check(path, _keys(invocation, identities), progress)
    manifest, head = checked.manifest, checked.head
    facts: dict[str, Any] = {
        "file": str(path),
        "made": head.made,
        "homebody": head.homebody,
        "secrets": head.secrets,
        "files": len(manifest.files),
        "bytes": manifest.size,
        "jobs": len(manifest.jobs),
        "sessions": sum(map(len, manifest.sessions.values())),
        "leftOut": manifest.left_out,
    }
    what = f"{counted(facts['sessions'], 'session')}, {counted(facts['jobs'], 'job')} (those that have ended, too)"
    lines = [
        f"{path} is whole: {len(manifest.files)} files, {_size(manifest.size)}, made {invocation.local_time(head.made)}.",
        f"  {what}; keys and passwords are {'' if head.secrets else 'not '}in it.",
        *_left_out(manifest.left_out),
    ]
    tell(facts, "\n".join(lines), as_json=as_json)


@backup.command(name="list")
@_JSON
@pass_invocation
def list_(invocation: Invocation, *, as_json: bool) -> None:
    """List the backups, newest first, and the schedule."""
    from gateway.backup.backup_folder import copies_in, folder_of
    from gateway.backup.backup_schedule import read_last

    settings = invocation.loaded.settings.backup
    folder = folder_of(invocation.paths, settings)
    copies, last = copies_in(folder), read_last(invocation.paths.state)
    facts = {
        "folder": str(folder),
        "schedule": settings.schedule,
        "failed": last.failed if last else "",
        "backups": [
            {"file": str(one.path), "made": one.made.isoformat(), "bytes": one.size, "encrypted": one.encrypted}
            for one in copies
        ],
    }
    lines = [
        f"{invocation.local_time(one.made.isoformat())}  {_size(one.size):>9}  {'' if one.encrypted else 'not encrypted  '}{one.path}"
        for one in copies
    ] or [f"There is no backup in {folder}. Make one: homebody backup create"]
    if last is not None and last.failed:
        lines.append(f"The last one on schedule failed ({invocation.local_time(last.tried)}): {last.failed}")
    if settings.schedule.casefold() in {"", "off"}:
        lines.append("None is made on a schedule. For one every night: homebody config set backup.schedule 03:30")
    else:
        lines.append(f"One is made on the schedule {settings.schedule!r} while the gateway runs.")
    tell(facts, "\n".join(lines), as_json=as_json)


@backup.command()
@_FILE
@click.option(
    "--into", type=click.Path(path_type=Path), help="Restore into this home instead; workspaces go into INTO-workspaces."
)
@click.option("--workspaces", type=click.Path(path_type=Path), help="Put the workspaces into folders of this one.")
@click.option("--force", is_flag=True, help="Restore over what is there, which is kept under another name.")
@click.option("--dry-run", is_flag=True, help="Show what would be done, and change nothing.")
@click.option("--finish", "only_finish", is_flag=True, help="Finish a restore that was broken off in its last step.")
@_IDENTITY
@_JSON
@pass_invocation
def restore(
    invocation: Invocation,
    *,
    file: Path | None,
    into: Path | None,
    workspaces: Path | None,
    force: bool,
    dry_run: bool,
    only_finish: bool,
    identities: tuple[Path, ...],
    as_json: bool,
) -> int:
    """Restore FILE: its home, its workspaces and its settings. No gateway may run there."""
    from gateway.backup.restoring import Target
    from gateway.backup.restoring import restore as put_back
    from gateway.backup.unfinished_restore import finish, finished_text
    from gateway.base.clock import SystemClock
    from gateway.base.errors import INTERRUPTED, UsageError
    from gateway.base.held_signals import HeldSignals
    from gateway.base.paths import Paths
    from gateway.cli.backup_texts import restored_text

    invocation.may_be_restoring = True
    paths = Paths.find(os.environ, home=into) if into else invocation.paths
    plan = None if dry_run else finish(paths.home)
    if plan is not None and (file is None or only_finish or os.path.abspath(file) == plan.file):  # noqa: PTH100 -- as given
        tell({"finished": plan.file, "moved": plan.moved}, finished_text(plan), as_json=as_json)
        return 0
    if plan is not None:
        say(finished_text(plan), err=True)
    if only_finish:
        tell({"finished": None}, f"No restore was broken off in {paths.home}.", as_json=as_json)
        return 0
    if file is None:
        raise UsageError(
            "which backup is to be restored?", hint="homebody backup list shows them: homebody backup restore FILE"
        )
    apart = workspaces or (paths.home.with_name(f"{paths.home.name}-workspaces") if into else None)
    target = Target(paths=paths, workspaces=Path(os.path.abspath(apart)) if apart else None, force=force)  # noqa: PTH100 -- as given
    with HeldSignals() as signals:
        try:
            with _progress("Restoring", quiet=as_json) as progress:
                result = put_back(
                    file,
                    _keys(invocation, identities),
                    target,
                    env=os.environ,
                    now=SystemClock().now(),
                    dry_run=dry_run,
                    progress=progress,
                    at_renames=signals.hold,
                )
        except KeyboardInterrupt:
            say(f"\nInterrupted. Nothing was restored, and {paths.home} is as it was.", err=True)
            return INTERRUPTED
    from msgspec.structs import asdict

    facts = {
        "made": result.checked.head.made,
        "places": {name: str(place) for name, place in result.places.items()},
        "moved": {name: str(place) for name, place in result.moved.items()},
        "held": asdict(result.held),
        "linksLeftOut": list(result.checked.links_left_out),
        "lacking": result.lacking,
        "outside": {name: str(copy) for name, copy in result.outside.items()},
        "keyKept": result.key_kept,
        "dryRun": dry_run,
    }
    tell(facts, restored_text(result, dry_run=dry_run, into=paths.home if into else None), as_json=as_json)
    return 128 + signals.came if signals.came else 0


@backup.command()
@_FILE
@click.option("--now", "make_one", is_flag=True, help="Make a backup now and try that out.")
@click.option("--scratch", type=click.Path(path_type=Path), help="Unpack it in this folder instead of beside the home.")
@_IDENTITY
@_JSON
@pass_invocation
def drill(
    invocation: Invocation,
    *,
    file: Path | None,
    make_one: bool,
    scratch: Path | None,
    identities: tuple[Path, ...],
    as_json: bool,
) -> int:
    """Try a backup out: restore it aside and compare everything.

    FILE is by default the newest backup, or one made now where there is none. It is opened by the code that the gateway runs, in a scratch
    folder that is deleted again. Exit code 1 if anything differs.
    """
    from gateway.cli.backup_texts import drill_text
    from gateway.cli.backup_work import drilled, to_try

    with _progress("Trying out", quiet=as_json) as progress:
        path, fresh = to_try(invocation, file, make_one=make_one, progress=progress)
        report = drilled(invocation, path, scratch=scratch, keys=_keys(invocation, identities), progress=progress)
    text = "\n".join((drill_text(report), *(_fresh_key(invocation) if fresh and not as_json else ())))
    tell(report.as_json() | {"keyMade": fresh}, text, as_json=as_json)
    return 1 if report.differences else 0


@backup.command()
@_JSON
@pass_invocation
def key(invocation: Invocation, *, as_json: bool) -> None:
    """Show the key that opens your backups.

    Keep a copy of it where this machine is not.
    """
    from gateway.backup.age_encryption import key_file, note_shown, own_recipient, secret_of

    recipient, _ = own_recipient(invocation.paths)
    note_shown(invocation.paths)
    secret = secret_of(key_file(invocation.paths))
    facts = {"file": str(key_file(invocation.paths)), "recipient": recipient, "key": secret}
    tell(facts, "\n".join(_key_lines(str(facts["file"]), secret)), as_json=as_json)


@backup.command()
@click.option("--all", "everything", is_flag=True, help="Let all of them go on.")
@_JSON
@pass_invocation
def release(invocation: Invocation, *, everything: bool, as_json: bool) -> None:
    """Show or release what is held since a restore.

    With --all, the replies are sent and the messages answered.
    """
    from gateway.cli.backup_work import held_rows, release_all

    if everything:
        facts: dict[str, Any] = release_all(invocation)
        from gateway.cli.backup_texts import counted

        replies, messages = counted(facts["replies"], "reply", "replies"), counted(facts["messages"], "message")
        tell(facts, f"{replies} will be sent, {messages} answered.", as_json=as_json)
        return
    rows = held_rows(invocation)
    lines = [
        *(f"{row['id']:>6}  message  {row['conversation']}  {row['text'][:60]}" for row in rows["messages"]),
        *(f"{row['id']:>6}  reply    {row['conversation']}  {row['text'][:60]}" for row in rows["replies"]),
    ]
    lines += [
        "One message: homebody inbox retry NUMBER. One reply: homebody outbox retry NUMBER. All: homebody backup release --all"
        if lines
        else "Nothing is held since a restore."
    ]
    tell(rows, "\n".join(lines), as_json=as_json)


def _keys(invocation: Invocation, identities: tuple[Path, ...]) -> Keys:
    from gateway.backup.age_encryption import PASSPHRASE_VARIABLE, Keys, key_file
    from gateway.base.errors import UsageError

    def ask() -> str:
        if words := os.environ.get(PASSPHRASE_VARIABLE):
            return words
        return str(click.prompt("Passphrase of the backup", hide_input=True, err=True)) if sys.stdin.isatty() else ""

    for path in identities:
        if not path.exists():
            hint = (
                "It is the file of the key that was shown at the first backup; without --identity this home's own key is taken."
            )
            raise UsageError(f"--identity names a file that does not exist: {path}", hint=hint)
    return Keys(files=identities or (key_file(invocation.paths),), passphrase=ask)


def _new_passphrase() -> str:
    from gateway.backup.age_encryption import PASSPHRASE_VARIABLE
    from gateway.base.errors import UsageError

    words = os.environ.get(PASSPHRASE_VARIABLE) or (
        str(click.prompt("Passphrase for the backup", hide_input=True, confirmation_prompt=True, err=True))
        if sys.stdin.isatty()
        else ""
    )
    if not words:
        raise UsageError("there is no passphrase", hint=f"Set {PASSPHRASE_VARIABLE}, or run the command in a terminal.")
    return words


def _facts(made: Made) -> dict[str, Any]:
    return {
        "file": str(made.path),
        "size": made.size,
        "made": made.head.made,
        "secrets": made.head.secrets,
        "files": len(made.manifest.files),
        "bytes": made.manifest.size,
        "leftOut": made.manifest.left_out,
        "changed": sorted(path for path, file in made.manifest.files.items() if file.changed),
    }


def _created(invocation: Invocation, made: Made, *, fresh: bool, checked: bool) -> Iterator[str]:
    from gateway.cli.backup_texts import counted

    yield f"{made.path} ({_size(made.size)}): {counted(len(made.manifest.files), 'file')}, {_size(made.manifest.size)}."
    yield "  Every byte was read back." if checked else "  It was not read back: its key is not on this machine."
    if not made.head.secrets:
        yield "  Keys and passwords are left out. Conversations and notes are in it, readable by whoever has the file."
    yield from _left_out(made.manifest.left_out)
    if changed := [path for path, file in made.manifest.files.items() if file.changed]:
        yield f"  Written to while they were read, so that they may be half old and half new: {', '.join(changed[:5])}"
    if fresh:
        yield from _fresh_key(invocation)


def _fresh_key(invocation: Invocation) -> Iterator[str]:
    from gateway.backup.age_encryption import key_file, note_shown, secret_of

    yield ""
    yield from _key_lines(str(key_file(invocation.paths)), secret_of(key_file(invocation.paths)))
    note_shown(invocation.paths)


def _key_lines(file: str, secret: str) -> Iterator[str]:
    yield "This key opens your backups:"
    yield f"    {secret}"
    yield "Keep a copy of it where this machine is not: in a password manager, or on paper."
    yield "Without it, nobody can open the backups on another machine, you included."
    yield f"On this machine it is in {file}"


def _left_out(left_out: dict[str, str]) -> Iterator[str]:
    """Say what is left out, by reason; what always is, in one line."""
    from gateway.backup.contents import EXPECTED

    yield "  Logs, search indexes, downloaded models, the key and the backups themselves are not in it."
    reasons: dict[str, list[str]] = {}
    for path, why in left_out.items():
        if why not in EXPECTED:
            reasons.setdefault(why, []).append(path)
    for why, paths in reasons.items():
        more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""  # noqa: PLR2004  (what a line has room for)
        yield f"  Left out ({why}): {', '.join(paths[:3])}{more}"


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "KB", "MB"):
        if size < 1000:  # noqa: PLR2004
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


@contextmanager
def _progress(doing: str, *, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Show on a terminal how far long work is."""
    shown = 0.0
    began = time.monotonic()

    def progress(files: int, count: int) -> None:
        nonlocal shown
        now = time.monotonic()
        if now - max(shown, began) >= _EVERY:
            shown = now
            click.echo(f"\r{doing}: {files} files, {_size(count)} ", nl=False, err=True)

    if quiet or not sys.stderr.isatty():
        yield lambda _files, _bytes: None
        return
    try:
        yield progress
    finally:
        if shown:
            click.echo("\r\033[K", nl=False, err=True)
