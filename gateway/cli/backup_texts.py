"""What ``homebody backup restore`` and ``drill`` say."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from gateway.backup.age_encryption import KEY_NAME

if TYPE_CHECKING:
    from pathlib import Path

    from gateway.backup.drill import Report
    from gateway.backup.restoring import Restored

_MOST = 20


def counted(number: int, what: str, several: str = "") -> str:
    """Return a number with its noun."""
    return f"{number:,} {what if number == 1 else several or f'{what}s'}"


def restored_text(result: Restored, *, dry_run: bool, into: Path | None = None) -> str:
    """Return what was restored, or would be. ``into``: another home, which the commands then name."""
    command = f"homebody {shlex.join(['--home', str(into)])}" if into else "homebody"
    return "\n".join(_restored(result, command, dry_run=dry_run))


def _restored(result: Restored, command: str, *, dry_run: bool) -> Iterator[str]:
    checked, held = result.checked, result.held
    would = "would be " if dry_run else ""
    if dry_run:
        yield "Nothing was changed."
    yield f"The backup of {_when(checked.head.made)} is whole: {len(checked.manifest.files)} files."
    for name, place in result.places.items():
        moved = result.moved.get(str(place))
        yield f"  {name} {would or 'is '}restored to {place}" + (
            f"; what was there {would or 'is '}kept as {moved}" if moved else ""
        )
    if checked.links_left_out:
        yield f"  Links that lead outside are left out: {', '.join(checked.links_left_out[:_MOST])}"
    kinds = (
        (held.messages, "message", ""),
        (held.replies, "reply", "replies"),
        (held.unasked, "unasked message", ""),
        (held.questions, "question", ""),
    )
    waits = [counted(count, *words) for count, *words in kinds if count]
    if waits:
        yield f"  Held, because they may have been dealt with since: {', '.join(waits)}. See them: {command} backup release"
    if held.jobs:
        due = f", of which {held.jobs_due} may have run since: told at the start, and not run" if held.jobs_due else ""
        yield f"  {counted(held.jobs, 'active job')}{due}."
    people, hooks = (
        counted(held.people, "person may speak", "people may speak"),
        counted(held.hooks, "webhook takes", "webhooks take"),
    )
    yield f"  {people} and {hooks} calls, as then: {command} pairing list; {command} hooks list"
    yield "  Messages and mail that came since are not asked for again."
    for name, copy in result.outside.items():
        yield f"  {name} is not on this machine: the settings {'would ' if dry_run else ''}name its copy {copy}"
    if result.key_kept:
        yield f"  The key is kept in {result.places['home'] / KEY_NAME}: later backups are made for it, too."
    for lacking in result.lacking:
        yield f"  Missing on this machine: {lacking}"
    if not dry_run:
        yield f"Make sure that the old gateway does not run any more, then start this one: {command} start"


def drill_text(report: Report) -> str:
    """Return the outcome of a drill."""
    counts = report.counts
    transcripts = f"{counted(counts['transcripts'], 'transcript')} with {counted(counts['entries'], 'entry', 'entries')}"
    text = ", ".join((transcripts, *(counted(counts[f"{name}s"], name) for name in ("note", "session", "job", "file"))))
    lines = [f"Restored {report.file} (of {_when(report.made)}) into a scratch folder, and opened it: {text}."]
    if not report.compared_with_home:
        lines.append("It was compared with itself alone: the home that it is from is not here.")
    if report.differences:
        lines += [f"  differs: {one}" for one in report.differences[:_MOST]]
        lines.append(
            f"{counted(len(report.differences), 'difference')}. Make a new backup and try it out: homebody backup drill --now"
        )
    else:
        lines.append("All of it is as it was.")
    return "\n".join(lines)


def _when(moment: str) -> str:
    return f"{datetime.fromisoformat(moment):%Y-%m-%d %H:%M} UTC"
