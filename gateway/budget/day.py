"""Which day a model call is booked on: the owner's date, but not every date that a clock set to and fro may show."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from agent.timing import Clock

WINDOW_SECONDS = 10 * 3600.0
NEW_DATES = 2
"""How many dates may be begun within the window: the one at the start, and a midnight or a clock that was put right."""


class BookingDay:
    """Gives the date on which calls are booked, as ``YYYY-MM-DD``.

    A date that was not seen before brings a fresh budget. In ``WINDOW_SECONDS`` of the monotonic clock at most ``NEW_DATES`` are
    begun; beyond that calls stay on the latest one. Dates that were begun before can always be gone back to: what was spent on
    them is known.
    """

    def __init__(self, clock: Clock, zone: ZoneInfo) -> None:
        self._clock = clock
        self._zone = zone
        self._begun: dict[str, None] = {}
        self._times: deque[float] = deque()
        self._latest = ""

    def today(self) -> str:
        """Return the date for a call that is made now."""
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
