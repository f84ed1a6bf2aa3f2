"""How a platform is on a day: a little late, with more in what it sends than is documented, telling some things twice; on a bad day
it fails besides.

A mood is drawn by HOMEBODY_FIRE_MOOD (a number; ``calm``: every day is a good one) and the name of the test, so that a failure can be had
again. What every peer does by itself changes no oracle; failures are drawn only where a test asks for a bad day.
"""

from __future__ import annotations

import asyncio
import os
from random import Random
from typing import Any, Final, Literal

_GIVEN: Final = os.environ.get("HOMEBODY_FIRE_MOOD", "")
SEED: Final = int(_GIVEN) if _GIVEN.isdecimal() else 20260301
ALL_CALM: Final = _GIVEN == "calm"
LATEST: Final = 0.004
"""Seconds that an answer may be late: enough for another order of things, and little for a test."""
LONGEST_HELD: Final = 0.05
"""Seconds by which an event may come behind later ones."""
OFTEN, SELDOM = 0.3, 0.1
DEEPEST = 4
_KEPT: Final = frozenset({"input", "arguments", "embedding", "item", "output", "diagnostics"})
"""Fields whose content is the caller's own."""
_WORDS = ("x_tomorrow", "undocumented", "_meta", "ext", "beta_flags")
_VALUES: tuple[Any, ...] = (None, 0, -1, True, "", "ü\u202e", [], {}, [None], {"type": "future", "id": "?"}, 2**53)
Failure = Literal["status before", "status after", "page before", "page after", "cut before", "cut after"]
FAILURES: Final[tuple[Failure, ...]] = ("status before", "status after", "page before", "page after", "cut before", "cut after")
"""A 5xx in the platform's words, one of a proxy's (HTML), the connection cut: without the effect, and with it."""


class Mood:
    """One peer's day. ``bad`` is the share of calls that fail; ``seed`` names another day than the test's own.

    On a bad day ids begin anywhere, and events of a platform that promises no order come in another one.
    """

    def __init__(self, seed: str = "", *, bad: float = 0.0, calm: bool = False) -> None:
        test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
        self._random = Random(f"{SEED} {seed or test}")
        self._calm = calm or ALL_CALM
        self._bad = 0.0 if self._calm else bad

    @property
    def bad(self) -> bool:
        """Whether calls fail."""
        return self._bad > 0

    def over(self) -> None:
        """Let nothing fail any more."""
        self._bad = 0.0

    def may(self, share: float) -> bool:
        """Draw whether something happens."""
        return not self._calm and self._random.random() < share

    async def late(self) -> None:
        """Take a moment, or none."""
        if self.may(OFTEN):
            await asyncio.sleep(self._random.random() * LATEST)

    def more(self, told: Any, depth: int = 0) -> Any:
        """Return what is told with fields that nobody documented, here and there."""
        if depth > DEEPEST or self._calm:
            return told
        if isinstance(told, list):
            return told if not told or not isinstance(told[0], dict | list) else [self.more(one, depth + 1) for one in told]
        if not isinstance(told, dict):
            return told
        found = {key: value if key in _KEPT else self.more(value, depth + 1) for key, value in told.items()}
        if self.may(OFTEN):
            found.setdefault(self._random.choice(_WORDS), self._random.choice(_VALUES))
        return found

    def stranger(self) -> dict[str, Any] | None:
        """Return the content of an event of a kind that nobody documented, or None: none now."""
        return self.more({"id": str(self._random.getrandbits(40)), "at": 0}) if self.may(SELDOM) else None

    def twice(self) -> bool:
        """Draw whether something is told once more."""
        return self.may(SELDOM)

    def failure(self) -> Failure | None:
        """Draw how a call fails, on a bad day."""
        return self._random.choice(FAILURES) if self._bad and self._random.random() < self._bad else None

    def pick(self, *some: Any) -> Any:
        """Draw one of these."""
        return self._random.choice(some)

    def held(self) -> float:
        """Draw for how many seconds an event is held back, on a bad day; mostly 0."""
        return self._random.random() * LONGEST_HELD if self._bad and self.may(OFTEN) else 0.0

    def start(self, usual: int, most: int = 2**31 - 10_000) -> int:
        """Return where ids begin: on a bad day anywhere up to ``most``, which leaves room for a test's."""
        return self._random.randint(1, most) if self._bad else usual


CALM: Final = Mood(calm=True)
"""For tests whose oracle is the platform's every word."""


def today() -> Mood:
    """Return the mood of the running test, for peers that are made of functions."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    if _today[0] != test:
        _today[:] = [test, Mood()]
    mood: Mood = _today[1]
    return mood


_today: Final[list[Any]] = [None, CALM]
