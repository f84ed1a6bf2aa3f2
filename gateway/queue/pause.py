"""Pausing: messages are stored and urgent commands answered, but no turn starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from gateway.queue.lanes import Lanes

Cause = Literal["crashes", "disk", "storage"]


class Pause:
    """Pauses the lanes while there is a cause. ``report`` notifies the owner."""

    def __init__(self, lanes: Lanes[Any], report: Callable[[str], None]) -> None:
        self._lanes = lanes
        self._report = report
        self._causes: dict[Cause, str] = {}
        self._told: set[str] = set()

    @property
    def causes(self) -> list[str]:
        """The causes, in words; empty when nothing is paused."""
        return list(self._causes.values())

    @property
    def lasts(self) -> bool:
        """Whether the pause lasts until somebody acts. A pause for failed writes ends by itself after seconds."""
        return any(cause != "storage" for cause in self._causes)

    def untold(self, conversation: str) -> bool:
        """Return True once for each conversation during a pause: when its people have to be told."""
        known = conversation in self._told
        self._told.add(conversation)
        return not known

    def begin(self, cause: Cause, notice: str) -> None:
        """Pause for a cause and notify the owner."""
        self._causes[cause] = notice
        self._lanes.pause()
        self._report(notice)

    def end(self, cause: Cause) -> None:
        """Remove a cause. When none is left the lanes resume."""
        if self._causes.pop(cause, None) is not None and not self._causes:
            self._told.clear()
            self._lanes.resume()

    async def resume(self) -> dict[str, Any]:
        """Resume by the owner's command, whatever the causes; return them as JSON values."""
        was = self.causes
        self._causes.clear()
        self._told.clear()
        self._lanes.resume()
        return {"was": was}
