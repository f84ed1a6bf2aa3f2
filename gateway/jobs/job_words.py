"""Says what a job is: for models, for chats and for the command line."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

from channels.messages import ChatAddress
from gateway.base.foreign_words import unformatted
from gateway.ledger.job_rows import Job, JobRun, NewJob
from gateway.schedules.schedule import At, Schedule, from_text
from gateway.schedules.schedule_words import in_words, instant_in_words, next_three

_NAME: Final = 40
_STATES: Final = {"active": "", "paused": "paused", "done": "ended"}


def name_for(text: str) -> str:
    """Return a name for a job that nobody named: the beginning of its text."""
    line = " ".join("".join(one if one.isprintable() else " " for one in text).split()).rstrip(" .!")
    if len(line) > _NAME:
        line = f"{line[:_NAME].rpartition(' ')[0] or line[:_NAME]}…"
    return line or "unnamed"


def schedule_of(job: NewJob, zone: ZoneInfo) -> Schedule:
    """Return a job's schedule; ``zone`` is the owner's. Raises ValueError or ScheduleError where it is not readable any more."""
    from gateway.schedules.parsing import zone_named

    return from_text(job.schedule, zone_named(job.zone) if job.zone else zone)


def kind_of(job: NewJob) -> str:
    """Return "reminder" or "task"."""
    return "reminder" if job.kind == "message" else "task"


def named(job: Job) -> str:
    """Name a job, such as ``Reminder “Water the plants” (abcde)``."""
    return f"{kind_of(job).capitalize()} “{unformatted(job.name)}” ({job.id})"


def words_of(job: NewJob, zone: ZoneInfo, now: datetime) -> str:
    """Say when a job is due, in ``zone``, such as "At 09:00 on Monday through Friday"."""
    try:
        return in_words(schedule_of(job, zone), zone, now)
    except ValueError:
        return f"its schedule cannot be read ({job.schedule})"


def coming(job: NewJob, zone: ZoneInfo, now: datetime) -> list[datetime]:
    """Return the next three instants of a job that repeats, in ``zone``; none for one that does not, or that is paused or done."""
    if isinstance(job, Job) and job.state != "active":
        return []
    try:
        schedule = schedule_of(job, zone)
    except ValueError:
        return []
    return [] if isinstance(schedule, At) else next_three(schedule, zone, now)


def _due(job: NewJob, zone: ZoneInfo, now: datetime) -> tuple[str, str]:
    """Return when a job is due, with the zone of its times, and its next instants, with their zone if it is another; "" for none."""
    words, following = words_of(job, zone, now), _instants(coming(job, zone, now), zone, now)
    own = f" ({job.zone})" if job.zone else ""
    if own and words.endswith(own):
        return words, f"Next, in {zone.key}: {following}" if following else ""
    return f"{words} ({zone.key})", f"Next: {following}" if following else ""


def job_lines(job: Job, zone: ZoneInfo, now: datetime, whose: str = "the owner's") -> list[str]:
    """Say all that matters of a job in sentences, the first two with its times. ``whose`` names the owner's chat."""
    state, (words, following) = _STATES[job.state], _due(job, zone, now)
    return [
        f"{named(job)}: {words}.",
        *([f"{following}."] if following else []),
        target(job, whose),
        *([f"It is {state}{f': {job.reason}' if job.reason else ''}."] if state else []),
    ]


def _instants(instants: Sequence[datetime], zone: ZoneInfo, now: datetime) -> str:
    return " · ".join(instant_in_words(one, zone, now) for one in instants)


def line(job: Job, zone: ZoneInfo, now: datetime) -> str:
    """Say a job in a line of a list, without its id and its zone."""
    following = f", next {_instants(instants[:1], zone, now)}" if (instants := coming(job, zone, now)) else ""
    state = _STATES[job.state]
    return f"“{unformatted(job.name)}” ({kind_of(job)}): {words_of(job, zone, now)}{following}{f', {state}' if state else ''}"


def target(job: NewJob, whose: str = "the owner's") -> str:
    """Say where a job's message or reply goes. ``whose`` names the owner's chat."""
    what = "It" if job.kind == "message" else "The answer"
    if job.deliver == "none":
        return f"{what} is sent nowhere."
    if isinstance(job.deliver, ChatAddress):
        return f"{what} goes to {job.deliver.address}."
    return f"{what} goes to {whose} latest chat."


def whole(job: NewJob, zone: ZoneInfo, now: datetime) -> str:
    """Return a job with all of its text, line by line, for whoever has to decide about it."""
    words, following = _due(job, zone, now)
    lines = [f"When: {words}", *([following] if following else []), target(job)]
    if job.kind == "prompt":
        session = "the main conversation" if job.session == "main" else "a conversation of its own"
        lines.append(f"It runs in {session}{f', with {job.model}' if job.model else ''}.")
    lines += [f"It may use: {', '.join(job.tools)}"] if job.tools is not None else []
    return "\n".join([*lines, "Text:" if job.kind == "message" else "Prompt:", job.text])


def run_lines(runs: Sequence[JobRun], zone: ZoneInfo, now: datetime) -> list[str]:
    """Say each run of a job in a line, the newest first."""
    return [_told_run(run, zone, now) for run in runs]


def _told_run(run: JobRun, zone: ZoneInfo, now: datetime) -> str:
    until = f" until {instant_in_words(run.until, zone, now)}" if run.until else ""
    came = {"fired": run.result or "fired", "skipped": "left out", "missed": "missed"}[run.state]
    reason = f" ({run.reason})" if run.reason else ""
    return f"{instant_in_words(run.instant, zone, now)}{until}: {came}{reason}{', by hand' if run.by_hand else ''}"


def facts(job: Job, zone: ZoneInfo, now: datetime, *, brief: bool = False) -> dict[str, Any]:
    """Return a job as JSON values. Instants have the offset of ``zone``. ``brief``: ``next`` has one at most, as all take a while."""
    next_three = [] if brief else coming(job, zone, now)
    return {
        "id": job.id,
        "name": job.name,
        "agent": job.agent,
        "kind": kind_of(job),
        "state": job.state,
        "reason": job.reason,
        "schedule": job.schedule,
        "words": words_of(job, zone, now),
        "zone": job.zone or zone.key,
        "next": [one.isoformat() for one in next_three] or [one for one in [_local(job.next_at, zone)] if one],
        "nextAt": _local(job.next_at, zone),
        "lastAt": _local(job.last_at, zone),
        "createdAt": _local(job.created_at, zone),
        "text": job.text,
        "to": job.deliver.address if isinstance(job.deliver, ChatAddress) else job.deliver or "owner",
        "session": job.session if job.kind == "prompt" else None,
        "audience": " ".join(filter(None, (job.audience.kind, job.audience.key))),
        "model": job.model,
        "tools": None if job.tools is None else list(job.tools),
        "usdPerDay": job.daily_usd,
        "tokensPerDay": job.daily_tokens,
        "urgent": job.urgent,
        "catchUpSeconds": job.catch_up_seconds,
        "askedIn": job.asked_in,
        "untrusted": list(job.sources),
    }


def run_facts(run: JobRun, zone: ZoneInfo) -> dict[str, Any]:
    """Return a run as JSON values."""
    return {
        "instant": _local(run.instant, zone),
        "until": _local(run.until, zone),
        "at": _local(run.at, zone),
        "state": run.state,
        "result": run.result,
        "reason": run.reason,
        "byHand": run.by_hand,
        "turn": run.turn,
    }


def _local(instant: datetime | None, zone: ZoneInfo) -> str | None:
    return None if instant is None else instant.astimezone(zone).isoformat(timespec="seconds")
