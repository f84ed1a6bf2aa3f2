"""Keeps a failure in one event or background task from stopping a channel.

A malformed event is logged in one line and skipped, and the events behind it are still read; a failed task is logged, and closing an
account cancels what still runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from channels.common.log import Log

MALFORMED = (TypeError, LookupError, ValueError, AttributeError, ArithmeticError, RecursionError)
"""What reading a malformed event raises."""
LONGEST_FACT = 80
"""Characters of a value in the log: it may come from a damaged event."""
P = ParamSpec("P")
T = TypeVar("T")


class EventGuard:
    """Reads the events of one account. Errors other than ``MALFORMED`` are raised."""

    def __init__(self, log: Log, account: str) -> None:
        self._log = log
        self._account = account

    def read(self, about: Mapping[str, object], reading: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Return the result of ``reading``; None if the event is malformed, which is logged with the values ``about`` it."""
        with self.reading(about):
            return reading(*args, **kwargs)
        return None

    @contextmanager
    def reading(self, about: Mapping[str, object]) -> Iterator[None]:
        """Leave the block if the event is malformed, and log it."""
        try:
            yield
        except MALFORMED as error:
            self.pass_over(about, error)

    def pass_over(self, about: Mapping[str, object], error: BaseException) -> None:
        """Tell of an event that could not be read. What it says is not repeated: it may be private, or very long."""
        facts = {key: str(value)[:LONGEST_FACT] for key, value in about.items()}
        self._log.warning("skipped a malformed event", **facts, error=whereabouts(error), account=self._account)


def whereabouts(error: BaseException) -> str:
    """Return the type of an error and where in the code it was raised, such as ``KeyError in places.py:88``."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = "" if place is None else f" in {Path(place.tb_frame.f_code.co_filename).name}:{place.tb_lineno}"
    return type(error).__name__ + where


class BackgroundTasks:
    """The tasks of one account that are not awaited."""

    def __init__(self, log: Log, account: str) -> None:
        self._log = log
        self._account = account
        self._tasks: dict[asyncio.Task[None], str] = {}

    def begin(self, what: str, work: Coroutine[Any, Any, None]) -> None:
        """Start a task; ``what`` is the log event if it fails."""
        task = asyncio.ensure_future(work)
        self._tasks[task] = what
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        what = self._tasks.pop(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._log.warning(what, error=whereabouts(error), account=self._account)

    async def close(self) -> None:
        """Cancel the tasks that still run."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
