"""``homebody resume``: resumes a paused gateway."""

from __future__ import annotations

import asyncio

import click

from gateway.cli.invocation import Invocation, pass_invocation, tell


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_invocation
def resume(invocation: Invocation, as_json: bool) -> None:
    """Resume the gateway after it paused itself (`homebody status` shows why it paused)."""
    from gateway.cli import starting

    facts = asyncio.run(starting.ask(invocation.paths.state, "resume"))
    was = " and ".join(facts["was"])
    tell(
        facts,
        f"The gateway is running again (it was paused: {was})." if was else "The gateway was not paused.",
        as_json=as_json,
    )
