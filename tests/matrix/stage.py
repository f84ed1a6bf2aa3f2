"""A real homeserver as a stage for the published rules: Anna, Ben and another one on it, and the channel behind a proxy that breaks."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import nio

from channels.matrix.channel import MatrixChannel
from channels.matrix.sending import BUTTONS
from channels.matrix.settings import MatrixSettings
from channels.testing.receive import LABEL
from tests.channels.matrix_stage import odd_syncs
from tests.matrix.people import V3, Person
from tests.matrix.synapse import PASSWORD
from tests.patience import PATIENCE
from tests.peers.hasty import FastClock
from tests.peers.matrix_state import relates

if TYPE_CHECKING:
    from pathlib import Path

    from channels.testing import Trouble
    from tests.matrix.middleman import Middleman
    from tests.matrix.synapse import Synapse

_NUMBERS = itertools.count(1)
NOBODY = "syt_guessed"


@dataclass
class Cast:
    """The accounts of one stage."""

    bot: str
    anna: Person
    ben: Person


class RealStage:
    """One bot with a private chat and a group, encrypted or not. Made by ``made``.

    Somebody is invited into the group who never comes: without Ben it would be Anna's private chat.
    """

    lacks = ("offers_its_menu_once",)
    limit = 4000
    events = (
        *("edit", "reaction", "press", "thread", "notice", "redaction", "typing", "sticker", "name changed"),
        *("left", "joined", "invited", "removed from a room", "state of another kind", "gap", "unknown kind"),
    )
    patience = PATIENCE

    def __init__(self, cast: Cast, middleman: Middleman, folder: Path, *, encrypted: bool) -> None:
        self.cast = cast
        self.middleman = middleman
        self.encrypted = encrypted
        self.folder = folder
        self.last = self.root = self.private = self.group = ""

    @classmethod
    async def made(cls, server: Synapse, middleman: Middleman, folder: Path, *, encrypted: bool) -> RealStage:
        number = next(_NUMBERS)
        bot, anna, ben, carl = [await server.register(f"{name}{number}") for name in ("homebody", "anna", "ben", "carl")]
        cast = Cast(bot, Person(server.root, anna, folder / "anna"), Person(server.root, ben, folder / "ben"))
        for person in (cast.anna, cast.ben):
            await person.sign_in()
        stage = cls(cast, middleman, folder / "bot", encrypted=encrypted)
        stage.private = await cast.anna.make_room(bot, direct=True, encrypted=encrypted)
        stage.group = await cast.anna.make_room(bot, ben, carl, encrypted=encrypted, name="Kitchen")
        cast.ben.join(stage.group)
        await stage.settle()
        return stage

    async def settle(self) -> None:
        """Let the bot join once, so that rooms, devices and keys are there before a rule begins."""
        channel = self.channel(autoJoin="always")
        from channels.testing import RecordingSink

        sink = RecordingSink(patience=self.patience)
        task = asyncio.ensure_future(channel.run(sink))
        try:
            async with asyncio.timeout(self.patience):
                while not all(self.is_in(room) for room in (self.private, self.group)):
                    await asyncio.sleep(0.1)
                    if task.done():
                        task.result()
            await asyncio.sleep(0.3)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await channel.close()
        for person in (self.cast.anna, self.cast.ben):
            person.pull()
            await person.upkeep()
        self.root = await self.cast.ben.say(self.group, "it begins")

    def is_in(self, room: str) -> bool:
        found = self.cast.anna.ask("GET", f"{V3}/rooms/{quote(room)}/joined_members")
        return self.cast.bot in found["joined"]

    async def close(self) -> None:
        for person in (self.cast.anna, self.cast.ben):
            await person.close()

    def channel(self, **more: Any) -> MatrixChannel:
        given = {
            "homeserver": self.middleman.root,
            "userId": self.cast.bot,
            "password": PASSWORD,
            "encryption": self.encrypted,
            "timeoutSeconds": 20,
            "syncSeconds": 20,
            "groups": {self.group or "!none": {}},
            **more,
        }
        return MatrixChannel(
            MatrixSettings.model_validate(given), "default", clock=FastClock(), random=lambda: 1.0, state=self.folder
        )

    def intruder(self) -> MatrixChannel:
        return self.channel(password=None, accessToken=NOBODY)

    async def say(self, text: str) -> None:
        self.last = await self.cast.anna.say(self.private, text)

    async def repeat(self) -> None:
        told = self.cast.anna.ask("GET", f"{V3}/rooms/{quote(self.private)}/event/{quote(self.last)}")
        self.middleman.extra.append({"rooms": {"join": {self.private: {"timeline": {"events": [told]}}}}})
        await self.middleman.cut()

    async def disconnect(self) -> None:
        await self.middleman.cut()

    async def go_away(self) -> None:
        await self.middleman.go_away()

    async def come_back(self) -> None:
        await self.middleman.come_back()

    async def happen(self, event: str) -> None:  # noqa: C901, PLR0912 - one case a kind of event
        anna, ben, both = self.cast.anna, self.cast.ben, (self.private, self.group)
        match event:
            case "edit":
                for room in both:
                    await self._edit(room, "changed")
            case "reaction":
                for room in both:
                    anna.pull()
                    latest = [one for one in anna.events[room] if one["type"] == "m.room.message"][-1]
                    self._react(room, latest["event_id"], "👍")
            case "press":
                await self.press(LABEL)
            case "thread":
                await self.say_in_thread("aside")
            case "notice":
                await anna.say(self.private, "beep", msgtype="m.notice")
                await ben.say(self.group, "beep", msgtype="m.notice")
            case "redaction":
                for room in both:
                    gone = await anna.say(room, "a slip")
                    anna.ask("PUT", f"{V3}/rooms/{quote(room)}/redact/{quote(gone)}/{gone[1:9]}", {})
            case "typing":
                anna.ask("PUT", f"{V3}/rooms/{quote(self.group)}/typing/{quote(anna.user)}", {"typing": True, "timeout": 1000})
            case "sticker":
                for room in both:
                    anna.put(room, "m.sticker", {"body": "cat", "url": "mxc://test.local/cat", "info": {}})
            case "name changed":
                anna.put(self.group, "m.room.name", {"name": "Garden"}, "")
                anna.ask("PUT", f"{V3}/profile/{quote(anna.user)}/displayname", {"displayname": "Anna of the garden"})
            case "left":
                ben.ask("POST", f"{V3}/rooms/{quote(self.group)}/leave", {})
            case "joined":
                anna.ask("POST", f"{V3}/rooms/{quote(self.group)}/invite", {"user_id": ben.user})
                ben.join(self.group)
            case "invited":
                await ben.make_room(self.cast.bot, direct=True)
            case "removed from a room":
                room = await anna.make_room(self.cast.bot)
                await asyncio.sleep(0.2)
                anna.ask("POST", f"{V3}/rooms/{quote(room)}/kick", {"user_id": self.cast.bot})
            case "gap":
                for number in range(60):
                    anna.put(self.group, "im.example.noise", {"number": number})
            case "state of another kind":
                for room in both:
                    anna.put(room, "im.example.widget", {"deep": [1]}, "w")
            case _:
                for room in both:
                    anna.put(room, "im.example.star.risen", {"body": 7})

    async def garble(self) -> None:
        self.middleman.extra += odd_syncs(self.private, self.group)
        await self.middleman.cut()

    async def say_in_group(self, text: str, *, mention: bool = False) -> None:
        named = {"user_ids": [self.cast.bot]} if mention else {}
        name = self.cast.bot[1:].partition(":")[0]
        await self.cast.anna.say(self.group, f"{name}: {text}" if mention else text, **{"m.mentions": named})

    async def say_as_bot(self, text: str) -> None:
        await self.cast.ben.say(self.group, text, msgtype="m.notice")

    async def say_in_thread(self, text: str) -> None:
        relation = {
            "rel_type": "m.thread",
            "event_id": self.root,
            "is_falling_back": True,
            "m.in_reply_to": {"event_id": self.root},
        }
        await self.cast.anna.say(self.group, text, **{"m.relates_to": relation})

    def heard_in_thread(self) -> list[str]:
        found = self.cast.anna.shown(self.group, self.cast.bot)
        return [str(one["content"]["body"]) for one in found if relates(one).get("event_id") == self.root]

    def trouble(self, kind: Trouble) -> None:
        match kind:
            case "refused":
                self.middleman.fault("/send/", "status", code=403, errcode="M_FORBIDDEN")
            case "rate limit":
                self.middleman.fault("/send/", "retry_after", seconds=0.2)
            case _:
                self.middleman.fault("/send/", kind.replace("cut ", "drop_"), times=2)

    def heard(self) -> list[str]:
        found = [one["content"] for one in self.cast.anna.shown(self.private, self.cast.bot)]
        return [_as_seen(one) for one in found]

    def typed(self) -> int:
        self.cast.anna.pull()
        return sum(1 for room, people in self.cast.anna.typings if room == self.private and self.cast.bot in people)

    def length(self, text: str) -> int:
        return len(text)

    async def edit(self, text: str) -> None:
        await self._edit(self.private, text)

    async def _edit(self, room: str, text: str) -> None:
        anna = self.cast.anna
        anna.pull()
        theirs = [one for one in anna.events[room] if one["sender"] == anna.user and one["type"] == "m.room.message"]
        latest = [one for one in theirs if relates(one).get("rel_type") != "m.replace"][-1]
        relation = {"rel_type": "m.replace", "event_id": latest["event_id"]}
        fresh = {"msgtype": "m.text", "body": text}
        await anna.say(room, f"* {text}", **{"m.new_content": fresh, "m.relates_to": relation})

    async def react(self, emoji: str, message: str) -> None:
        self._react(self.private, message, emoji)

    def _react(self, room: str, message: str, emoji: str) -> None:
        relation = {"rel_type": "m.annotation", "event_id": message, "key": emoji}
        self.cast.anna.put(room, "m.reaction", {"m.relates_to": relation})

    def reactions(self) -> list[str]:
        self.cast.anna.pull()
        found = self.cast.anna.events[self.private]
        mine = [relates(one) for one in found if one["type"] == "m.reaction" and one["sender"] == self.cast.bot]
        return [str(one["key"]) for one in mine if one.get("event_id") == self.last]

    async def attach(self, name: str, media_type: str, content: bytes) -> None:
        anna = self.cast.anna
        info = {"size": len(content), "mimetype": media_type}
        more: dict[str, Any] = {}
        if self.encrypted:
            content, keys = nio.crypto.attachments.encrypt_attachment(content)
        address = anna.ask("POST", "/_matrix/media/v3/upload", content)["content_uri"]
        more = {"file": {**keys, "url": address}} if self.encrypted else {"url": address}
        self.last = await anna.say(self.private, name, msgtype="m.file", info=info, **more)

    def files(self) -> list[tuple[str, bytes]]:
        contents = [one["content"] for one in self.cast.anna.shown(self.private, self.cast.bot)]
        return [(str(one["filename"]), self._file(one)) for one in contents if one["msgtype"] == "m.file"]

    def _file(self, content: dict[str, Any]) -> bytes:
        address = str((content.get("file") or content)["url"]).removeprefix("mxc://")
        raw = self.cast.anna.raw("GET", f"/_matrix/client/v1/media/download/{address}")
        assert self.encrypted == ("file" in content)
        if "file" not in content:
            return raw
        file = content["file"]
        return bytes(nio.crypto.attachments.decrypt_attachment(raw, file["key"]["k"], file["hashes"]["sha256"], file["iv"]))

    def buttons(self) -> list[str]:
        last = self.cast.anna.shown(self.private, self.cast.bot)[-1]["content"]
        return [line.partition(" ")[2] for line in str(last["body"]).split("\n")[-len(last[BUTTONS]) :]]

    async def press(self, label: str) -> None:
        asked = [one for one in self.cast.anna.shown(self.private, self.cast.bot) if BUTTONS in one["content"]][-1]
        [key] = [line.partition(" ")[0] for line in str(asked["content"]["body"]).split("\n") if line.endswith(f" {label}")]
        self._react(self.private, asked["event_id"], key)


def _as_seen(content: dict[str, Any]) -> str:
    text = str(content["body"])
    if BUTTONS in content:
        return "\n".join(text.split("\n")[: -len(content[BUTTONS])]).strip()
    return "" if content.get("filename") == text else text
