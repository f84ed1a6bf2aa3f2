"""``homebody resume``: let a paused house work again."""

from __future__ import annotations

import asyncio

import click

from gateway.cli.invocation import Invocation, pass_invocation, tell


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_invocation
def resume(invocation: Invocation, as_json: bool) -> None:
    """Let the house work again after it paused itself (`homebody status` tells why it did)."""
    from gateway.cli import starting

    facts = asyncio.run(starting.ask(invocation.paths.state, "resume"))
    was = " and ".join(facts["was"])
    tell(facts, f"It goes on (it had paused: {was})." if was else "It was not paused.", as_json=as_json)
