"""What the owner should know: kept for the log and the status, and said in the chat as soon as there is one."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)


class StartupNotices:
    """Each notice counts once."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self._waiting: list[str] = []
        self._say: Callable[[str], None] | None = None

    def tell(self, notice: str) -> None:
        """Keep something for whoever looks at the log or the status."""
        log.warning(notice)
        if notice not in self.told:
            self.told.append(notice)

    def report(self, notice: str) -> None:
        """Tell the owner of damage: in the log, in the status, and in the chat."""
        if notice in self.told:
            return
        self.tell(notice)
        if self._say is None:
            self._waiting.append(notice)
        else:
            self._say(f"⚠️ {notice}")

    def begin(self, say: Callable[[str], None]) -> None:
        """The chat can be reached from now on: say what waited for that."""
        self._say = say
        for notice in self._waiting:
            say(f"⚠️ {notice}")
        self._waiting.clear()
