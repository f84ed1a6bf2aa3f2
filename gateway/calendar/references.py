"""Ids of events as agents use them: short, the same after a restart, and with the time that was shown.

``k3f9ab-20260203T1000`` is an event that begins on 3 February at 10:00 in the owner's time; without a time it lasts whole days. So an id
says which instance of a series is meant, where to look for it, and what a person who approved a change of it was shown.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

from agent.errors import CalendarFailed
from gateway.calendar.period import instant_of

_FORM: Final = re.compile(r"([a-z2-7]{7})-(\d{8})(?:t(\d{4}))?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Reference:
    """An id, taken apart: the event, and the local time at which its instance begins; a day where it lasts whole days."""

    event: str
    begins: date | datetime

    def __str__(self) -> str:
        """Return the id."""
        return f"{self.event}-{self.begins:{'%Y%m%dT%H%M' if isinstance(self.begins, datetime) else '%Y%m%d'}}"


def event_key(account: str, uid: str) -> str:
    """Return the part of an id that names the event."""
    digest = hashlib.sha256(f"{account}\0{uid}".encode()).digest()
    return base64.b32encode(digest).decode("ascii")[:7].lower()


def reference_of(account: str, instance: Mapping[str, Any], zone: ZoneInfo) -> Reference:
    """Return the id of an instance."""
    start = instance["start"]
    begins = (
        instant_of(start, zone).astimezone(zone).replace(tzinfo=None, second=0) if "T" in start else date.fromisoformat(start)
    )
    return Reference(event_key(account, instance["uid"]), begins)


def read_reference(text: str) -> Reference:
    """Take an id apart. Raises CalendarFailed for what is none."""
    found = _FORM.fullmatch(text.strip().strip("()[]`"))
    try:
        if found is not None:
            day, time = found[2], found[3]
            begins = datetime.strptime(f"{day}{time}", "%Y%m%d%H%M") if time else date.fromisoformat(day)  # noqa: DTZ007 -- local
            return Reference(found[1].lower(), begins)
    except ValueError:
        pass
    raise CalendarFailed(
        f"{text[:60]!r} is no id of an event", hint="list and search tell the ids, such as k3f9abc-20260203T1000"
    )
