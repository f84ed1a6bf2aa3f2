"""Connects a command to the running gateway, or to one inside this process that ends with the command."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gateway.base.errors import AlreadyRunning, GatewayNotResponding, HomebodyError, StorageFailed
from gateway.base.state_lock import describe
from gateway.cli.invocation import say

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from channels.protocol import Clock
    from channels.terminal.link import Link
    from gateway.cli.invocation import Invocation
    from gateway.logs.log_setup import Closer

NOBODY_SENDS: Final = "No gateway is running, and one has to be for reminders and tasks at their time. Start it: homebody start"


@contextlib.asynccontextmanager
async def attached(
    invocation: Invocation, conversation: str = "local", *, agent: str = "", lasting: Clock | None = None
) -> AsyncIterator[Link]:
    """Yield a link to ``conversation``. If no gateway is running, one without platforms runs in this process meanwhile.

    ``agent``: whom it will be about, if that is not the one that usually answers here. With the clock ``lasting``, the link reconnects when
    the gateway restarts, and a gateway in this process lets other windows connect.

    Raises:
        HomebodyError, AgentError, ChannelError: the gateway cannot be started or reached.
    """
    async with contextlib.AsyncExitStack() as stack:
        link = await _to_gateway(invocation, conversation, agent)
        if link is None:
            try:
                link = await stack.enter_async_context(_embedded(invocation, conversation, shared=lasting is not None))
            except AlreadyRunning:  # a gateway took the state meanwhile
                link = await _to_gateway(invocation, conversation, agent)
                if link is None:
                    raise
        if lasting is not None:
            link = _reconnecting(invocation, link, lasting, conversation, stack, agent=agent)
        stack.push_async_callback(link.close)
        yield link


async def _to_gateway(invocation: Invocation, conversation: str, agent: str) -> Link | None:
    """Return a link to the gateway that is running or starting; None if there is none."""
    from gateway.cli.gateway_calls import once_it_listens

    lock = invocation.paths.lock

    async def attempt() -> Link | None:
        holder = describe(lock)
        if holder is None:
            return None
        if not holder.pid:  # it is about to write down who it is
            raise GatewayNotResponding("an unidentified process uses this state folder", where=str(invocation.paths.state))
        if not holder.socket:
            raise HomebodyError(
                f"another Homebody command ({holder.pid}) is using this folder",
                where=str(invocation.paths.home),
                hint="Wait until it has ended. To use several at once, run `homebody gateway`.",
            )
        from gateway.api.api_client import ChatConnection

        return await ChatConnection.open(Path(holder.socket), conversation, agent)

    return await once_it_listens(lock, attempt)


def _reconnecting(
    invocation: Invocation, link: Link, clock: Clock, conversation: str, stack: contextlib.AsyncExitStack, *, agent: str
) -> Link:
    """Return a link that reconnects when the gateway restarts. A link to a gateway in this process is returned unchanged.

    Where the gateway ran for the conversation of another window that was left, this process runs one from then on.
    """
    lock = invocation.paths.lock
    holder = describe(lock)
    if holder is None or not holder.socket or holder.pid == os.getpid():
        return link
    from channels.errors import LinkLost
    from channels.terminal.reconnecting import ReconnectingLink
    from gateway.api.api_client import ChatConnection

    async def again() -> Link:
        if holder.conversation and describe(lock) is None:
            try:
                return await stack.enter_async_context(_embedded(invocation, conversation, shared=True))
            except AlreadyRunning as error:  # another window was quicker
                raise LinkLost(str(error)) from error
        return await ChatConnection.open(Path(holder.socket), conversation, agent)

    return ReconnectingLink(link, again, clock)


@contextlib.asynccontextmanager
async def _embedded(invocation: Invocation, conversation: str, *, shared: bool) -> AsyncIterator[Link]:
    from gateway.app.dependencies import Dependencies
    from gateway.app.gateway import Gateway

    loaded = invocation.loaded
    invocation.paths.prepare()
    closer = begin_logging(invocation, console=False)
    try:
        gateway = await Gateway.open(
            Dependencies(settings=loaded.settings, paths=invocation.paths, env=os.environ, shared=shared)
        )
        try:
            started = asyncio.Event()
            running = asyncio.create_task(gateway.run(started.set))
            waiting = asyncio.create_task(started.wait())
            await asyncio.wait([running, waiting], return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            link, jobs = gateway.terminal.attach(conversation), gateway.ledger.jobs
            before = await jobs.mark()
            try:
                yield link
            finally:
                with contextlib.suppress(StorageFailed):
                    if await jobs.mark() != before and await jobs.earliest() is not None:
                        say(NOBODY_SENDS, err=True)
                await link.close()
                gateway.stop()
                await running
        finally:
            await gateway.close()
    finally:
        closer.close()


def begin_logging(invocation: Invocation, *, console: bool) -> Closer:
    """Set up logging for this process, with all known secrets redacted."""
    from gateway.app.dependencies import known_secrets
    from gateway.logs.log_setup import configure
    from gateway.logs.redaction import Redactor

    settings, paths = invocation.loaded.settings, invocation.paths
    return configure(settings.logging, paths, Redactor(known_secrets(settings, paths, os.environ)), console=console)
