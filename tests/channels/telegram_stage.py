"""Telegram's peer as a stage for the published rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.chunking import utf16_length
from channels.telegram.channel import TelegramChannel
from channels.telegram.settings import TelegramSettings
from tests.peers import telegram
from tests.peers.hasty import HastyClock

if TYPE_CHECKING:
    from channels.conformance import Trouble


class TelegramStage:
    lacks = (
        "says_a_doubtful_message_once",  # Telegram neither knows a key nor lets a bot read back: a repetition is marked
        "sends_a_doubtful_file_once",  # the same
    )
    limit = 4096
    patience = 20.0
    anna = 42
    family = -1001234567890
    topic = 7

    def __init__(self, peer: telegram.TelegramPeer) -> None:
        self.peer = peer
        peer.chats.group(self.family, topics=(self.topic,))

    def channel(self) -> TelegramChannel:
        given = {"botToken": telegram.TOKEN, "apiRoot": self.peer.root, "pollTimeoutSeconds": 5, "timeoutSeconds": 5}
        given["groups"] = {str(self.family): {"allowFrom": [str(self.anna)]}}
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

    async def edit(self, text: str) -> None:
        last = [one for one in self.peer.chats.messages[self.anna] if one["from"]["id"] == self.anna][-1]
        await self.peer.edit(self.anna, last["message_id"], text)

    async def react(self, emoji: str, message: str) -> None:
        await self.peer.react(self.anna, self.anna, int(message), emoji)

    def reactions(self) -> list[str]:
        last = [one for one in self.peer.chats.messages[self.anna] if one["from"]["id"] == self.anna][-1]
        return self.peer.chats.reactions.get((self.anna, last["message_id"]), [])

    async def say_in_thread(self, text: str) -> None:
        await self.peer.say(self.anna, text, chat=self.family, thread=self.topic)

    def heard_in_thread(self) -> list[str]:
        return self.peer.chats.said(self.family, self.topic)

    async def attach(self, name: str, media_type: str, content: bytes) -> None:
        await self.peer.attach(self.anna, "document", content, name, media_type)

    def files(self) -> list[tuple[str, bytes]]:
        return [(name, content) for _, name, content in self.peer.chats.received]

    def buttons(self) -> list[str]:
        last = [one for one in self.peer.chats.messages[self.anna] if one["from"]["is_bot"]][-1]
        return [button["text"] for row in last.get("reply_markup", {}).get("inline_keyboard", []) for button in row]

    async def press(self, label: str) -> None:
        await self.peer.press(self.anna, self.anna, label)

    def offered(self) -> list[str]:
        menus = self.peer.chats.menus
        names = [[one["command"] for one in menus.get(scope, [])] for scope in ("all_private_chats", "all_group_chats")]
        return names[0] if names[0] == names[1] else []

    def menu_changes(self) -> int:
        return self.peer.count("setMyCommands")

    async def choose(self, name: str) -> None:
        await self.peer.say(self.anna, f"/{name}")
