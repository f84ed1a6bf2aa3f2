"""Reads how long a platform asks to wait: what stands in an answer may be no number, or none that a clock can add."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

LONGEST: Final = 86_400.0
"""Seconds. No platform asks for more than a day; what says so is wrong, and a message is tried again after it."""


def seconds_to_wait(told: object, *, unit: float = 1.0) -> float | None:
    """Return the seconds of a number, of one in text, or of a ``timedelta``: from 0 to ``LONGEST``. None for everything else.

    A number counts ``unit`` seconds for each 1.
    """
    if isinstance(told, timedelta):
        told, unit = told.total_seconds(), 1.0
    if isinstance(told, bool) or not isinstance(told, int | float | str):
        return None
    try:
        seconds = float(told) * unit
    except OverflowError:
        return LONGEST
    except ValueError:
        return None
    return None if seconds != seconds else min(max(seconds, 0.0), LONGEST)  # noqa: PLR0124 - NaN
