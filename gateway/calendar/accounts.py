"""One account as the settings describe it, ready to be used."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.net.targets import place_in


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A CalDAV account, or an iCalendar feed that is only read (``feed``).

    ``calendars`` are names of those that are used, () for all; ``default`` is where new events go, "" for the first. ``zone`` and
    ``hours`` are as in the settings. ``contacts``: its address books are read, too.
    """

    name: str
    url: str
    user: str = ""
    password: str = field(default="", repr=False)
    calendars: tuple[str, ...] = ()
    default: str = ""
    feed: bool = False
    contacts: bool = False
    alarms: bool = False
    seconds: float = 30.0

    @property
    def own_hosts(self) -> frozenset[str]:
        """Its host, which the owner configured, so that it may be in the own network."""
        return frozenset({place_in(self.url)})

    def headers(self, further: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        """Return the headers of a request, with the credentials."""
        signed = {}
        if self.user or self.password:
            pair = base64.b64encode(f"{self.user}:{self.password}".encode()).decode("ascii")
            signed = {"Authorization": f"Basic {pair}"}
        return (*signed.items(), *further.items())

    def uses(self, calendar: str) -> bool:
        """Whether a calendar of that name is used."""
        return not self.calendars or calendar.casefold() in {one.casefold() for one in self.calendars}
