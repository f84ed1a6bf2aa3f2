"""``homebody status`` and ``usage``: what runs, and what models cost."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.backup_texts import counted
from gateway.cli.invocation import Invocation, pass_invocation, tell, terminal_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from gateway.ledger.protocol import Ledger
    from gateway.ledger.spending_rows import UsageBy


@click.command()
@click.option("--deep", is_flag=True, help="Also make the quick checks of `homebody doctor`, which ask no other machine.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_invocation
def status(invocation: Invocation, deep: bool, as_json: bool) -> int:
    """Show whether the gateway is running, and the state of its agents and channels. Exit code 1 if it is not running."""
    from gateway.backup.unfinished_restore import unfinished
    from gateway.base.state_lock import describe, restarting
    from gateway.cli import gateway_calls

    invocation.may_be_restoring = True
    holder = describe(invocation.paths.lock)
    back = restarting(invocation.paths.lock) if holder is None else None
    paths = invocation.paths
    facts: dict[str, Any] = {"home": str(paths.home), "profile": paths.profile or None, "running": holder is not None}
    facts |= {"gateway": paths.gateway} if paths.gateway else {}
    facts |= {"startsAgain": back.pid} if back is not None else {}
    if holder is not None and holder.socket:
        facts |= {"started": holder.started, "httpPort": holder.http_port, "conversation": holder.conversation}
        told = asyncio.run(gateway_calls.ask(invocation.paths.local, "status"))
        for name, fact in facts.items():
            told.setdefault(name, fact)
        facts = told  # not joined into another: what it does not tell is told as of another version
    if holder is None:
        facts["settings"] = {"complaint": _settings_complaint(invocation)}
    facts["backup"] = (facts.get("backup") or {}) | _last_backup(invocation)
    text = "\n".join([_status_text(facts, invocation.local_time), *backup_lines(facts["backup"], invocation.local_time)])
    if (broken_off := unfinished(paths.home)) is not None:
        facts["unfinishedRestore"] = broken_off.as_json()
        text = f"{text}\n  ! {broken_off.message}\n    {broken_off.hint}"
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


def _not_running(facts: dict[str, Any], name: str) -> str:
    if facts.get("startsAgain"):
        return f"The gateway{name} is starting itself again (process {facts['startsAgain']}). Look again in a moment."
    lines = [f"No gateway{name} is running for {facts['home']}."]
    if complaint := facts["settings"]["complaint"]:
        return "\n".join(
            [*lines, f"Its settings have errors, with which it does not start:\n{complaint}", "Then: homebody start"]
        )
    return "\n".join([*lines, "Start it with: homebody start"])


def _settings_complaint(invocation: Invocation) -> str | None:
    """Return what is wrong with the settings, with what mends it; None where nothing is."""
    from gateway.base.errors import HomebodyError

    try:
        _ = invocation.loaded
    except HomebodyError as wrong:
        return wrong.as_text()
    return None


def _status_text(facts: dict[str, Any], local: Callable[[str], str]) -> str:
    name = f" {facts['gateway']}" if facts.get("gateway") else ""
    if not facts["running"]:
        return _not_running(facts, name)
    if "agents" not in facts:
        return f"Another command is using {facts['home']}; no gateway is running."
    port = f", http://127.0.0.1:{facts['httpPort']}" if facts.get("httpPort") else ""
    lines = [
        f"The gateway{name} {facts['version']} has been running since {local(facts['started'])} (process {facts['pid']}{port})."
    ]
    if facts.get("conversation"):
        lines = [f"A conversation in a terminal is open since {local(facts['started'])} (process {facts['pid']})."]
        lines += ["No chat platform is connected: leave it (Ctrl-D), then run: homebody start"]
    lines += gateway_lines(facts.get("gateways", ()))
    for name, agent in facts["agents"].items():
        lines.append(f"  agent {name}: {agent['sessions']} sessions, workspace {agent['workspace']}")
        lines += confinement_lines(facts["commands"].get(name))
        if kept := (facts.get("workspaces") or {}).get(name):
            lines += workspace_lines(kept, local)
    for name, channel in facts["channels"].items():
        heard = f", last contact {local(channel['heard'])}" if channel.get("heard") else ""
        lines.append(f"  channel {name}: {channel['state']}{heard}")
        lines += [f"    {channel[key]}" for key in ("trouble", "mend", "sending") if channel.get(key)]
        lines += [f"    ! {line}" for line in wait_lines(channel, local)]
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
    lines += stopped_lines(facts.get("stoppedJobs") or ())
    lines += [f"  PAUSED: {cause}" for cause in facts["paused"]]
    lines += [f"  ! {notice}" for notice in facts["notices"]]
    return "\n".join(lines)


def wait_lines(channel: Mapping[str, Any], local: Callable[[str], str]) -> list[str]:
    """Say for which chats a platform asked to wait, and until when."""
    return [
        f"it asked to wait: {counted(one['replies'], 'reply', 'replies')} to {one['conversation']} "
        f"{'waits' if one['replies'] == 1 else 'wait'}, next attempt {local(one['until'])} (homebody outbox list)"
        for one in channel.get("asksToWait", ())
    ]


def gateway_lines(gateways: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a line for each gateway of a cluster, with what it holds."""
    return [
        f"  gateway {one['gateway']} of the cluster (process {one['pid']}): {', '.join(one['agents']) or 'no agent'}"
        for one in gateways
    ]


