"""``homebody tools``: what tools an agent has, what they do, and what rule holds for them."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

import click

from gateway.cli.invocation import Invocation, pass_invocation, tell

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_AGENT = click.option("--agent", "agent_id", help="The agent (default: the default agent).")


@click.group()
def tools() -> None:
    """Show the tools of an agent: what they do, where their output comes from, and which rule holds."""


@tools.command(name="list")
@_AGENT
@_JSON
@pass_invocation
def list_(invocation: Invocation, agent_id: str | None, as_json: bool) -> None:
    """List the tools of an agent, and what their descriptions cost in each request."""
    facts = asyncio.run(_facts(invocation, "tools.list", agent=agent_id))
    tell(facts, _listed(facts), as_json=as_json)


@tools.command()
@click.argument("name")
@_AGENT
@_JSON
@pass_invocation
def show(invocation: Invocation, name: str, agent_id: str | None, as_json: bool) -> None:
    """Show the tool NAME with its description and arguments."""
    facts = asyncio.run(_facts(invocation, "tools.show", name=name, agent=agent_id))
    tell(facts, _shown(facts), as_json=as_json)


async def _facts(invocation: Invocation, call: str, **arguments: Any) -> dict[str, Any]:
    from gateway.base.state_lock import describe
    from gateway.cli import gateway_calls

    if describe(invocation.paths.lock) is not None:
        found: dict[str, Any] = await gateway_calls.ask(invocation.paths.local, call, **arguments)
        return found
    from gateway.app.dependencies import Dependencies
    from gateway.app.gateway import Gateway

    gateway = await Gateway.open(Dependencies(settings=invocation.loaded.settings, paths=invocation.paths, env=os.environ))
    try:
        made: dict[str, Any] = await gateway.agent_calls()[call](**arguments)
        return made
    finally:
        await gateway.close()


def _listed(facts: dict[str, Any]) -> str:
    there = [one for one in facts["tools"] if one["available"]]
    wide = max([14, *(len(one["name"]) for one in there)])
    rows = [f"{'tool':{wide}} {'tokens':>6}  {'effect':31} output"]
    for one in there:
        rows.append(f"{one['name']:{wide}} {one['tokens']:>6}  {one['does']:31} {one['output']}")
        rows.append(f"{'':{wide + 7}}  from {one['provider']}{_conditions(one)}; rule: {one['rule']}")
    if any(one["deferred"] for one in there):
        rows.append("What is found with tool_search costs nothing until it is looked for.")
    rows.append(f"{facts['tokens']:,} tokens in each request. homebody tools show NAME tells more.")
    out = [f"  {one['name']}: by {one['excludedBy']}" for one in facts["tools"] if not one["available"]]
    return "\n".join([*rows, *(["Left out:", *out] if out else [])])


def _conditions(facts: dict[str, Any]) -> str:
    remarks = [f"needs {' and '.join(facts['needs'])}"] if facts["needs"] else []
    remarks += ["only in your own conversations"] if facts["private"] else []
    remarks += ["found with tool_search"] if facts["deferred"] else []
    return "".join(f", {one}" for one in remarks)


def _shown(facts: dict[str, Any]) -> str:
    there = "available" if facts["available"] else f"left out by {facts['excludedBy']}"
    return "\n".join(
        [
            f"{facts['name']}: {there}, {facts['tokens']} tokens",
            facts["description"],
            f"Provider: {facts['provider']}{_conditions(facts)}.",
            f"Effect: {facts['does']}.",
            f"Output: {facts['output']}.",
            f"Rule: {facts['rule']}.",
            "Arguments:",
            json.dumps(facts["arguments"].get("properties", {}), ensure_ascii=False, indent=2),
        ]
    )
