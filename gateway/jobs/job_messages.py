"""What a run of a job says: the message to the agent, the reminder that is sent, and the lines for the owner."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from agent.taint import Marks, fenced, random_mark
from channels.messages import ChatAddress, Inbound, Sender
from channels.silent import silent_place
from gateway.base.foreign_words import unformatted
from gateway.jobs.planning import LATE, NOT_RUNNING, UNSURE
from gateway.ledger.job_rows import Job, JobStep
from gateway.ledger.rows import NewOutbound, Unasked
from gateway.ledger.values import stamp
from gateway.routing.routed_message import Automation, arrival_of
from gateway.routing.router import Route
from gateway.schedules.schedule_words import instant_in_words
from memory.audience import OWNER

MOST_LINES = 10
"""The most jobs that one notice names."""
_LONGEST_LINE = 300


def prompt_step(job: Job, fire: datetime, now: datetime, place: ChatAddress | None, main_session: str) -> JobStep:
    """Return the step that gives a job's prompt to its agent. Without a ``place`` its reply is not sent anywhere."""
    isolated = job.session == "isolated"
    shared = job.asked_in if job.audience != OWNER and job.asked_in else main_session
    session = job.session_key if isolated else shared
    key = f"{job.id}:{stamp(fire):x}"
    inbound = Inbound(
        conversation=place or silent_place(session),
        sender=Sender(id=f"job:{job.id}", name=job.name),
        text=job.text,
        at=fire,
        key=key,
        alias=key,
        message_id=key,
    )
    automation = Automation(
        origin="schedule",
        name=job.name,
        source=f"job:{job.id}",
        fresh=isolated,
        model=job.model,
        allow=job.tools,
        daily_usd=job.daily_usd,
        daily_tokens=job.daily_tokens,
        urgent=job.urgent,
        sources=job.sources,
        owner=job.owner,
    )
    route = Route(agent=job.agent, session=session, audience=job.audience)
    return JobStep(job=job.id, fire=fire, arrival=arrival_of(inbound, route, automation, now))


def reminder_step(
    job: Job,
    fire: datetime,
    now: datetime,
    place: ChatAddress,
    *,
    zone: ZoneInfo,
    unasked: Unasked | None,
    name: str = "",
    marks: Marks = random_mark,
) -> JobStep:
    """Return the step that sends a job's text as it is, subject to the rules of ``unasked`` messages. One that is late says so.

    The model is told of it with the next message; words of others, such as the title of an event with an alarm, are fenced. In a
    chat that another agent answers, the ``name`` of the job's agent stands before the text, and that agent's model is told nothing.
    """
    due = instant_in_words(fire, zone, now)
    late = f"\n(It was due on {due}; {NOT_RUNNING}.)" if now - fire >= LATE else ""
    message = NewOutbound(
        conversation=place,
        text=f"⏰ {name}: {job.text}{late}" if name else f"⏰ {job.text}{late}",
        ttl=job.catch_up or LATE,
        key=f"job:{job.id}:{stamp(fire):x}",
        unasked=unasked,
    )
    if name:
        line = ""
    elif job.sources:
        line = f"[A reminder of {due}, for this chat]\n{fenced(f'{job.name}: {_one_line(job.text)}', job.sources, marks)}"
    else:
        line = f"[reminder “{job.name}” of {due}: {_one_line(job.text)}]"
    return JobStep(job=job.id, fire=fire, message=message, line=line, sources=job.sources)


def asked_by(step: JobStep, request: str) -> JobStep:
    """Return a step whose message is named after the ``request`` that asks for it, so that a repeat of it is known; "" changes nothing."""
    if not request:
        return step
    key = f"job:{step.job}:asked:{hashlib.sha256(request.encode()).hexdigest()[:24]}"
    arrival, message = step.arrival, step.message
    return replace(
        step,
        named=True,
        arrival=None if arrival is None else replace(arrival, key=key, alias=key),
        message=None if message is None else replace(message, key=key),
    )


def missed_notice(missed: Sequence[tuple[Job, datetime]], zones: Sequence[ZoneInfo], now: datetime) -> str:
    """Return the notice that tells the owner of jobs that did not run, with a line and a command for each."""
    lines = []
    for (job, at), zone in zip(missed[:MOST_LINES], zones, strict=False):
        unsure = job.unsure_until is not None and at <= job.unsure_until
        how = f"may have run: {UNSURE}" if unsure else f"did not run: {NOT_RUNNING}"
        lines.append(
            f"“{unformatted(job.name)}” was due on {instant_in_words(at, zone, now)} and {how}. Run it now: `homebody cron run {job.id}`"
        )
    if len(missed) > MOST_LINES:
        lines.append(f"and {len(missed) - MOST_LINES} more jobs: `homebody cron list` shows them all.")
    return f"⏰ {lines[0]}" if len(lines) == 1 else "⏰ These jobs were missed:\n" + "\n".join(f"- {line}" for line in lines)


def paused_notice(job: Job, reason: str, mend: str) -> str:
    """Return the line that tells the owner that a job was paused."""
    return (
        f"⏰ The job “{unformatted(job.name)}” is paused: {reason}. {mend} Then let it go on: `homebody cron resume {job.id}`"
    )


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]} …"
