"""Startup notices: kept for the log and the status, and sent to the owner when a chat is available."""

from __future__ import annotations

import logging
from collections.abc import Callable

log = logging.getLogger(__name__)


class StartupNotices:
    """The notices; each is kept once."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self._waiting: list[str] = []
        self._say: Callable[[str], None] | None = None

    def tell(self, notice: str) -> None:
        """Add a notice for the log and the status."""
        log.warning(notice)
        if notice not in self.told:
            self.told.append(notice)

    def report(self, notice: str) -> None:
        """Add a notice for the log, the status and the owner's chat."""
        if notice in self.told:
            return
        self.tell(notice)
        if self._say is None:
            self._waiting.append(notice)
        else:
            self._say(f"⚠️ {notice}")

    def begin(self, say: Callable[[str], None]) -> None:
        """Send the notices that waited until the chat was available."""
        self._say = say
        for notice in self._waiting:
            say(f"⚠️ {notice}")
        self._waiting.clear()
