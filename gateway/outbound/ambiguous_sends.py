"""When a message that may or may not have arrived is sent again, and when it is given up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from channels.protocol import Channel
    from gateway.ledger.rows import OutboxRow

LADDER: Final = (1.0, 5.0, 30.0, 120.0, 300.0)
"""Seconds after the first, second ... attempt that nobody knows the outcome of; the last one from then on. Most outages of a platform
are over within minutes, and each attempt may be one more copy for the person who reads."""
ASKING: Final = (1.0, 5.0, 10.0, 30.0)
"""The same between questions whether the platform answers, which leave no trace and may come more often."""
MOST: Final = 8
"""Attempts with unknown outcome, after which a message is given up; the ladder reaches it in a quarter of an hour."""


class AmbiguousSends:
    """What this process has seen of messages in doubt. What the ledger holds in doubt besides comes from an earlier process."""

    def __init__(self) -> None:
        self._ours: set[int] = set()
        self._asked: dict[int, int] = {}

    def note(self, row: OutboxRow) -> float:
        """Take note of an attempt with unknown outcome; return how many seconds to wait before the next one."""
        self._ours.add(row.id)
        self._asked.pop(row.id, None)
        return LADDER[min(row.doubts, len(LADDER) - 1)]

    def unanswered(self, row: OutboxRow) -> float:
        """Take note that the platform did not answer when asked; return how many seconds to wait before it is asked again."""
        asked = self._asked[row.id] = self._asked.get(row.id, 0) + 1
        return ASKING[min(asked, len(ASKING)) - 1]

    def over(self, row: OutboxRow) -> None:
        """Forget a message whose outcome is known."""
        self._ours.discard(row.id)
        self._asked.pop(row.id, None)

    def restarted(self, row: OutboxRow) -> bool:
        """Whether the process was started again since an attempt that may have arrived."""
        return row.doubts > 0 and row.id not in self._ours

    @staticmethod
    def enough(row: OutboxRow) -> bool:
        """Whether one more attempt with unknown outcome ends it. A notice has nothing to double, so nothing ends it."""
        return row.doubts + 1 >= MOST and not row.notice


def is_safe(channel: Channel, row: OutboxRow) -> bool:
    """Whether a message in doubt may be sent again as often as needed without being seen twice."""
    return row.recorded is not None or bool(getattr(channel, "repeats_safely", False))


async def answers(channel: Channel, row: OutboxRow) -> bool:
    """Ask the platform whether it would take a message now, where the channel knows how to without saying anything."""
    ask: Any = getattr(channel, "answers", None)
    return ask is None or bool(await ask(row.conversation))
