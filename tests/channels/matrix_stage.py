"""Matrix' peer as a stage for the published rules."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from channels.matrix.channel import MatrixChannel
from channels.matrix.sending import BUTTONS
from channels.matrix.settings import MatrixSettings
from channels.testing.receive import LABEL
from tests.patience import PATIENCE
from tests.peers.hasty import FastClock
from tests.peers.matrix import TOKEN, MatrixPeer
from tests.peers.matrix_state import BOT, SERVER, Room

if TYPE_CHECKING:
    from channels.testing import Trouble

ANNA = f"@anna:{SERVER}"
BEN = f"@ben:{SERVER}"


class MatrixStage:
    lacks = ("offers_its_menu_once",)
    """There is no menu of commands on Matrix."""
    limit = 4000
    events = (
        *("edit", "reaction", "press", "thread", "notice", "redaction", "typing", "sticker", "poll", "name changed"),
        *("joined", "left", "invited", "removed from a room", "state of another kind", "gap", "unknown kind"),
    )
    patience = PATIENCE

    def __init__(self, peer: MatrixPeer) -> None:
        self.peer = peer
        self.last = ""
        self.private = peer.home.made(ANNA, direct=True)
        self.group = peer.home.made(ANNA, BEN, name="Kitchen")
        self.root = str(
            peer.home.add(self.group, BEN, "m.room.message", {"msgtype": "m.text", "body": "it begins"})["event_id"]
        )
        self._folder = Path(tempfile.mkdtemp())
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    def channel(self, token: str = TOKEN, **more: Any) -> MatrixChannel:
        given = {
            "homeserver": self.peer.root,
            "accessToken": token,
            "encryption": False,
            "timeoutSeconds": 5,
            "syncSeconds": 20,
            "groups": {self.group.id: {}},
            **more,
        }
        return MatrixChannel(
            MatrixSettings.model_validate(given),
            "default",
            clock=FastClock(),
            random=lambda: 1.0,
            state=self._folder / "matrix",
        )

    def intruder(self) -> MatrixChannel:
        return self.channel("syt_guessed")

    async def say(self, text: str) -> None:
        self.last = await self.peer.say(self.private, ANNA, text)

    async def repeat(self) -> None:
        event = self.private.event(self.last)
        assert event is not None
        told = {key: value for key, value in event.items() if key != "_pos"}
        self.peer.extra.append({"rooms": {"join": {self.private.id: {"timeline": {"events": [told]}}}}})
        await self.peer.changed()

    async def disconnect(self) -> None:
        await self.peer.cut()

    async def go_away(self) -> None:
        await self.peer.go_away()

    async def come_back(self) -> None:
        await self.peer.come_back()

    async def happen(self, event: str) -> None:  # noqa: C901, PLR0912 - one case a kind of event
        peer, both = self.peer, (self.private, self.group)
        match event:
            case "edit":
                for room in both:
                    await self._edit(room, "changed")
            case "reaction":
                for room in both:
                    await self._react(room, room.events[-1]["event_id"], "👍")
            case "press":
                await self.press(LABEL)
            case "thread":
                await self.say_in_thread("aside")
            case "notice":
                for room in both:
                    await peer.say(room, BEN, "beep", msgtype="m.notice")
            case "redaction":
                for room in both:
                    await peer.put(room, ANNA, "m.room.redaction", {"redacts": room.events[-1]["event_id"]})
            case "typing":
                peer.extra.append(
                    {
                        "rooms": {
                            "join": {
                                self.group.id: {
                                    "ephemeral": {"events": [{"type": "m.typing", "content": {"user_ids": [ANNA]}}]}
                                }
                            }
                        }
                    }
                )
            case "sticker":
                for room in both:
                    await peer.put(room, ANNA, "m.sticker", {"body": "cat", "url": f"mxc://{SERVER}/cat", "info": {}})
            case "poll":
                poll = {"question": {"m.text": "tea?"}, "answers": [{"m.id": "1", "m.text": [{"body": "yes"}]}]}
                for room in both:
                    await peer.put(room, ANNA, "m.poll.start", {"m.poll": poll})
            case "name changed":
                await peer.put(self.group, ANNA, "m.room.name", {"name": "Garden"}, "")
                peer.home.member(self.group, ANNA, "join")
            case "joined":
                peer.home.member(self.group, f"@carl:{SERVER}", "join")
            case "left":
                peer.home.member(self.group, f"@carl:{SERVER}", "leave")
            case "invited":
                peer.home.made(f"@dora:{SERVER}", direct=True, invite=True)
            case "removed from a room":
                room = peer.home.made(ANNA, f"@dora:{SERVER}")
                await peer.changed()
                peer.home.member(room, BOT, "leave", by=ANNA)
            case "state of another kind":
                for room in both:
                    await peer.put(room, ANNA, "im.example.widget", {"deep": [1]}, "w")
            case "gap":
                for number in range(60):
                    await peer.put(self.group, ANNA, "im.example.noise", {"number": number})
            case _:
                for room in both:
                    await peer.put(room, ANNA, "im.example.star.risen", {"body": 7})
        await peer.changed()

    async def garble(self) -> None:
        self.peer.extra += odd_syncs(self.private.id, self.group.id)
        await self.peer.changed()

    async def say_in_group(self, text: str, *, mention: bool = False) -> None:
        named = {"user_ids": [BOT]} if mention else {}
        await self.peer.say(self.group, ANNA, f"Homebody: {text}" if mention else text, **{"m.mentions": named})

    async def say_as_bot(self, text: str) -> None:
        await self.peer.say(self.group, BEN, text, msgtype="m.notice")

    async def say_in_thread(self, text: str) -> None:
        relation = {
            "rel_type": "m.thread",
            "event_id": self.root,
            "is_falling_back": True,
            "m.in_reply_to": {"event_id": self.root},
        }
        await self.peer.say(self.group, ANNA, text, **{"m.relates_to": relation})

    def heard_in_thread(self) -> list[str]:
        found = [
            one
            for one in self.peer.home.shown(self.group)
            if one["content"].get("m.relates_to", {}).get("event_id") == self.root
        ]
        return [str(one["content"]["body"]) for one in found]

    def trouble(self, kind: Trouble) -> None:
        match kind:
            case "refused":
                self.peer.fault("/send/", "status", code=403, errcode="M_FORBIDDEN")
            case "rate limit":
                self.peer.fault("/send/", "retry_after", seconds=0.2)
            case _:
                self.peer.fault("/send/", kind.replace("cut ", "drop_"), times=2)  # aiohttp repeats a PUT once by itself

    def heard(self) -> list[str]:
        return [_without_buttons(one["content"]) for one in self.peer.home.shown(self.private)]

    def typed(self) -> int:
        return len(self.private.typing)

    def length(self, text: str) -> int:
        return len(text)

    async def edit(self, text: str) -> None:
        await self._edit(self.private, text)

    async def _edit(self, room: Room, text: str) -> None:
        theirs = [one for one in room.events if one["sender"] == ANNA and one["type"] == "m.room.message"][-1]
        relation = {"rel_type": "m.replace", "event_id": theirs["event_id"]}
        await self.peer.say(
            room, ANNA, f"* {text}", **{"m.new_content": {"msgtype": "m.text", "body": text}, "m.relates_to": relation}
        )

    async def react(self, emoji: str, message: str) -> None:
        await self._react(self.private, message, emoji)

    async def _react(self, room: Room, message: str, emoji: str) -> None:
        relation = {"rel_type": "m.annotation", "event_id": message, "key": emoji}
        await self.peer.put(room, ANNA, "m.reaction", {"m.relates_to": relation})

    def reactions(self) -> list[str]:
        found = [
            one["content"]["m.relates_to"]
            for one in self.private.events
            if one["type"] == "m.reaction" and one["sender"] == BOT and one["content"]
        ]
        return [str(one["key"]) for one in found if one["event_id"] == self.last]

    async def attach(self, name: str, media_type: str, content: bytes) -> None:
        media = f"given{self.peer.home.number()}"
        self.peer.home.media[media] = (media_type, content)
        info = {"size": len(content), "mimetype": media_type}
        self.last = await self.peer.say(self.private, ANNA, name, msgtype="m.file", url=f"mxc://{SERVER}/{media}", info=info)

    def files(self) -> list[tuple[str, bytes]]:
        contents = [one["content"] for one in self.peer.home.shown(self.private)]
        return [
            (str(one["filename"]), self.peer.home.media[one["url"].rpartition("/")[2]][1]) for one in contents if "url" in one
        ]

    def buttons(self) -> list[str]:
        last = self.peer.home.shown(self.private)[-1]["content"]
        return [line.partition(" ")[2] for line in str(last["body"]).split("\n")[-len(last[BUTTONS]) :]]

    async def press(self, label: str) -> None:
        asked = [one for one in self.peer.home.shown(self.private) if BUTTONS in one["content"]][-1]
        [key] = [line.partition(" ")[0] for line in str(asked["content"]["body"]).split("\n") if line.endswith(f" {label}")]
        await self.peer.until(lambda: any(_key(one) == key for one in self.private.events if one["sender"] == BOT))
        await self._react(self.private, asked["event_id"], key)


def _key(event: dict[str, Any]) -> str:
    return str(event["content"].get("m.relates_to", {}).get("key", ""))


def _without_buttons(content: dict[str, Any]) -> str:
    """Return the text above the lines that name the reactions, and a file's caption alone."""
    text = str(content["body"])
    if BUTTONS in content:
        return "\n".join(text.split("\n")[: -len(content[BUTTONS])]).strip()
    return "" if content.get("filename") == text else text


