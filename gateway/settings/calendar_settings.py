"""The section ``calendar``: calendars and address books that an agent reads and changes."""

import re
from datetime import time
from typing import Annotated, Final, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator

from agent.section import Section

ACCOUNT_NAME: Final = r"^[a-z0-9][a-z0-9_-]{0,31}$"
_HOURS: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-(?:([01]\d|2[0-3]):([0-5]\d)|24:00)")


def _address(text: str) -> str:
    if re.fullmatch(r"https?://[^\s@?#]+", text) is None:
        raise ValueError(
            f"{text[:80]!r} is no address of a server (write it like https://cloud.example.org, without user and password)"
        )
    return text


def _feed(text: str) -> str:
    made = re.sub(r"(?i)^webcals?://", "https://", text)
    if re.fullmatch(r"https?://[^\s@#]+", made) is None:
        raise ValueError(f"{text[:80]!r} is no address of a feed (write it like https://example.org/holidays.ics)")
    return made


def _hours(text: str) -> str:
    found = _HOURS.fullmatch(text)
    if found is None or ("24:00" not in text and found[1] + found[2] >= found[3] + found[4]):
        raise ValueError(f"{text[:40]!r} are no hours of a day (write them like 09:00-18:00)")
    return text


class CalendarAccount(Section):
    """One CalDAV account, or one iCalendar feed that is only read."""

    url: Annotated[str, AfterValidator(_address)] | None = None
    """The server's address, such as `https://cloud.example.org`; the calendars are found from it."""
    ics: Annotated[str, AfterValidator(_feed)] | None = None
    """In place of `url`: the address of an iCalendar feed (.ics), which is only read."""
    user: str = ""
    """The name to log in with; where it is your mail address, invitations that you declined do not count as busy."""
    password: SecretStr | None = None
    """The password; many providers want an app password (docs/calendar.md)."""
    calendars: tuple[str, ...] = ()
    """Names of the calendars that are used. Unset: all."""
    default: str = ""
    """The calendar that new events go to. Unset: the first that can be written to."""
    contacts: bool = False
    """Look people up in the address books of the account, too."""
    alarms: bool = False
    """Send the alarms of its events to your latest chat, as reminders."""
    agents: tuple[str, ...] = ()
    """The agents that have this account. Unset: the default agent alone; ``*``: all."""
    timeout_seconds: Annotated[float, Field(ge=1, le=300)] = 30.0
    """Longest duration of one request, in seconds."""

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if (self.url is None) == (self.ics is None):
            raise ValueError("give either url, the address of a CalDAV server, or ics, that of a feed")
        if self.ics is not None and (self.contacts or self.default):
            raise ValueError("contacts and default are for a CalDAV server (url), not for a feed (ics)")
        return self


class CalendarSettings(Section):
    """Calendars. An agent that has one gets the tool calendar."""

    accounts: dict[Annotated[str, Field(pattern=ACCOUNT_NAME)], CalendarAccount] = Field(default_factory=dict)
    """The accounts by a name of your choice in small letters; new events go to the first one unless a call names another."""
    hours: Annotated[str, AfterValidator(_hours)] = "09:00-18:00"
    """The hours of a day in which free time is looked for, where no time is named."""

    def accounts_of(self, agent: str, default_agent: str) -> dict[str, CalendarAccount]:
        """Return the accounts that an agent has, by name."""
        return {
            name: account
            for name, account in self.accounts.items()
            if agent in (account.agents or (default_agent,)) or "*" in account.agents
        }

    @property
    def free_hours(self) -> tuple[time, time]:
        """The hours, from and to; midnight as the end is that of the next day."""
        start, end = self.hours.split("-")
        return time.fromisoformat(start), time.fromisoformat("00:00" if end == "24:00" else end)
