"""Keeps sends within Telegram's limits (https://core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this)."""

from __future__ import annotations

from collections import deque

from channels.errors import NotSent
from channels.protocol import Clock

IN_ALL = 30
"""Messages a second."""
IN_A_CHAT = 1.0
"""Seconds between two messages to one chat."""
IN_A_GROUP = 20
"""Messages a minute to one group."""
KEPT_FREE = 8
"""Of those, what is left for answers: previews do not use them up."""
PATIENCE = 10.0
"""A longer wait is left to the gateway, which has other chats to write to meanwhile."""
MARGIN = 0.1
MOST_CHATS = 1000


class Pacer:
    """Limits the rate of sends. When Telegram asks to wait, nothing is sent to that chat; when it asks twice, nothing is sent to any.

    ``on`` is False for servers without limits: then only waits that Telegram asks for apply.
    """

    def __init__(self, clock: Clock, *, on: bool = True) -> None:
        self._clock = clock
        self._on = on
        self._all: deque[float] = deque(maxlen=IN_ALL)
        self._chats: dict[str, deque[float]] = {}
        self._held: dict[str, float] = {}
        self._all_held = 0.0

    @property
    def chats(self) -> int:
        """Of how many chats it is known when they were last written to."""
        return len(self._chats)

    async def turn(self, chat: str, messages: int = 1) -> None:
        """Wait for a turn to send a message, or an album of several, each of which Telegram counts.

        Raises:
            NotSent: it would take long; it says how long.
        """
        now = self._clock.monotonic()
        due = max(now, self._due(chat))
        self._refuse_beyond(chat, due - now)
        for _ in range(messages):
            self._take(chat, due)
        if due > now:
            await self._clock.sleep(due - now)
            await self.quiet(chat)

    async def free(self, chat: str) -> None:
        """Wait until a turn is free, without taking it; not at all where it would take long."""
        wait = self._due(chat) - self._clock.monotonic()
        if 0 < wait <= PATIENCE:
            await self._clock.sleep(wait)

    async def quiet(self, chat: str) -> None:
        """Wait as long as Telegram asked to: for what is no new message.

        Raises:
            NotSent: that is long; it says how long.
        """
        wait = self.held(chat)
        self._refuse_beyond(chat, wait)
        if wait > 0:
            await self._clock.sleep(wait)

    def spare(self, chat: str) -> bool:
        """Reserve a best-effort send, if the rate limit has room for it now."""
        now = self._clock.monotonic()
        if self._due(chat, KEPT_FREE) > now:
            return False
        self._take(chat, now)
        return True

    def held(self, chat: str) -> float:
        """Return for how many seconds Telegram asked to wait."""
        return max(0.0, self._held.get(chat, 0.0) - self._clock.monotonic(), self._all_held - self._clock.monotonic())

    def hold(self, chat: str, seconds: float) -> None:
        """Telegram asked to wait."""
        now = self._clock.monotonic()
        until = now + seconds + MARGIN
        if any(end > now for other, end in self._held.items() if other != chat):
            self._all_held = max(self._all_held, until)
        self._held[chat] = max(self._held.get(chat, 0.0), until)

    def _due(self, chat: str, kept_free: int = 0) -> float:
        """Return when the next message may go; ``kept_free`` turns of a group's minute, and of the second, do not count as free."""
        due = max(self._held.get(chat, 0.0), self._all_held)
        if not self._on:
            return due
        times = self._chats.get(chat, ())
        if times:
            due = max(due, times[-1] + IN_A_CHAT)
        most = IN_A_GROUP - kept_free
        if chat.startswith("-") and len(times) >= most:
            due = max(due, times[-most] + 60)
        most = IN_ALL - kept_free
        return max(due, self._all[-most] + 1) if len(self._all) >= most else due

    def _take(self, chat: str, at: float) -> None:
        self._all.append(max([at, *list(self._all)[-1:]]))
        self._chats.setdefault(chat, deque(maxlen=IN_A_GROUP)).append(at)
        if len(self._chats) > MOST_CHATS:
            now = self._clock.monotonic()
            self._chats = {one: times for one, times in self._chats.items() if times[-1] > now - 60}
            self._held = {one: until for one, until in self._held.items() if until > now}

    @staticmethod
    def _refuse_beyond(chat: str, wait: float) -> None:
        if wait > PATIENCE:
            raise NotSent(f"Telegram asks to wait {wait:.0f} s before the next message to {chat}", retry_after=wait)
