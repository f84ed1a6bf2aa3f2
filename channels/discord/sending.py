"""Sends messages to Discord. Each carries a nonce, so that Discord drops a duplicate. Importing this module loads the library."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, Protocol

import discord
from discord.http import MultipartParameters

from channels.common.previews import PREFIX, Previews
from channels.discord.api_errors import TROUBLE, send_error
from channels.discord.channel_directory import SLACK_SECONDS, first_id, made_at
from channels.discord.gateway_client import GatewayClient
from channels.discord.inbound import is_snowflake
from channels.discord.interactions import custom_id
from channels.discord.markup import written
from channels.discord.settings import DiscordAccount
from channels.discord.token_conflict import TokenConflict
from channels.discord.voice_message import NO_VOICE, VOICE, Voice, voice_of
from channels.errors import NotSent
from channels.messages import Button, ChatAddress, Outbound, OutboundFile, Sent
from channels.protocol import Clock


class Thread(Protocol):
    """Finds or opens the channel of a group's conversation."""

    async def __call__(self, conversation: ChatAddress, *, opening: bool) -> str:
        """See ``channels.discord.auto_threads.AutoThreads.channel``."""
        ...


AFTER = "after:"
LONG = timedelta(seconds=30)
"""A preview that stood for longer may have been left by whoever waited for the answer."""
LOOK_BACK = 100
MOST_LETTERS = 2000
"""The most letters that a message of Discord has."""
SLOWEST = 50_000
"""Bytes a second below which sending a file is given up."""


