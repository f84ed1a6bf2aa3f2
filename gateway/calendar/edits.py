"""Creates, changes and cancels events on their servers, once, however often a call is made."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Any, Final
from urllib.parse import urljoin
from zoneinfo import ZoneInfo

from agent.errors import CalendarFailed
from agent.tools.calendar_tool import CalendarArguments
from agent.tools.protocol import Act, ToolContext
from gateway.calendar.calendar_source import CalendarSource, Event
from gateway.calendar.dav_client import Collection
from gateway.calendar.ical_process import CalendarProcess
from gateway.calendar.other_zones import on_day, zone_written_in
from gateway.calendar.period import begin_in_words, midnight, span_in_words
from gateway.calendar.references import Reference, event_key, read_reference
from gateway.calendar.wish_check import check_wish
from gateway.calendar.wish_words import begins_of, details_of, local_time, wished_time

WISHED: Final = ("start", "end", "title", "place", "notes", "repeat")
_DAY: Final = timedelta(days=1)
_REMEMBERED: Final = 100
"""Calls that would do nothing, as far as they are remembered until they are made."""
_SCOPES: Final = {"one": "this one alone", "following": "this and all later ones", "all": "all of the series"}
_OTHERS: Final = "others take part, and the server may send them a message"


@dataclass(frozen=True, slots=True)
class Target:
    """Where a new event goes."""

    source: CalendarSource
    calendar: Collection


class CalendarEdits:
    """Changes in the calendars of ``sources``. Methods raise CalendarFailed."""

    def __init__(self, sources: Sequence[CalendarSource], process: CalendarProcess, zone: ZoneInfo, agent: str) -> None:
        self._sources = sources
        self._process = process
        self._zone = zone
        self._agent = agent
        self._nothing: dict[str, CalendarFailed] = {}

    async def perform(self, wish: CalendarArguments, context: ToolContext) -> tuple[str, Sequence[str]]:
        """Do what a complete call asks; return what was done, and the accounts from which text is in that."""
        check_wish(wish, self._zone)
        nothing = self._nothing.pop(self._call_key(context), None)
        if nothing is not None and wish.action == "create":
            raise nothing
        if wish.action == "create":
            return await self._create(wish, context), ()
        reference = read_reference(wish.event or "")
        found = await self._found_or_done(reference, wish, context)
        if isinstance(found, str):
            return found, [one.account.name for one in self._sources]
        if nothing is not None:
            if wish.action == "change" and await self._is_so(found, wish, context):
                return self._already(found, context), [found.account.name]
            raise nothing
        self._refuse_read_only(found)
        text = await (self._change(found, wish, context) if wish.action == "change" else self._cancel(found, wish, context))
        return text, [found.account.name]

    async def preview(self, wish: CalendarArguments, context: ToolContext) -> Act | None:
        """Return what a call would do; None where it would do nothing, so that nobody is asked: ``perform`` then says why.

        It would do nothing where it is refused, cannot be looked up, or was done already, such as before a crash. What is there by the
        time of ``perform`` does not matter then: a call whose act nobody judged changes nothing.
        """
        try:
            check_wish(wish, self._zone)
            act = await self._previewed(wish, context)
        except CalendarFailed as error:
            act, why = None, error
        else:
            why = CalendarFailed("this was done already when it was looked at, and is not so any more", hint="Look again.")
        if act is None:
            self._nothing = dict([*self._nothing.items(), (self._call_key(context), why)][-_REMEMBERED:])
        else:
            self._nothing.pop(self._call_key(context), None)
        return act

    async def find(self, reference: Reference) -> Event:
        """Return the event with an id."""
        found = await self._at(reference.begins, reference.event, reference)
        if found is None:
            when = begin_in_words(reference.begins, datetime.now(self._zone))
            raise CalendarFailed(
                f"there is no event {reference} (any more): nothing with that id begins on {when}",
                hint="It may have been moved or cancelled. List again to see what there is.",
            )
        return found

    async def _previewed(self, wish: CalendarArguments, context: ToolContext) -> Act | None:
        if wish.action == "create":
            target = await self._target(wish.calendar or "")
            if wish.repeat is not None:
                await self._process.create(_wish(wish), "trial", self._zone, context.now)
            when = wished_time(wish, self._zone, context.now)
            summary = f"create “{wish.title}” on {when} in {target.calendar.name}"
            details = details_of(wish, [f"calendar: {target.calendar.name}"])
            return Act(kind="call", summary=summary, details=details, quotes=True)
        reference = read_reference(wish.event or "")
        found = await self._at(reference.begins, reference.event, reference) or await self._at_new_time(reference, wish)
        if found is None:
            raise CalendarFailed(f"nothing with the id {reference} is there (any more)")
        self._refuse_read_only(found)
        if wish.action == "change" and await self._is_so(found, wish, context):
            return None
        was = begin_in_words(reference.begins, context.now)
        name = f"“{found.instance['title'] or '(no title)'}”"
        moves = wish.start is not None or wish.end is not None
        if wish.action == "cancel":
            if found.instance["rid"]:
                await self._process.cancel(
                    found.resource.text, found.instance, self._scope(found, wish), self._zone, context.now
                )
            summary = f"cancel {name} on {was} in {found.calendar.name}"
        elif moves:
            summary = (
                f"move {name} from {was} to {self._moved_to(wish, reference, found, context.now)} in {found.calendar.name}"
            )
        else:
            summary = f"change {name} on {was} in {found.calendar.name}"
        facts = [f"scope: {_SCOPES[self._scope(found, wish)]}"] if found.instance["rid"] else []
        facts += [f"people: {', '.join(found.instance['people'])}"] if found.instance["people"] else []
        facts += [f"organizer: {found.instance['organizer']}"] if found.instance["organizer"] else []
        others = found.concerns_others
        ask = _OTHERS if others else ""
        return Act(kind="call", summary=summary, details=details_of(wish, facts), others=others, ask=ask, quotes=True)

    async def _create(self, wish: CalendarArguments, context: ToolContext) -> str:
        target = await self._target(wish.calendar or "")
        uid = f"{self._call_key(context)}@homebody"
        text = await self._process.create(_wish(wish), uid, self._zone, context.now)
        url = urljoin(target.calendar.url, f"{self._call_key(context)}.ics")
        new = await self._made(target.source, url, text)
        made = Reference(_key(target.source, uid), local_time(wish.start or "", self._zone))
        there = "is in" if new else "is already in"
        repeated = f", repeated by {wish.repeat}" if wish.repeat is not None else ""
        when = f"{wished_time(wish, self._zone, context.now)}, {self._zone.key}{repeated}"
        return f"“{wish.title}” {there} {_owners_name(target, wish)}: {when} ({made})."

    async def _change(self, found: Event, wish: CalendarArguments, context: ToolContext) -> str:
        new_uid = f"{self._call_key(context)}@homebody"
        scope = self._scope(found, wish)
        order = {"instance": found.instance, "scope": scope, "wish": _wish(wish), "new_uid": new_uid}
        made = await self._process.change(found.resource.text, order, self._zone, context.now)
        if made["same"]:
            return self._already(found, context)
        source = self._source(found)
        url = urljoin(found.calendar.url, f"{self._call_key(context)}.ics")
        if made["new"] is not None:
            await self._made(source, url, made["new"]["text"])
        try:
            stored = await self._stored(source, found.resource.url, str(made["text"]), found.resource.etag)
        except CalendarFailed as error:
            if made["new"] is not None and error.status:
                await self._take_back(source, url, found)
            raise
        if not stored:
            if made["new"] is not None:
                await source.dav.delete(url, "")
            raise await self._changed_meanwhile(found, context)
        start, end = made["span"]
        now = {**found.instance, "start": start, "end": end, "title": wish.title or found.instance["title"]}
        moved = replace(found, instance={**now, "uid": new_uid if made["new"] is not None else found.uid})
        which = f", {_SCOPES[scope]}" if found.instance["rid"] else ""
        when = span_in_words(now, self._zone, context.now)
        return f"Changed{which}: “{now['title']}” is now {when}, {self._zone.key} ({moved.reference(self._zone)})."

    async def _cancel(self, found: Event, wish: CalendarArguments, context: ToolContext) -> str:
        scope = self._scope(found, wish)
        text = await self._process.cancel(found.resource.text, found.instance, scope, self._zone, context.now)
        source = self._source(found)
        if text is None:
            done = await source.dav.delete(found.resource.url, found.resource.etag)
        else:
            done = await self._stored(source, found.resource.url, text, found.resource.etag)
        if not done:
            raise await self._changed_meanwhile(found, context)
        which = f", {_SCOPES[scope]}" if found.instance["rid"] else ""
        return f"Cancelled{which}: “{found.instance['title']}”, {span_in_words(found.instance, self._zone, context.now)}."

    async def _made(self, source: CalendarSource, url: str, text: str) -> bool:
        """Store a new object; False where this very call has stored it before. Raises CalendarFailed where it is not there then."""
        if await self._stored(source, url, text, ""):
            return True
        if await source.dav.get(url) is None:
            raise CalendarFailed(
                f"the calendar account {source.account.name}: the server refuses the new event (412 Precondition Failed), "
                "so nothing was made or changed",
                hint="It may have an event with this id elsewhere. Look on the server, or take another calendar.",
                status=412,
            )
        return False

    @staticmethod
    async def _take_back(source: CalendarSource, url: str, found: Event) -> None:
        """Delete a new series at ``url`` where the former one, ``found``, is as it was, as its later instances would be there twice."""
        with suppress(CalendarFailed):
            now = await source.dav.get(found.resource.url)
            if now is not None and now.etag == found.resource.etag:
                await source.dav.delete(url, "")

    async def _stored(self, source: CalendarSource, url: str, text: str, etag: str) -> bool:
        """Store an object. Where nobody knows whether it arrived, it is looked up; what is there already counts, as UIDs follow calls."""
        try:
            return await source.dav.put(url, text, etag=etag)
        except CalendarFailed as error:
            if error.status:
                raise
            try:
                now = await source.dav.get(url)
            except CalendarFailed:
                now = None
            if now is not None and (not etag or (now.etag and now.etag != etag)):
                return True
            raise CalendarFailed(
                f"{error}; it is not known whether the change arrived", hint="List before you try it again."
            ) from error

    async def _changed_meanwhile(self, found: Event, context: ToolContext) -> CalendarFailed:
        """Read anew what was changed by somebody else, and say so."""
        now = await self._at(found.reference(self._zone).begins, found.key, None)
        text = (
            f"it is now “{now.instance['title']}”, {span_in_words(now.instance, self._zone, context.now)}"
            if now
            else "it is gone"
        )
        return CalendarFailed(
            f"“{found.instance['title']}” was changed by another program just now, so nothing was done: {text}",
            hint="Ask whether the change is still wanted, then call again.",
            status=412,
            quotes=True,
        )

    async def _found_or_done(self, reference: Reference, wish: CalendarArguments, context: ToolContext) -> Event | str:
        """Return the event with an id, or a sentence where the call was carried out before."""
        found = await self._at(reference.begins, reference.event, reference)
        if found is not None:
            return found
        if wish.action == "cancel":
            when = begin_in_words(reference.begins, context.now)
            return f"There is no event {reference} on {when} (any more); it may have been cancelled or moved already. Nothing was done."
        fresh = _key_of_uid(self._sources, f"{self._call_key(context)}@homebody")
        moved = await self._at_new_time(reference, wish)
        for event in [moved] if moved is not None else await self._at_day(begins_of(wish, self._zone), fresh):
            with suppress(CalendarFailed):  # what stands there is another one then
                if await self._is_so(event, wish, context):
                    return self._already(event, context)
        return await self.find(reference)

    async def _is_so(self, found: Event, wish: CalendarArguments, context: ToolContext) -> bool:
        """Whether a change would change nothing. Raises CalendarFailed where it cannot be made."""
        order = {"instance": found.instance, "scope": self._scope(found, wish), "wish": _wish(wish), "new_uid": "trial"}
        made = await self._process.change(found.resource.text, order, self._zone, context.now)
        return bool(made["same"])

    def _already(self, found: Event, context: ToolContext) -> str:
        when = span_in_words(found.instance, self._zone, context.now)
        return f"“{found.instance['title']}” is so already: {when}, {self._zone.key} ({found.reference(self._zone)})."

    async def _at(self, begins: date | datetime, key: str, exact: Reference | None) -> Event | None:
        """Return the event of a key on a day; with ``exact``, the instance with that id."""
        found = await self._at_day(begins, {key})
        if exact is not None:
            return next((one for one in found if one.reference(self._zone) == exact), None)
        return next(iter(found), None)

    async def _at_new_time(self, reference: Reference, wish: CalendarArguments) -> Event | None:
        """Return the event where a change has put it, if the change was made before."""
        new = begins_of(wish, self._zone)
        if new is None:
            return None
        kept = not isinstance(new, datetime) and isinstance(
            reference.begins, datetime
        )  # its time of day, in the event's own zone
        return await self._at(new, reference.event, None if kept else Reference(reference.event, new))

    def _moved_to(self, wish: CalendarArguments, was: Reference, found: Event, now: datetime) -> str:
        """Write when a moved event is to be; a day alone keeps the time of day, so it is added."""
        begins, day = was.begins, begins_of(wish, self._zone)
        if isinstance(day, datetime) or not isinstance(begins, datetime):
            begins = day or begins
        elif day is not None:
            written_in = zone_written_in(found.instance["zone"], self._zone) or self._zone
            begins = on_day(begins.replace(tzinfo=self._zone), day, written_in).replace(tzinfo=None)
        return wished_time(wish, self._zone, now, begins)

    async def _at_day(self, begins: date | datetime | None, keys: set[str]) -> list[Event]:
        if begins is None:
            return []
        day = begins.date() if isinstance(begins, datetime) else begins
        start = midnight(day, self._zone)
        found: list[Event] = []
        failures: list[CalendarFailed] = []
        for source in self._sources:
            try:
                reading = await source.read(start, midnight(day + _DAY, self._zone), self._zone)
            except CalendarFailed as error:
                failures.append(error)
                continue
            found += [one for one in reading.events if one.key in keys]
        if not found and failures:
            raise failures[0]
        return found

    async def _target(self, wanted: str) -> Target:
        """Return the calendar that is named, or the usual one."""
        sources = [one for one in self._sources if not one.account.feed]
        if not sources:
            raise CalendarFailed("there is no calendar that can be written to", hint="feeds are only read")
        name = wanted.casefold().strip()
        if not name:
            return _writable(Target(sources[0], await sources[0].usual_calendar()))
        there: list[str] = []
        for source in sources:
            if name == source.account.name.casefold():
                return _writable(Target(source, await source.usual_calendar()))
            for calendar in await source.calendars():
                there.append(calendar.name)
                if name in {calendar.name.casefold(), f"{source.account.name}/{calendar.name}".casefold()}:
                    return _writable(Target(source, calendar))
        raise CalendarFailed(f"there is no calendar {wanted!r}", hint=f"there is: {', '.join(there)}", quotes=True)

    def _source(self, found: Event) -> CalendarSource:
        return next(one for one in self._sources if one.account.name == found.account.name)

    @staticmethod
    def _refuse_read_only(found: Event) -> None:
        if found.account.feed or not found.calendar.writable:
            raise _only_read(found.calendar)

    @staticmethod
    def _scope(found: Event, wish: CalendarArguments) -> str:
        """Return which instances are meant; of a series, the one that was named, unless the rule itself is to change."""
        if not found.instance["rid"]:
            return "all"
        return wish.scope or ("all" if wish.repeat is not None else "one")

    def _call_key(self, context: ToolContext) -> str:
        """Name a call: the same when it is made again after a crash."""
        call = (self._agent, context.key, context.session, context.turn, context.call)
        return hashlib.sha256("\0".join(call).encode()).hexdigest()[:32]


def _writable(target: Target) -> Target:
    if not target.calendar.writable:
        raise _only_read(target.calendar)
    return target


def _only_read(calendar: Collection) -> CalendarFailed:
    return CalendarFailed(f"the calendar {calendar.name} is only read; nothing can be changed in it", quotes=True)


def _owners_name(target: Target, wish: CalendarArguments) -> str:
    """Name a calendar in words of the settings or the call: others may have named a shared one, and no text of theirs is in the answer."""
    account, name = target.source.account, target.calendar.name
    own = {account.name, account.default, *account.calendars, wish.calendar or ""}
    known = {one.casefold().strip() for one in own}
    return name if known & {name.casefold(), f"{account.name}/{name}".casefold()} else account.name


def _key(source: CalendarSource, uid: str) -> str:
    return next(iter(_key_of_uid([source], uid)))


def _key_of_uid(sources: Sequence[CalendarSource], uid: str) -> set[str]:
    return {event_key(one.account.name, uid) for one in sources}


def _wish(wish: CalendarArguments) -> Mapping[str, Any]:
    fields = {name: getattr(wish, name) for name in WISHED if getattr(wish, name) is not None}
    return fields if wish.minutes is None else {**fields, "alarm": wish.minutes}
