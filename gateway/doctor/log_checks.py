"""Checks the log of the last day for errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from gateway.doctor.checked_installation import Installation
from gateway.doctor.finding import Check, Finding, ok
from gateway.logs.log_reader import LogFilter, log_files, read_log
from gateway.logs.log_setup import LOG_NAME

_LONGEST: Final = 160


def _examine(installation: Installation) -> Iterator[Finding]:
    settings = installation.valid_settings
    path = settings.logging.file if settings is not None and settings.logging.file else installation.paths.logs / LOG_NAME
    if not log_files(path):
        yield ok("there is no log yet")
        return
    wanted = LogFilter(level="error", since=datetime.now(UTC) - timedelta(days=1))
    events = Counter(str(line.facts.get("event", "")) for line in read_log(path, wanted))
    if not events:
        yield ok("no errors were logged in the last day")
        return
    text, count = events.most_common(1)[0]
    errors = "1 error was" if (total := sum(events.values())) == 1 else f"{total} errors were"
    what = f"{errors} logged in the last day; most often ({count}): {' '.join(text.split())[:_LONGEST]}"
    yield Finding(level="note", what=what, where=str(path), mend="homebody logs --level error --since 1d")


LOGS = Check(name="logs", examine=_examine, seconds=30.0)
