"""Which accounts cannot send at the moment, since when, and why: for the status, and for the owner when it lasts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

AT_HOME = "terminal:"
TOLD_AFTER = 60.0
"""Seconds without a single success, after which the owner is told."""


class Clock(Protocol):
    """Time, from outside."""

    def now(self) -> datetime:
        """Return the current instant, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        ...


@dataclass
class _Trouble:
    since: datetime
    began: float
    why: str
    told: bool = False


class AccountHealth:
    """The accounts whose latest attempts all failed. ``tell`` is given an account and a line, once for each outage that lasts."""

    def __init__(self, clock: Clock, tell: Callable[[str, str], None]) -> None:
        self._clock = clock
        self._tell = tell
        self._failing: dict[str, _Trouble] = {}

    def failed(self, account: str, why: str) -> None:
        """Note that an attempt did not succeed, through no fault of the message. A terminal that nobody has open is no trouble."""
        if account.startswith(AT_HOME):
            return
        now = self._clock.monotonic()
        trouble = self._failing.setdefault(account, _Trouble(self._clock.now(), now, why))
        trouble.why = why
        if not trouble.told and now - trouble.began >= TOLD_AFTER:
            trouble.told = True
            self._tell(account, f"Nothing could be sent on {account} {self.line(account)}")

    def worked(self, account: str) -> None:
        """Note that the platform answered."""
        self._failing.pop(account, None)

    def failing(self, account: str) -> bool:
        """Whether its latest attempts failed."""
        return account in self._failing

    def line(self, account: str) -> str:
        """Say since when and why nothing could be sent; nothing where all is well."""
        trouble = self._failing.get(account)
        if trouble is None:
            return ""
        since = trouble.since.isoformat(timespec="seconds")
        return (
            f"since {since}: {trouble.why.rstrip('.')}. What is to be sent waits, and goes out when the platform answers again."
        )
