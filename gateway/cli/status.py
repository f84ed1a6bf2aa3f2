"""``homebody status``, ``usage`` and ``context``: what runs, what models cost, and what fills the context window."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.invocation import Invocation, pass_invocation, tell

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.ledger.protocol import Ledger
    from gateway.ledger.spending import UsageBy


@click.command()
@click.option("--deep", is_flag=True, help="Also make the quick checks of `homebody doctor`, which ask no other machine.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_invocation
def status(invocation: Invocation, deep: bool, as_json: bool) -> int:
    """Show whether the gateway is running, and the state of its agents and channels. Exit code 1 if it is not running."""
    from gateway.base.state_lock import describe
    from gateway.cli import gateway_calls

    holder = describe(invocation.paths.state / "gateway.lock")
    paths = invocation.paths
    facts: dict[str, Any] = {"home": str(paths.home), "profile": paths.profile or None, "running": holder is not None}
    if holder is not None and holder.socket:
        facts |= {"started": holder.started, "httpPort": holder.http_port, "conversation": holder.conversation}
        facts |= asyncio.run(gateway_calls.ask(invocation.paths.state, "status"))
    text = _told(facts, invocation.local_time)
    if deep:
        facts["findings"], lines = _checked(invocation)
        text = "\n".join([text, *lines])
    tell(facts, text, as_json=as_json)
    return 0 if holder is not None else 1


def _checked(invocation: Invocation) -> tuple[list[dict[str, Any]], list[str]]:
    """Make the quick checks; return what they found, and the lines that tell of what is not well."""
    from shutil import get_terminal_size

    from gateway.cli.doctor import installation_of, lines_of
    from gateway.doctor.checks import QUICK
    from gateway.doctor.examination import examine
    from gateway.doctor.finding import at_least

    found = asyncio.run(examine(installation_of(invocation, offline=True), QUICK))
    wrong = list(at_least(found, "warning"))
    lines = [line for finding in wrong for line in lines_of(finding, width=max(60, get_terminal_size().columns))]
    summary = f"{len(QUICK)} quick checks found {len(wrong) or 'nothing'} {'to mend' if wrong else 'wrong'}; all checks: homebody doctor"
    return [finding.as_json() for finding in found], [*lines, summary]


def _told(facts: dict[str, Any], local: Callable[[str], str]) -> str:
    if not facts["running"]:
        return f"No gateway is running for {facts['home']}.\nStart it with: homebody gateway"
    if "agents" not in facts:
        return f"Another command is using {facts['home']}; no gateway is running."
    port = f", http://127.0.0.1:{facts['httpPort']}" if facts.get("httpPort") else ""
    lines = [f"The gateway has been running since {local(facts['started'])} (process {facts['pid']}{port})."]
    if facts.get("conversation"):
        lines = [f"A conversation in a terminal is open since {local(facts['started'])} (process {facts['pid']})."]
        lines += ["No chat platform is connected: leave it (Ctrl-D), then run: homebody gateway"]
    for name, agent in facts["agents"].items():
        lines.append(f"  agent {name}: {agent['sessions']} sessions, workspace {agent['workspace']}")
        lines += confinement_lines(facts["commands"].get(name))
    for name, channel in facts["channels"].items():
        heard = f", last contact {local(channel['heard'])}" if channel.get("heard") else ""
        lines.append(f"  channel {name}: {channel['state']}{heard}")
        lines += [f"    {channel[key]}" for key in ("trouble", "mend", "sending") if channel.get(key)]
    lines += mail_lines(facts.get("mail") or {})
    outbox = ", ".join(f"{count} {state}" for state, count in facts["outbox"].items() if state != "sent" and count) or "empty"
    if suspended := facts["turns"].get("suspended"):
        lines.append(f"  {suspended} turns wait for your approval: homebody approvals list")
    lines.append(f"  {facts['turns']['running']} turns running, {facts['inbox']['waiting']} messages waiting, outbox: {outbox}")
    lines += held_lines(facts["unasked"])
    lines += calendar_lines(facts.get("calendars") or {}, local)
    lines += mcp_lines(facts.get("mcp") or {})
    settings = facts.get("settings") or {}
    if settings.get("complaint"):
        lines.append(f"  ! the settings file has errors, so the previous settings stay in effect: {settings['complaint']}")
    if settings.get("waiting"):
        lines.append(f"  settings that take effect after a restart: {', '.join(settings['waiting'])}")
    lines += [f"  PAUSED: {cause}" for cause in facts["paused"]]
    lines += [f"  ! {notice}" for notice in facts["notices"]]
    return "\n".join(lines)


def held_lines(counts: dict[str, int]) -> list[str]:
    """Say how many unasked messages were not sent, and where to read them."""
    states = {"held": "held until quiet hours end", "kept": "kept beyond the number of a day"}
    told = [f"{counts[state]} {words}" for state, words in states.items() if counts[state]]
    return [f"  unasked messages: {', '.join(told)} (homebody outbox held)"] if told else []


def mail_lines(accounts: dict[str, Any]) -> list[str]:
    """Say of each mail account whether it is watched, and what keeps it from that."""
    lines = []
    for name, account in accounts.items():
        watched = "not watched" if account["watch"] == "off" else f"watch: {account['watch']}, {account['state'] or 'not yet'}"
        lines.append(f"  mail {name}: {account['address']}, {watched}")
        lines += [f"    {account['trouble']} (homebody mail test {name})"] if account["trouble"] else []
    return lines


def mcp_lines(servers: dict[str, Any]) -> list[str]:
    """Say which MCP servers there are, and what is wrong with them or waits to be approved."""
    if not servers:
        return []
    listed = [f"{name} ({one['state']})" for name, one in servers.items()]
    lines = [f"  MCP servers: {', '.join(listed)}"]
    for name, one in servers.items():
        lines += [f"    {name}: {one['error']} (homebody mcp test {name})"] if one["error"] else []
        lines += [f"    🔐 {name} changed: {one['difference']} (homebody mcp show {name})"] if one["difference"] else []
    return lines


def calendar_lines(accounts: dict[str, Any], local: Callable[[str], str]) -> list[str]:
    """Say which calendar accounts there are, and what is wrong with those whose alarms are sent."""
    if not accounts:
        return []
    lines = [f"  calendars: {', '.join(accounts)} (homebody calendar test)"]
    for name, one in accounts.items():
        if one.get("problem"):
            lines.append(f"    ! alarms of {name} are not up to date: {one['problem']}")
            lines += [f"      {one['mend']}"] if one.get("mend") else []
        elif one.get("looked"):
            lines.append(f"    alarms of {name}: {one['open']} in the next day and a half, looked at {local(one['looked'])}")
    return lines


def confinement_lines(standing: dict[str, Any] | None) -> list[str]:
    """Say how an agent's commands are confined, where it could be better."""
    if standing is None or not standing["reason"]:
        return []
    said = {
        "bwrap": "confined by bubblewrap",
        "landlock": "confined by Landlock",
        "off": "NOT CONFINED, so every one is asked about",
    }
    how = said[standing["rung"]] if standing["usable"] else "not run at all"
    return [f"    commands are {how}: {standing['reason']}", *([f"    {standing['hint']}"] if standing["hint"] else [])]


