"""Slack's peer as a stage for the published rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from channels.slack.channel import SlackChannel
from channels.slack.emoji import emoji_of, name_of
from channels.slack.settings import SlackSettings
from tests.peers import slack
from tests.peers.hasty import HastyClock

if TYPE_CHECKING:
    from channels.conformance import Trouble


class SlackStage:
    lacks = (
        "shows_typing",  # Slack shows it in threads only; tests/channels/test_slack_previews.py
        "offers_its_menu_once",  # Slack's menu is in the app's manifest, and no call writes it; docs/slack.md
    )
    limit = 4000
    patience = 20.0
    anna = "UANNA0001"
    room = "CROOM0001"
    posts = ("chat.postMessage", "files.completeUploadExternal")

    def __init__(self, peer: slack.SlackPeer) -> None:
        self.peer = peer
        self.last: dict[str, Any] = {}
        self.thread = ""

    def channel(self) -> SlackChannel:
        tokens = {"botToken": slack.BOT_TOKEN, "appToken": slack.APP_TOKEN}
        given = {**tokens, "apiRoot": self.peer.root, "timeoutSeconds": 5, "pingSeconds": 0.5, "channels": {self.room: {}}}
        return SlackChannel(SlackSettings.model_validate(given), "default", clock=HastyClock(), random=lambda: 1.0)

    async def say(self, text: str) -> None:
        stamp = await self.peer.say(self.anna, text)
        self.last = {"type": "message", "user": self.anna, "text": text, "ts": stamp, "event_ts": stamp}

    async def repeat(self) -> None:
        await self.peer.emit({**self.last, "channel": self.peer.dm(self.anna), "channel_type": "im"})

    async def disconnect(self) -> None:
        await self.peer.cut()

    def trouble(self, kind: Trouble) -> None:
        for post in self.posts:
            match kind:
                case "refused":
                    self.peer.fault(post, "error", text="is_archived")
                case "rate limit":
                    self.peer.fault(post, "retry_after", seconds=7)
                case _:
                    self.peer.fault(post, kind.replace("cut ", "drop_"))

    def heard(self) -> list[str]:
        return self.peer.said(self.peer.dm(self.anna))

    def typed(self) -> int:
        return len(self.peer.statuses)

    def length(self, text: str) -> int:
        return len(text)

    async def edit(self, text: str) -> None:
        await self.peer.edit(self.anna, self.last["ts"], text)

    async def react(self, emoji: str, message: str) -> None:
        await self.peer.react(self.anna, message, str(name_of(emoji)))

    def reactions(self) -> list[str]:
        last = [one for one in self.peer.messages[self.peer.dm(self.anna)] if one["user"] == self.anna][-1]
        return [emoji_of(name) for name, users in last.get("reactions", {}).items() if slack.BOT in users]

    async def say_in_thread(self, text: str) -> None:
        if not self.thread:
            self.thread = str(self.peer.home.note(self.room, {"user": self.anna, "text": "beginning"})["ts"])
        await self.peer.say(self.anna, text, channel=self.room, thread=self.thread)

    def heard_in_thread(self) -> list[str]:
        return self.peer.said(self.room, thread=self.thread)

    async def attach(self, name: str, media_type: str, content: bytes) -> None:
        file = self.peer.upload(self.anna, name, content, media_type)
        await self.peer.say(self.anna, "", subtype="file_share", files=[file])

    def files(self) -> list[tuple[str, bytes]]:
        there = [one for one in self.peer.messages[self.peer.dm(self.anna)] if one["user"] == slack.BOT]
        return [(file["name"], self.peer.home.contents[file["id"]]) for one in there for file in one.get("files", [])]

    def buttons(self) -> list[str]:
        last = [one for one in self.peer.messages[self.peer.dm(self.anna)] if one["user"] == slack.BOT][-1]
        return [
            button["text"]["text"]
            for block in last.get("blocks", [])
            if block["type"] == "actions"
            for button in block["elements"]
        ]

    async def press(self, label: str) -> None:
        await self.peer.press(self.anna, label)
        await self.peer.until(lambda: not self.peer.waiting)
