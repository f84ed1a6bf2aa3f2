"""Builds what agents need for calendars, and keeps reminders in step with their alarms. Costs nothing until an account is configured."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from agent.errors import CalendarFailed
from agent.taint import source as source_name
from agent.tools.protocol import Tool
from agent.tools.web.fetch_protocol import Fetcher
from gateway.agents.memory_stores import owner_zone
from gateway.base.clock import SystemClock
from gateway.base.errors import HomebodyError, UsageError
from gateway.jobs.job_service import JobService
from gateway.ledger.job_rows import NewJob
from gateway.ledger.removed_alarms import MADE_OF_ALARMS
from gateway.schedules.schedule import At, to_text
from gateway.settings.calendar_settings import CalendarAccount
from gateway.settings.root import Settings, SettingsStore

if TYPE_CHECKING:  # loaded with the first account
    from gateway.calendar.accounts import Account
    from gateway.calendar.alarms import Alarm, Reminder
    from gateway.calendar.calendar_source import CalendarSource

log = logging.getLogger(__name__)

NAME = "calendar"
_CATCH_UP_SECONDS = 3600
"""How late an alarm is still sent after the gateway was down."""


def account_of(name: str, settings: CalendarAccount) -> Account:
    """Return an account as ``gateway.calendar`` takes it."""
    from gateway.calendar.accounts import Account

    return Account(
        name=name,
        url=settings.url or settings.ics or "",
        user=settings.user,
        password=settings.password.get_secret_value() if settings.password is not None else "",
        calendars=settings.calendars,
        default=settings.default,
        feed=settings.ics is not None,
        contacts=settings.contacts,
        alarms=settings.alarms,
        seconds=settings.timeout_seconds,
    )


class CalendarParts:
    """The calendars of all agents. ``tick`` is called twice a minute."""

    def __init__(self, settings: SettingsStore, fetcher: Fetcher, clock: SystemClock, jobs: JobService) -> None:
        self.store = settings
        self._fetcher = fetcher
        self._clock = clock
        self._jobs = jobs
        self._looked: dict[str, float] = {}
        self._facts: dict[str, dict[str, Any]] = {}
        self._syncing: asyncio.Task[None] | None = None

    def provider(self, agent: str) -> CalendarProvider:
        """Return what gives an agent its tool. Called while the agent is being built."""
        return CalendarProvider(agent, self)

    def tools(self, agent: str, settings: Settings) -> Sequence[Tool]:
        """Make the tool of an agent; none where it has no account."""
        accounts = settings.calendar.accounts_of(agent, settings.default_agent)
        if not accounts or agent not in settings.agent_ids:
            return ()
        from agent.tools.calendar_tool import CalendarTool
        from gateway.calendar.agent_calendars import AgentCalendars
        from gateway.calendar.edits import CalendarEdits
        from gateway.calendar.ical_process import CalendarProcess

        process = CalendarProcess()
        zone = owner_zone(settings.agent(agent))
        sources = [self._source(name, account, process) for name, account in accounts.items()]
        edits = CalendarEdits(sources, process, zone, agent)
        return [CalendarTool(AgentCalendars(sources, edits, zone, settings.calendar.free_hours, changed=self.look_soon))]

    def settings(self) -> Settings:
        """Return the settings in force."""
        return self.store.current

    def look_soon(self) -> None:
        """Look at the alarms with the next tick: an agent has changed an event."""
        self._looked.clear()

    def facts(self) -> dict[str, dict[str, Any]]:
        """Return the accounts by name, for ``homebody status``: how many alarms wait, when that was looked at, and what was wrong then."""
        accounts = self.store.current.calendar.accounts
        return {
            name: {"alarms": one.alarms, **(self._facts.get(name, {}) if one.alarms else {})} for name, one in accounts.items()
        }

    async def tick(self) -> None:
        """Begin to keep reminders in step where that is due. It is done in the background, because servers may be slow."""
        accounts = self.store.current.calendar.accounts
        if not any(one.alarms for one in accounts.values()):
            return
        from gateway.calendar.alarms import EVERY

        now = self._clock.monotonic()
        self._looked = {name: at for name, at in self._looked.items() if name in accounts}
        due = [
            name
            for name, one in accounts.items()
            if one.alarms and (name not in self._looked or now - self._looked[name] >= EVERY.total_seconds())
        ]
        if due and (self._syncing is None or self._syncing.done()):
            self._looked |= dict.fromkeys(due, now)
            self._syncing = asyncio.ensure_future(self._sync_all(due))

    async def synced(self) -> None:
        """Wait until what a tick began is done."""
        if self._syncing is not None:
            await asyncio.wait([self._syncing])

    async def close(self) -> None:
        """End what runs in the background."""
        if self._syncing is not None:
            self._syncing.cancel()
            await asyncio.wait([self._syncing])

    async def _sync_all(self, names: Sequence[str]) -> None:
        for name in names:
            now = self._clock.now()
            try:
                done = await self._sync(name, now)
                self._facts[name] = {"looked": now.isoformat(timespec="seconds"), "open": done}
            except (CalendarFailed, HomebodyError) as error:
                log.warning("the alarms of the calendar account %s cannot be read: %s", name, error)
                self._facts[name] = {"looked": now.isoformat(timespec="seconds"), "problem": str(error), "mend": error.hint}
            except Exception:  # a defect must not end the alarms of the other accounts
                log.exception("the alarms of the calendar account %s cannot be kept in step", name)
                self._facts[name] = {"problem": "a defect; the log has the details", "mend": ""}

    async def _sync(self, name: str, now: datetime) -> int:
        from gateway.calendar.alarms import keep_in_step
        from gateway.calendar.ical_process import CalendarProcess

        settings = self.store.current
        account = settings.calendar.accounts.get(name)
        if account is None:
            return 0
        named = next((one for one in account.agents if one in settings.agent_ids), None)
        agent = named or settings.default_agent
        zone = owner_zone(settings.agent(agent))
        reminders = JobReminders(self._jobs, name, agent)
        done = await keep_in_step(self._source(name, account, CalendarProcess()), reminders, zone, now)
        return done["open"]

    def _source(self, name: str, account: CalendarAccount, process: Any) -> CalendarSource:
        from gateway.calendar.calendar_source import CalendarSource

        return CalendarSource(account_of(name, account), self._fetcher, process, self._clock)


class CalendarProvider:
    """Implements ``agent.tools.provider.ToolProvider``: follows the settings while the agent runs."""

    name = NAME
    follows_settings = True

    def __init__(self, agent: str, parts: CalendarParts) -> None:
        self._agent = agent
        self._parts = parts
        self._made: tuple[object, Sequence[Tool]] | None = None
        self._version: tuple[Settings | None, object] = (None, ())
        """The settings that were read last, and the version by them."""

    @property
    def version(self) -> object:
        """The settings of calendars, and which agent is the default one."""
        settings = self._parts.store.current
        if settings is not self._version[0]:
            self._version = settings, (settings.calendar, settings.default_agent, self._agent in settings.agent_ids)
        return self._version[1]

    def tools(self) -> Sequence[Tool]:
        """Return the tool, where the agent has an account."""
        version = self.version
        if self._made is None or self._made[0] != version:
            self._made = version, self._parts.tools(self._agent, self._parts.settings())
        return self._made[1]

    def deferred(self) -> frozenset[str]:
        """Return nothing: models are told of it."""
        return frozenset()

    async def close(self) -> None:
        """Do nothing: no connection is kept."""


class JobReminders:
    """Implements ``gateway.calendar.alarms.Reminders`` by the jobs of an agent."""

    def __init__(self, jobs: JobService, account: str, agent: str) -> None:
        self._jobs = jobs
        self._agent = agent
        self._account = account

    async def all(self) -> Sequence[Reminder]:
        """See the protocol."""
        from gateway.calendar.alarms import Reminder

        begins = f"{MADE_OF_ALARMS}{self._account}:"
        removed = await self._jobs.removed_alarms(begins)
        return [
            *(Reminder(id="", key=key, at=None, text=text, open=False, removed=True) for key, text in removed.items()),
            *(
                Reminder(id=job.id, key=job.created_by, at=job.next_at, text=job.text, open=job.state == "active")
                for job in await self._jobs.list()
                if job.created_by.startswith(begins)
            ),
        ]

    async def add(self, alarm: Alarm) -> None:
        """See the protocol."""
        new = NewJob(
            agent=self._agent,
            name=alarm.name,
            schedule=to_text(At(alarm.at)),
            kind="message",
            text=alarm.text,
            catch_up_seconds=_CATCH_UP_SECONDS,
            created_by=alarm.key,
            sources=(source_name(NAME, self._account),),
        )
        await self._jobs.add(new)

    async def change(self, reminder: str, alarm: Alarm) -> None:
        """See the protocol. One that was sent or removed meanwhile stays so."""
        try:
            await self._jobs.change(reminder, name=alarm.name, text=alarm.text)
        except UsageError as error:
            log.info("the reminder %s is not changed: %s", reminder, error)

    async def remove(self, reminder: str) -> None:
        """See the protocol."""
        try:
            await self._jobs.remove(reminder, by_person=False)
        except UsageError as error:
            log.info("the reminder %s is gone already: %s", reminder, error)
