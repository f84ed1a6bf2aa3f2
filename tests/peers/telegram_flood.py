"""How the Telegram peer keeps bots from flooding: the published limits, and no mercy with those who do not wait."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.peers.telegram_methods import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

COUNTED = {"sendMessage", "sendPhoto", "sendVoice", "sendAudio", "sendVideo", "sendDocument", "sendAnimation"}
SLACK = 0.05


@dataclass
class Flood:
    """Counts messages by the clock ``now``. ``refusals`` are the 429 given; ``defied`` those given while the bot should have waited."""

    now: Callable[[], float]
    penalty: float = 5
    refusals: int = 0
    defied: int = 0
    _sent: list[tuple[float, str]] = field(default_factory=list)
    _until: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def check(self, method: str, arguments: dict[str, Any]) -> None:
        """Take note of a call, or refuse it."""
        chat, now = str(arguments.get("chat_id", "")), self.now()
        if now < self._until[chat]:
            self.defied += 1
            self._refuse(chat)
        if method not in COUNTED:
            return
        self._sent = [one for one in self._sent if one[0] > now - 60]
        in_a_second = [to for at, to in self._sent if at > now - 1 + SLACK]
        in_a_minute = [to for _, to in self._sent if to == chat and chat.startswith("-")]
        if len(in_a_second) >= 30 or chat in in_a_second or len(in_a_minute) >= 20:
            self._refuse(chat)
        self._sent.append((now, chat))

    def hold(self, chat: int | str) -> None:
        """Let nothing pass to a chat for as long as the penalty lasts."""
        self._until[str(chat)] = self.now() + self.penalty

    def _refuse(self, chat: str) -> None:
        self.refusals += 1
        self.hold(chat)
        seconds = int(self.penalty)
        raise Refused(f"Too Many Requests: retry after {seconds}", 429, {"retry_after": seconds})