@click.command()
@click.option("--days", type=click.IntRange(1, 400), default=7, show_default=True, help="Number of days, including today.")
@click.option(
    "--by",
    type=click.Choice(["model", "origin", "source"]),
    default="model",
    show_default=True,
    help="model, origin (owner, guest, group, schedule, webhook, agent), or source (each job, webhook and sub-agent).",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_invocation
def usage(invocation: Invocation, days: int, by: UsageBy, as_json: bool) -> None:
    """Show tokens and cost by day, agent and model, with the share read from the provider's prompt cache."""
    from gateway.agents.memory_stores import owner_zone
    from gateway.budget.report import facts, first_day, told
    from gateway.cli.gateway_calls import call_ledger

    settings = invocation.loaded.settings
    since = first_day(datetime.now(UTC), owner_zone(settings.agent(settings.default_agent)), days)

    def handlers(ledger: Ledger) -> Any:
        async def look(since: str, by: UsageBy) -> dict[str, Any]:
            return facts(await ledger.spending.usage(since, by), by)

        return {"usage": look}

    found = call_ledger(invocation, handlers, "usage", since=since, by=by)
    tell(found, told(found, by), as_json=as_json)


@click.command()
@click.option("--agent", "agent_id", help="The agent (default: the default agent).")
@click.option("--session", help="The session key (default: the owner's main session).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_invocation
def context(invocation: Invocation, agent_id: str | None, session: str | None, as_json: bool) -> None:
    """Show each part of the next model request: characters, tokens and share."""
    facts = asyncio.run(_window_facts(invocation, agent_id, session))
    tell(facts, _window_table(facts), as_json=as_json)


async def _window_facts(invocation: Invocation, agent_id: str | None, session: str | None) -> dict[str, Any]:
    from gateway.base.state_lock import describe
    from gateway.cli import gateway_calls

    if describe(invocation.paths.state / "gateway.lock") is not None:
        found: dict[str, Any] = await gateway_calls.ask(invocation.paths.state, "context", agent=agent_id, session=session)
        return found
    from gateway.app.dependencies import Dependencies
    from gateway.app.gateway import Gateway

    gateway = await Gateway.open(Dependencies(settings=invocation.loaded.settings, paths=invocation.paths, env=os.environ))
    try:
        return await gateway.status.context(agent_id, session)
    finally:
        await gateway.close()


def _window_table(facts: dict[str, Any]) -> str:
    total = sum(part["tokens"] for part in facts["parts"]) or 1
    rows = [f"{'part':24} {'characters':>10} {'tokens':>8} {'share':>6}  cached"]
    rows += [
        f"{part['name'][:24]:24} {part['chars']:>10,} {part['tokens']:>8,} {part['tokens'] / total:>6.0%}  "
        f"{'yes' if part['cached'] else 'no'}"
        for part in facts["parts"]
    ]
    left = facts["turns_left"]
    obstacle = facts["flush_obstacle"]
    rows += [
        "",
        f"{facts['tokens']:,} of {facts['window']:,} tokens; memory is "
        + (f"not flushed: {obstacle}" if obstacle else f"flushed at {facts['flush_at']:,}")
        + ("" if left is None or obstacle else f", in about {left} turns")
        + f"; history is compacted above {facts['compact_above']:,}.",
    ]
    rows += [facts["too_small"]] if facts["too_small"] else []
    return "\n".join(rows)
