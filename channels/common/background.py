"""Background tasks of one account: failures are logged, and closing cancels what still runs."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from channels.common.event_guard import whereabouts
from channels.common.log import Log


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
