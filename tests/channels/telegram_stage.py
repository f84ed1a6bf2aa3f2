"""Telegram's peer as a stage for the published rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.common.chunking import utf16_length
from channels.telegram.channel import TelegramChannel
from channels.telegram.settings import TelegramSettings
from channels.testing.receive import LABEL
from tests.patience import PATIENCE
from tests.peers import telegram
from tests.peers.hasty import FastClock
from tests.peers.telegram_state import BOT

if TYPE_CHECKING:
    from channels.testing import Trouble


PRIVATE = {"id": 42, "type": "private", "first_name": "Anna"}
STICKER = {
    "file_id": "s1",
    "file_unique_id": "u1",
    "type": "regular",
    "width": 512,
    "height": 512,
    "is_animated": False,
    "is_video": False,
    "emoji": "🐈",
}


class TelegramStage:
    lacks = (
        "says_a_doubtful_message_once",  # Telegram neither knows a key nor lets a bot read back: a repetition is marked
        "sends_a_doubtful_file_once",  # the same
    )
    limit = 4096
    events = (
        *("edited message", "reaction", "press", "added", "removed", "joined", "pinned", "topic", "sticker", "location"),
        *("channel post", "poll", "unknown kind"),
    )
    patience = PATIENCE
    anna = 42
    family = -1001234567890
    topic = 7

    def __init__(self, peer: telegram.TelegramPeer) -> None:
        self.peer = peer
        peer.chats.group(self.family, topics=(self.topic,))

    def channel(self, token: str = telegram.TOKEN) -> TelegramChannel:
        given = {"botToken": token, "apiRoot": self.peer.root, "pollTimeoutSeconds": 5, "timeoutSeconds": 5}
        given["groups"] = {str(self.family): {"allowFrom": [str(self.anna)]}}
        return TelegramChannel(TelegramSettings.model_validate(given), "default", clock=FastClock(), random=lambda: 1.0)

    async def say(self, text: str) -> None:
        await self.peer.say(self.anna, text)

    async def repeat(self) -> None:
        await self.peer.inject("message", self.peer.chats.messages[self.anna][-1])

    async def disconnect(self) -> None:
        self.peer.fault("getUpdates", "drop_before")

    async def happen(self, event: str) -> None:  # noqa: C901, PLR0912 - one case a kind of event
        peer, anna = self.peer, self.anna
        last = [one for one in peer.chats.messages[anna] if one["from"]["id"] == anna][-1]["message_id"]
        for chat in (anna, self.family):
            match event:
                case "edited message":
                    theirs = [one for one in peer.chats.messages[chat] if one["from"]["id"] == anna][-1]
                    await peer.edit(chat, theirs["message_id"], "changed")
                case "reaction":
                    await peer.react(anna, chat, last, "👍")
                case "press":
                    await peer.press(anna, anna, LABEL, wait=False)
                    return
                case "added" | "removed":
                    await peer.add_bot(self.family, status="member" if event == "added" else "left", before="member")
                case "joined":
                    await peer.say(anna, chat=self.family, new_chat_members=[{"id": 43, "is_bot": False, "first_name": "Ben"}])
                case "pinned":
                    await peer.say(anna, chat=self.family, pinned_message={"message_id": last, "date": 0, "chat": PRIVATE})
                case "topic":
                    await peer.say(anna, chat=self.family, forum_topic_created={"name": "A topic", "icon_color": 7322096})
                case "sticker":
                    await peer.say(anna, chat=None if chat == anna else chat, sticker=STICKER)
                case "location":
                    await peer.say(anna, chat=None if chat == anna else chat, location={"latitude": 1.5, "longitude": 2.5})
                case "channel post":
                    channel = {"id": -1009999, "type": "channel", "title": "News"}
                    await peer.inject("channel_post", {"message_id": 1, "date": 1, "chat": channel, "text": "news"})
                case "poll":
                    await peer.inject("poll", {"id": "1", "question": "?"})
                case _:
                    await peer.inject("story_of_the_day", {"chat": {"id": chat, "type": "private"}, "id": 1})

    async def garble(self) -> None:
        for content in (
            {},
            {"message_id": "x"},
            {"message_id": 1, "chat": {"id": "y"}, "date": "then", "text": 7},
            {"chat": 7},
        ):
            for kind in ("message", "edited_message", "callback_query", "message_reaction", "my_chat_member"):
                await self.peer.inject(kind, content)

    async def go_away(self) -> None:
        await self.peer.go_away()

    async def come_back(self) -> None:
        await self.peer.come_back()

    def intruder(self) -> TelegramChannel:
        return self.channel(telegram.TOKEN[:-1] + "x")

    async def say_in_group(self, text: str, *, mention: bool = False) -> None:
        await self.peer.say(self.anna, f"@{BOT['username']} {text}" if mention else text, chat=self.family)

    async def say_as_bot(self, text: str) -> None:
        beeper = {"id": 77, "is_bot": True, "first_name": "Beeper", "username": "beeper_bot"}
        await self.peer.say(self.anna, text, chat=self.family, sender=beeper)

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
