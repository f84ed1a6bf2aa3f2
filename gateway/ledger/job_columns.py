"""Jobs and their runs as columns of the ledger's tables, and read from them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import asdict, fields

from channels.messages import ChatAddress
from gateway.ledger.job_rows import Job, JobRun, NewJob, RunResult, Span
from gateway.ledger.values import as_conversation, clean, instant, stamp
from memory.audience import Audience

_PLAIN: Final = ("id", "agent", "name", "state", "schedule", "zone", "asked_in", "reason")
TIMES: Final = ("created_at", "changed_at", "next_at", "last_at", "unsure_until")
_SKIPPED: Final = ("skipped", "skipped_from", "skipped_to")
_DETAILS: Final = tuple(field.name for field in fields(NewJob) if field.name not in _PLAIN)
COLUMNS: Final = ", ".join((*_PLAIN, "details", "reckoned_in", *_SKIPPED, *TIMES))
_RESULTS: Final[dict[str | None, RunResult]] = {
    "waiting": "waiting",
    "claimed": "running",
    "answered": "done",
    "ignored": "done",
    "failed": "failed",
    "held": "waiting",
    "kept": "waiting",
    "ready": "waiting",
    "sending": "running",
    "ambiguous": "running",
    "sent": "done",
    "dead": "failed",
}


def flat_job(job: NewJob) -> dict[str, Any]:
    """Return the columns of a job that people decide about."""
    details = {name: getattr(job, name) for name in _DETAILS}
    deliver = details["deliver"]
    details["deliver"] = asdict(deliver) if isinstance(deliver, ChatAddress) else deliver
    details["audience"] = [job.audience.kind, job.audience.key]
    values = {name: clean(getattr(job, name)) for name in ("agent", "name", "schedule", "zone", "asked_in")}
    return values | {"details": json.dumps(details, separators=(",", ":"))}


def flat_spans(spans: Sequence[Span]) -> dict[str, Any]:
    """Return the columns of the instants that were left out: the spans, where they begin, and where they end."""
    if not spans:
        return dict.fromkeys(_SKIPPED)
    numbers = [[stamp(first), stamp(end)] for first, end in spans]
    return {"skipped": json.dumps(numbers), "skipped_from": numbers[0][0], "skipped_to": numbers[-1][1]}


def _spans(found: str | None, first: int | None, end: int | None) -> tuple[Span, ...]:
    """Decode the spans. Earlier versions wrote no more than one, into columns of its own."""
    numbers = json.loads(found) if found else [] if first is None or end is None else [[first, end]]
    return tuple((instant(one), instant(other)) for one, other in numbers)


def read_details(details: str) -> dict[str, Any]:
    """Decode the column ``details``. Raises ValueError, TypeError or KeyError for what is none.

    Fields of later versions are ignored, and infinite amounts, which were once taken, are no amounts.
    """
    found = {name: value for name, value in json.loads(details, parse_constant=lambda _: None).items() if name in _DETAILS}
    found["audience"] = Audience(*found["audience"])
    if isinstance(found.get("deliver"), dict):
        found["deliver"] = as_conversation(found["deliver"])
    for name in ("tools", "sources"):
        if isinstance(found.get(name), list):
            found[name] = tuple(found[name])
    return found


def read_job(found: Sequence[Any]) -> Job:
    """Read a job, selected as ``COLUMNS``."""
    plain = dict(zip(_PLAIN, found, strict=False))
    details, reckoned_in, spans, first, end, *times = found[len(_PLAIN) :]
    at = {name: None if value is None else instant(value) for name, value in zip(TIMES, times, strict=True)}
    return Job(**plain, **read_details(details), **at, reckoned_in=reckoned_in, skipped=_spans(spans, first, end))  # type: ignore[arg-type]  # columns that are not null


def read_run(found: Any) -> JobRun:
    """Read a run, selected with the states of its message and its answer."""
    job, at, stored, state, reason, until, by_hand, answered, turn, sent = found
    return JobRun(
        job=job,
        instant=instant(at),
        at=instant(stored),
        state=state,
        reason=reason,
        until=None if until is None else instant(until),
        by_hand=bool(by_hand),
        result=_RESULTS.get(answered or sent),
        turn=turn,
    )
