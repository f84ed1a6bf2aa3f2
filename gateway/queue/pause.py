"""Pausing: messages are taken and kept, commands around the lane are answered, but no turn begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.queue.lanes import Lanes

Cause = Literal["crashes", "disk", "storage"]


class Pause:
    """Holds the lanes as long as there is a cause. ``report`` tells the owner."""

    def __init__(self, lanes: Lanes[Any], report: Callable[[str], None]) -> None:
        self._lanes = lanes
        self._report = report
        self._causes: dict[Cause, str] = {}
        self._told: set[str] = set()

    @property
    def causes(self) -> list[str]:
        """Why the house is paused, in words; empty when it is not."""
        return list(self._causes.values())

    @property
    def lasts(self) -> bool:
        """Whether the house is paused until something is done about it: not for the seconds that a disk refuses to write."""
        return any(cause != "storage" for cause in self._causes)

    def untold(self, conversation: str) -> bool:
        """Whether a conversation was not told of this pause yet; it counts as told from now on."""
        known = conversation in self._told
        self._told.add(conversation)
        return not known

    def begin(self, cause: Cause, notice: str) -> None:
        """Pause, and tell the owner why."""
        self._causes[cause] = notice
        self._lanes.pause()
        self._report(notice)

    def end(self, cause: Cause) -> None:
        """Take one cause away; without any the lanes go on."""
        if self._causes.pop(cause, None) is not None and not self._causes:
            self._told.clear()
            self._lanes.resume()

    async def resume(self) -> dict[str, Any]:
        """Go on whatever the causes, because the owner says so. Returns them, as JSON values."""
        was = self.causes
        self._causes.clear()
        self._told.clear()
        self._lanes.resume()
        return {"was": was}