def _last_backup(invocation: Invocation) -> dict[str, Any]:
    """Return when the newest backup was made, and what the last one on schedule failed with; {} where that cannot be known."""
    from gateway.backup.backup_folder import copies_in, folder_of
    from gateway.backup.backup_schedule import read_last
    from gateway.base.errors import HomebodyError

    try:
        settings = invocation.loaded.settings.backup
        copies, last = copies_in(folder_of(invocation.paths, settings)), read_last(invocation.paths.state)
    except HomebodyError:
        return {}
    made = copies[0].made if copies else None
    return {
        "newest": made.isoformat() if made else None,
        "ageHours": round((datetime.now(UTC) - made).total_seconds() / 3600, 1) if made else None,
        "count": len(copies),
        "failed": last.failed if last else "",
    }


def backup_lines(facts: dict[str, Any], local: Callable[[str], str]) -> list[str]:
    """Say how old the newest backup is, and whether the last one on schedule failed."""
    if "ageHours" not in facts:
        return []
    if facts["newest"] is None:
        lines = ["  no backup yet: homebody backup create"]
    else:
        hours = facts["ageHours"]
        age = f"{hours:.0f} hours" if hours < 48 else f"{hours / 24:.0f} days"  # noqa: PLR2004 - two days
        lines = [f"  last backup: {local(facts['newest'])}, {age} ago (homebody backup list)"]
    return [*lines, *([f"  ! the last backup on schedule failed: {facts['failed']}"] if facts["failed"] else [])]


def held_lines(counts: dict[str, int]) -> list[str]:
    """Say how many unasked messages were not sent, and where to read them."""
    states = {"held": "held until quiet hours end", "kept": "kept beyond the number of a day"}
    counted = [f"{counts[state]} {words}" for state, words in states.items() if counts[state]]
    return [f"  unasked messages: {', '.join(counted)} (homebody outbox held)"] if counted else []


def stopped_lines(jobs: Iterable[Mapping[str, str]]) -> list[str]:
    """Return a line for each job that the gateway paused."""
    return [f"  ! the job “{job['name']}” is paused: {job['reason']} (homebody cron resume {job['id']})" for job in jobs]


def workspace_lines(facts: dict[str, Any], local: Callable[[str], str]) -> list[str]:
    """Say of a workspace that is kept in a repository whether it is in step."""
    if (trouble := facts["trouble"]) is None and not facts["ahead"] and not facts["goneCount"]:
        return []
    lines = (
        [f"    its workspace: {counted(facts['ahead'], 'commit')} not pushed yet (homebody workspace status)"]
        if facts["ahead"]
        else []
    )
    if trouble is not None:
        lines.append(f"    ! its repository, since {local(trouble['since'])}: {trouble['text']}")
    if facts["goneCount"]:
        lines.append(f"    ! {facts['goneCount']} files of its workspace are gone: homebody workspace status")
    return lines


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
@click.option("--budgets", is_flag=True, help="Show today's budgets instead, and what is used and left of them.")
@click.option("--longer-cache", is_flag=True, help="Show instead what keeping prompts in the cache for an hour would save.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_invocation
def usage(invocation: Invocation, *, days: int, by: UsageBy, budgets: bool, longer_cache: bool, as_json: bool) -> None:
    """Show tokens and cost by day, agent and model, with the share read from the provider's prompt cache."""
    if budgets or longer_cache:
        from gateway.budget.cost_words import budget_lines, savings_lines
        from gateway.cli.gateway_calls import ask_or_open

        if budgets:
            facts = asyncio.run(ask_or_open(invocation, "costs.budgets"))
        else:
            facts = asyncio.run(ask_or_open(invocation, "costs.cache", days=days))
        tell(facts, "\n".join(budget_lines(facts) if budgets else savings_lines(facts)), as_json=as_json)
        return
    from gateway.agents.memory_stores import owner_zone
    from gateway.budget.usage_report import first_day, usage_facts, usage_table
    from gateway.cli.gateway_calls import call_ledger

    settings = invocation.loaded.settings
    since = first_day(datetime.now(UTC), owner_zone(settings.agent(settings.default_agent)), days)

    def handlers(ledger: Ledger) -> Any:
        async def look(since: str, by: UsageBy) -> dict[str, Any]:
            return await usage_facts(ledger, since, by)

        return {"usage": look}

    found = call_ledger(invocation, handlers, "usage", since=since, by=by)
    text = usage_table(found, by)
    if (columns := terminal_columns()) is not None:
        from gateway.base.terminal_text import without_markup

        text = without_markup(text, columns)
    tell(found, text, as_json=as_json)
