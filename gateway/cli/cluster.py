"""``homebody cluster``: which gateway works for which agents, and handing them over."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.invocation import Invocation, pass_invocation, tell

if TYPE_CHECKING:
    from gateway.settings.storage_settings import StorageSettings

SHOWN = 8
"""Keys of settings that are named."""
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def cluster() -> None:
    """Show and change which of several gateways works for which agents (docs/cluster.md)."""


@cluster.command()
@AS_JSON
@pass_invocation
def status(invocation: Invocation, as_json: bool) -> None:
    """List the gateways, and who holds each agent and account since when."""
    from gateway.cluster.overview import overview

    facts = overview(_storage(invocation))
    tell(facts, _words(facts), as_json=as_json)


def _storage(invocation: Invocation) -> StorageSettings:
    """Return where the database of the cluster is. Raises UsageError where no database is named, and StorageFailed without the driver."""
    from gateway.cluster.overview import need_database
    from gateway.ledger.open_ledger import need_driver

    storage = invocation.loaded.settings.storage
    need_database(storage)
    need_driver()
    return storage


def _words(facts: dict[str, Any]) -> str:
    lines = []
    for one in facts["gateways"]:
        lines.append(f"{one['gateway']} ({one['state']}, since {one['since']}, settings {one['settings']})")
        if one["trouble"] and one["state"] != "away":
            lines.append(f"  {one['trouble']}")
        held = [token for token in facts["held"] if token["process"] == one["process"]] if one["state"] != "away" else []
        lines += [f"  {token['token']} since {token['since']}" for token in held] or ["  holds nothing"]
    if not facts["gateways"]:
        lines.append("No gateway works.")
    if free := [token["token"] for token in facts["held"] if token["gateway"] is None]:
        lines.append(f"Held by nobody: {', '.join(free)}")
    for one in facts["notConnected"]:
        lines.append(f"Nobody connects {one['account']}: {_why_not_connected(one)}. What is said there is not answered.")
    if facts["sameName"]:
        from gateway.cluster.home_proof import NAME_ONE
        from gateway.cluster.overview import RESTARTED

        lines.append(f"More than one gateway is called {', '.join(facts['sameName'])}. {NAME_ONE}. {RESTARTED}")
    if facts["settingsDiffer"]:
        keys = ", ".join(facts["differing"][:SHOWN]) + (" …" if len(facts["differing"]) > SHOWN else "")
        where = f" in {keys}" if keys else ""
        lines.append(f"The settings of these gateways differ{where}. Give all the same file: homebody config path")
    return "\n".join(lines)


def _why_not_connected(one: dict[str, Any]) -> str:
    if not one["known"]:
        return "no gateway that works has it in its settings"
    lacking = f"; those of {', '.join(one['lacking'])}, which has {', '.join(one['agents'])}, lack it" if one["lacking"] else ""
    return f"it is in the settings of {', '.join(one['known'])}{lacking}"


@cluster.command()
@click.option("--seconds", type=click.FloatRange(1, 3600), default=300.0, help="How long running turns may take (300).")
@AS_JSON
@pass_invocation
def drain(invocation: Invocation, seconds: float, as_json: bool) -> None:
    """Have the gateway of this machine finish what runs, hand everything over, and end."""
    from gateway.cli import gateway_calls

    invocation.need_name()
    facts = asyncio.run(gateway_calls.ask(invocation.paths.local, "cluster.drain", seconds=seconds))
    emptied = "It has handed over everything and ends."
    late = f"Not everything ended within {seconds:.0f} s: it ends now, and another gateway goes on with the rest."
    tell(facts, emptied if facts["empty"] else late, as_json=as_json)


@cluster.command()
@AS_JSON
@pass_invocation
def rotate(invocation: Invocation, as_json: bool) -> None:
    """Give the gateways another secret with which they prove themselves to each other. Nothing has to be started again."""
    from gateway.cluster.overview import rotate as exchange

    exchange(_storage(invocation))
    tell({"rotated": True}, "The gateways use another secret from now on.", as_json=as_json)


@cluster.command()
@click.argument("agent")
@click.option("--to", "gateway", required=True, help="The name of a gateway that works.")
@AS_JSON
@pass_invocation
def move(invocation: Invocation, agent: str, gateway: str, as_json: bool) -> None:
    """Hand AGENT over to another gateway, with its accounts and the agents that share them, once running turns have ended."""
    from gateway.cluster.overview import move as wish

    moved = wish(_storage(invocation), agent.lower(), gateway)
    tell({"moving": moved, "to": gateway}, f"{agent} goes to {gateway}: homebody cluster status", as_json=as_json)
