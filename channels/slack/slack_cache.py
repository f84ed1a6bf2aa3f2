"""What one app remembers of its conversations while it runs. Everything is bounded and may be lost."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")
MOST = 1000
PLACE = tuple[str, str]
"""A channel, and the time stamp of a message in it."""


class Recent(Generic[K, V]):
    """A bounded mapping: the oldest entry is removed first."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._kept: OrderedDict[K, V] = OrderedDict()

    def put(self, key: K, value: V) -> None:
        """Store a value, in place of an earlier one."""
        self._kept.pop(key, None)
        self._kept[key] = value
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def get(self, key: K) -> V | None:
        """Return a value that is still kept."""
        return self._kept.get(key)

    def take(self, key: K) -> V | None:
        """Return a value and forget it."""
        return self._kept.pop(key, None)

    def __len__(self) -> int:
        return len(self._kept)


@dataclass(slots=True)
class SlackCache:
    """What outlives a connection.

    ``dms``: the private channel of each person. ``threads``: the thread that a message of ours is in ("" for none). ``starters``: what
    the messages say that a thread may begin with. ``fresh``: the messages that were new to this process. ``names``: what people are
    called. ``writers``: who wrote last in a conversation, by its address. ``former``: the id that a group had before Slack gave it
    another. ``commands``: the names that the gateway offered for a menu.
    """

    dms: dict[str, str] = field(default_factory=dict)
    threads: Recent[PLACE, str] = field(default_factory=Recent)
    starters: Recent[PLACE, str] = field(default_factory=Recent)
    fresh: Recent[PLACE, bool] = field(default_factory=Recent)
    names: Recent[str, str] = field(default_factory=Recent)
    writers: Recent[str, str] = field(default_factory=Recent)
    former: dict[str, str] = field(default_factory=dict)
    commands: frozenset[str] = frozenset()
