"""Waiting for a gateway that starts: it holds the state some time before it listens, for seconds on a machine that is busy."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, TypeVar

import click

from channels.errors import LinkLost
from gateway.base.errors import GatewayNotResponding
from gateway.base.state_lock import describe

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

Answer = TypeVar("Answer")
LONGEST = 60.0
"""Seconds that a command waits for a gateway that has the state and does not listen."""
TOLD_AFTER = 1.0
_EVERY = 0.1


async def once_it_listens(
    lock: Path,
    attempt: Callable[[], Awaitable[Answer]],
    *,
    longest: float = LONGEST,
    tell: Callable[[str], None] = lambda text: click.echo(text, err=True),
) -> Answer:
    """Return what ``attempt`` comes to; one that reaches nobody is repeated as long as somebody holds ``lock``.

    Raises:
        HomebodyError, ChannelError: raised by ``attempt``; ``GatewayNotResponding`` or ``LinkLost`` after ``longest`` seconds in vain.
    """
    began, told = time.monotonic(), False
    while True:
        try:
            return await attempt()
        except (LinkLost, GatewayNotResponding):
            waited = time.monotonic() - began
            holder = describe(lock)
            if holder is None or waited >= longest:
                raise
        if waited >= TOLD_AFTER and not told:
            told = True
            tell(f"The gateway (process {holder.pid or 'unknown'}) is starting; waiting up to {longest:.0f} seconds for it.")
        await asyncio.sleep(_EVERY)


async def ask(state: Path, call: str, **arguments: Any) -> Any:
    """Make a call to the gateway that holds ``state``, or is about to; see ``gateway.api.client.ask``."""
    from gateway.api import client

    return await once_it_listens(state / "gateway.lock", lambda: client.ask(state, call, **arguments))
