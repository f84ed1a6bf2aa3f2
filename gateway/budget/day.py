"""The day on which a model call is booked: the owner's date, protected against a system clock that jumps."""

from __future__ import annotations

from collections import deque
from zoneinfo import ZoneInfo

from agent.timing import Clock

WINDOW_SECONDS = 10 * 3600.0
NEW_DATES = 2
"""Maximum number of new dates within the window: the first one, and one after midnight or a clock correction."""


class BookingDay:
    """Returns the date on which calls are booked, as ``YYYY-MM-DD``.

    A new date starts with an unused budget. Within ``WINDOW_SECONDS`` of the monotonic clock at most ``NEW_DATES`` are accepted;
    beyond that, calls are booked on the latest one. Going back to a known date is always possible, because its usage is known.
    """

    def __init__(self, clock: Clock, zone: ZoneInfo) -> None:
        self._clock = clock
        self._zone = zone
        self._begun: dict[str, None] = {}
        self._times: deque[float] = deque()
        self._latest = ""

    def today(self) -> str:
        """Return the date for a call made now."""
        shown = f"{self._clock.now().astimezone(self._zone):%Y-%m-%d}"
        now = self._clock.monotonic()
        while self._times and now - self._times[0] >= WINDOW_SECONDS:
            self._times.popleft()
        if shown not in self._begun:
            if len(self._times) >= NEW_DATES:
                return self._latest
            self._begun[shown] = None
            self._times.append(now)
        self._latest = shown
        return shown
