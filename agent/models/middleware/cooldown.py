"""How long what failed is left in peace: a model that gave no answer, a key that was turned down."""

from __future__ import annotations

from dataclasses import dataclass

from agent.messages import Failure, FailureKind

_LASTING: frozenset[FailureKind] = frozenset({"auth", "billing", "unknown_model"})
_MINUTE, _HOUR = 60.0, 3600.0
_GROWS = 4
"""How many times a rest grows; by then it has reached its bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cooldowns:
    """How long something rests that failed, in seconds: the first time, and at most. ``lasting`` is what only the owner can mend."""

    first: float = _MINUTE
    longest: float = _HOUR
    lasting_first: float = 5 * _HOUR
    lasting_longest: float = 24 * _HOUR


def cooldown_seconds(failure: Failure, times: int, rests: Cooldowns | None = None) -> float:
    """Return for how many seconds a model or a key rests after failing ``times`` times in a row.

    As usual 1, 5, 25, then 60 minutes; 5, 10, 20, then 24 hours where only the owner can mend it. Never less than it asked for
    itself.
    """
    r = rests or Cooldowns()
    lasting = failure.kind in _LASTING
    first, factor, longest = (r.lasting_first, 2, r.lasting_longest) if lasting else (r.first, 5, r.longest)
    seconds = min(longest, first * float(factor ** min(times - 1, _GROWS)))
    return max(seconds, failure.retry_after or 0.0)