class Sender:
    """Sends for one bot. ``dms`` holds the private channel of each person; an unknown one is requested."""

    def __init__(
        self,
        settings: DiscordAccount,
        link: Callable[[], GatewayClient],
        *,
        clock: Clock,
        dms: dict[str, str],
        conflict: TokenConflict,
        thread: Thread,
        opened_on: Callable[[ChatAddress, str], bool],
    ) -> None:
        self._settings = settings
        self._link = link
        self._clock = clock
        self._dms = dms
        self._conflict = conflict
        self._thread = thread
        self._opened_on = opened_on

    async def send(self, outbound: Outbound, record: Callable[[str], Awaitable[None]], previews: Previews) -> Sent:
        """Send a chunk or a file, or edit a preview into the chunk.

        An edit notifies nobody and cannot become a reply. So an old preview, or one whose answer is to be a reply, is
        deleted after the answer was posted.

        Discord compares nonces for some minutes. After that a doubtful message is looked for in the channel, from the moment of
        the first attempt on. That is recorded beforehand: a process that dies over an attempt cannot do it any more.

        Raises:
            NotSent: it did not arrive.
            Uncertain: it may have.
        """
        size = await asyncio.to_thread(_size, outbound.enclosure, self._settings.sent_max_mb)
        preview = _after(outbound.recorded, PREFIX)
        if preview is None and outbound.enclosure is None:
            preview = await previews.take(outbound.conversation, outbound.turn)
        began = self._clock.now()
        if preview is not None:
            await record(PREFIX + preview)
            await previews.settle(outbound.conversation, preview)
        elif outbound.recorded is None:
            await record(f"{AFTER}{max(0, first_id(began) - (SLACK_SECONDS * 1000 << 22))}")
        try:
            async with asyncio.timeout(self._settings.timeout_seconds + size / SLOWEST):
                channel = await self.channel(outbound.conversation)
                anew = preview is None or outbound.reply_to is not None or began - made_at(preview) > LONG
                if preview is not None and not anew and await self._finished(channel, preview, outbound):
                    return Sent(platform_id=preview)
                outbound = _fitting(previews.marked(outbound), outbound)
                found = await self._found(channel, outbound, preview) if outbound.uncertain else None
                sent = found or await self._post(channel, outbound)
                self._conflict.ours(sent)
                if preview is not None:
                    await self._remove(channel, preview)
                await previews.told(outbound)
                return Sent(platform_id=sent)
        except TROUBLE as error:
            raise send_error(error) from error

    async def _post(self, channel: int, outbound: Outbound) -> str:
        self._conflict.ours(outbound.key)
        message: dict[str, Any] = {
            "content": written(outbound.text),
            "nonce": outbound.key,
            "enforce_nonce": True,
            "flags": QUIETLY,
            "allowed_mentions": NO_PINGS,
        }
        if outbound.buttons:
            message["components"] = rows(outbound.buttons)
        if outbound.reply_to is not None and not self._opened_on(outbound.conversation, outbound.reply_to):
            message["message_reference"] = _reply(channel, outbound.reply_to)
        enclosure = outbound.enclosure
        spoken = await asyncio.to_thread(voice_of, enclosure) if enclosure is not None and not message["content"] else None
        if enclosure is not None and spoken is not None:
            try:
                return await self._post_file(channel, message | {"flags": VOICE}, enclosure, spoken)
            except discord.HTTPException as error:
                if error.code not in NO_VOICE:
                    raise
        return await self._post_file(channel, message, enclosure, None)

    async def _post_file(
        self, channel: int, message: dict[str, Any], enclosure: OutboundFile | None, spoken: Voice | None
    ) -> str:
        if spoken is not None:
            message = {key: value for key, value in message.items() if key != "content"}
        given = await asyncio.to_thread(multipart, message, enclosure, spoken)
        with given:
            return str((await self._link().http.send_message(channel, params=given))["id"])

    async def _finished(self, channel: int, message: str, outbound: Outbound) -> bool:
        """Edit a preview into the answer. Returns whether it still existed."""
        try:
            await self._edit(channel, message, written(outbound.text), components=rows(outbound.buttons))
        except discord.NotFound:
            return False
        return True

    async def _remove(self, channel: int, message: str) -> None:
        with contextlib.suppress(discord.NotFound, discord.Forbidden):
            await self._link().http.delete_message(channel, int(message))

    async def _edit(self, channel: int, message: str, text: str, **more: Any) -> None:
        changed = {"content": text, "allowed_mentions": NO_PINGS, **more}
        await self._link().http.edit_message(channel, int(message), params=MultipartParameters(changed, None, None))

    async def _found(self, channel: int, outbound: Outbound, preview: str | None) -> str | None:
        """Look for a message that may have arrived: by its nonce, or by its content when it was sent after the first attempt.

        Discord keeps nonces for a while only; a message with another nonce is a different one, even with the same text.
        """
        link = self._link()
        since = _after(outbound.recorded, AFTER) or preview
        page = await link.http.logs_from(channel, LOOK_BACK, after=int(since) if since else None)
        same = (written(outbound.text), [file_name(outbound.enclosure)] if outbound.enclosure else [])
        for one in [dict[str, Any](found) for found in page]:
            mine = str(one["author"]["id"]) == link.me
            content = (one.get("content"), [file["filename"] for file in one.get("attachments") or ()])
            nonce = str(one.get("nonce") or "")
            if mine and (nonce == outbound.key or (not nonce and since is not None and content == same)):
                return str(one["id"])
        return None

    async def post(self, conversation: ChatAddress, text: str, nonce: str) -> str:
        """Post the first preview, without a notification. One with the same nonce that stands there is returned."""
        try:
            channel = await self.channel(conversation)
            self._conflict.ours(nonce)
            message = {
                "content": text,
                "nonce": nonce,
                "enforce_nonce": True,
                "flags": QUIETLY | SILENTLY,
                "allowed_mentions": NO_PINGS,
            }
            posted: dict[str, Any] = dict(
                await self._link().http.send_message(channel, params=MultipartParameters(message, None, None))
            )
            self._conflict.ours(str(posted["id"]))
            return str(posted["id"])
        except TROUBLE as error:
            raise send_error(error) from error

    async def edit(self, conversation: ChatAddress, message: str, text: str) -> None:
        """Edit a preview."""
        try:
            await self._edit(await self.channel(conversation), message, text)
        except TROUBLE as error:
            raise send_error(error) from error

    async def remove(self, conversation: ChatAddress, message: str) -> None:
        """Delete a preview."""
        try:
            channel = await self.channel(conversation)
            with contextlib.suppress(discord.NotFound):
                await self._link().http.delete_message(channel, number(message))
        except TROUBLE as error:
            raise send_error(error) from error

    async def typing(self, conversation: ChatAddress) -> None:
        """Show "typing" for about ten seconds. Raises one of TROUBLE, or NotSent."""
        await self._link().http.send_typing(await self.channel(conversation, opening=False))

    async def channel(self, conversation: ChatAddress, *, opening: bool = True) -> int:
        """Return the channel to write to: the thread, the group's channel, or the private one of a person.

        A thread that an answer is to open is opened if ``opening``; else the channel that it will be in stands for it.
        """
        if conversation.kind == "group":
            number(conversation.id)
            number(conversation.thread or conversation.id)
            return number(await self._thread(conversation, opening=opening))
        known = self._dms.get(conversation.id)
        if known is None:
            opened: dict[str, Any] = dict(await self._link().http.start_private_message(number(conversation.id)))
            known = self._dms[conversation.id] = str(opened["id"])
        return int(known)


