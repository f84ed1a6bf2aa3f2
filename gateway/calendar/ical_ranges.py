"""Changes of a series from one instance on (``RECURRENCE-ID;RANGE=THISANDFUTURE``, RFC 5545, 3.2.13).

Such a change, a range, is one event of the text, and holds for each instance from its own on, up to the next range: they have its texts and
its length, and are as much earlier or later than the rule says as it is itself. An instance that is changed alone is outside of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta, tzinfo
from importlib import import_module
from typing import Any, Final

from gateway.calendar.ical_text import Time, ical, instant, key_of, time_of

recurring: Any = import_module("recurring_ical_events")

RANGE: Final = "THISANDFUTURE"


def is_range(event: Any) -> bool:
    """Whether an event changes one instance and all later ones."""
    written = event.get("RECURRENCE-ID")
    return written is not None and str(written.params.get("RANGE", "")).upper() == RANGE


def ranges_of(events: Iterable[Any], zone: tzinfo) -> Sequence[Any]:
    """Return the ranges among events in their order, with their parameter in the form that the library reads."""
    found = [one for one in events if is_range(one)]
    for one in found:
        one["RECURRENCE-ID"].params["RANGE"] = RANGE
    return sorted(found, key=lambda one: instant(_rid(one), zone))


def covering(ranges: Sequence[Any], original: Time, zone: tzinfo) -> Any | None:
    """Return which of the ranges, in their order, holds for the instance that the rule puts at ``original``; None for none."""
    at = instant(original, zone)
    return next((one for one in reversed(ranges) if instant(_rid(one), zone) <= at), None)


def moved_by(event: Any | None) -> timedelta:
    """Return by how much a range moves its instances from where the rule puts them; nothing where there is no range."""
    found: timedelta = timedelta() if event is None else recurring.EventAdapter(event).move_recurrences_by
    return found


def original_of(starts: Time, rid: Time, ranges: Sequence[Any]) -> Time:
    """Return where the rule puts an instance that the library tells with ``starts``, and with the ``rid`` of the first one of its range."""
    found = next((one for one in ranges if key_of(_rid(one)) == key_of(rid)), None)
    if found is None or key_of(starts) == key_of(time_of(found, "DTSTART") or starts):
        return rid
    return starts - moved_by(found)


def name_instance(event: Any, original: Time, *, later: bool = False) -> None:
    """Write which instance an event changes; with ``later`` it changes all later ones, too."""
    event.pop("RECURRENCE-ID", None)
    event.add("RECURRENCE-ID", original, parameters={"RANGE": RANGE} if later else {})


def next_original(main: Any, original: Time, changed: Sequence[Any], zone: tzinfo) -> Time | None:
    """Return where the rule puts the first instance after ``original`` that none of the ``changed`` events changes by itself.

    None where there is none before the next range.
    """
    alone = ical.Calendar()
    alone.add_component(main)
    at = instant(original, zone)
    own = {key_of(_rid(one)) for one in changed}
    ends = [instant(_rid(one), zone) for one in changed if is_range(one) and instant(_rid(one), zone) > at]
    for one in recurring.CalendarQuery(alone).after(original):
        starts: Time = one["DTSTART"].dt
        if ends and instant(starts, zone) >= min(ends):
            return None
        if instant(starts, zone) > at and key_of(starts) not in own:
            return starts
    return None


def _rid(event: Any) -> Any:
    return time_of(event, "RECURRENCE-ID")
