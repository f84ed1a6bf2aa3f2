"""Free time: what busy time leaves of a period, within working hours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from gateway.calendar.period import Period

Span = tuple[datetime, datetime]


def free_spans(
    period: Period, busy: Iterable[Span], least: timedelta, hours: tuple[time, time] | None, zone: ZoneInfo
) -> list[Span]:
    """Return the free spans of at least ``least`` in their order, none over midnight. ``hours`` are local; None for the whole day."""
    merged = merged_spans(busy)
    found = [span for window in _windows(period, hours, zone) for span in _left(window, merged)]
    return [(start, end) for start, end in found if end - start >= least and end > start]


def merged_spans(spans: Iterable[Span]) -> list[Span]:
    """Return spans in order, those that touch or overlap as one."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        elif end > start:
            merged.append((start, end))
    return merged


def _windows(period: Period, hours: tuple[time, time] | None, zone: ZoneInfo) -> Iterator[Span]:
    day = period.start.astimezone(zone).date()
    while (begins := _at(day, time(), zone)) < period.end:
        ends = _at(day + timedelta(days=1), time(), zone)
        if hours is not None:
            begins, ends = _at(day, hours[0], zone), _at(day, hours[1], zone) if hours[1] != time() else ends
        begins, ends = max(begins, period.start), min(ends, period.end)
        if begins < ends:
            yield begins, ends
        day += timedelta(days=1)


def _at(day: date, at: time, zone: ZoneInfo) -> datetime:
    return datetime.combine(day, at, tzinfo=zone).astimezone(UTC)


def _left(window: Span, merged: Sequence[Span]) -> Iterator[Span]:
    begins, ends = window
    for start, end in merged:
        if end <= begins or start >= ends:
            continue
        if start > begins:
            yield begins, start
        begins = max(begins, end)
    if begins < ends:
        yield begins, ends
