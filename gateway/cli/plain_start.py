"""Reads the command line by which a gateway is started, without click: that would stay in the gateway's memory, 1.4 MB for nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

_GLOBAL = ("--home", "--profile", "--config")
_FLAGS = ("--restart-on-stall", "--background")


def chosen_options(arguments: Sequence[str]) -> str:
    """Return the global options that commands in texts need, so that they are about the home of this command line; "" for none."""
    given, rest = dict[str, str](), list(arguments)
    while rest and rest[0].startswith("-"):
        name, equals, value = rest.pop(0).partition("=")
        if name in _GLOBAL and (equals or rest):
            given[name] = value if equals else rest.pop(0)
    if not given:
        return ""
    import os

    from gateway.base.errors import HomebodyError
    from gateway.base.paths import Paths

    home, config = (Path(given[name]) if given.get(name) else None for name in ("--home", "--config"))
    try:
        return Paths.find(os.environ, home=home, config=config, profile=given.get("--profile")).options(os.environ)
    except HomebodyError:  # the command tells it
        return ""


def gateway_start(arguments: Sequence[str]) -> Callable[[], None] | None:
    """Return what runs the gateway, for the plain form ``[--home PATH] [--profile NAME] [--config PATH] gateway [--background] ...``.

    None for everything else, which click reads: other commands, other forms, and mistakes, which it explains.
    """
    rest, given = list(arguments), dict[str, str]()
    while len(rest) > 1 and rest[0] in _GLOBAL and not rest[1].startswith("-"):
        given[rest[0]] = rest[1]
        rest = rest[2:]
    if rest[:1] != ["gateway"] or not set(rest[1:]) <= set(_FLAGS):
        return None
    from gateway.cli.gateway_process import run_gateway
    from gateway.cli.invocation import Invocation

    home, config = (Path(given[name]) if name in given else None for name in ("--home", "--config"))
    invocation = Invocation(home, config, profile=given.get("--profile"), may_be_new=True)
    return partial(run_gateway, invocation, restart_on_stall="--restart-on-stall" in rest, background="--background" in rest)
