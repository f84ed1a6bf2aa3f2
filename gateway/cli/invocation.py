"""What every command is given: the global options, and what follows from them."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import click

from gateway.base.paths import Paths
from gateway.base.program import as_started

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
        """The settings. Raises SettingsError."""
        from gateway.config.load import load

        return load(self.paths, os.environ)

    def local_time(self, moment: str) -> str:
        """Return an ISO 8601 moment as a date and time in the owner's zone; "" for an empty one."""
        if not moment:
            return ""
        settings = self.loaded.settings
        zone = settings.agent(settings.default_agent).settings.user_timezone
        return f"{datetime.fromisoformat(moment).astimezone(ZoneInfo(zone) if zone else None):%Y-%m-%d %H:%M}"


def say(text: str, *, err: bool = False) -> None:
    """Print text for a person, with every command in it written as it works in this shell. Not for data or JSON.

    What could move the cursor or rearrange a line is left out: the text may hold what strangers wrote.
    """
    from channels.terminal.control_characters import visible

    click.echo(visible(as_started(text)), err=err)


def tell(facts: Any, text: str, *, as_json: bool) -> None:
    """Print what a command found out: ``facts`` as one JSON value for a program, or ``text`` for a person."""
    if as_json:
        click.echo(json.dumps(facts, ensure_ascii=False))
    else:
        say(text)


def warn(loaded: Loaded) -> None:
    """Show the warnings of the settings on stderr."""
    for warning in loaded.warnings:
        say(f"homebody: warning: {warning.as_text()}", err=True)


pass_invocation = click.make_pass_decorator(Invocation, ensure=True)
