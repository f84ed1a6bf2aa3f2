"""``homebody config``: show, check and change the settings."""

from __future__ import annotations

import click

from gateway.cli.invocation import Invocation, pass_invocation


@click.group()
def config() -> None:
    """Show, check and change the settings."""


@config.command()
@pass_invocation
def path(invocation: Invocation) -> None:
    """Print where the settings file is, or would be."""
    click.echo(invocation.paths.config_file())
