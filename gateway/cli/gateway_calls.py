"""Calls of commands: to the gateway that runs or is starting, or to the ledger itself if none runs."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, TypeVar

import click

from channels.errors import AgentAway, LinkLost
from gateway.base.errors import GatewayNotResponding, HomebodyError, OtherVersion
from gateway.base.state_lock import command_running, describe

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from gateway.base.state_lock import Holder
    from gateway.cli.invocation import Invocation
    from gateway.ledger.protocol import Ledger

    Calls = Mapping[str, Callable[..., Awaitable[dict[str, Any]]]]

Answer = TypeVar("Answer")
LONGEST = 60.0
"""Maximum seconds that a command waits for a gateway that holds the lock and does not listen yet."""
AWAY_SECONDS = 3.0
"""Maximum seconds that a command waits for a gateway of the cluster that has the agent and is not reached: it may just be ending."""
TOLD_AFTER = 1.0
_EVERY = 0.1
_WITHOUT_GATEWAY = (
    "Do it while no gateway runs: homebody stop, then this command again, which reads the state as it is, then homebody start"
)


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
        except (LinkLost, GatewayNotResponding) as error:
            waited = time.monotonic() - began
            holder, held = describe(lock), isinstance(error, AgentAway) and error.held
            if holder is None or waited >= (min(AWAY_SECONDS, longest) if held else longest):
                raise
            why = f"{error}" if isinstance(error, AgentAway) else f"the gateway (process {holder.pid or 'unknown'}) is starting"
            if holder.waits:
                why = f"the gateway waits for its database: {holder.waits}"
        if waited >= TOLD_AFTER and not told and not held:
            told = True
            tell(f"{why[:1].upper()}{why[1:]}; waiting up to {longest:.0f} seconds for it.")
        await asyncio.sleep(_EVERY)


async def ask(state: Path, call: str, /, **arguments: Any) -> Any:
    """Make a call to the gateway that holds ``state``, or is about to; see ``gateway.api.api_client.ask``.

    Gateways of a cluster that were not reached are named on stderr.
    """
    from gateway.api import api_client

    answer = await once_it_listens(state / "gateway.lock", lambda: api_client.ask(state, call, **arguments))
    for why in answer.get("unreached", ()) if isinstance(answer, dict) else ():
        click.echo(f"{why}. What it holds is missing here.", err=True)
    return answer


def call_ledger(invocation: Invocation, handlers: Callable[[Ledger], Calls], call: str, **arguments: Any) -> dict[str, Any]:
    """Make one call of an API handler and return its answer.

    Raises:
        HomebodyError: raised by the call; ``AlreadyRunning`` if a conversation in a terminal or another command uses the state folder.
    """
    state = invocation.paths.local
    holder = describe(invocation.paths.lock)
    if holder is None:
        return asyncio.run(_without_gateway(invocation, handlers, call, arguments))
    if not holder.socket:
        raise _in_use(holder, state)
    answer: dict[str, Any] = asyncio.run(ask(state, call, **arguments))
    return answer


async def ask_or_open(invocation: Invocation, call: str, /, **arguments: Any) -> Any:
    """Make a call to the running gateway; without one, open the state for this call alone.

    Raises:
        HomebodyError: raised by the call; ``AlreadyRunning`` if a conversation in a terminal or another command uses the state folder.
    """
    if (holder := describe(invocation.paths.lock)) is not None:
        if not holder.socket:
            raise _in_use(holder, invocation.paths.local)
        return await ask(invocation.paths.local, call, **arguments)
    import os

    from gateway.app.dependencies import Dependencies
    from gateway.app.gateway import Gateway

    context = click.get_current_context(silent=True)
    command = context.command_path if context is not None else ""
    settings = invocation.loaded.settings
    gateway = await Gateway.open(Dependencies(settings=settings, paths=invocation.paths, env=os.environ, command=command))
    try:
        return await gateway.calls()[call](**arguments)
    finally:
        await gateway.close()


def _in_use(holder: Holder, state: Path) -> HomebodyError:
    """Return the error for a process that holds the state folder and can be asked nothing."""
    from gateway.base.errors import AlreadyRunning

    if holder.command:
        return command_running(holder, state)
    hint = "End it (Ctrl-D), then run the command again."
    return AlreadyRunning("a conversation in a terminal is using this folder", where=str(state), hint=hint)


async def _without_gateway(
    invocation: Invocation, handlers: Callable[[Ledger], Calls], call: str, arguments: dict[str, Any]
) -> dict[str, Any]:
    from gateway.base.clock import SystemClock
    from gateway.base.home_lock import whole_home
    from gateway.ledger.open_ledger import open_ledger

    invocation.paths.prepare()
    with whole_home(invocation.paths, could_ask=True):
        ledger = await open_ledger(invocation.paths.state, invocation.loaded.settings.storage, SystemClock())
        try:
            return await handlers(ledger)[call](**arguments)
        finally:
            await ledger.close()


def taken_over(invocation: Invocation) -> dict[str, Any] | None:
    """Let the running gateway reload its settings, and return the result; None if no gateway is running."""
    holder = describe(invocation.paths.lock)
    if holder is None or not holder.socket:
        return None
    try:
        came: dict[str, Any] = asyncio.run(ask(invocation.paths.local, "settings.reload"))
    except HomebodyError as error:
        return {"taken": [], "waiting": [], "complaint": error.as_text()}
    return came


def outcome(came: dict[str, Any] | None) -> str:
    """Return the result as a sentence."""
    if came is None:
        return "No gateway is running; the change applies when one starts."
    if came["complaint"]:
        return f"The running gateway keeps its previous settings: {came['complaint']}"
    taken = f"Applied in the running gateway: {', '.join(came['taken'])}." if came["taken"] else ""
    waiting = f"Takes effect when the gateway restarts: {', '.join(came['waiting'])}." if came["waiting"] else ""
    return f"{taken} {waiting}".strip() or "Nothing changes for the running gateway."


async def _copy_of_database(invocation: Invocation, place: Path) -> None:
    from gateway.base.clock import SystemClock
    from gateway.ledger.open_ledger import open_ledger

    ledger = await open_ledger(invocation.paths.state, invocation.loaded.settings.storage, SystemClock())
    try:
        await ledger.copy_to(place)
    finally:
        await ledger.close()


def ledger_copier(invocation: Invocation) -> Callable[[Path], bool]:
    """Return what writes a copy of the ledger to a path: by the gateway that runs, or from the file where none does.

    It returns whether there is a ledger. Raises HomebodyError.
    """

    def copy(place: Path) -> bool:
        from gateway.base.home_lock import whole_home
        from gateway.ledger.snapshot import copy_closed

        state = invocation.paths.state
        ledger = state / "ledger.sqlite"
        holder = describe(invocation.paths.lock)
        if holder is not None and holder.socket:
            from pathlib import Path

            try:
                copied = asyncio.run(ask(invocation.paths.local, "backup.ledger"))
            except OtherVersion as error:
                # The gateway has the file locked as a whole, so that nobody else can read what was written last.
                message = f"{error.message}, so that it cannot copy its ledger"
                raise OtherVersion(message, where=error.where, hint=_WITHOUT_GATEWAY) from error
            Path(copied["copy"]).rename(place)
            return True
        if holder is not None:
            raise _in_use(holder, state)
        storage = invocation.loaded.settings.storage
        if storage.url is None and not ledger.exists():
            return False
        with whole_home(invocation.paths, could_ask=True):
            if storage.url is None:
                copy_closed(ledger, place)
            else:
                asyncio.run(_copy_of_database(invocation, place))
        return True

    return copy
