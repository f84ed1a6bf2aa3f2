"""``homebody gateway`` and ``homebody resume``: run the gateway, and resume one that pauses."""

from __future__ import annotations

import asyncio

import click

from gateway.cli.invocation import Invocation, pass_invocation, tell


@click.command()
@click.option(
    "--restart-on-stall",
    is_flag=True,
    help="Exit if the gateway hangs for 30 s, so that systemd or Docker restarts it.",
)
@click.option("--background", is_flag=True, hidden=True, help="Log to the file alone: `homebody start` starts it so.")
@pass_invocation
def gateway(invocation: Invocation, restart_on_stall: bool, background: bool) -> None:
    """Run the gateway in the foreground until Ctrl-C or SIGTERM. Unfinished turns are finished first or resumed at the next start.

    SIGHUP reloads the settings. If the gateway was started in a terminal, SIGHUP means that the terminal was closed, and
    stops the gateway.
    """
    from gateway.cli.gateway_process import run_gateway

    run_gateway(invocation, restart_on_stall=restart_on_stall, background=background)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_invocation
def resume(invocation: Invocation, as_json: bool) -> None:
    """Resume the gateway after it paused itself (`homebody status` shows why it paused)."""
    from gateway.cli import gateway_calls

    facts = asyncio.run(gateway_calls.ask(invocation.paths.local, "resume"))
    was, still = " and ".join(facts["was"]), facts.get("still", ())
    lines = [f"Still paused, and no command ends that: {cause}" for cause in still]
    if was:
        lines.insert(0, f"Over: {was}." if still else f"The gateway is running again (it was paused: {was}).")
    tell(facts, "\n".join(lines) or "The gateway was not paused.", as_json=as_json)
