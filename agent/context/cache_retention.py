"""Chooses how long the provider keeps the prompt cached: five minutes or an hour, whichever is likely to cost less.

A retention of one hour makes each cache write more expensive, and saves writing the whole prompt again after a pause of five
to sixty minutes. Both costs are computed over the pauses of the session so far. Prices are multiples of the input price, as Anthropic has
published them for all its models (prompt caching, pricing; read 2026-11-20): reading 0.1, writing 1.25 or 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Literal

from agent.messages import AssistantMessage, UserMessage
from agent.transcript.entries import Entry, Said

Ttl = Literal["5m", "1h"]
SECONDS: dict[Ttl, float] = {"5m": 300.0, "1h": 3600.0}
REFRESH_AFTER, TOO_LATE = 0.9, 0.98
"""Shares of the retention: when a prompt is read to have it kept, and from when on it may be gone before the call arrives."""
_EVERY = SECONDS["1h"] * REFRESH_AFTER
READ, WRITE_5M, WRITE_1H = 0.1, 1.25, 2.0
TYPICAL = (40, 60, 90, 120, 200, 420, 900, 1500, 2400, 14_400)
"""Silences between messages of one conversation, in seconds, that count until there are real ones: ten of a chat with breaks."""
LONG = tuple(3600.0 * 16 ** ((n + 0.5) / 6) for n in range(6))
"""Silences of one to sixteen hours that count until there are real ones: as likely from one hour to two as from four to eight."""
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


def new_share(entries: Sequence[Entry]) -> float:
    """Return what a turn adds to the prompt, as a share of it: what calls with a warm cache wrote, besides ten turns as usual."""
    added, fresh, counted = 0.0, False, 0
    for entry in entries:
        if not isinstance(entry.body, Said):
            continue
        message = entry.body.message
        if isinstance(message, UserMessage):
            fresh = True
        elif (
            isinstance(message, AssistantMessage)
            and (usage := message.usage) is not None
            and 2 * usage.cache_read > usage.prompt
        ):
            added += 1 - usage.cache_read / usage.prompt
            counted, fresh = counted + fresh, False
    return (len(TYPICAL) * NEW_SHARE + 2 * added) / (len(TYPICAL) + 2 * counted)


def cheaper(gaps: Sequence[float], new_share: float = NEW_SHARE, *, refreshed: float = 0.0, shrinks: float = 0.0) -> Ttl:
    """Return the retention that costs less when silences go on like ``gaps``; ``new_share`` of the prompt is new at each.

    For ``refreshed`` seconds of a silence the prompt may be read now and then, which has it kept for another hour. ``shrinks`` is the
    share of the prompt that was pruned when it was forgotten: until then each call reads it, too, on average half of it.
    """
    known = [*TYPICAL, *gaps, *gaps]
    carried = READ * shrinks / (1 - shrinks) / 2 if shrinks < 1 else 0.0
    cold = [sum(gap >= seconds for gap in known) for seconds in SECONDS.values()]
    five = sum((READ if gap < SECONDS["5m"] else WRITE_5M) + WRITE_5M * new_share for gap in known)
    five += carried * len(known) * cold[1] / cold[0]
    most = int(refreshed // _EVERY)
    hour = min(sum(_hour(gap, reads) + WRITE_1H * new_share for gap in known) for reads in range(most + 1))
    hour += carried * len(known)
    return "1h" if hour < five else "5m"


def pays(gaps: Sequence[float], so_far: float, *, longest: float, shrinks: float = 0.0, calls: float = 1.0) -> bool:
    """Whether reading the prompt now, to have it kept, is likely to save more than it costs, after ``so_far`` seconds of silence.

    It may be read again until the silence has lasted ``longest``; the number of times that is best for silences like ``gaps`` is
    taken. ``shrinks`` is the share of the prompt that would be pruned if it were forgotten: a kept one costs that share more in each of
    the ``calls`` until the next long silence.
    """
    known = [gap for gap in (*LONG, *gaps, *gaps) if gap > so_far]
    saved = WRITE_1H * (1 - shrinks) - READ * (1 + shrinks * calls)
    for reads in range(1, int((longest - so_far) // _EVERY) + 2):
        lasts = so_far + (reads - 1) * _EVERY + SECONDS["1h"]
        cost = sum(READ * min(reads, 1 + (gap - so_far) // _EVERY) for gap in known)
        if saved * sum(gap < lasts for gap in known) > cost:
            return True
    return False


_SLEPT = 6 * 3600.0
"""Seconds before a reset in which nobody writes: it is set for the middle of the night."""


def likely_before(gaps: Sequence[float], so_far: float, until: float) -> bool:
    """Whether a silence that has lasted ``so_far`` seconds is more likely to end before the reset at ``until`` than after it."""
    known = [gap for gap in (*LONG, *gaps, *gaps) if gap > so_far]
    return 2 * sum(gap < until - _SLEPT for gap in known) > len(known)


def _hour(gap: float, reads: int) -> float:
    """Return what the prompt costs after a silence with a retention of an hour in which it is read up to ``reads`` times."""
    done = min(reads, gap // _EVERY)
    return READ * done + (READ if gap < done * _EVERY + SECONDS["1h"] else WRITE_1H)
