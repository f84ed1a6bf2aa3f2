"""What the owner is told of messages that do not go out: in the log, in the status, and in a chat that works."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.outbound.owner_notifications import OwnerNotifications
    from gateway.outbound.startup_notices import StartupNotices

log = logging.getLogger(__name__)


class DeliveryNotices:
    """Told by the delivery. ``owner`` gives the line to the owner, which needs the delivery itself."""

    def __init__(self, notices: StartupNotices, owner: Callable[[], OwnerNotifications]) -> None:
        self._notices = notices
        self._owner = owner

    def refused(self, address: str, reason: str) -> None:
        """Something that was said is not taken, now or later. Told once, for a group from which the bot was removed refuses all."""
        self._notices.report(f"What I wanted to say in {address} is refused: {reason}. `homebody outbox list` shows it.")

    def given_up(self, address: str, how: str) -> None:
        """Something could not be delivered. The conversation itself gets a list of what it missed."""
        text = f"What I wanted to say in {address} {how}. `homebody outbox list` shows it."
        self._notices.tell(text)
        self._owner().say_elsewhere(f"⚠️ {text}", address)

    def away(self, account: str, text: str) -> None:
        """Nothing could be sent on an account for a while; ``homebody channels status`` says so as long as it lasts."""
        log.warning(text)
        self._owner().say_elsewhere(f"⚠️ {text}", account)
