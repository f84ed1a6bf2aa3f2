"""Counters and histograms in plain Python: an addition or two for each event, and nothing else until somebody reads them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

FAST: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Upper limits in seconds of what should take milliseconds."""
SLOW: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""The same of what models, platforms and commands take."""
MOST_NAMES: Final = 200
OTHER: Final = "other"


class Histogram:
    """How often something took how long. ``counts`` has one place for each limit and one above them."""

    __slots__ = ("counts", "limits", "total")

    def __init__(self, limits: Sequence[float]) -> None:
        self.limits = limits
        self.counts = [0] * (len(limits) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self.counts[bisect_left(self.limits, seconds)] += 1
        self.total += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Return how many took at most each limit, as Prometheus has it; the last is ``+Inf``."""
        found, sum_so_far = [], 0
        for limit, count in zip([*map(str, self.limits), "+Inf"], self.counts, strict=True):
            sum_so_far += count
            found.append((limit, float(sum_so_far)))
        return found


class Histograms:
    """A histogram for each name; names beyond ``MOST_NAMES`` share one, because others may choose them (tools of other programs)."""

    def __init__(self, limits: Sequence[float]) -> None:
        self._limits = limits
        self.by_name: dict[str, Histogram] = {}

    def add(self, name: str, seconds: float) -> None:
        """Count one of a name."""
        found = self.by_name.get(name)
        if found is None:
            name = name if len(self.by_name) < MOST_NAMES else OTHER
            found = self.by_name.setdefault(name, Histogram(self._limits))
        found.add(seconds)


class Counts:
    """Sums by a few names each. Names beyond ``MOST_NAMES`` combinations count as ``OTHER``."""

    def __init__(self) -> None:
        self.by_names: dict[tuple[str, ...], float] = {}

    def add(self, *names: str, by: float = 1.0) -> None:
        """Add to one sum."""
        if names not in self.by_names and len(self.by_names) >= MOST_NAMES:
            names = (OTHER,) * len(names)
        self.by_names[names] = self.by_names.get(names, 0.0) + by
