"""Sends that fail: when those of unknown outcome are repeated and given up, and which accounts cannot send."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

from agent.timing import Clock
from channels.messages import CLIENT_CHANNELS
from channels.protocol import Channel
from gateway.ledger.rows import OutboxRow
from gateway.ledger.values import account_of

LADDER: Final = (1.0, 5.0, 30.0, 120.0, 300.0)
"""Seconds to wait after the first, second ... attempt with unknown outcome; the last value repeats. Most outages are over within
minutes, and each attempt may deliver another copy."""
ASKING: Final = (1.0, 5.0, 10.0, 30.0)
"""Seconds between health checks of the platform, which send nothing and may be more frequent."""
MOST: Final = 8
"""Attempts with unknown outcome after which a message is given up, which takes about 15 minutes."""
ALONE: Final = 2
"""Further attempts that failed, each after something else had been sent on the account: then the platform fails on the message."""
ALONE_SECONDS: Final = 60.0
"""How long a message is tried at least before that is believed: a part of a platform may be out of order for a moment."""


@dataclass
class _Failing:
    """A message that fails. ``passed`` is how much its account had sent at the last attempt, ``alone`` how often it failed alone."""

    since: float
    passed: int
    alone: int = 0


class AmbiguousSends:
    """The sends with unknown outcome of this process. Others in the ledger are from an earlier process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ours: set[int] = set()
        self._asked: dict[int, int] = {}
        self._failing: dict[int, _Failing] = {}
        self._passed: dict[str, int] = {}

    def is_alone(self, row: OutboxRow) -> bool:
        """Whether a message keeps failing while others on its account go through."""
        known = self._failing.get(row.id)
        return (
            known is not None
            and known.alone >= ALONE
            and self._clock.monotonic() - known.since >= ALONE_SECONDS
            and not row.notice
        )

    def note(self, row: OutboxRow) -> float:
        """Record an attempt with unknown outcome; return the seconds to wait before the next one."""
        self._ours.add(row.id)
        self._asked.pop(row.id, None)
        passed = self._passed.get(account_of(row.conversation), 0)
        known = self._failing.setdefault(row.id, _Failing(self._clock.monotonic(), passed))
        known.alone += passed > known.passed
        known.passed = passed
        return LADDER[min(row.doubts, len(LADDER) - 1)]

    def unanswered(self, row: OutboxRow) -> float:
        """Record a failed health check; return the seconds to wait before the next one."""
        asked = self._asked[row.id] = self._asked.get(row.id, 0) + 1
        return ASKING[min(asked, len(ASKING)) - 1]

    def over(self, row: OutboxRow, *, sent: bool = False) -> None:
        """Forget a message whose outcome is known. One that was ``sent`` shows that its account works."""
        if sent:
            account = account_of(row.conversation)
            self._passed[account] = self._passed.get(account, 0) + 1
        self._ours.discard(row.id)
        self._asked.pop(row.id, None)
        self._failing.pop(row.id, None)

    def began_here(self, row: OutboxRow) -> bool:
        """Whether this process made the attempts that may have arrived; else it was restarted since."""
        return row.id in self._ours

    @staticmethod
    def enough(row: OutboxRow) -> bool:
        """Whether another attempt with unknown outcome would be the last. Notices have no limit: duplicates of them do no harm."""
        return row.doubts + 1 >= MOST and not row.notice


def is_safe(channel: Channel, row: OutboxRow) -> bool:
    """Whether a message with unknown outcome can be resent without a visible duplicate."""
    return row.recorded is not None or bool(getattr(channel, "repeats_safely", False))


async def answers(channel: Channel, row: OutboxRow) -> bool:
    """Check whether the platform accepts messages now, if the channel can check without sending one."""
    ask: Any = getattr(channel, "answers", None)
    return ask is None or bool(await ask(row.conversation))


AT_HOME = tuple(f"{name}:" for name in CLIENT_CHANNELS)
TOLD_AFTER = 60.0
"""Seconds without a successful send after which the owner is told."""


@dataclass
class _Trouble:
    since: datetime
    began: float
    why: str
    told: bool = False


class DeliveryListener(Protocol):
    """Listener for messages that cannot be delivered."""

    def refused(self, address: str, reason: str) -> None:
        """A message to this address was rejected permanently."""
        ...

    def given_up(self, address: str, how: str) -> None:
        """A message to this address could not be delivered."""
        ...

    def held(self, address: str, reason: str) -> None:
        """A message to this address waits until its person writes."""
        ...

    def away(self, account: str, text: str) -> None:
        """An account has been failing for a while."""
        ...


class NoListener:
    """Does nothing."""

    def refused(self, address: str, reason: str) -> None:
        """See the protocol."""

    def given_up(self, address: str, how: str) -> None:
        """See the protocol."""

    def held(self, address: str, reason: str) -> None:
        """See the protocol."""

    def away(self, account: str, text: str) -> None:
        """See the protocol."""


class AccountHealth:
    """The accounts whose latest sends all failed. ``tell`` is called with an account and a line, once per long outage."""

    def __init__(self, clock: Clock, tell: Callable[[str, str], None]) -> None:
        self._clock = clock
        self._tell = tell
        self._failing: dict[str, _Trouble] = {}

    def failed(self, account: str, why: str) -> None:
        """Record a failed attempt that is not the message's fault. A client that is not connected does not count."""
        if account.startswith(AT_HOME):
            return
        now = self._clock.monotonic()
        trouble = self._failing.setdefault(account, _Trouble(self._clock.now(), now, why))
        trouble.why = why
        if not trouble.told and now - trouble.began >= TOLD_AFTER:
            trouble.told = True
            self._tell(account, f"Nothing could be sent on {account} {self.line(account)}")

    def worked(self, account: str) -> None:
        """Record that the platform answered."""
        self._failing.pop(account, None)

    def failing(self, account: str) -> bool:
        """Whether the account's latest attempts failed."""
        return account in self._failing

    def line(self, account: str) -> str:
        """Return since when and why sending fails; "" if it does not."""
        trouble = self._failing.get(account)
        if trouble is None:
            return ""
        since = trouble.since.isoformat(timespec="seconds")
        return f"since {since}: {trouble.why.rstrip('.')}. Messages are kept and sent when the platform answers again."
