"""Slack's peer as a stage for the published rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from channels.slack.channel import SlackChannel
from channels.slack.reactions import emoji_of, name_of
from channels.slack.settings import SlackSettings
from channels.testing.receive import LABEL
from tests.patience import PATIENCE
from tests.peers import slack
from tests.peers.hasty import FastClock

if TYPE_CHECKING:
    from channels.testing import Trouble


class SlackStage:
    lacks = (
        "shows_typing",  # Slack shows it in threads only; tests/channels/test_slack_previews.py
        "offers_its_menu_once",  # Slack's menu is in the app's manifest, and no call writes it; docs/slack.md
    )
    limit = 4000
    events = (
        *("edit", "link unfolded", "reaction", "command", "press", "joined", "topic", "deleted", "tombstone", "thread reply"),
        *("renamed", "archived", "home opened", "another command", "unknown kind", "unknown envelope"),
    )
    patience = PATIENCE
    anna = "UANNA0001"
    room = "CROOM0001"
    posts = ("chat.postMessage", "files.completeUploadExternal")

    def __init__(self, peer: slack.SlackPeer) -> None:
        self.peer = peer
        self.last: dict[str, Any] = {}
        self.thread = ""

    def channel(self, token: str = slack.BOT_TOKEN) -> SlackChannel:
        tokens = {"botToken": token, "appToken": slack.APP_TOKEN}
        given = {**tokens, "apiRoot": self.peer.root, "timeoutSeconds": 5, "pingSeconds": 0.5, "channels": {self.room: {}}}
        return SlackChannel(SlackSettings.model_validate(given), "default", clock=FastClock(), random=lambda: 1.0)

    async def say(self, text: str) -> None:
        stamp = await self.peer.say(self.anna, text)
        self.last = {"type": "message", "user": self.anna, "text": text, "ts": stamp, "event_ts": stamp}

    async def repeat(self) -> None:
        await self.peer.emit({**self.last, "channel": self.peer.dm(self.anna), "channel_type": "im"})

    async def disconnect(self) -> None:
        await self.peer.cut()

    async def happen(self, event: str) -> None:  # noqa: C901, PLR0912 - one case a kind of event
        peer, anna = self.peer, self.anna
        for place in (peer.dm(anna), self.room):
            theirs = [one for one in peer.messages[place] if one["user"] == anna][-1]
            there = {"channel": place, "channel_type": "im" if place.startswith("D") else "channel"}
            match event:
                case "edit":
                    await peer.edit(anna, theirs["ts"], "changed", channel=place)
                case "link unfolded":
                    now = {**theirs, "attachments": [{"id": 1, "title": "?"}]}
                    changed = {"type": "message", "subtype": "message_changed", "message": now, "previous_message": theirs}
                    await peer.emit({**changed, **there, "ts": theirs["ts"], "event_ts": theirs["ts"]})
                case "reaction":
                    await peer.react(anna, theirs["ts"], "eyes", channel=place)
                case "command":
                    await peer.command(anna, "status", channel=place)
                case "another command":
                    await peer.command(anna, "?", channel=place, name="/other")
                case "press":
                    await peer.press(anna, LABEL)
                    return
                case "joined" | "topic" | "tombstone":
                    subtype = {"joined": "channel_join", "topic": "channel_topic", "tombstone": "tombstone"}[event]
                    await peer.say(anna, "notice", channel="" if place.startswith("D") else place, subtype=subtype)
                case "deleted":
                    gone = {
                        "type": "message",
                        "subtype": "message_deleted",
                        "deleted_ts": theirs["ts"],
                        "previous_message": theirs,
                    }
                    await peer.emit({**gone, **there, "ts": theirs["ts"], "event_ts": theirs["ts"]})
                case "thread reply":
                    await peer.say(anna, "below", channel="" if place.startswith("D") else place, thread=theirs["ts"])
                case "renamed":
                    await peer.emit({"type": "channel_rename", "channel": {"id": place, "name": "hall", "created": 1}})
                case "archived":
                    await peer.emit({"type": "channel_archive", "channel": "CELSE0001", "user": anna})
                case "home opened":
                    await peer.emit({"type": "app_home_opened", "user": anna, "channel": place, "tab": "messages"})
                case "unknown envelope":
                    await peer.delivery.offer({"type": "star_risen", "team": {"id": slack.TEAM}}, "interactive")
                case _:
                    await peer.emit({"type": "star_risen", **there, "user": anna, "ts": "trigger.1.2"})

    async def garble(self) -> None:
        here = {"channel": self.room, "user": self.anna}
        odd: list[dict[str, Any]] = [{}, here, {**here, "ts": "x"}, {**here, "ts": 7, "text": 7}, {"channel": 7, "item": 7}]
        for content in odd:
            for kind in ("message", "app_mention", "reaction_added", "channel_id_changed"):
                await self.peer.emit({"type": kind, **content})
        await self.peer.emit({})
        await self.peer.delivery.offer({"type": "block_actions", "team": {"id": slack.TEAM}, "actions": 7}, "interactive")

    async def go_away(self) -> None:
        await self.peer.go_away()

    async def come_back(self) -> None:
        await self.peer.come_back()

    def intruder(self) -> SlackChannel:
        return self.channel("xoxb-guessed")

    async def say_in_group(self, text: str, *, mention: bool = False) -> None:
        await self.peer.say(self.anna, f"<@{slack.BOT}> {text}" if mention else text, channel=self.room)

    async def say_as_bot(self, text: str) -> None:
        await self.peer.say("UBEEPER01", text, channel=self.room, subtype="bot_message", bot_id="B7")

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
