"""Detects another program that uses the bot's token: both would receive and answer every message."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from channels.common.log import Log
from channels.protocol import Clock

MOST: Final = 500
"""Messages of our own that are remembered."""
ENOUGH: Final = 2
"""Strange messages of the bot's that make a rival: one may be left of a former process of this gateway."""
SETTLED: Final = 30.0
"""Seconds after which a message of our own is known by its id, if not by its nonce: it may be heard before its sending ended."""
_WRITTEN: Final = {0, 19}
WARNING: Final = (
    "another program speaks with the token of this bot, and both answer. Stop it, or make an application of its own for each; to shut "
    "an unknown one out, reset the token (https://discord.com/developers/applications, Bot, Reset Token)"
)


class TokenConflict:
    """Compares received messages of the bot with those sent from here."""

    def __init__(self, clock: Clock, log: Log, account: str) -> None:
        self._clock = clock
        self._log = log
        self._account = account
        self._ours: deque[str] = deque(maxlen=MOST)
        self._strange: dict[str, float] = {}
        self._told = False

    def ours(self, mark: str) -> None:
        """Record the nonce of a message about to be sent, or the id of a sent one."""
        self._ours.append(mark)
        self._strange.pop(mark, None)

    def heard(self, message: dict[str, Any], me: str) -> None:
        """Check a new message, and report another program once."""
        author, now = message.get("author") or {}, self._clock.monotonic()
        said = str(author.get("id")) == me and message.get("type", 0) in _WRITTEN
        asked = message.get("interaction_metadata") or message.get("webhook_id")
        if said and not asked and not {str(message.get("nonce")), str(message.get("id"))} & set(self._ours):
            self._strange = dict(list(self._strange.items())[-MOST:]) | {str(message.get("id")): now}
        if not self._told and sum(now - at > SETTLED for at in self._strange.values()) >= ENOUGH:
            self._told = True
            self._log.warning(WARNING, account=self._account)
