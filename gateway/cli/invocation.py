"""The global options of a command run, and the paths and settings that follow from them."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar
from zoneinfo import ZoneInfo

from gateway.base.errors import SettingsError, UsageError, as_started, with_commands_as_started
from gateway.base.paths import Paths

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gateway.config.load import Loaded

P = ParamSpec("P")
T = TypeVar("T")


@dataclass
class Invocation:
    """One run of the command line. Commands take it with ``@pass_invocation``."""

    home: Path | None = None
    config: Path | None = None
    verbose: bool = False
    profile: str | None = None
    may_be_new: bool = False
    """The command is also for a gateway that has not run in the home yet."""
    may_be_restoring: bool = False
    """The command is also for a home in which a restore was broken off."""
    may_be_of_another: bool = False
    """The command may be given by root in the home of another user."""
    _told: bool = field(default=False, init=False)

    @cached_property
    def paths(self) -> Paths:
        """The paths of settings, state and logs. Raises UsageError where a gateway is named that does not exist, and others run.

        Raises StorageFailed for root in the home of another user.
        Raises RestoreUnfinished where a restore was broken off: what a command did there might be lost.
        Where gateways of a cluster run in the home and none is named, they are those of the first: any gateway takes what is about all.
        """
        from msgspec.structs import replace

        if not self.may_be_of_another:
            self._found.refuse_root()
        if not self.may_be_restoring:
            self._need_whole()
        if not self.may_be_new:
            self._need_existing()
        return replace(self._found, gateway=self.unnamed[0]) if self.unnamed else self._found

    @cached_property
    def unnamed(self) -> list[str]:
        """The names of the gateways that run in the home, where HOMEBODY_GATEWAY names none."""
        folder = self._found.home / "gateways"
        if self._found.gateway or not os.path.isdir(folder):  # noqa: PTH112  (false for a folder that may not be looked at)
            return []
        from gateway.base.home_lock import running_in

        here = list(running_in(self._found.home))
        return here if "" not in here else []

    def _need_whole(self) -> None:
        if any(map(os.path.lexists, (*self._found.restore_markers(), self._found.migration_marker))):
            from gateway.backup.unfinished_restore import unfinished

            if (broken_off := unfinished(self._found.home)) is not None:
                raise broken_off

    def finish_restore(self) -> str:
        """Finish a restore that was broken off; return what is to be said of it, "" where there is none. Raises HomebodyError."""
        if not any(map(os.path.lexists, self._found.restore_markers())):
            return ""
        from gateway.backup.unfinished_restore import finish, finished_text

        plan = finish(self._found.home)
        return finished_text(plan) if plan is not None else ""

    def _need_existing(self) -> None:
        """Raise UsageError where a gateway is named that does not exist, and others run. Tells once that one does not run."""
        name, folder = self._found.gateway, self._found.home / "gateways"
        if not name or not os.path.isdir(folder):  # noqa: PTH112  (as above)
            return
        from gateway.base.home_lock import known_in, running_in

        here = [one for one in running_in(self._found.home) if one]
        if not here or name in here:
            return
        if name in known_in(self._found.home):  # it ran, or a start of it failed
            if not self._told:
                say(f"The gateway {name} does not run; in this home run {', '.join(here)}.", err=True)
            self._told = True
            return
        from difflib import get_close_matches

        near = next(iter(get_close_matches(name, here, n=1, cutoff=0)), here[0])
        raise UsageError(
            f"no gateway {name} runs or ran in this home; in it run {', '.join(here)}",
            where="HOMEBODY_GATEWAY",
            hint=f"Name one of them: export HOMEBODY_GATEWAY={near} (to start another one of that name: homebody start)",
        )

    def need_name(self, *, also_one: bool = False, also_new: bool = False) -> None:
        """Raise UsageError where several gateways run in the home (``also_one``: or a single one) and none is named.

        The same where one is named that does not exist, unless it may be a new one (``also_new``).
        """
        if not also_new:
            self._need_existing()
        if self.unnamed and (also_one or len(self.unnamed) > 1):
            names = ", ".join(self.unnamed)
            hint = f"Name it: export HOMEBODY_GATEWAY={'NAME' if also_one else self.unnamed[0]} (docs/cluster.md)"
            raise UsageError(f"which gateway is meant? In this home run {names}", where="HOMEBODY_GATEWAY", hint=hint)

    @cached_property
    def _found(self) -> Paths:
        return Paths.find(os.environ, home=self.home, config=self.config, profile=self.profile)

    @cached_property
    def loaded(self) -> Loaded:
        """The settings. Raises SettingsError."""
        from gateway.config.load import load

        return load(self.paths, os.environ)

    def local_time(self, moment: str) -> str:
        """Return an ISO 8601 timestamp as date and time in the owner's time zone; "" for "".

        Where the settings are not valid, it is that of the machine.
        """
        return f"{datetime.fromisoformat(moment).astimezone(self._zone):%Y-%m-%d %H:%M}" if moment else ""

    @cached_property
    def _zone(self) -> ZoneInfo | None:
        try:
            settings = self.loaded.settings
        except SettingsError:
            return None
        named = settings.agent(settings.default_agent).settings.user_timezone
        return ZoneInfo(named) if named else None


def say(text: str, *, err: bool = False) -> None:
    """Print text for a person, with each command in it written so that it works in this shell. Not for data or JSON.

    In a terminal, lines that are too long for it end between words, except for those with a command, which is to be copied.
    Control and bidirectional characters are removed, because the text may contain what strangers wrote.
    """
    import click

    from channels.common.control_characters import visible

    text = visible(as_started(text))
    if (columns := terminal_columns(err=err)) is not None:
        from gateway.base.terminal_text import wrapped

        text = wrapped(text, columns)
    click.echo(text, err=err)


def terminal_columns(*, err: bool = False) -> int | None:
    """Return how wide the terminal is that is printed to; None where it is none."""
    stream = sys.stderr if err else sys.stdout
    if not stream.isatty():
        return None
    from shutil import get_terminal_size

    return get_terminal_size().columns


def tell(facts: Any, text: str, *, as_json: bool) -> None:
    """Print a command's result: ``facts`` as one JSON value with ``--json``, else ``text``. Commands are written alike in both."""
    if as_json:
        import click

        from gateway.base.strict_json import written

        click.echo(written(with_commands_as_started(facts)))
    else:
        say(text)


def warn(loaded: Loaded) -> None:
    """Print the warnings about the settings on stderr."""
    for warning in loaded.warnings:
        say(f"homebody: warning: {warning.as_text()}", err=True)


def pass_invocation(command: Callable[Concatenate[Invocation, P], T]) -> Callable[P, T]:
    """Give a command the ``Invocation`` of its run as its first argument."""
    from click import make_pass_decorator

    return make_pass_decorator(Invocation, ensure=True)(command)