def number(identity: str) -> int:
    """Return a Discord id as a number. Raises ``NotSent`` if it is none."""
    if not is_snowflake(identity):
        raise NotSent(f"{identity[:80]!r} is not a Discord id", permanent=True)
    return int(identity)


def _size(enclosure: OutboundFile | None, most_mb: float) -> int:
    """Return the size of a file in bytes. Raises ``NotSent`` if it exceeds the limit or is gone."""
    if enclosure is None:
        return 0
    try:
        size = enclosure.path.stat().st_size
    except OSError as error:
        raise NotSent(f"the file {enclosure.name!r} to send cannot be read: {error.strerror}", permanent=True) from error
    if size > most_mb * 1_048_576:
        raise NotSent(
            f"{enclosure.name!r} has {size / 1_048_576:.1f} MB, and Discord accepts {most_mb:g} MB from a bot",
            permanent=True,
            hint="send a smaller one or a link; where a boosted server accepts more, set channels.discord.mediaMaxMb",
        )
    return size


def _reply(channel: int, message: str) -> dict[str, Any]:
    return {"message_id": str(number(message)), "channel_id": str(channel), "fail_if_not_exists": False}


def _fitting(marked: Outbound, plain: Outbound) -> Outbound:
    return marked if len(written(marked.text)) <= MOST_LETTERS else plain


def _after(recorded: str | None, prefix: str) -> str | None:
    return recorded.removeprefix(prefix) if recorded is not None and recorded.startswith(prefix) else None


NO_PINGS: dict[str, Any] = {"parse": [], "replied_user": False}
QUIETLY = 1 << 2
"""The flag that suppresses embeds."""
SILENTLY = 1 << 12
"""The flag that suppresses the notification."""
IN_A_ROW = 5
ROWS = 5
LONGEST_LABEL = 80
_ROW, _BUTTON, _GREY = 1, 2, 2


def rows(buttons: Sequence[Button]) -> list[dict[str, Any]]:
    """Return buttons in rows of five. Discord shows at most 25; the values of others can still be typed."""
    shown = [
        {"type": _BUTTON, "style": _GREY, "label": _label(one.label), "custom_id": custom_id(number, one.value)}
        for number, one in enumerate(buttons[: IN_A_ROW * ROWS])
    ]
    return [{"type": _ROW, "components": shown[start : start + IN_A_ROW]} for start in range(0, len(shown), IN_A_ROW)]


def _label(label: str) -> str:
    line = " ".join(label.split()) or "…"
    return line if len(line) <= LONGEST_LABEL else f"{line[: LONGEST_LABEL - 1]}…"


def file_name(enclosure: OutboundFile) -> str:
    """Return a file name without characters that could end a header or form a path."""
    return re.sub(r'[\x00-\x1f\x7f"\\/;]', "_", enclosure.name).strip(". ")[:100] or "file"


def multipart(message: dict[str, Any], enclosure: OutboundFile | None, spoken: Voice | None = None) -> MultipartParameters:
    """Return a message with its file, which is opened here and closed by the returned context manager. ``spoken``: as a voice message."""
    if enclosure is None:
        return MultipartParameters(message, None, None)
    name = file_name(enclosure)
    file = discord.File(enclosure.path, filename=name, spoiler=False)
    more = {} if spoken is None else {"duration_secs": spoken.seconds, "waveform": spoken.waveform}
    payload = {**message, "attachments": [{"id": 0, "filename": name, **more}]}
    kind = "application/octet-stream" if spoken is None else "audio/ogg"
    parts: list[dict[str, Any]] = [
        {"name": "payload_json", "value": json.dumps(payload)},
        {"name": "files[0]", "value": file.fp, "filename": name, "content_type": kind},
    ]
    return MultipartParameters(None, parts, [file])
