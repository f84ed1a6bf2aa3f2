"""Sends messages. Each has a transaction id made of its outbox key, so that the homeserver takes it once.

A homeserver compares transaction ids of one device, and keeps them for some time (Synapse: a day). A message in doubt that another device
began to send, or that is older, is looked for in the room by its key before it is sent again. Importing this module loads aiohttp.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from channels.common.previews import PREFIX, Previews
from channels.errors import NotSent
from channels.matrix.api_errors import send_error
from channels.matrix.http_api import TROUBLE, MatrixHttp, Refused, event_of, path
from channels.matrix.markup import KEY, edit_content, reply_to, text_content
from channels.matrix.media import upload, upload_error
from channels.matrix.rooms import Room, RoomDirectory
from channels.messages import Button, ChatAddress, Outbound, OutboundFile, Sent

if TYPE_CHECKING:
    from channels.matrix.encryption import Encryption
    from channels.matrix.private_chats import PrivateChats
    from channels.matrix.settings import MatrixAccount
    from channels.protocol import Clock

BUTTONS: Final = "dev.homebody.buttons"
"""The field of a message that says for which value each reaction under it stands."""
BEGUN: Final = "begun:"
KEPT_SECONDS: Final = 6 * 3600
"""For how long a transaction id is taken to be known to the homeserver."""
LONG_SECONDS: Final = 30.0
"""A preview that stood for longer may have been left by whoever waited for the answer, and an edit notifies nobody."""
LOOK_SECONDS: Final = 5.0
NOT_FOUND: Final = 404
LOOK_BACK: Final = 5
PAGE: Final = 100
_YES, _NO = (
    re.compile(r"\b(yes|allow|approve|once|ok|go)\b", re.IGNORECASE),
    re.compile(r"\b(no|deny|reject|cancel|not)\b", re.IGNORECASE),
)
_DIGITS: Final = (*(f"{digit}\ufe0f\u20e3" for digit in "123456789"), "🔟")


@dataclass(slots=True)
class Outgoing:
    """What sends for one connection. ``shown`` holds when each preview was posted."""

    settings: MatrixAccount
    http: MatrixHttp
    device: str
    rooms: RoomDirectory
    clock: Clock
    encryption: Encryption | None
    shown: dict[str, float]
    chats: PrivateChats

    async def _begun(self, conversation: ChatAddress) -> None:
        """Make a private chat that does not exist yet. Raises NotSent."""
        if conversation.kind == "direct" and self.rooms.known and self.rooms.private(conversation.id) is None:
            await self.chats.make(conversation.id, self.http, self.rooms, encrypted=self.encryption is not None)

    def room(self, conversation: ChatAddress) -> Room:
        """Return the room of a conversation. Raises NotSent if we are in none."""
        if not self.rooms.known:
            raise NotSent("the homeserver has not told the rooms yet")
        direct = conversation.kind == "direct"
        room = self.rooms.private(conversation.id) if direct else self.rooms.get(conversation.id)
        if room is None:
            what = (
                f"{conversation.id} has no private chat with the agent" if direct else f"the agent is not in {conversation.id}"
            )
            raise NotSent(what, permanent=not direct, hint="" if direct else "invite its account from there")
        return room

    async def send(self, outbound: Outbound, record: Callable[[str], Awaitable[None]], previews: Previews) -> Sent:
        """Deliver a chunk or a file, or edit a preview into the chunk. Raises NotSent or Uncertain."""
        await self._begun(outbound.conversation)
        room = self.room(outbound.conversation)
        preview = _after(outbound.recorded, PREFIX)
        if preview is None and outbound.enclosure is None and not outbound.uncertain:
            preview = await previews.take(outbound.conversation, outbound.turn)
        if preview is not None:
            await record(PREFIX + preview)
            await previews.settle(outbound.conversation, preview)
        elif outbound.recorded is None:
            await record(f"{BEGUN}{int(self.clock.now().timestamp())}:{self.device}")
        try:
            if outbound.uncertain and self._unknown(outbound.recorded):
                found = await self._find(room, outbound)
                if found is not None:
                    return Sent(platform_id=found)
            preview = await self._if_there(room, preview)
            if preview is not None and outbound.reply_to is None and not self._stood_long(preview):
                content = {**edit_content(preview, outbound.text), KEY: outbound.key}
                if not outbound.buttons:
                    await self.put(room, "m.room.message", content, f"hb.{outbound.key}")
                    return Sent(platform_id=preview)
            sent = await self._post(room, outbound)
            if preview is not None:
                await self._redact(room, preview, outbound.key)
            return Sent(platform_id=sent)
        except TROUBLE as error:
            raise send_error(error) from error

    async def _post(self, room: Room, outbound: Outbound) -> str:
        file = outbound.enclosure
        keys = keys_of(outbound.buttons)
        if file is None:
            content = text_content(_with_buttons(outbound.text, outbound.buttons, keys))
        else:
            content = await self._file(room, file, outbound)
        content = reply_to(content, thread=outbound.conversation.thread, message=outbound.reply_to)
        content[KEY] = outbound.key
        if keys:
            content[BUTTONS] = {key: button.value for key, button in zip(keys, outbound.buttons, strict=False)}
        sent = await self.put(room, "m.room.message", content, f"hb.{outbound.key}")
        for number, key in enumerate(keys):
            relation = {"rel_type": "m.annotation", "event_id": sent, "key": key}
            await self.put(room, "m.reaction", {"m.relates_to": relation}, f"hb.{outbound.key}.{number}")
        return sent

    async def _file(self, room: Room, file: OutboundFile, outbound: Outbound) -> dict[str, Any]:
        try:
            found = await upload(
                self.http,
                file,
                encrypt=self._encrypts(room),
                most=self.settings.media_max_mb,
                seconds=self.settings.timeout_seconds,
            )
        except TROUBLE as error:
            raise upload_error(error) from error
        content = {"msgtype": _msgtype(file.media_type), "filename": file.name, **found}
        if file.media_type.startswith("audio/ogg"):
            content |= {"org.matrix.msc3245.voice": {}, "org.matrix.msc1767.audio": {}}
        caption = text_content(outbound.text) if outbound.text.strip() else {"body": file.name, "m.mentions": {}}
        return {**caption, **content}

    def _encrypts(self, room: Room) -> bool:
        """Return whether a room's messages are to be encrypted. Raises NotSent where they cannot be: nothing is sent in the clear."""
        if room.encrypted and self.encryption is None:
            raise NotSent(
                "the room is encrypted, and encryption is off here",
                permanent=True,
                hint="install the extra homebody[matrix], set channels.matrix.encryption to true, and restart the gateway",
            )
        return room.encrypted

    async def put(self, room: Room, kind: str, content: Mapping[str, Any], transaction: str) -> str:
        """Send an event, encrypted where the room is, and return its id. Raises one of ``TROUBLE``, or NotSent."""
        if self._encrypts(room) and kind != "m.reaction":  # reactions have no encrypted form
            assert self.encryption is not None
            outside = {key: content[key] for key in ("m.relates_to", KEY) if key in content}
            kind, content = await self.encryption.encrypt(room.id, kind, content, outside)
        found = await self.http.ask("PUT", path("rooms", room.id, "send", kind, transaction), content)
        return event_of(found)

    def _unknown(self, recorded: str | None) -> bool:
        """Return whether the homeserver may no longer know the transaction id of an earlier attempt."""
        began, _, device = (_after(recorded, BEGUN) or "").partition(":")
        if not began.isdecimal():
            return True
        return device != self.device or self.clock.now().timestamp() - int(began) > KEPT_SECONDS

    async def _find(self, room: Room, outbound: Outbound) -> str | None:
        """Look for our message with this key among the last ones of the room."""
        query = {"dir": "b", "limit": str(PAGE), "filter": f'{{"senders":["{self.rooms.me}"]}}'}
        for _ in range(LOOK_BACK):
            page = await self.http.ask("GET", path("rooms", room.id, "messages"), query=query)
            for event in page.get("chunk") or ():
                content = event.get("content") if isinstance(event, dict) else None
                if isinstance(content, dict) and content.get(KEY) == outbound.key and event.get("sender") == self.rooms.me:
                    replaced = content.get("m.relates_to", {})
                    edit = replaced.get("rel_type") == "m.replace"
                    return str(replaced["event_id"] if edit else event["event_id"])
            if not page.get("end"):
                break
            query["from"] = str(page["end"])
        return None

    def _stood_long(self, preview: str) -> bool:
        posted = self.shown.get(preview)
        return posted is not None and self.clock.monotonic() - posted > LONG_SECONDS

    async def _if_there(self, room: Room, preview: str | None) -> str | None:
        """Return a preview unless somebody removed it: an edit of it would be taken, and shown to nobody."""
        if preview is None:
            return None
        try:
            event = await self.http.ask("GET", path("rooms", room.id, "event", preview), seconds=LOOK_SECONDS)
        except TROUBLE as error:
            gone = isinstance(error, Refused) and error.status == NOT_FOUND and not error.page
            return None if gone else preview
        return preview if event.get("content") else None

    async def _redact(self, room: Room, message: str, key: str) -> None:
        await self.http.ask("PUT", path("rooms", room.id, "redact", message, f"hb.{key}.x"), {})

    async def post(self, conversation: ChatAddress, text: str, transaction: str) -> str:
        """Post a preview. Raises ChannelError."""
        room = self.room(conversation)
        content = reply_to(text_content(text), thread=conversation.thread, message=None)
        return await self._shown(room, content, transaction)

    async def remove(self, conversation: ChatAddress, message: str) -> None:
        """Delete a preview. Raises ChannelError."""
        try:
            await self._redact(self.room(conversation), message, f"p{message}")
        except TROUBLE as error:
            raise send_error(error) from error

    async def edit(self, conversation: ChatAddress, message: str, text: str, transaction: str) -> None:
        """Edit a preview. Raises ChannelError."""
        await self._shown(self.room(conversation), edit_content(message, text), transaction)

    async def _shown(self, room: Room, content: Mapping[str, Any], transaction: str) -> str:
        try:
            return await self.put(room, "m.room.message", content, transaction)
        except TROUBLE as error:
            raise send_error(error) from error

    async def typing(self, conversation: ChatAddress, seconds: float) -> None:
        """Show a typing sign for some seconds. Raises one of ``TROUBLE``, or ChannelError."""
        where = path("rooms", self.room(conversation).id, "typing", self.rooms.me)
        await self.http.ask("PUT", where, {"typing": True, "timeout": int(seconds * 1000)})


def keys_of(buttons: Sequence[Button]) -> list[str]:
    """Return the reaction that stands for each button: ✅ for the first yes, ❌ for the first no, else numbers; ten at most."""
    keys: list[str] = []
    for number, button in enumerate(buttons[: len(_DIGITS)]):
        key = "✅" if _YES.search(button.label) else "❌" if _NO.search(button.label) else _DIGITS[number]
        keys.append(_DIGITS[number] if key in keys else key)
    return keys


def _with_buttons(text: str, buttons: Sequence[Button], keys: Sequence[str]) -> str:
    if not keys:
        return text
    lines = [f"{key} {' '.join(button.label.split())}" for key, button in zip(keys, buttons, strict=False)]
    return "\n\n".join([text, "  \n".join(lines)]).strip()


def _msgtype(media_type: str) -> str:
    kind = media_type.partition("/")[0]
    return f"m.{kind}" if kind in {"image", "audio", "video"} else "m.file"


def _after(recorded: str | None, prefix: str) -> str | None:
    return recorded.removeprefix(prefix) if recorded is not None and recorded.startswith(prefix) else None
