"""What every command is given: the global options, and what follows from them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import click

from gateway.paths import Paths

if TYPE_CHECKING:
    from pathlib import Path

    from gateway.config.load import Loaded


@dataclass
class Invocation:
    """One run of the command line. Commands take it with ``@pass_invocation``."""

    home: Path | None = None
    config: Path | None = None
    verbose: bool = False
    profile: str | None = None

    @cached_property
    def paths(self) -> Paths:
        """Where the house keeps its things."""
        return Paths.find(os.environ, home=self.home, config=self.config, profile=self.profile)

    @cached_property
    def loaded(self) -> Loaded:
        """The settings. Raises SettingsWrong."""
        from gateway.config.load import load

        return load(self.paths, os.environ)


def warn(loaded: Loaded) -> None:
    """Show the warnings of the settings on stderr."""
    for warning in loaded.warnings:
        click.echo(f"homebody: warning: {warning.as_text()}", err=True)


pass_invocation = click.make_pass_decorator(Invocation, ensure=True)
