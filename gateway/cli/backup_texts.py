"""What ``homebody backup restore`` and ``drill`` say."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.backup.drill import Report
    from gateway.backup.restoring import Restored

_MOST = 20


def restored_text(result: Restored, *, dry_run: bool) -> str:
    """Return what was restored, or would be."""
    return "\n".join(_restored(result, dry_run=dry_run))


def _restored(result: Restored, *, dry_run: bool) -> Iterator[str]:
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
    kinds = ((held.messages, "messages"), (held.replies, "replies"), (held.unasked, "unasked"), (held.questions, "questions"))
    waits = [f"{count} {word}" for count, word in kinds if count]
    if waits:
        yield f"  Held, because they may have been dealt with since: {', '.join(waits)}. See them: homebody backup release"
    if held.jobs:
        yield f"  {held.jobs} jobs are active. Those that were due since ({held.jobs_due}) are told and not run."
    yield f"  {held.people} people may speak and {held.hooks} webhooks take calls, as then: homebody pairing list; homebody hooks list"
    yield "  Messages and mail that came since are not asked for again."
    for lacking in result.lacking:
        yield f"  Missing on this machine: {lacking}"
    if not dry_run:
        yield "Make sure that the old gateway does not run any more, then start this one: homebody gateway"


def drill_text(report: Report) -> str:
    """Return the outcome of a drill."""
    counts = report.counts
    told = ", ".join(f"{counts[name]} {name}" for name in ("transcripts", "entries", "notes", "sessions", "jobs", "files"))
    lines = [f"Restored {report.file} (of {_when(report.made)}) into a scratch folder, and opened it: {told}."]
    if not report.compared_with_home:
        lines.append("It was compared with itself alone: the home that it is from is not here.")
    if report.differences:
        lines += [f"  differs: {one}" for one in report.differences[:_MOST]]
        lines.append(f"{len(report.differences)} differences. Make a new backup and try it out: homebody backup drill --now")
    else:
        lines.append("All of it is as it was.")
    return "\n".join(lines)


def _when(moment: str) -> str:
    return f"{datetime.fromisoformat(moment):%Y-%m-%d %H:%M} UTC"
