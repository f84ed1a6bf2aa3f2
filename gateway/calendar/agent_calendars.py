"""The calendars of one agent: looks into all its accounts, and answers its tool."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import time, timedelta
from typing import Final, TypeVar
from zoneinfo import ZoneInfo

from agent.errors import CalendarFailed
from agent.taint import source
from agent.tools.arguments import failed
from agent.tools.calendar_tool import CalendarArguments
from agent.tools.protocol import Act, Outcome, ToolContext
from gateway.calendar.calendar_source import CalendarSource, Event, Reading
from gateway.calendar.edits import CalendarEdits
from gateway.calendar.event_lines import listed, shown, span_lines
from gateway.calendar.free_time import free_spans, merged_spans
from gateway.calendar.period import Period, instant_of, period_of
from gateway.calendar.references import read_reference

SOURCE: Final = "calendar"
WEEK: Final = 7
SEARCHED: Final = (timedelta(days=31), timedelta(days=365))
"""How far back and ahead a search looks that names no time."""
MOST_CONTACTS: Final = 20
PATIENCE: Final = 120.0
"""Seconds that a preview waits."""
_LEAST_FREE: Final = 30
"""Minutes of a free span unless a call says otherwise."""

Found = TypeVar("Found")


class AgentCalendars:
    """Implements ``agent.tools.calendar_tool.Calendars``. ``hours`` are those in which free time is looked for.

    Made in the event loop that the fetcher belongs to. ``changed`` is called after events were changed.
    """

    def __init__(
        self,
        sources: Sequence[CalendarSource],
        edits: CalendarEdits,
        zone: ZoneInfo,
        hours: tuple[time, time],
        *,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._sources = sources
        self._edits = edits
        self._zone = zone
        self._hours = hours
        self._changed = changed
        self._loop = asyncio.get_running_loop()

    async def perform(self, wish: CalendarArguments, context: ToolContext) -> Outcome:
        """See ``agent.tools.calendar_tool.Calendars``."""
        try:
            return await self._performed(wish, context)
        except CalendarFailed as error:
            if not error.quotes:
                raise
            told = failed(str(error), error.hint)
            return Outcome(text=told.text, is_error=True, sources=_named([one.account.name for one in self._sources]))

    async def _performed(self, wish: CalendarArguments, context: ToolContext) -> Outcome:
        do = {
            "list": self._list,
            "free": self._free,
            "search": self._search,
            "show": self._show,
            "calendars": self._calendars,
            "contacts": self._contacts,
        }.get(wish.action)
        if do is not None:
            return await do(wish, context)
        text, used = await self._edits.perform(wish, context)
        self._changed()
        return Outcome(text=text, sources=_named(used))

    def preview(self, wish: CalendarArguments, context: ToolContext) -> Act | None:
        """See ``agent.tools.calendar_tool.Calendars``."""
        return asyncio.run_coroutine_threadsafe(self._edits.preview(wish, context), self._loop).result(PATIENCE)

    async def _list(self, wish: CalendarArguments, context: ToolContext) -> Outcome:
        period = period_of(wish.start, wish.end, self._zone, context.now, days=WEEK)
        reading = await self._read(period, wish.calendar or "")
        return self._reading_outcome(listed(reading.events, period, self._zone, context.now, context.max_chars), reading)

    async def _search(self, wish: CalendarArguments, context: ToolContext) -> Outcome:
        period = Period(context.now - SEARCHED[0], context.now + SEARCHED[1])
        if wish.start is not None or wish.end is not None:
            period = period_of(wish.start, wish.end, self._zone, context.now, days=WEEK)
        reading = await self._read(period, wish.calendar or "")
        words = (wish.text or "").casefold().split()
        found = [one for one in reading.events if all(word in _text_of(one) for word in words)]
        return self._reading_outcome(
            listed(found, period, self._zone, context.now, context.max_chars), replace(reading, events=found)
        )

    async def _free(self, wish: CalendarArguments, context: ToolContext) -> Outcome:
        period = period_of(wish.start, wish.end, self._zone, context.now, days=WEEK)
        reading = await self._read(period, wish.calendar or "")
        counted = [one for one in reading.events if one.instance["busy"] and one.instance["status"] != "CANCELLED"]
        busy = [one for one in counted if "T" in one.instance["start"]]
        spans = [tuple(instant_of(one.instance[name], self._zone) for name in ("start", "end")) for one in busy]
        hours = self._hours if period.whole or period.end - period.start > timedelta(days=1) else None
        least = timedelta(minutes=_LEAST_FREE if wish.minutes is None else wish.minutes)
        merged = merged_spans((start, end) for start, end in spans)
        free = free_spans(period, merged, least, hours, self._zone)
        within = f" between {hours[0]:%H:%M} and {hours[1]:%H:%M}" if hours is not None else ""
        unsure = [*reading.unread, *reading.problems]
        known = " as far as could be read" if unsure else ""
        lines = [*unsure, "Some of the time below may be taken by what was not read.", ""] if unsure else []
        lines += [f"Free{known}{within}, at least {int(least.total_seconds()) // 60} minutes ({self._zone.key}):"]
        lines += span_lines(free, self._zone, context.now) or ["nothing"]
        others = [one for one in counted if "T" not in one.instance["start"]]
        lines += ["", "Busy:", listed(busy, period, self._zone, context.now, context.max_chars // 2)] if busy else []
        lines += ["", "All day, not counted:", listed(others, period, self._zone, context.now, 2000)] if others else []
        return self._reading_outcome("\n".join(lines), Reading(events=reading.events))

    async def _show(self, wish: CalendarArguments, context: ToolContext) -> Outcome:
        found = await self._edits.find(read_reference(wish.event or ""))
        return Outcome(text=shown(found, self._zone, context.now), sources=_named([found.account.name]))

    async def _calendars(self, _wish: CalendarArguments, _context: ToolContext) -> Outcome:
        lines, problems = [], []
        for one, found in await self._each(lambda source: source.calendars()):
            if isinstance(found, CalendarFailed):
                problems.append(_told_problem(found))
                continue
            names = [f"{calendar.name}{'' if calendar.writable else ' (read only)'}" for calendar in found]
            lines.append(f"{one.account.name}: {', '.join(names)}")
        return Outcome(text="\n".join([*lines, *problems]), sources=_named([one.account.name for one in self._sources]))

    async def _contacts(self, wish: CalendarArguments, _context: ToolContext) -> Outcome:
        with_contacts = [one for one in self._sources if one.account.contacts]
        if not with_contacts:
            raise CalendarFailed("no account has contacts", hint="the owner can set calendar.accounts.NAME.contacts to true")
        lines, problems = [], []
        for _, found in await self._each(lambda source: source.contacts(), with_contacts):
            if isinstance(found, CalendarFailed):
                problems.append(_told_problem(found))
            else:
                lines += [one.line() for one in found if one.matches(wish.text or "")]
        shown_lines = sorted(set(lines))[:MOST_CONTACTS]
        more = [f"… and {len(set(lines)) - MOST_CONTACTS} more"] if len(set(lines)) > MOST_CONTACTS else []
        nobody = [] if lines else [f"Nobody{' that could be read' if problems else ''} matches {wish.text!r}."]
        text = "\n".join([*problems, *shown_lines, *more, *nobody])
        return Outcome(text=text, sources=_named([one.account.name for one in with_contacts]))

    async def _read(self, period: Period, calendar: str) -> Reading:
        events: list[Event] = []
        problems: list[str] = []
        failures: list[CalendarFailed] = []
        await self._refuse_unknown(calendar)
        for _, found in await self._each(lambda source: source.read(period.start, period.end, self._zone, calendar)):
            if isinstance(found, CalendarFailed):
                failures.append(found)
            else:
                events += found.events
                problems += found.problems
        if len(failures) == len(self._sources):
            raise failures[0]
        events.sort(key=lambda one: (instant_of(one.instance["start"], self._zone), one.instance["title"]))
        return Reading(events=events, problems=problems, unread=[_told_problem(one) for one in failures])

    async def _refuse_unknown(self, calendar: str) -> None:
        """Refuse the name of a calendar that no account has, as nothing in it would look like free time."""
        if not calendar:
            return
        named = [found for _, found in await self._each(lambda source: source.calendars_named(calendar))]
        if any(isinstance(found, CalendarFailed) or found for found in named):
            return
        there = [one.name for source in self._sources for one in await source.calendars()]
        raise CalendarFailed(f"there is no calendar {calendar!r}", hint=f"there is: {', '.join(there)}", quotes=True)

    async def _each(
        self, do: Callable[[CalendarSource], Awaitable[Found]], sources: Sequence[CalendarSource] | None = None
    ) -> list[tuple[CalendarSource, Found | CalendarFailed]]:
        """Ask all sources at once; of one that fails, the failure is the answer."""

        async def one(source: CalendarSource) -> tuple[CalendarSource, Found | CalendarFailed]:
            try:
                return source, await do(source)
            except CalendarFailed as error:
                return source, error

        return list(await asyncio.gather(*(one(source) for source in (self._sources if sources is None else sources))))

    def _reading_outcome(self, text: str, reading: Reading) -> Outcome:
        unread = [*reading.unread, ""] if reading.unread else []
        lines = [*unread, text, *([""] if reading.problems else []), *reading.problems]
        return Outcome(text="\n".join(lines), sources=_named([one.account.name for one in self._sources]))


def _named(accounts: Sequence[str]) -> tuple[str, ...]:
    return tuple(source(SOURCE, name) for name in dict.fromkeys(accounts))


def _text_of(event: Event) -> str:
    one = event.instance
    return " ".join((one["title"], one["place"], one["notes"], *one["people"], one["organizer"])).casefold()


def _told_problem(error: CalendarFailed) -> str:
    return f"Not read: {error}." + (f" ({error.hint})" if error.hint else "")
