"""Runs a ledger call in the running gateway, or on the ledger file itself if no gateway is running."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from gateway.cli.invocation import Invocation
    from gateway.ledger.protocol import Ledger

    Calls = Mapping[str, Callable[..., Awaitable[dict[str, Any]]]]


def call_ledger(invocation: Invocation, desk: Callable[[Ledger], Calls], call: str, **arguments: Any) -> dict[str, Any]:
    """Make one call of an API handler and return its answer.

    Raises:
        HomebodyError: raised by the call; ``AlreadyRunning`` if a conversation in a terminal uses the state folder.
    """
    from gateway.base.errors import AlreadyRunning
    from gateway.base.state_lock import describe
    from gateway.cli import starting

    state = invocation.paths.state
    holder = describe(state / "gateway.lock")
    if holder is None:
        return asyncio.run(_without_gateway(invocation, desk, call, arguments))
    if not holder.socket:
        hint = "End it (Ctrl-D), then run the command again."
        raise AlreadyRunning("a conversation in a terminal is using this folder", where=str(state), hint=hint)
    answer: dict[str, Any] = asyncio.run(starting.ask(state, call, **arguments))
    return answer


async def _without_gateway(
    invocation: Invocation, desk: Callable[[Ledger], Calls], call: str, arguments: dict[str, Any]
) -> dict[str, Any]:
    from gateway.base.clock import SystemClock
    from gateway.base.state_lock import StateLock
    from gateway.ledger.sqlite import SqliteLedger

    invocation.paths.prepare()
    lock = StateLock.acquire(invocation.paths.state / "gateway.lock")
    try:
        ledger = await SqliteLedger.open(invocation.paths.state / "ledger.sqlite", SystemClock())
        try:
            return await desk(ledger)[call](**arguments)
        finally:
            await ledger.close()
    finally:
        lock.release()
