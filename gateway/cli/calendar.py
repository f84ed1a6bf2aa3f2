"""``homebody calendar``: the configured calendar accounts, whether they work, and what is on."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.invocation import Invocation, pass_invocation, tell

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from zoneinfo import ZoneInfo

    from gateway.calendar.calendar_source import CalendarSource

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_NONE = "No calendar account is configured. docs/calendar.md says how: calendar.accounts.NAME.url, .user and .password."
_DAYS = 7
_LONGEST = 120
"""Characters of a title or a place in a list."""


@click.group()
def calendar() -> None:
    """Show and check the calendars that agents use (docs/calendar.md)."""


@calendar.command()
@_JSON
@pass_invocation
def accounts(invocation: Invocation, *, as_json: bool) -> None:
    """List the configured accounts, and which agents have them."""
    settings = invocation.loaded.settings
    found: list[dict[str, Any]] = [
        {
            "name": name,
            "address": one.url or one.ics,
            "kind": "feed" if one.ics is not None else "caldav",
            "user": one.user,
            "agents": list(one.agents or (settings.default_agent,)),
            "alarms": one.alarms,
            "contacts": one.contacts,
        }
        for name, one in settings.calendar.accounts.items()
    ]
    lines = [
        f"{one['name']:16} {one['address']}  {one['kind']}, agents: {', '.join(one['agents'])}"
        f"{', alarms' if one['alarms'] else ''}{', contacts' if one['contacts'] else ''}"
        for one in found
    ]
    tell(found, "\n".join(lines) or _NONE, as_json=as_json)


@calendar.command()
@click.argument("account", required=False)
@_JSON
@pass_invocation
def test(invocation: Invocation, *, account: str | None, as_json: bool) -> int:
    """Connect to all accounts or to ACCOUNT, and say what is wrong and what mends it. Exit code 1 if anything is."""
    sources, zone = _sources(invocation, account)
    found = asyncio.run(_tested(sources, zone))
    tell(found, "\n".join(line for one in found for line in _told_test(one)) or _NONE, as_json=as_json)
    return 0 if all(one["ok"] for one in found) and found else 1


@calendar.command(name="list")
@click.option("--from", "start", metavar="DAY", help="The first day, such as 2026-11-24 (default: today).")
@click.option("--to", "end", metavar="DAY", help=f"The last day (default: {_DAYS} days).")
@click.option("--account", metavar="NAME", help="Only this account.")
@_JSON
@pass_invocation
def list_(invocation: Invocation, *, start: str | None, end: str | None, account: str | None, as_json: bool) -> int:
    """List the events of a period. Exit code 1 if an account could not be read."""
    sources, zone = _sources(invocation, account)
    facts = asyncio.run(_listed(sources, zone, _day(start), _day(end)))
    tell(facts, "\n".join(_told_list(facts, zone)) if sources else _NONE, as_json=as_json)
    return 1 if facts["problems"] else 0


def _sources(invocation: Invocation, account: str | None) -> tuple[Sequence[CalendarSource], ZoneInfo]:
    from gateway.agents.memory_stores import owner_zone
    from gateway.app.calendar_parts import account_of
    from gateway.base.clock import SystemClock
    from gateway.base.errors import UsageError
    from gateway.calendar.calendar_source import CalendarSource
    from gateway.calendar.ical_process import CalendarProcess
    from gateway.net.fetcher import GuardedFetcher

    settings = invocation.loaded.settings
    known = settings.calendar.accounts
    if account is not None and account not in known:
        raise UsageError(
            f"there is no calendar account {account!r}",
            hint=f"There is: {', '.join(known) or 'none'}. homebody calendar accounts",
        )
    fetcher, process, clock = GuardedFetcher(), CalendarProcess(), SystemClock()
    chosen = {name: one for name, one in known.items() if account in {None, name}}
    made = [CalendarSource(account_of(name, one), fetcher, process, clock) for name, one in chosen.items()]
    return made, owner_zone(settings.agent(settings.default_agent))


def _day(given: str | None) -> str | None:
    from pydantic import TypeAdapter, ValidationError

    from agent.tools.calendar_tool import When
    from gateway.base.errors import UsageError

    try:
        return None if given is None else str(TypeAdapter(When).validate_python(given))
    except ValidationError as error:
        reason = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise UsageError(reason, hint="homebody calendar list --from 2026-11-24 --to 2026-11-30") from error


async def _tested(sources: Sequence[CalendarSource], zone: ZoneInfo) -> list[dict[str, Any]]:
    return list(await asyncio.gather(*(_test(one, zone) for one in sources)))


async def _test(source: CalendarSource, zone: ZoneInfo) -> dict[str, Any]:
    """Do once what agents do: find the calendars, read a week, and the address books where they are used."""
    from agent.errors import CalendarFailed

    account = source.account
    facts: dict[str, Any] = {"account": account.name, "address": account.url, "ok": True}
    if account.password and account.url.startswith("http://"):
        facts["warning"] = "the password is sent unencrypted, as the address begins with http://"
    try:
        found = await source.calendars()
        facts["calendars"] = [{"name": one.name, "writable": one.writable} for one in found]
        now = datetime.now(UTC)
        reading = await source.read(now, now + timedelta(days=_DAYS), zone)
        facts |= {"events": len(reading.events), "unreadable": list(reading.problems)}
        if account.default:
            await source.usual_calendar()
        if account.contacts:
            facts["contacts"] = len(await source.contacts())
    except CalendarFailed as error:
        facts |= {"ok": False, "problem": str(error), "mend": error.hint}
    return facts


def _told_test(one: dict[str, Any]) -> list[str]:
    lines = [f"{one['account']}: {'works' if one['ok'] else 'does not work'} ({one['address']})"]
    names = [f"{found['name']}{'' if found['writable'] else ' (read only)'}" for found in one.get("calendars", [])]
    lines += [f"  calendars: {', '.join(names)}"] if names else []
    lines += [f"  events in the next {_DAYS} days: {one['events']}"] if "events" in one else []
    lines += [f"  contacts: {one['contacts']}"] if "contacts" in one else []
    lines += [f"  ! {problem}" for problem in one.get("unreadable", [])]
    lines += [f"  ! {one['warning']}"] if "warning" in one else []
    if not one["ok"]:
        lines += [f"  {one['problem']}", *([f"  {one['mend']}"] if one["mend"] else [])]
    return lines


async def _listed(sources: Sequence[CalendarSource], zone: ZoneInfo, start: str | None, end: str | None) -> dict[str, Any]:
    from agent.errors import CalendarFailed
    from gateway.base.errors import UsageError
    from gateway.calendar.period import instant_of, period_of

    try:
        period = period_of(start, end, zone, datetime.now(UTC), days=_DAYS)
    except CalendarFailed as error:
        raise UsageError(str(error), hint=error.hint or "homebody calendar list --help") from error
    events: list[dict[str, Any]] = []
    problems: list[str] = []
    for source in sources:
        try:
            reading = await source.read(period.start, period.end, zone)
        except CalendarFailed as error:
            problems.append(f"{error}. {error.hint}".strip())
            continue
        problems += reading.problems
        events += [
            {
                **{name: one.instance[name] for name in ("start", "end", "title", "place", "status", "busy", "people", "rule")},
                "account": one.account.name,
                "calendar": one.calendar.name,
                "id": str(one.reference(zone)),
            }
            for one in reading.events
        ]
    events.sort(key=lambda one: (instant_of(one["start"], zone), one["title"]))
    return {
        "from": period.start.isoformat(),
        "to": period.end.isoformat(),
        "zone": zone.key,
        "events": events,
        "problems": problems,
    }


def _told_list(facts: dict[str, Any], zone: ZoneInfo) -> list[str]:
    from gateway.calendar.period import span_in_words

    now = datetime.now(zone)
    lines = [
        f"{span_in_words(one, zone, now):34} {_cut(one['title'] or '(no title)')}{', ' + _cut(one['place']) if one['place'] else ''}"
        f"  [{one['calendar']}]{_standing(one)}"
        for one in facts["events"]
    ]
    return [*(lines or ["Nothing is on."]), *(f"! {problem}" for problem in facts["problems"])]


def _standing(one: Mapping[str, Any]) -> str:
    """Say of an event that it is cancelled, or not yet sure."""
    status = str(one.get("status", ""))
    return f" ({status.lower()})" if status in {"CANCELLED", "TENTATIVE"} else ""


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
