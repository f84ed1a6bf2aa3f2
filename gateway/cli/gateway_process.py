"""The process of a gateway, from its settings to its last line in the log."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
from typing import TYPE_CHECKING

from gateway.cli.invocation import say, warn

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import FrameType

    from gateway.base.errors import StorageAway
    from gateway.cli.invocation import Invocation
    from gateway.logs.log_setup import Closer

STOP_SECONDS = 60.0
"""What a service manager is asked to wait for the end."""
AWAY_SECONDS = 2.0
"""Between two looks for a database that does not answer at the start."""
_OFTEN_COLLECTED = (700, 10, 10)
"""Thresholds of the collector once it has started, as Python 3.11 sets them: a process that stays for months is to be small.

Before, as in every command, it looks for garbage rarely: to look through what is being loaded takes 100 ms.
"""


class _ToldToEnd(Exception):
    """Raised when the gateway is told to end while it waits for the database."""


def run_gateway(invocation: Invocation, *, restart_on_stall: bool, background: bool) -> None:
    """Run the gateway until it is told to end by SIGINT, SIGTERM or a hangup. ``background``: it logs to the file alone.

    Raises:
        HomebodyError: it cannot start.
    """
    from gateway.base.heap import keep_heap_small
    from gateway.cli.attached import begin_logging
    from gateway.config.settings_file import load_or_last_known_good

    keep_heap_small()
    finished = invocation.finish_restore()
    invocation.need_name(also_one=True, also_new=True)
    invocation.paths.prepare()
    invocation.loaded, notice = load_or_last_known_good(invocation.paths, os.environ)
    warn(invocation.loaded)
    notices = tuple(filter(None, (finished, notice)))
    if finished:
        say(finished, err=True)
    _make_token(invocation)
    closer = begin_logging(invocation, console=not background)
    try:
        asyncio.run(_run(invocation, closer, notices, restart_on_stall=restart_on_stall))
    finally:
        # All is done but the last lines of the log: there is nothing left to stop.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        closer.close()


def _make_token(invocation: Invocation) -> None:
    """Create the HTTP token if there is none. This happens before anything is logged, so that the token can be redacted."""
    from gateway.base.api_token import FILE_NAME, token_from_file

    if invocation.loaded.settings.gateway.auth.token is None:
        token_from_file(invocation.paths.state / FILE_NAME)


async def _run(invocation: Invocation, logs: Closer, notices: tuple[str, ...], *, restart_on_stall: bool) -> None:
    import structlog

    from gateway.app.dependencies import Dependencies
    from gateway.app.gateway import Gateway
    from gateway.base import lean_apscheduler  # noqa: F401
    from gateway.config.homes_beside import shared_workspaces
    from gateway.supervision.service_notify import ServiceNotifier

    log = structlog.get_logger("gateway")
    settings, paths = invocation.loaded.settings, invocation.paths
    for shared in shared_workspaces(settings, paths, os.environ):
        told = f"{shared.as_text()}. {shared.mend(settings)}"
        log.warning(told)
    told_to_end = asyncio.Event()
    on = Dependencies(
        settings=settings,
        paths=paths,
        env=os.environ,
        serving=True,
        restart_on_stall=restart_on_stall,
        logs=logs,
        notices=notices,
        storage_away=_waiting(told_to_end),
    )
    manager = ServiceNotifier(os.environ)
    beating = asyncio.create_task(manager.beat())
    loop = asyncio.get_running_loop()
    opened: Gateway | None = None

    def stop() -> None:
        manager.stopping(STOP_SECONDS)
        told_to_end.set()
        if opened is not None:
            opened.stop()

    _call_at(signal.SIGTERM, loop, stop)  # already now: a gateway that is told to end while it opens ends in order, too
    try:
        gateway = opened = await Gateway.open(on)
    except _ToldToEnd:
        return
    try:
        if told_to_end.is_set():
            gateway.stop()
        _call_at(signal.SIGINT, loop, stop)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            _call_at(signal.SIGHUP, loop, stop if sys.stderr.isatty() else gateway.reload.soon)

        def started() -> None:
            names = ", ".join(sorted(gateway.channel_supervisor))
            gc.freeze()  # what was loaded stays, and need not be looked through even once
            gc.set_threshold(*_OFTEN_COLLECTED)
            log.info("gateway started", channels=names, agents=", ".join(gateway.agents))
            manager.ready(f"Serving {names}")

        await gateway.run(started)
        log.info("gateway stopped")
    finally:
        await gateway.close()
        beating.cancel()


def _waiting(told_to_end: asyncio.Event) -> Callable[[StorageAway], Awaitable[None]]:
    """Return what waits before the database is tried again, and logs once why. It raises _ToldToEnd."""
    import structlog

    from gateway.base.clock import SystemClock
    from gateway.base.wait import wait_until_set

    known, clock, log = set[str](), SystemClock(), structlog.get_logger("gateway")

    async def wait(error: StorageAway) -> None:
        if str(error) not in known:
            log.error("the database does not answer; the gateway starts once it does", error=str(error), hint=error.hint)
        known.add(str(error))
        if await wait_until_set(told_to_end, clock, AWAY_SECONDS):
            raise _ToldToEnd

    return wait


def _call_at(number: int, loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    """Call it in the loop when the signal comes.

    A handler of the loop itself would be gone once the loop closes: a second signal would kill the process at its very end.
    """

    def handle(_number: int, _frame: FrameType | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: all is over
            loop.call_soon_threadsafe(call)

    signal.signal(number, handle)
