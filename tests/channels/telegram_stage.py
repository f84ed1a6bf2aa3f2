"""Telegram's peer as a stage for the published rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.chunking import utf16_length
from channels.conformance import EXTRAS
from channels.telegram.channel import TelegramChannel
from channels.telegram.settings import TelegramSettings
from tests.peers import telegram
from tests.peers.hasty import HastyClock

if TYPE_CHECKING:
    from channels.conformance import Trouble


class TelegramStage:
    lacks = (
        "says_a_doubtful_message_once",  # Telegram neither knows a key nor lets a bot read back: a repetition is marked
        *(rule.__name__ for rule in EXTRAS),
    )
    limit = 4096
    patience = 20.0
    anna = 42

    def __init__(self, peer: telegram.TelegramPeer) -> None:
        self.peer = peer

    def channel(self) -> TelegramChannel:
        given = {"botToken": telegram.TOKEN, "apiRoot": self.peer.root, "pollTimeoutSeconds": 5, "timeoutSeconds": 5}
        return TelegramChannel(TelegramSettings.model_validate(given), "default", clock=HastyClock(), random=lambda: 1.0)

    async def say(self, text: str) -> None:
        await self.peer.say(self.anna, text)

    async def repeat(self) -> None:
        await self.peer.inject("message", self.peer.chats.messages[self.anna][-1])

    async def disconnect(self) -> None:
        self.peer.fault("getUpdates", "drop_before")

    def trouble(self, kind: Trouble) -> None:
        match kind:
            case "refused":
                self.peer.fault("sendMessage", "refuse", code=403, text="Forbidden: bot was blocked by the user")
            case "rate limit":
                self.peer.fault("sendMessage", "retry_after", seconds=7)
            case _:
                self.peer.fault("sendMessage", kind.replace("cut ", "drop_"))

    def heard(self) -> list[str]:
        return [text for who, text in self.peer.transcript(self.anna) if who == "bot"]

    def typed(self) -> int:
        return len(self.peer.chats.actions)

    def length(self, text: str) -> int:
        return utf16_length(text)
