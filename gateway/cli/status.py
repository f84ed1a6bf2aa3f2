"""``homebody status``: shows the state of the gateway, its agents and channels."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.invocation import Invocation, pass_invocation, tell

if TYPE_CHECKING:
    from collections.abc import Callable


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_invocation
def status(invocation: Invocation, as_json: bool) -> int:
    """Show whether the gateway is running, and the state of its agents and channels. Exit code 1 if it is not running."""
    from gateway.base.state_lock import describe
    from gateway.cli import starting

    holder = describe(invocation.paths.state / "gateway.lock")
    paths = invocation.paths
    facts: dict[str, Any] = {"home": str(paths.home), "profile": paths.profile or None, "running": holder is not None}
    if holder is not None and holder.socket:
        facts |= {"started": holder.started, "httpPort": holder.http_port}
        facts |= asyncio.run(starting.ask(invocation.paths.state, "status"))
    tell(facts, _told(facts, invocation.local_time), as_json=as_json)
    return 0 if holder is not None else 1


def _told(facts: dict[str, Any], local: Callable[[str], str]) -> str:
    if not facts["running"]:
        return f"No gateway is running for {facts['home']}.\nStart it with: homebody gateway"
    if "agents" not in facts:
        return f"A conversation in a terminal is using {facts['home']}; no gateway is running."
    port = f", http://127.0.0.1:{facts['httpPort']}" if facts.get("httpPort") else ""
    lines = [f"The gateway has been running since {local(facts['started'])} (process {facts['pid']}{port})."]
    for name, agent in facts["agents"].items():
        lines.append(f"  agent {name}: {agent['sessions']} sessions, workspace {agent['workspace']}")
    for name, channel in facts["channels"].items():
        heard = f", last message {local(channel['heard'])}" if channel.get("heard") else ""
        lines.append(f"  channel {name}: {channel['state']}{heard}")
        lines += [f"    {channel[key]}" for key in ("trouble", "mend", "sending") if channel.get(key)]
    outbox = ", ".join(f"{count} {state}" for state, count in facts["outbox"].items() if state != "sent" and count) or "empty"
    lines.append(f"  {facts['turns']['running']} turns running, {facts['inbox']['waiting']} messages waiting, outbox: {outbox}")
    settings = facts.get("settings") or {}
    if settings.get("complaint"):
        lines.append(f"  ! the settings file has errors, so the previous settings stay in effect: {settings['complaint']}")
    if settings.get("waiting"):
        lines.append(f"  settings that take effect after a restart: {', '.join(settings['waiting'])}")
    lines += [f"  PAUSED: {cause}" for cause in facts["paused"]]
    lines += [f"  ! {notice}" for notice in facts["notices"]]
    return "\n".join(lines)
