"""Typing indicator: when it starts, and how often it is refreshed."""

from __future__ import annotations

import asyncio
from typing import Literal

from agent.events import Event, TextDelta, ThinkingDelta, ToolStarted
from agent.settings import AgentSettings
from agent.timing import Clock
from channels.messages import ChatAddress, Inbound
from channels.protocol import Channel

TypingMode = Literal["never", "instant", "thinking", "message"]
_FROM = {"thinking": (ThinkingDelta, ToolStarted, TextDelta), "message": (TextDelta,)}


class TypingIndicator:
    """Shows the indicator for one turn. In the mode ``message``, nothing is shown for an answer that is NO_REPLY."""

    def __init__(self, channel: Channel, conversation: ChatAddress, clock: Clock, mode: TypingMode, seconds: float) -> None:
        self._channel = channel
        self._conversation = conversation
        self._clock = clock
        self._mode = mode
        self._seconds = seconds
        self._due = asyncio.Event()
        if mode == "instant":
            self._due.set()

    def hear(self, event: Event) -> None:
        """Handle one event of the turn."""
        if isinstance(event, _FROM.get(self._mode, ())):
            self._due.set()

    async def show(self) -> None:
        """Show it until cancelled, once it is due. Platforms hide it after five seconds or more."""
        if self._mode == "never":
            return
        await self._due.wait()
        while True:
            await self._channel.typing(self._conversation)
            await self._clock.sleep(self._seconds)


def typing_mode(settings: AgentSettings, inbound: Inbound) -> TypingMode:
    """Return the mode for a message: from the settings, else depending on whether the sender certainly expects an answer."""
    if settings.typing_mode is not None:
        return settings.typing_mode
    return "instant" if inbound.conversation.kind == "direct" or inbound.mentioned else "message"
