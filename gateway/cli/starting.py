"""Waits for a gateway that is starting: it locks the state folder before it listens, up to seconds earlier on a busy machine."""

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
"""Maximum seconds that a command waits for a gateway that holds the lock and does not listen yet."""
TOLD_AFTER = 1.0
_EVERY = 0.1


async def once_it_listens(
    lock: Path,
    attempt: Callable[[], Awaitable[Answer]],
    *,
    longest: float = LONGEST,
    tell: Callable[[str], None] = lambda text: click.echo(text, err=True),
) -> Answer:
    """Return the result of ``attempt``. If it reaches nobody, it is retried as long as a process holds ``lock``.

    Raises:
        HomebodyError, ChannelError: raised by ``attempt``; ``GatewayNotResponding`` or ``LinkLost`` after ``longest`` seconds.
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
