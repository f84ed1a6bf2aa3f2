"""Reads the command line by which a gateway is started, without click: that would stay in the gateway's memory, 1.4 MB for nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

_GLOBAL = ("--home", "--profile", "--config")
_FLAGS = ("--restart-on-stall", "--background")


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