def odd_syncs(private: str, group: str) -> list[dict[str, Any]]:
    """Return parts of syncs that no homeserver should send."""
    odd: list[Any] = [
        *({}, {"type": "m.room.message"}, 7, None, {"type": 7, "content": 7}, []),
        {
            "type": "m.room.message",
            "event_id": "$x",
            "sender": ANNA,
            "origin_server_ts": "soon",
            "content": {"msgtype": "m.text", "body": "?"},
        },
        {"type": "m.room.message", "event_id": 7, "sender": 7, "origin_server_ts": 1, "content": {"msgtype": 7, "body": 7}},
        {"type": "m.reaction", "event_id": "$y", "sender": ANNA, "origin_server_ts": 1, "content": {"m.relates_to": 7}},
        {"type": "m.room.member", "event_id": "$z", "state_key": ANNA, "sender": ANNA, "content": 7},
        {
            "type": "m.room.message",
            "event_id": "$w",
            "sender": ANNA,
            "origin_server_ts": 1,
            "content": {"m.relates_to": {"rel_type": "m.replace"}},
        },
        {"type": "m.room.encrypted", "event_id": "$v", "sender": ANNA, "origin_server_ts": 1, "content": {"algorithm": 7}},
    ]
    room = {
        "timeline": {"events": odd},
        "state": {"events": odd},
        "summary": {"m.joined_member_count": "many", "m.heroes": 7},
    }
    return [
        {"rooms": {"join": {private: room, group: {"timeline": 7, "state": 7}, "!odd": 7}}},
        {
            "rooms": {
                "invite": {"!odd": {}, "!odder": {"invite_state": {"events": [7, {}]}}, "!oddest": 7},
                "leave": {"!odd": 7},
            }
        },
        {"to_device": 7, "device_lists": 7, "presence": {"events": [7]}},
    ]
