"""Makes jobs of another program's cron jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from agent import fault_injection
from gateway.api.handlers.job_requests import stored_jobs
from gateway.base.clock import SystemClock
from gateway.base.errors import HomebodyError
from gateway.base.paths import Paths
from gateway.ledger.open_ledger import open_ledger
from gateway.migration.foreign_state import ForeignState, agent_id, read_json
from gateway.migration.migration_report import Report
from gateway.migration.openclaw_database import reported
from gateway.schedules.parsing import parse_schedule, zone_named
from gateway.settings.root import Settings

KIND: Final = "jobs"
_PLATFORMS: Final = frozenset({"telegram", "discord", "slack"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    """The arguments of ``JobHandlers.add``, and what differs from the job as it was."""

    name: str
    arguments: Mapping[str, Any]
    paused: bool
    told: str


class CannotBeTaken(ValueError):
    """A job that is not taken over; the message says why."""


def import_jobs(state: ForeignState, paths: Paths, settings: Settings, report: Report, *, dry_run: bool) -> None:
    """Add the jobs to the ledger, and report each."""
    listed = _stored(state, report)
    wishes = list(_wishes([job for job in listed if isinstance(job, dict)], settings, report))
    if not wishes:
        return
    if dry_run:
        for wish in wishes:
            report.add(KIND, wish.name, "changed" if wish.told else "taken", wish.told)
        return
    asyncio.run(_add(paths, settings, wishes, report))


def _stored(state: ForeignState, report: Report) -> list[Any]:
    """Return the jobs of the database, or of the file where there is no database."""
    with reported(report, KIND, state.shared_database) as database:
        if database is not None:
            jobs = database.jobs()
            if own := sum(one.own for one in jobs):
                report.add(KIND, f"{own} jobs of {state.program}", "left out", "it made them for its own upkeep")
            return [one.job for one in jobs if not one.own]
    file = state.folder / "cron" / "jobs.json"
    try:
        raw = read_json(file)
    except (OSError, ValueError) as error:
        report.add(KIND, str(file), "problem", str(error))
        return []
    listed = list((raw.get("jobs") if isinstance(raw, dict) else raw) or ())
    if odd := sum(not isinstance(job, dict) for job in listed):
        several = odd > 1
        report.add(
            KIND,
            f"{odd} {'entries' if several else 'entry'} of {file.name}",
            "problem",
            "they are no jobs" if several else "it is no job",
        )
    return listed


def _wishes(jobs: list[dict[str, Any]], settings: Settings, report: Report) -> Iterator[_Wish]:
    for job in jobs:
        name = str(job.get("name") or job.get("id") or "a job")[:80]
        try:
            wish = _wish(name, job, settings)
            zone = zone_named(wish.arguments["zone"]) if "zone" in wish.arguments else UTC
            parse_schedule(wish.arguments["when"], zone=zone, now=datetime.now(UTC))  # type: ignore[arg-type]
        except CannotBeTaken as reason:
            report.add(KIND, name, "left out", str(reason))
        except HomebodyError as error:
            report.add(KIND, name, "problem", str(error))
        else:
            yield wish


def _wish(name: str, job: Mapping[str, Any], settings: Settings) -> _Wish:
    payload = _section(job, "payload")
    text = str(payload.get("text") or payload.get("message") or "").strip()
    if not text:
        raise CannotBeTaken("it has no text")
    arguments: dict[str, Any] = {"text": text, "name": name, "kind": "task", "when": _when(_section(job, "schedule"))}
    agent = agent_id(str(job.get("agentId") or settings.default_agent))
    if agent not in settings.agent_ids:
        raise CannotBeTaken(f"there is no agent {agent}")
    arguments["agent"] = agent
    arguments["session"] = "main" if job.get("sessionTarget") == "main" else "isolated"
    if zone := _section(job, "schedule").get("tz"):
        arguments["zone"] = str(zone)
    if payload.get("model"):
        arguments["model"] = str(payload["model"])
    to, note = _to(job, payload)
    if to:
        arguments["to"] = to
    return _Wish(name=name, arguments=arguments, paused=job.get("enabled") is False, told=note)


def _when(schedule: Mapping[str, Any]) -> str:
    match schedule.get("kind"):
        case "cron" if schedule.get("expr"):
            expression = str(schedule["expr"]).split()
            if len(expression) == 6:  # noqa: PLR2004 - with seconds, which are cut
                expression = expression[1:]
            return " ".join(expression)
        case "every":
            seconds = round(_number(schedule.get("everyMs")) / 1000)
            return f"every {max(1, round(seconds / 60))} minutes"
        case "at":
            return _instant(schedule).isoformat(timespec="minutes")
    raise CannotBeTaken(f"its schedule is of an unknown kind: {schedule.get('kind')!r}")


def _instant(schedule: Mapping[str, Any]) -> datetime:
    try:
        if schedule.get("at"):
            found = datetime.fromisoformat(str(schedule["at"]))
            instant = found if found.tzinfo else found.replace(tzinfo=UTC)
        else:
            instant = datetime.fromtimestamp(_number(schedule.get("atMs")) / 1000, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise CannotBeTaken("its instant cannot be read") from error
    if instant <= datetime.now(UTC):
        raise CannotBeTaken(f"it was due once, on {instant:%d %b %Y, %H:%M} UTC")
    return instant


def _to(job: Mapping[str, Any], payload: Mapping[str, Any]) -> tuple[str, str]:
    """Return where the answer goes, as ``homebody cron add --to`` takes it ("" for the usual place), and what changes."""
    if job.get("sessionTarget") == "main":
        return "", ""
    delivery = _section(job, "delivery")
    channel = str(payload.get("channel") or delivery.get("channel") or "last")
    to = str(payload.get("to") or delivery.get("to") or "")
    wanted = payload.get("deliver") is True or delivery.get("mode") == "announce" or bool(to)
    if not wanted:
        return "none", "its answer is sent nowhere, as before; `homebody cron change` with --to changes that"
    if channel == "last" or not to:
        return "owner", ""
    if channel not in _PLATFORMS:
        return "owner", f"its answer goes to your latest chat, because {channel} is not connected here"
    chat, _, thread = to.removeprefix("telegram:").partition(":topic:")
    kind = "group" if chat.startswith("-") or to.startswith(("channel:", "group:")) else "direct"
    chat = chat.removeprefix("channel:").removeprefix("group:").removeprefix("user:")
    return f"{channel}:default:{kind}:{chat}{f':thread:{thread}' if thread else ''}", ""


def _number(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise CannotBeTaken("its schedule has no time")


def _section(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = values.get(key)
    return found if isinstance(found, dict) else {}


async def _add(paths: Paths, settings: Settings, wishes: list[_Wish], report: Report) -> None:
    ledger = await open_ledger(paths.state, settings.storage, SystemClock())
    try:
        handlers = stored_jobs(ledger, settings)
        there = [job.name for job in await ledger.jobs.all()]  # of a take-over that was broken off
        for wish in wishes:
            if wish.name in there:
                there.remove(wish.name)
                report.add(KIND, wish.name, "taken")
                continue
            try:
                added = await handlers.add(**wish.arguments)
                fault_injection.point("after", "migration_job")
                if wish.paused:
                    await handlers.pause(added["job"]["id"])
            except HomebodyError as error:
                report.add(KIND, wish.name, "problem", error.as_text())
            else:
                text = "; ".join(filter(None, [added["job"]["words"], "paused" if wish.paused else "", wish.told]))
                report.add(KIND, wish.name, "changed" if wish.told else "taken", text)
    finally:
        await ledger.close()
