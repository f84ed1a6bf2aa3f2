"""Notices about undeliverable messages: to the log, the status, and the owner on a working channel."""

from __future__ import annotations

import logging
from collections.abc import Callable

from gateway.outbound.owner_notifications import OwnerNotifications
from gateway.outbound.startup_notices import StartupNotices

log = logging.getLogger(__name__)


class DeliveryNotices:
    """Listener of the delivery. ``owner`` sends a line to the owner, which itself needs the delivery."""

    def __init__(self, notices: StartupNotices, owner: Callable[[], OwnerNotifications]) -> None:
        self._notices = notices
        self._owner = owner

    def refused(self, address: str, reason: str) -> None:
        """A message was rejected permanently. Told once per conversation: a group that removed the bot rejects everything."""
        self._notices.report(f"My message to {address} was rejected: {reason}. `homebody outbox list` shows it.")

    def given_up(self, address: str, how: str) -> None:
        """A message could not be delivered. The conversation itself gets a list of missed messages later."""
        text = f"My message to {address} {how}. `homebody outbox list` shows it."
        self._notices.tell(text)
        self._owner().say_elsewhere(f"⚠️ {text}", address)

    def away(self, account: str, text: str) -> None:
        """Sending on an account has been failing for a while; ``homebody channels status`` shows it as long as it lasts."""
        log.warning(text)
        self._owner().say_elsewhere(f"⚠️ {text}", account)
