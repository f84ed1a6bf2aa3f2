"""Tracks accounts that cannot send: since when and why, for the status and for a notice to the owner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

AT_HOME = "terminal:"
TOLD_AFTER = 60.0
"""Seconds without a successful send after which the owner is told."""


class Clock(Protocol):
    """The clock that is needed here."""

    def now(self) -> datetime:
        """Return the current time in UTC."""
        ...

    def monotonic(self) -> float:
        """Return monotonic seconds."""
        ...


@dataclass
class _Trouble:
    since: datetime
    began: float
    why: str
    told: bool = False


class AccountHealth:
    """The accounts whose latest sends all failed. ``tell`` is called with an account and a line, once per long outage."""

    def __init__(self, clock: Clock, tell: Callable[[str, str], None]) -> None:
        self._clock = clock
        self._tell = tell
        self._failing: dict[str, _Trouble] = {}

    def failed(self, account: str, why: str) -> None:
        """Record a failed attempt that is not the message's fault. A terminal that is not open does not count."""
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
