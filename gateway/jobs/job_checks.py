"""What a job may be: whether it can run, for whom, and with which values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Final, Protocol
from zoneinfo import ZoneInfo

from msgspec import Struct

from channels.messages import ChatAddress
from gateway.base.errors import UsageError
from gateway.ledger.job_rows import Job, NewJob
from gateway.ledger.rows import Unasked
from gateway.schedules.schedule import Schedule, from_text
from memory.audience import OWNER, Audience

LONGEST_TEXT: Final = 8000
"""The longest text of a job, in characters."""
LONGEST_NAME: Final = 80
LONGEST_CATCH_UP: Final = timedelta(days=31)


class Obstacle(Struct, frozen=True):
    """Why a job cannot run, and the command that mends it."""

    reason: str
    mend: str


class JobTargets(Protocol):
    """What jobs need to know of agents and chats."""

    def zone(self, agent: str) -> ZoneInfo:
        """Return the owner's time zone; for an agent that is gone, that of the machine."""
        ...

    def agents(self) -> Iterable[str]:
        """Return the ids of all agents."""
        ...

    def main_session(self, agent: str) -> str:
        """Return the key of the owner's main session with an agent."""
        ...

    def obstacle(self, job: NewJob) -> Obstacle | None:
        """Return why a job cannot run: its agent, its model or the account of its chat is gone."""
        ...

    def unasked(self, job: Job) -> Unasked | None:
        """Return by which rules a reminder is sent that nobody waits for; None for one that is sent at once."""
        ...

    async def latest_chat(self, agent: str | None = None) -> ChatAddress | None:
        """Return the chat in which the owner wrote last: to an agent, if they ever did, or to any."""
        ...

    def name_at(self, agent: str, place: ChatAddress) -> str:
        """Return the name that stands before an agent's words in a chat that other agents answer; elsewhere nothing."""
        ...

    async def audience(self, agent: str, place: ChatAddress) -> Audience:
        """Return who reads what an agent says in a chat."""
        ...

    async def is_stranger(self, place: ChatAddress) -> bool:
        """Return whether a chat is with somebody who may not speak to the agent and never did."""
        ...


class JobChecks:
    """Checks jobs by what ``targets`` knows of agents and chats."""

    def __init__(self, targets: JobTargets) -> None:
        self._targets = targets

    def schedule_of(self, job: NewJob) -> Schedule:
        """Return a job's schedule in its zone. Raises ValueError when it cannot be read."""
        return from_text(job.schedule, self.zone_of(job))

    def zone_of(self, job: NewJob) -> ZoneInfo:
        """Return the zone in which a job's times are meant."""
        from gateway.schedules.parsing import zone_named

        return zone_named(job.zone) if job.zone else self._targets.zone(job.agent)

    async def readers(self, job: NewJob) -> Audience:
        """Return for whom a run is: a task of the owner's whose answer goes to others knows only what they may know."""
        if job.kind != "prompt" or not isinstance(job.deliver, ChatAddress) or job.audience != OWNER:
            return job.audience
        return await self._targets.audience(job.agent, job.deliver)

    async def refuse_readers(self, new: NewJob) -> None:
        """Raise UsageError for a job that would answer to somebody who may not read that."""
        if new.owner and isinstance(new.deliver, ChatAddress) and await self._targets.is_stranger(new.deliver):
            raise UsageError(
                f"{new.deliver.address} is the chat of nobody who may speak to your agent",
                hint="`homebody channels chats` lists the addresses of your chats.",
            )
        if (blocked := not_to_others(new, await self.readers(new))) is not None:
            raise UsageError(blocked.reason, hint="Use --session isolated: the answer knows what they may know then.")

    def refuse_obstacle(self, job: NewJob) -> None:
        """Raise UsageError for a job that cannot run."""
        if (obstacle := self._targets.obstacle(job)) is not None:
            raise UsageError(obstacle.reason, hint=obstacle.mend)

    def checked(self, new: NewJob) -> tuple[Schedule, ZoneInfo]:
        """Return the schedule and zone of a job. Raises UsageError for values that cannot be used."""
        self.refuse_obstacle(new)
        limits: Mapping[str, tuple[str, int]] = {"name": (new.name, LONGEST_NAME), "text": (new.text, LONGEST_TEXT)}
        for what, (text, longest) in limits.items():
            if not text.strip():
                raise UsageError(f"the {what} of a job is empty", hint="homebody cron add --help")
            if len(text) > longest:
                raise UsageError(f"the {what} of a job has {len(text)} characters", hint=f"{longest} are the most.")
        if not new.name.isprintable():
            raise UsageError("the name of a job is one line of printable characters", hint="homebody cron add --help")
        if new.catch_up_seconds is not None and not 0 <= new.catch_up_seconds <= LONGEST_CATCH_UP.total_seconds():
            raise UsageError(
                f"{new.catch_up_seconds} seconds is no time within which a run is made up", hint="0 to 31 days are possible."
            )
        if new.daily_usd is not None and not _is_amount(new.daily_usd):
            raise UsageError(
                f"{new.daily_usd!r} US dollars is no budget of a day",
                hint="Give an amount such as 0.50, or none: a job without one has the agent's budgets.",
            )
        if new.daily_tokens is not None and not (_is_amount(new.daily_tokens) and isinstance(new.daily_tokens, int)):
            raise UsageError(f"{new.daily_tokens!r} tokens is no budget of a day", hint="Give a whole number such as 50000.")
        if new.kind == "message" and new.deliver == "none":
            raise UsageError("a reminder has to be sent somewhere", hint="Give it a chat, or make it a prompt.")
        zone = self.zone_of(new)
        try:
            return from_text(new.schedule, zone), zone
        except ValueError as error:
            raise UsageError(f"this schedule cannot be used: {error}", hint="homebody cron add --help") from error


def _is_amount(value: object) -> bool:
    """Return whether a value, which may come from JSON, is a number from 0 on that is finite; a yes or no is none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


def not_to_others(job: NewJob, readers: Audience) -> Obstacle | None:
    """Return why a job may not run, if it would answer in the owner's main conversation and others would read that."""
    if job.kind != "prompt" or job.session != "main" or job.audience != OWNER or readers == OWNER:
        return None
    command = f" (`homebody cron change {job.id} --session isolated`)" if isinstance(job, Job) else ""
    return Obstacle(
        "your main conversation cannot be answered to others",
        f"Let it have a conversation of its own, which knows what they may know{command}.",
    )
