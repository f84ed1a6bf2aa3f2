"""The process that reads and writes iCalendar: foreign input to large parsers, and rules that can be made so that they never end.

Reads one JSON object with ``do`` ("instances", "create", "change" or "cancel") and writes one: what is returned, or ``{"refused": why}``
where an event cannot be changed as asked. Each series has a limit of CPU time of its own; one that passes it is named as broken.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import IO, Any, Final
from zoneinfo import ZoneInfo

from gateway.calendar.ical_changes import Edit, create
from gateway.calendar.ical_instances import instances
from gateway.calendar.ical_text import Broken, Series, series_in
from gateway.calendar.ical_wish import Setting, Unchangeable

SERIES_SECONDS: Final = 1.0
"""CPU time of one series."""
AGAIN_SECONDS: Final = 0.2
"""CPU time after which it is ended once more."""
SLOW_SERIES: Final = 5
"""After so many series that took too long, the others of that kind are not tried any more, but for a moment each."""
MAX_CPU: Final = 40
"""CPU time of the process, in seconds."""
MAX_MEMORY: Final = 768 * 1024 * 1024
MOST: Final = 5000
"""Instances that are returned, the earliest ones."""
MOST_BROKEN: Final = 50
_MARGIN: Final = timedelta(days=2)


class TookTooLong(BaseException):
    """The CPU time of a series is used up. The libraries take any Exception for a text that cannot be read."""


@contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    """Raise TookTooLong in what takes more CPU time than this; again, where it was raised in a finalizer, which loses it."""

    def over(_number: int, _frame: object) -> None:
        raise TookTooLong

    former = signal.signal(signal.SIGVTALRM, over)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, AGAIN_SECONDS)
    try:
        yield
    finally:
        while signal.getitimer(signal.ITIMER_VIRTUAL)[0]:
            with suppress(TookTooLong):
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, former)


def listed(order: Mapping[str, Any]) -> dict[str, Any]:
    """Return the instances of all ``objects`` between ``start`` and ``end``, and which events cannot be read, and why."""
    zone = ZoneInfo(order["zone"])
    start, end = (datetime.fromisoformat(order[name]) for name in ("start", "end"))
    found: list[dict[str, Any]] = []
    broken: list[dict[str, str]] = []
    slow = 0
    for number, text in enumerate(order["objects"]):
        for series in series_in(text):
            if _is_elsewhere(series, start, end):
                continue
            why = ""
            try:
                with cpu_limit(SERIES_SECONDS if slow < SLOW_SERIES else SERIES_SECONDS / 20):
                    made = instances(series.events(), start, end, zone, order.get("mine", ""))
                found += [{**one, "uid": series.uid, "object": number} for one in made]
            except Broken as error:
                why = str(error)
            except (TookTooLong, MemoryError, RecursionError):
                slow += 1
                why = "it repeats so often that working it out takes too long"
            if why:
                broken.append({"title": series.title, "why": why})
    found.sort(key=lambda one: (one["start"], one["title"]))
    return {
        "instances": found[:MOST],
        "left_out": max(0, len(found) - MOST),
        "broken": broken[:MOST_BROKEN],
        "more_broken": max(0, len(broken) - MOST_BROKEN),
    }


def _is_elsewhere(series: Series, start: datetime, end: datetime) -> bool:
    """Whether a glance at the text of a single event shows that it is outside of the period; feeds hold many."""
    if series.problem or len(series.parts) != 1 or "\nRRULE" in series.parts[0] or "\nRDATE" in series.parts[0]:
        return False
    days: dict[str, str] = {}
    for line in series.parts[0].split("\n"):
        name = line[:7].upper().partition(";")[0].partition(":")[0]
        if name in {"DTSTART", "DTEND"} and name not in days:
            days[name] = line.rpartition(":")[2].strip()[:8]
    first, last = days.get("DTSTART", ""), days.get("DTEND", "")
    if not (first.isdecimal() and len(first) == 8):  # noqa: PLR2004 -- a day
        return False
    if first > f"{end.astimezone(UTC) + _MARGIN:%Y%m%d}":
        return True
    return last.isdecimal() and len(last) == 8 and last < f"{start.astimezone(UTC) - _MARGIN:%Y%m%d}"  # noqa: PLR2004 -- likewise


def changed(order: Mapping[str, Any]) -> dict[str, Any]:
    """Do one of "create", "change" and "cancel"."""
    setting = Setting(ZoneInfo(order["zone"]), datetime.fromisoformat(order["now"]), order.get("wish") or {})
    try:
        with cpu_limit(SERIES_SECONDS * 5):
            if order["do"] == "create":
                return {"text": create(setting, order["uid"])}
            edit = Edit(order["text"], order["instance"], setting)
            if order["do"] == "change":
                return edit.change(order["scope"], order["new_uid"])
            return {"text": edit.cancel(order["scope"])}
    except (Unchangeable, Broken, OverflowError) as error:
        return {"refused": str(error)}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        return {"refused": f"its text is made so that it cannot be changed ({' '.join(str(error).split())[:160]})"}
    except (TookTooLong, MemoryError, RecursionError):
        return {"refused": "it repeats so often that changing it takes too long"}


def main(given: IO[bytes], told: IO[str]) -> None:
    """Answer one order, within limits on memory and time."""
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU, MAX_CPU + 1))
    if sys.platform != "darwin":  # which knows the limit and does not keep it
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    warnings.simplefilter("ignore")
    order = json.loads(given.read())
    json.dump(listed(order) if order["do"] == "instances" else changed(order), told, ensure_ascii=True)


if __name__ == "__main__":
    main(sys.stdin.buffer, sys.stdout)
