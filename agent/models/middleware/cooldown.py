"""How long a model or a key is not used after it failed."""

from __future__ import annotations

from msgspec import Struct

from agent.messages import Failure, FailureKind

_LASTING: frozenset[FailureKind] = frozenset({"auth", "billing", "unknown_model"})
_MINUTE, _HOUR = 60.0, 3600.0
_GROWS = 4
"""How many times a cooldown grows; by then it has reached its bound."""


class Cooldowns(Struct, frozen=True, kw_only=True):
    """Cooldowns in seconds: after the first failure, and at most. ``lasting`` ones are for failures that only the owner can fix."""

    first: float = _MINUTE
    longest: float = _HOUR
    lasting_first: float = 5 * _HOUR
    lasting_longest: float = 24 * _HOUR


def cooldown_seconds(failure: Failure, times: int, rests: Cooldowns | None = None) -> float:
    """Return for how many seconds a model or key is not used after failing ``times`` times in a row.

    By default 1, 5, 25, then 60 minutes; 5, 10, 20, then 24 hours where only the owner can fix it. Never less than the provider's
    Retry-After.
    """
    r = rests or Cooldowns()
    lasting = failure.kind in _LASTING
    first, factor, longest = (r.lasting_first, 2, r.lasting_longest) if lasting else (r.first, 5, r.longest)
    seconds = min(longest, first * float(factor ** min(times - 1, _GROWS)))
    return max(seconds, failure.retry_after or 0.0)
