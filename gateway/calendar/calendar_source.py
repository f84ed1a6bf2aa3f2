"""The calendars of one account: which there are, and what is in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from agent.errors import CalendarFailed
from agent.timing import Clock
from agent.tools.web.fetch_protocol import Fetcher
from gateway.calendar.accounts import Account
from gateway.calendar.dav_client import Collection, DavClient, Kind, Resource
from gateway.calendar.ical_process import CalendarProcess
from gateway.calendar.references import Reference, event_key, reference_of
from gateway.calendar.vcards import Contact, contacts_in

KNOWN_SECONDS: Final = 600.0
"""How long it is taken for known which calendars there are."""
FEED_SECONDS: Final = 300.0
"""How long a feed is not asked for again."""
MARGIN: Final = timedelta(days=1)
"""Servers work out by themselves what touches a period, some of them in their own time zone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An instance of an event as ``ical_instances`` tells it, and the object and calendar that it is in."""

    account: Account
    calendar: Collection
    resource: Resource
    instance: Any

    @property
    def uid(self) -> str:
        """The event's own id."""
        return str(self.instance["uid"])

    @property
    def key(self) -> str:
        """The part of its id for agents that names the event."""
        return event_key(self.account.name, self.uid)

    @property
    def concerns_others(self) -> bool:
        """Whether others take part, whom a server may tell of a change."""
        return bool(self.instance["people"] or self.instance["organizer"])

    def reference(self, zone: ZoneInfo) -> Reference:
        """Return its id for agents."""
        return reference_of(self.account.name, self.instance, zone)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What was found in a period, in order, and a sentence about each event (``problems``) and account (``unread``) that is missing."""

    events: Sequence[Event]
    problems: Sequence[str] = ()
    unread: Sequence[str] = ()


class CalendarSource:
    """One account, kept as long as its settings stay the same. Methods raise CalendarFailed."""

    def __init__(self, account: Account, fetcher: Fetcher, process: CalendarProcess, clock: Clock) -> None:
        self.account = account
        self.dav = DavClient(fetcher, account)
        self._process = process
        self._clock = clock
        self._known: dict[Kind, tuple[float, Sequence[Collection]]] = {}
        self._feed: tuple[float, str] | None = None

    async def calendars(self) -> Sequence[Collection]:
        """Return the calendars that are used."""
        if self.account.feed:
            return [Collection(url=self.account.url, name=self.account.name, writable=False)]
        found = await self._collections("calendar")
        if not found:
            raise CalendarFailed(
                f"the calendar account {self.account.name} has no calendar yet",
                hint="Make one with a calendar program or on the server's web page, then: homebody calendar test",
            )
        used = [one for one in found if self.account.uses(one.name)]
        if not used:
            there = ", ".join(one.name for one in found)
            raise CalendarFailed(
                f"the calendar account {self.account.name} has no calendar named {' or '.join(self.account.calendars)}",
                hint=f"There is: {there}. Change calendar.accounts.{self.account.name}.calendars.",
                quotes=True,
            )
        return used

    async def calendars_named(self, name: str) -> Sequence[Collection]:
        """Return the calendars that a name means, of which the account's own means all of its calendars, as "" does."""
        wanted, account = name.casefold().strip(), self.account.name.casefold()
        return [
            one
            for one in await self.calendars()
            if wanted in {"", account, one.name.casefold(), f"{account}/{one.name.casefold()}"}
        ]

    async def usual_calendar(self) -> Collection:
        """Return the calendar that new events go to: the one that the settings name, or the first that can be written to."""
        calendars = await self.calendars()
        default = self.account.default
        if not default:
            return next((one for one in calendars if one.writable), calendars[0])
        found = next((one for one in calendars if one.name.casefold() == default.casefold()), None)
        if found is None:
            raise CalendarFailed(
                f"there is no calendar {default!r}, which calendar.accounts.{self.account.name}.default names",
                hint=f"There is: {', '.join(one.name for one in calendars)}",
                quotes=True,
            )
        return found

    async def read(self, start: datetime, end: datetime, zone: ZoneInfo, calendar: str = "") -> Reading:
        """Return the events that touch a period, of one calendar or of all."""
        held: list[tuple[Collection, Resource]] = []
        for one in await self.calendars_named(calendar):
            held += [(one, resource) for resource in await self._resources(one, start - MARGIN, end + MARGIN)]
        mine = self.account.user if "@" in self.account.user else ""
        listing = await self._process.instances([resource.text for _, resource in held], start, end, zone, mine)
        name = self.account.name
        problems = [f"“{one['title']}” in {name} cannot be read: {one['why']}." for one in listing.broken]
        problems += [f"{listing.more_broken} more events in {name} cannot be read."] if listing.more_broken else []
        problems += [f"{listing.left_out} more events in {name} are left out: ask for less time."] if listing.left_out else []
        events = [
            Event(account=self.account, calendar=held[one["object"]][0], resource=held[one["object"]][1], instance=one)
            for one in listing.instances
        ]
        return Reading(events=events, problems=problems)

    async def contacts(self) -> Sequence[Contact]:
        """Return everybody in the account's address books."""
        found: list[Contact] = []
        for book in await self._collections("addressbook"):
            for card in await self.dav.cards(book):
                found += contacts_in(card.text)
        return found

    async def _collections(self, kind: Kind) -> Sequence[Collection]:
        at, found = self._known.get(kind, (0.0, ()))
        if not found or self._clock.monotonic() - at > KNOWN_SECONDS:
            found = await self.dav.collections(kind)
            self._known[kind] = self._clock.monotonic(), found
        return found

    async def _resources(self, calendar: Collection, start: datetime, end: datetime) -> Sequence[Resource]:
        if not self.account.feed:
            return await self.dav.events(calendar, start, end)
        if self._feed is None or self._clock.monotonic() - self._feed[0] > FEED_SECONDS:
            self._feed = self._clock.monotonic(), await self.dav.feed()
        return [Resource(url=calendar.url, etag="", text=self._feed[1])]
