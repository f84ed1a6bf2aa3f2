"""Jobs and their runs: rows, and the interface of their part of the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, Literal, Protocol

from msgspec import Struct

from channels.messages import ChatAddress
from gateway.ledger.rows import Arrival, InboxRow, NewOutbound
from memory.audience import OWNER, Audience

JobKind = Literal["message", "prompt"]
"""A "message" is sent as it is, without a model (a reminder); a "prompt" is a message to the agent, whose reply is delivered."""
JobSession = Literal["main", "isolated"]
JobState = Literal["active", "paused", "done"]
RunState = Literal["fired", "skipped", "missed"]
"""Skipped: left out on purpose, such as while the former run has not ended. Missed: too late to be made up; the owner was told."""
RunResult = Literal["waiting", "running", "done", "failed"]

CATCH_UP: Final[dict[JobKind, timedelta]] = {"message": timedelta(hours=24), "prompt": timedelta(hours=2)}
"""How late a missed instant is still made up, unless the job says otherwise."""


Span = tuple[datetime, datetime]
"""From the first instant to before the second."""


class NewJob(Struct, frozen=True, kw_only=True):
    """A job to add.

    ``schedule`` is as ``gateway.schedules.schedule.to_text`` writes it. ``zone`` names the time zone of a cron expression; "" follows the
    owner's. ``deliver`` is where a message or reply goes: a conversation, None for the owner's latest chat, or "none" for nowhere.
    ``audience`` and ``owner`` are those of whoever made it. ``session`` matters for prompts: the agent's main session, or one of the
    job's own that begins anew with each run. ``tools`` are the names of the tools it may use, None for all. ``daily_usd`` and
    ``daily_tokens`` are the job's own limits. ``catch_up_seconds``: how late a missed instant is still made up; None is the default of
    its kind. ``asked_in`` is the key of the session that asked for it, "" for the command line. ``sources`` names where untrusted text
    in ``text`` came from.
    """

    agent: str
    name: str
    schedule: str
    kind: JobKind
    text: str
    zone: str = ""
    session: JobSession = "main"
    audience: Audience = OWNER
    owner: bool = True
    deliver: ChatAddress | Literal["none"] | None = None
    model: str | None = None
    tools: tuple[str, ...] | None = None
    daily_usd: float | None = None
    daily_tokens: int | None = None
    urgent: bool = False
    catch_up_seconds: int | None = None
    created_by: str = ""
    asked_in: str = ""
    sources: tuple[str, ...] = ()


class Job(NewJob, frozen=True, kw_only=True):
    """A stored job. ``id`` is five letters. ``next_at`` is None when it is paused or done; ``last_at`` is the latest instant that fired.

    ``changed_at`` is when people, or a pause, changed it last. ``reason`` says why it was paused or ended, "" when people did it.
    ``reckoned_in`` is the zone in which ``next_at`` was computed. What is in a span of ``skipped`` was left
    out, and is due again if the clock is set back; they are in order and apart from each other. Instants up to ``unsure_until`` may have
    fired before the ledger was damaged, so they never fire again.
    """

    id: str
    state: JobState
    created_at: datetime
    changed_at: datetime
    next_at: datetime | None
    last_at: datetime | None = None
    reason: str = ""
    reckoned_in: str = ""
    skipped: tuple[Span, ...] = ()
    unsure_until: datetime | None = None

    @property
    def session_key(self) -> str:
        """The key of the session of its own, in which an isolated prompt runs."""
        return f"agent:{self.agent}:job:{self.id}"

    @property
    def catch_up(self) -> timedelta:
        """How late a missed instant is still made up."""
        return CATCH_UP[self.kind] if self.catch_up_seconds is None else timedelta(seconds=self.catch_up_seconds)


class JobRun(Struct, frozen=True, kw_only=True):
    """One instant of a job and what came of it. ``at`` is when that was stored.

    ``until``: the last one of several instants that were left out for the same ``reason``. ``by_hand``: started by a person, so that
    ``instant`` is when. ``result`` is how far the run's message or turn got, None where nothing is known (any more) or nothing was fired.
    """

    job: str
    instant: datetime
    at: datetime
    state: RunState
    reason: str = ""
    until: datetime | None = None
    by_hand: bool = False
    result: RunResult | None = None
    turn: str | None = None


class LeftOut(Struct, frozen=True, kw_only=True):
    """Instants from ``first`` to ``until`` that do not fire."""

    first: datetime
    until: datetime
    state: RunState
    reason: str


class JobStep(Struct, frozen=True, kw_only=True):
    """What to store when a job is due at ``due``, or when a person starts it (``by_hand``).

    ``named``: its message is named after the request for it, so that a repeat is "known" also while the run is at work.

    ``fire`` is the instant that fires, with either an ``arrival`` for the agent or a ``message`` to send, which has a key; the model is
    told the ``line`` about it later, and ``sources`` names where untrusted text in it comes from. ``next_at`` is the next instant; None
    ends the job for ``end_reason``. ``skipped`` are the spans whose instants would be due again if the clock were set
    back. ``reason`` is stored with the run.
    """

    job: str
    due: datetime | None = None
    by_hand: bool = False
    named: bool = False
    fire: datetime | None = None
    arrival: Arrival | None = None
    message: NewOutbound | None = None
    line: str = ""
    sources: tuple[str, ...] = ()
    reason: str = ""
    left_out: LeftOut | None = None
    next_at: datetime | None = None
    end_reason: str = ""
    skipped: tuple[Span, ...] = ()


class StepResult(Struct, frozen=True, kw_only=True):
    """What came of a step. "changed": the job is not due any more, and nothing was stored. "busy": the run before it has not ended.

    "known": that instant has fired before. "refused": the platform refused its last messages for good, so it is paused for ``reason``.
    ``row`` is the stored message of a prompt, which is still to be handed out.
    """

    outcome: Literal["fired", "left out", "busy", "known", "changed", "refused"]
    row: InboxRow | None = None
    reason: str = ""


class JobLedger(Protocol):
    """Jobs and the log of their runs."""

    async def add(self, new: NewJob, next_at: datetime, reckoned_in: str) -> Job:
        """Store a job, and return it with its id."""
        ...

    async def get(self, job: str) -> Job | None:
        """Return a job by its id."""
        ...

    async def all(self, *, agent: str | None = None, asked_in: str | None = None) -> list[Job]:
        """Return jobs by their next instant, those that are done last."""
        ...

    async def count(self, agent: str) -> int:
        """Return how many jobs of an agent are not done."""
        ...

    async def change(self, job: Job) -> Job:
        """Store a changed job. Raises InvalidTransition when it was removed."""
        ...

    async def remove(self, job: str, *, by_person: bool = False) -> bool:
        """Delete a job and its log; return whether there was one. What it has sent or asked already goes on.

        A reminder of an alarm that a person removes is noted for ``removed_alarms``.
        """
        ...

    async def stopped(self, limit: int) -> list[Job]:
        """Return the jobs that the gateway paused for a reason, those that it paused last first."""
        ...

    async def removed_alarms(self, begins: str) -> dict[str, str]:
        """Return the texts of reminders that people removed, by their ``created_by``, which ``begins`` so."""
        ...

    async def due(self, now: datetime, *, limit: int = 500) -> tuple[list[Job], datetime | None]:
        """Return active jobs whose next instant is not after ``now``, in the order of instants, then of adding; and the next instant."""
        ...

    async def earliest(self) -> datetime | None:
        """Return the next instant of all active jobs."""
        ...

    async def mark(self) -> tuple[int | None, ...]:
        """Return figures that differ after any change of the jobs or of the log of their runs."""
        ...

    async def skipped_ahead(self, now: datetime) -> list[Job]:
        """Return jobs with left out instants that lie ahead, or that were added later than now, because the clock was set back."""
        ...

    async def of_former_zone(self, agent: str, zone: str) -> list[Job]:
        """Return the active jobs that follow the owner's zone and whose next instant was computed in another one than ``zone``."""
        ...

    async def reckon(self, job: Job) -> None:
        """Store a job's ``next_at``, ``reckoned_in`` and skipped instants, and make it active unless it is paused."""
        ...

    async def step(self, step: JobStep) -> StepResult:
        """Store a run, what it sends, and the job's next instant, in one transaction. The log keeps the newest runs of each job."""
        ...

    async def miss(self, steps: Sequence[JobStep], notice: NewOutbound) -> Sequence[StepResult]:
        """Store what steps without a run leave out, and the notice of it, all in one transaction."""
        ...

    async def pause(self, job: str, reason: str) -> bool:
        """Pause a job; return whether it was not paused before."""
        ...

    async def log(self, job: str, limit: int) -> list[JobRun]:
        """Return the newest runs, newest first."""
        ...
