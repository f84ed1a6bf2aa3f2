"""``homebody doctor`` and ``homebody security audit``: what is wrong, why it matters, and what mends it."""

from __future__ import annotations

import asyncio
import os
import sys
import textwrap
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, Final

import click

from gateway.base.errors import FAILED, OK, UsageError
from gateway.cli.invocation import Invocation, pass_invocation, say
from gateway.cli.invocation import tell as tell_facts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gateway.doctor.checked_installation import Installation
    from gateway.doctor.examination import Mended
    from gateway.doctor.finding import Check, Finding

_FIX = click.option("--fix", is_flag=True, help="Mend what is safe to mend, and say each thing that was done.")
_MEND = click.option(
    "--mend",
    "wanted",
    multiple=True,
    metavar="ID",
    help="Mend this finding alone (its id in --json); may be given several times.",
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_ONLY = click.option("--only", multiple=True, metavar="CHECK", help="Make this check alone; may be given several times.")
_WORDS: Final = {"ok": "ok", "note": "note", "warning": "WARNING", "error": "ERROR"}
_COLOURS: Final = {"ok": "green", "note": "cyan", "warning": "yellow", "error": "red"}
_LEAST_WIDTH: Final = 60
_MOST_WIDTH: Final = 120


@click.command()
@_FIX
@click.option("--offline", is_flag=True, help="Ask no other machine: no model provider, no chat platform, no name server.")
@_ONLY
@_MEND
@_JSON
@pass_invocation
def doctor(
    invocation: Invocation, *, fix: bool, offline: bool, only: tuple[str, ...], wanted: tuple[str, ...], as_json: bool
) -> int:
    """Find out what is wrong: settings, files, memory, keys, channels, network, clock and more. Exit code 1 for an error.

    Each key of a model provider is tested with one short request, which costs a few tokens (not with --offline). Works with and
    without a running gateway. --fix changes nothing in notes and conversations. How open the gateway is: homebody security audit
    """
    from gateway.doctor.checks import CHECKS

    invocation.may_be_restoring = invocation.may_be_of_another = True
    if wanted and not only:  # an id begins with the name of its check
        names = {check.name for check in CHECKS}
        only = tuple(dict.fromkeys(name for one in wanted if (name := one.rpartition("-")[0]) in names))
    if wanted and not only:
        raise UsageError(f"there is no finding {wanted[0]!r}", hint="`homebody doctor --json` shows the ids.")
    return _run(
        invocation,
        CHECKS,
        only,
        fix=fix or bool(wanted),
        offline=offline,
        as_json=as_json,
        command="homebody doctor",
        wanted=wanted,
    )


@click.group()
def security() -> None:
    """Check how open the gateway is to others."""


@security.command()
@_FIX
@_ONLY
@_JSON
@pass_invocation
def audit(invocation: Invocation, fix: bool, only: tuple[str, ...], as_json: bool) -> int:
    """Find out who can reach the gateway, what agents may do without asking, and where secrets are. Exit code 1 for an error.

    No other machine is asked. --fix takes rights of other users off your files of secrets, and changes nothing else.
    """
    from gateway.doctor.security.audit import AUDIT

    return _run(invocation, AUDIT, only, fix=fix, offline=True, as_json=as_json, command="homebody security audit")


def _run(
    invocation: Invocation,
    checks: Sequence[Check],
    only: tuple[str, ...],
    *,
    fix: bool,
    offline: bool,
    as_json: bool,
    command: str,
    wanted: tuple[str, ...] = (),
) -> int:
    from gateway.doctor.examination import examine, examine_and_mend
    from gateway.doctor.finding import counted

    chosen = _chosen(checks, only, command)
    installation, progress = installation_of(invocation, offline=offline), _Progress()

    def tell(mended: Mended) -> None:
        progress.end()
        if not as_json:
            say(f"mended: {mended.done}." if mended.done else f"not mended: {mended.finding.what}: {mended.failed}")

    async def work() -> tuple[list[Finding], list[Mended]]:
        if fix:
            return await examine_and_mend(installation, chosen, tell, progress.show, wanted)
        return await examine(installation, chosen, progress.show), []

    findings, mended = asyncio.run(work())
    progress.end()
    counts = counted(findings)
    facts = {
        "ok": not counts["error"],
        "counts": counts,
        "findings": [finding.as_json() for finding in findings],
        "mended": [one.as_json() for one in mended],
    }
    if as_json:
        tell_facts(facts, "", as_json=True)
    else:
        if wanted and not mended:
            say(f"Nothing was mended: {', '.join(wanted)} is not found (any more), or nothing is done about it by itself.")
        _print(findings)
        say(_summary(findings, counts, command))
    return FAILED if counts["error"] else OK


def installation_of(invocation: Invocation, *, offline: bool) -> Installation:
    """Return what the checks look at."""
    from gateway.doctor.checked_installation import Installation

    return Installation(paths=invocation.paths, env=os.environ, cwd=Path.cwd(), offline=offline)


def _chosen(checks: Sequence[Check], only: tuple[str, ...], command: str) -> Sequence[Check]:
    names = [check.name for check in checks]
    if unknown := next((name for name in only if name not in names), None):
        raise UsageError(f"there is no check {unknown!r}", hint=f"{command} has: {', '.join(names)}.")
    return [check for check in checks if not only or check.name in only]


class _Progress:
    """One line on a terminal that says how far it is, and what it waits for."""

    def __init__(self) -> None:
        self._shown = False

    def show(self, done: int, count: int, left: Sequence[str]) -> None:
        if not sys.stderr.isatty():
            return
        text = f"{done} of {count} checks" + (f"; waiting for {', '.join(left)}" if left else "")
        width = get_terminal_size().columns - 1
        sys.stderr.write(f"\r\x1b[K{text[:width]}")
        sys.stderr.flush()
        self._shown = True

    def end(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
        self._shown = False


def _print(findings: Iterable[Finding]) -> None:
    """Print what is well first and what is worst last, where it is seen."""
    from gateway.doctor.finding import LEVELS

    listed = sorted(findings, key=lambda one: LEVELS.index(one.level))
    for finding in listed:
        for line in lines_of(
            finding, width=min(_MOST_WIDTH, max(_LEAST_WIDTH, get_terminal_size().columns)), colour=_coloured()
        ):
            click.echo(line)


def _coloured() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def lines_of(finding: Finding, *, width: int, colour: bool = False) -> list[str]:
    """Return a finding as lines: what it is, and below it why that matters and what mends it. A command is never broken."""
    from gateway.base.errors import as_started

    word = f"{_WORDS[finding.level]:8}"
    shown = click.style(word, fg=_COLOURS[finding.level]) if colour else word
    place = f"{finding.where}: " if finding.where else ""
    head = _wrapped(f"{finding.check}: {place}{finding.what}", width)
    lines = [f"{shown}{head[0]}", *(f"        {line}" for line in head[1:])]
    if finding.level == "ok":
        return lines
    lines += [f"        {line}" for line in _wrapped(finding.why, width)]
    return lines + ([f"        Mend: {as_started(finding.mend)}"] if finding.mend else [])


def _wrapped(text: str, width: int) -> list[str]:
    from channels.common.control_characters import visible

    return textwrap.wrap(visible(" ".join(text.split())), width - 8, break_long_words=False, break_on_hyphens=False)


def _summary(findings: Sequence[Finding], counts: dict[Any, int], command: str) -> str:
    counted = [_many(counts[level], level) for level in ("error", "warning", "note") if counts[level]]
    text = f"\n{', '.join(counted)}." if counted else "\nNothing is wrong."
    mendable = [f"{_WORDS[finding.level]} {finding.check}" for finding in findings if finding.fix is not None]
    return f"{text} {command} --fix mends {', '.join(dict.fromkeys(mendable))}." if mendable else text


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
