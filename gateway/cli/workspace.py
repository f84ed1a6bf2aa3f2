"""``homebody workspace``: agents' folders, and the repositories in which they are kept, too."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.invocation import Invocation, pass_invocation, tell

if TYPE_CHECKING:
    from collections.abc import Callable

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_SHOWN = 5


@click.group()
def workspace() -> None:
    """Show the folders of agents, and bring those that are kept in a repository into step (docs/workspaces.md)."""


@workspace.command()
@_JSON
@pass_invocation
def status(invocation: Invocation, as_json: bool) -> None:
    """Say of each agent where its folder is, and whether its repository is in step."""
    from gateway.cli.gateway_calls import ask_or_open

    facts = asyncio.run(ask_or_open(invocation, "workspace.status"))
    tell(
        facts, "\n".join(line for one in facts["workspaces"] for line in lines_of(one, invocation.local_time)), as_json=as_json
    )


@workspace.command()
@click.option("--agent", help="The agent. Default: the default agent.")
@click.option("--removals", is_flag=True, help="Pass on that files are gone, also if they are most of all.")
@click.option("--restore", is_flag=True, help="Write files that are gone again, as they were committed last.")
@_JSON
@pass_invocation
def sync(invocation: Invocation, agent: str | None, *, removals: bool, restore: bool, as_json: bool) -> None:
    """Commit what changed, bring in what others pushed, and push. It is done by itself, too."""
    from gateway.base.errors import UsageError
    from gateway.cli.gateway_calls import ask_or_open

    if removals and restore:
        raise UsageError("--removals and --restore contradict each other", hint="Use one of them.")
    chosen = agent or invocation.loaded.settings.default_agent
    facts = asyncio.run(ask_or_open(invocation, "workspace.sync", agent=chosen, removals=removals, restore=restore))
    tell(facts, "\n".join(lines_of(facts, invocation.local_time)), as_json=as_json)


def lines_of(facts: dict[str, Any], local: Callable[[str], str]) -> list[str]:
    """Return the state of one workspace in words, the first line without and the others with an indent."""
    agent, where = facts["agent"], f" {facts['workspace']}" if facts.get("workspace") else ""
    if "remote" not in facts:
        return [f"{agent}:{where}, a folder alone."]
    trouble = facts["trouble"]
    count = facts["ahead"]
    ahead = f"{count} {'commit waits' if count == 1 else 'commits wait'} to be pushed" if count else "everything is pushed"
    kept = f"kept in {facts['remote']} ({facts['branch']})"
    lines = [f"{agent}:{where + ',' if where else ''} {kept}: {ahead if trouble or count else 'in step'}."]
    if facts["lastPull"] and not trouble:
        lines.append(f"  last looked at: {local(facts['lastPull'])}")
    if facts.get("uncommitted"):
        lines.append("  the latest changes are not committed yet: that takes a few seconds")
    if trouble:
        lines.append(f"  ! since {local(trouble['since'])}: {trouble['text']}")
        lines += [f"    {trouble['mend']}"] if trouble["mend"] else []
    if facts["goneCount"]:
        lines.append(f"  ! {facts['goneCount']} files are gone, which is not passed on: {_listed(facts['gone'])}")
        lines.append(f"    homebody workspace sync --agent {agent} --restore (or --removals)")
    lines += _more(facts)
    return lines


def _more(facts: dict[str, Any]) -> list[str]:
    lines = []
    if beside := facts.get("sideBySide"):
        lines.append(f"  changed in two places, both versions are there: {_listed(beside)}")
    if unapplied := facts.get("unapplied"):
        lines += [f"  ! could not be written here: {path}: {why}" for path, why in list(unapplied.items())[:_SHOWN]]
    if left_out := facts.get("leftOut"):
        lines.append(f"  not kept in it ({facts['leftOutCount']}):")
        lines += [f"    {path} {why}" for path, why in list(left_out.items())[:_SHOWN]]
        if (more := facts["leftOutCount"] - _SHOWN) > 0:
            lines.append(f"    and {more} more")
    if facts.get("damaged"):
        lines.append(f"  a damaged repository was set aside: {facts['damaged']}")
    return lines


def _listed(paths: list[str]) -> str:
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return ", ".join(paths[:_SHOWN]) + more
