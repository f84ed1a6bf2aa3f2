"""Standard streams and signals of a command, and how it tells errors."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, TextIO, TypeVar

from gateway.base import errors

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")

_NAMES = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
_ENDINGS = (signal.SIGHUP, signal.SIGTERM)


def stand_in_for_closed() -> None:
    """Replace closed standard streams by /dev/null, before anything is opened.

    Otherwise the next opened file would get the descriptor of a stream, and output would be written into that file.
    """
    for number, (name, mode) in enumerate(_NAMES):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", errors="replace", closefd=False))


def run_until_ended(work: Coroutine[object, object, T]) -> T:
    """Run a coroutine; on SIGHUP or SIGTERM, cancel it and let it clean up.

    A signal that the parent process ignores (``nohup``) stays ignored. Raises SystemExit with 128 + the signal's number.
    """
    import asyncio

    ended: list[int] = []

    async def run() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def end(number: int) -> None:
            ended.append(number)
            if len(ended) == 1:
                task.cancel()

        for number in _ENDINGS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, end, number)
        return await work

    try:
        return asyncio.run(run())
    except asyncio.CancelledError:
        if not ended:
            raise
        raise SystemExit(128 + ended[0]) from None


def print_error(error: errors.HomebodyError, *, as_json: bool) -> int:
    """Print an error on stderr and return its exit code."""
    try:
        print(errors.error_text(error, as_json=as_json), file=sys.stderr, flush=True)  # noqa: T201 -- the one place that prints errors
    except OSError:  # nobody can be told; the exit code still says it
        silence(sys.stderr)
    return error.exit_code


def silence(stream: TextIO) -> None:
    """Redirect a stream to /dev/null, so that the interpreter's final flush does not fail."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):
        return
