"""Writes events and free time as lines for a model and for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from zoneinfo import ZoneInfo

from gateway.calendar.calendar_source import Event
from gateway.calendar.free_time import Span
from gateway.calendar.period import Period, day_in_words, instant_of, span_in_words

MOST_NOTES = 4000


def listed(events: Sequence[Event], period: Period, zone: ZoneInfo, now: datetime, most: int) -> str:
    """Return events by day, each with its id, in at most ``most`` characters."""
    lines: list[str] = []
    left, day = most - 200, None
    for number, one in enumerate(events):
        begins = max(instant_of(one.instance["start"], zone), period.start).astimezone(zone).date()
        new = [f"{day_in_words(begins, now)}:"] if begins != day else []
        new.append(f"- {_time_of(one, zone, begins)} {line_of(one, zone)}")
        left -= sum(len(line) + 1 for line in new)
        if left < 0:
            return "\n".join([*lines, f"… and {len(events) - number} more; ask for less time."])
        lines += new
        day = begins
    return "\n".join(lines) or f"Nothing from {_day(period.start, zone, now)} to {_day(period.end, zone, now, last=True)}."


def line_of(one: Event, zone: ZoneInfo) -> str:
    """Return an event in one line, without its time."""
    instance = one.instance
    facts = [instance["title"] or "(no title)", instance["place"], one.calendar.name]
    facts += [instance["status"].lower()] if instance["status"] in {"CANCELLED", "TENTATIVE"} else []
    facts += ["not busy"] if not instance["busy"] else []
    facts += ["repeated"] if instance["rid"] else []
    facts += ["with others"] if one.concerns_others else []
    return " | ".join([*filter(None, facts), str(one.reference(zone))])


def shown(one: Event, zone: ZoneInfo, now: datetime) -> str:
    """Return all that is known of an event."""
    instance = one.instance
    facts = {
        "when": span_in_words(instance, zone, now) + (f" ({zone.key})" if "T" in instance["start"] else ""),
        "calendar": one.calendar.name,
        "place": instance["place"],
        "repeats": instance["rule"],
        "written in the zone": instance["zone"] if instance["zone"] not in {"", zone.key} else "",
        "status": instance["status"].lower(),
        "organizer": instance["organizer"],
        "people": ", ".join(instance["people"]),
        "alarms": ", ".join(f"{datetime.fromisoformat(at).astimezone(zone):%a %d %b %H:%M}" for at in instance["alarms"]),
        "id": str(one.reference(zone)),
        "notes": instance["notes"][:MOST_NOTES],
    }
    return "\n".join([instance["title"] or "(no title)", *(f"{name}: {value}" for name, value in facts.items() if value)])


def span_lines(spans: Sequence[Span], zone: ZoneInfo, now: datetime) -> list[str]:
    """Return spans by day."""
    days: dict[date, list[str]] = {}
    for start, end in spans:
        begins, ends = start.astimezone(zone), end.astimezone(zone)
        hours = f"{begins:%H:%M}–{ends:%H:%M}" if ends.date() == begins.date() else f"{begins:%H:%M}–24:00"
        days.setdefault(begins.date(), []).append(hours)
    return [f"- {day_in_words(day, now)}: {', '.join(hours)}" for day, hours in days.items()]


def _time_of(one: Event, zone: ZoneInfo, day: date) -> str:
    instance = one.instance
    if "T" not in instance["start"]:
        return "all day"
    start, end = (instant_of(instance[name], zone).astimezone(zone) for name in ("start", "end"))
    if start.date() == end.date() == day:
        return f"{start:%H:%M}" + (f"–{end:%H:%M}" if end > start else "")
    return f"{start:%d %b %H:%M}–{end:%d %b %H:%M}"


def _day(at: datetime, zone: ZoneInfo, now: datetime, *, last: bool = False) -> str:
    local = at.astimezone(zone)
    midnight = (local.hour, local.minute) == (0, 0)
    if last and midnight:
        local = datetime.fromordinal(local.toordinal() - 1)
    return day_in_words(local, now) + ("" if midnight else f" {local:%H:%M}")
