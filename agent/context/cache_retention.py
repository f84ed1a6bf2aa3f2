"""Chooses how long the provider keeps the prompt cached: five minutes or an hour, whichever is likely to cost less.

A retention of one hour makes each cache write more expensive, and saves writing the whole prompt again after a pause of five
to sixty minutes. Both costs are computed over the pauses of the session so far. Prices are multiples of the input price, as Anthropic has
published them for all its models (prompt caching, pricing; read 2026-11-20): reading 0.1, writing 1.25 or 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Literal

from agent.messages import UserMessage
from agent.transcript.entries import Entry, Said

Ttl = Literal["5m", "1h"]
SECONDS: dict[Ttl, float] = {"5m": 300.0, "1h": 3600.0}
REFRESH_AFTER, TOO_LATE = 0.9, 0.98
"""Shares of the retention: when a prompt is read to have it kept, and from when on it may be gone before the call arrives."""
READ, WRITE_5M, WRITE_1H = 0.1, 1.25, 2.0
TYPICAL = (40, 60, 90, 120, 200, 420, 900, 1500, 2400, 14_400)
"""Silences between messages of one conversation, in seconds, that count until there are real ones: ten of a chat with breaks."""
NEW_SHARE = 0.06
"""What a turn adds to the prompt, as a share of it, unless it can be told."""
_REMEMBERED = 60


def silences(entries: Sequence[Entry]) -> list[float]:
    """Return the silences before each message of a person, in seconds, the latest ones."""
    found = []
    last = None
    for entry in entries:
        if isinstance(entry.body, Said):
            if isinstance(entry.body.message, UserMessage) and last is not None:
                found.append((entry.at - last) / timedelta(seconds=1))
            last = entry.at
    return found[-_REMEMBERED:]


def cheaper(gaps: Sequence[float], new_share: float = NEW_SHARE, *, refreshed: float = 0.0) -> Ttl:
    """Return the retention that costs less when silences go on like ``gaps``; ``new_share`` of the prompt is new at each.

    For ``refreshed`` seconds of a silence the prompt is read now and then, which has it kept for another hour.
    """
    known = [*TYPICAL, *gaps, *gaps]
    five = sum((READ if gap < SECONDS["5m"] else WRITE_5M) + WRITE_5M * new_share for gap in known)
    hour = sum(_hour(gap, refreshed) + WRITE_1H * new_share for gap in known)
    return "1h" if hour < five else "5m"


def _hour(gap: float, refreshed: float) -> float:
    """Return what the prompt costs after a silence with a retention of an hour, with the calls that refreshed it."""
    every = SECONDS["1h"] * REFRESH_AFTER
    calls = min(gap, refreshed) // every
    lasts = calls * every + SECONDS["1h"]
    return READ * calls + (READ if gap < lasts else WRITE_1H)
