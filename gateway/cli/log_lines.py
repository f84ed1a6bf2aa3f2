"""``homebody logs``: shows and follows the log."""

from __future__ import annotations

import json
import re
import shlex
import sys
import time
from collections import deque
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import click

from gateway.base.errors import HomebodyError, StorageFailed, UsageError
from gateway.cli.invocation import Invocation, pass_invocation, say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import tzinfo
    from pathlib import Path

    from gateway.logs.log_reader import LogFilter, LogLine, LogTail
    from gateway.settings.root import Settings

SHOWN: Final = 200
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_AGE: Final = re.compile(r"(\d{1,6})\s*([smhdw])[a-z]*")
_COLOURS: Final = {"warning": "yellow", "error": "red", "critical": "red", "debug": "bright_black"}
_SINCE_HINT: Final = "Write it like 30m, 2h, 7d, today, 2026-01-31, or '2026-01-31 18:00'."


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Go on with new lines until Ctrl-C, also when the file is rotated.")
@click.option("--session", default="", metavar="KEY", help="Only lines of this session (its key, or the end of it).")
@click.option(
    "--level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="debug",
    help="Only lines of this level and above (default: all that were logged).",
)
@click.option("--since", metavar="TIME", help=f"Only lines since then. {_SINCE_HINT}")
@click.option("--grep", metavar="PATTERN", help="Only lines that match this regular expression; capitals do not matter.")
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(0),
    help=f"Show the last N lines that match (default: {SHOWN}, with --since: all; 0: all).",
)
@click.option("--json", "as_json", is_flag=True, help="Print the lines as they are stored: one JSON object each.")
@pass_invocation
def logs(
    invocation: Invocation,
    *,
    follow: bool,
    session: str,
    level: str,
    since: str | None,
    grep: str | None,
    lines: int | None,
    as_json: bool,
) -> None:
    """Show the log of the gateway, the newest lines last, with times in your time zone. Known secrets are never shown."""
    from gateway.logs.log_reader import LogFilter, LogTail, follow_log

    invocation.need_name()
    zone, settings = _zone_and_settings(invocation)
    path = settings.logging.file if settings is not None and settings.logging.file else invocation.paths.logs / "homebody.jsonl"
    now = datetime.now(UTC)
    wanted = LogFilter(
        level=level, session=session, since=since_when(since, now, zone) if since else None, pattern=_pattern(grep)
    )
    show = _shower(invocation, settings, zone, as_json=as_json)
    most = lines if lines is not None else 0 if since else SHOWN
    try:
        with closing(LogTail(path)) as tail:
            _show_past(path, wanted, most, show, tail if follow else None)
            for line in follow_log(tail, wanted, time.sleep) if follow else ():
                show(line)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise StorageFailed.from_os(error, "read the log", path) from error


def _show_past(path: Path, wanted: LogFilter, most: int, show: Callable[[LogLine], None], tail: LogTail | None) -> None:
    from gateway.logs.log_reader import log_files, read_log

    found: Iterator[LogLine] = read_log(path, wanted, tail)
    first = next(found, None)
    if first is None:
        if tail is None:
            any_log = bool(log_files(path))
            say(f"No line of {path} matches." if any_log else f"There is no log yet ({path}); the gateway writes it.", err=True)
        return
    listed = chain([first], found)
    for line in deque(listed, maxlen=most) if most else listed:
        show(line)


def _zone_and_settings(invocation: Invocation) -> tuple[tzinfo, Settings | None]:
    """Return the owner's time zone and the settings. The log is shown also while the settings are not valid."""
    from gateway.agents.memory_stores import machine_zone, owner_zone

    try:
        settings = invocation.loaded.settings
        return owner_zone(settings.agent(settings.default_agent)), settings
    except HomebodyError:
        return machine_zone(), None


def _pattern(text: str | None) -> re.Pattern[str] | None:
    if text is None:
        return None
    try:
        return re.compile(text, re.IGNORECASE)
    except re.error as error:
        hint = f"To search for the text itself: --grep {shlex.quote(re.escape(text))}"
        raise UsageError(f"--grep {text!r} is no regular expression: {error}", hint=hint) from error


def since_when(text: str, now: datetime, zone: tzinfo) -> datetime:
    """Return the instant that a text names: an age (30m, 2h, 7d, 1w), today, yesterday, or a date with or without time.

    Raises:
        UsageError: it is none of these.
    """
    text = text.strip()
    if found := _AGE.fullmatch(text.lower()):
        return now - timedelta(seconds=int(found[1]) * _UNITS[found[2]])
    midnight = now.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
    days = {"today": 0, "yesterday": 1}.get(text.lower())
    if days is not None:
        return (midnight.replace(tzinfo=None) - timedelta(days=days)).replace(tzinfo=zone)
    try:
        found_at = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"--since {text!r} is no time", hint=_SINCE_HINT) from error
    return found_at if found_at.tzinfo is not None else found_at.replace(tzinfo=zone)


def _shower(invocation: Invocation, settings: Settings | None, zone: tzinfo, *, as_json: bool) -> Callable[[LogLine], None]:
    """Return what prints a line. Secrets that became known after it was logged are redacted too."""
    import os

    from gateway.app.dependencies import known_secrets
    from gateway.logs.redaction import Redactor, secrets_in

    secrets = secrets_in(os.environ) if settings is None else known_secrets(settings, invocation.paths, os.environ)
    redactor = Redactor(secrets)

    def show(line: LogLine) -> None:
        if as_json:
            text = redactor.text(line.text)
        else:
            from channels.common.control_characters import visible

            colours = sys.stdout.isatty()
            text = visible(redactor.text(line_text(line, zone)))
            text = _coloured(text, line) if colours else text
        click.echo(text)
        sys.stdout.flush()

    return show


def line_text(line: LogLine, zone: tzinfo) -> str:
    """Return a line for people: local time, level, what happened, then where; a traceback below, indented."""
    if not line.facts:
        return line.text
    at = line.at
    when = f"{at.astimezone(zone):%Y-%m-%d %H:%M:%S}" if at is not None else " " * 19
    facts = line.facts
    context = [str(facts[name]) for name in ("session", "channel", "turn") if facts.get(name)]
    if not facts.get("session") and facts.get("agent"):
        context.insert(0, f"agent {facts['agent']}")
    more = [f"{name}={_value(value)}" for name, value in line.more().items()]
    tail = f"  [{', '.join(context)}]" if context else ""
    parts = [when, f"{facts.get('level', '')!s:7}", str(facts.get("event", "")), *more]
    text = " ".join(parts).rstrip() + tail + f"  ({facts['logger']})" * bool(facts.get("logger"))
    below = str(facts.get("exception") or "")
    return text + "".join(f"\n    {one}" for one in below.splitlines())


def _value(value: Any) -> str:
    return value if isinstance(value, str) and value and " " not in value else json.dumps(value, ensure_ascii=False)


def _coloured(text: str, line: LogLine) -> str:
    colour = _COLOURS.get(str(line.facts.get("level")))
    return click.style(text, fg=colour) if colour else text
