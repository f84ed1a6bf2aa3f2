"""Sending to Discord: every message carries a nonce, so that Discord itself refuses a double. Importing this module loads the library."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import discord
from discord.http import handle_message_parameters

from channels.discord.client import TROUBLE, send_error
from channels.discord.markup import written
from channels.errors import NotSent, Uncertain
from channels.messages import Sent
from channels.previews import PREFIX

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from channels.clock import Clock
    from channels.discord.client import Link
    from channels.discord.settings import DiscordAccount
    from channels.messages import Conversation, Outbound
    from channels.previews import Previews

AFTER = "after:"
EPOCH_MS = 1_420_070_400_000
SLACK_SECONDS = 30
"""How much Discord's clock may be behind ours."""
LOOK_BACK = 100


class Sender:
    """One bot's voice. ``dms`` holds the private channel of each person; it is asked for when it is not known."""

    def __init__(self, settings: DiscordAccount, link: Callable[[], Link], clock: Clock, dms: dict[str, str]) -> None:
        self._settings = settings
        self._link = link
        self._clock = clock
        self._dms = dms

    async def send(self, outbound: Outbound, record: Callable[[str], Awaitable[None]], previews: Previews) -> Sent:
        """Send a chunk, or make it the last edit of a preview.

        Discord compares nonces for some minutes. After that a doubtful message is looked for in the channel, from the moment of
        the first attempt on (which is recorded when an attempt ends in doubt).

        Raises:
            NotSent: it did not arrive.
            Uncertain: it may have.
        """
        preview = _after(outbound.recorded, PREFIX) or await previews.take(outbound.conversation)
        began = self._clock.now().timestamp()
        if preview is not None:
            await record(PREFIX + preview)
        try:
            async with asyncio.timeout(self._settings.timeout_seconds):
                channel = await self.channel(outbound.conversation)
                if preview is not None and await self._finished(channel, preview, outbound.text):
                    return Sent(platform_id=preview)
                found = await self._found(channel, outbound) if outbound.uncertain else None
                return Sent(platform_id=found or await self._post(channel, outbound))
        except TROUBLE as error:
            meaning = send_error(error)
            if isinstance(meaning, Uncertain) and outbound.recorded is None and preview is None:
                await record(f"{AFTER}{int((began - SLACK_SECONDS) * 1000 - EPOCH_MS) << 22}")
            raise meaning from error

    async def _post(self, channel: int, outbound: Outbound) -> str:
        parameters = handle_message_parameters(
            content=written(outbound.text),
            nonce=outbound.key,
            flags=discord.MessageFlags(suppress_embeds=True),
            allowed_mentions=discord.AllowedMentions.none(),
            **_reply(channel, outbound.reply_to),
        )
        with parameters as given:
            return str((await self._link().http.send_message(channel, params=given))["id"])

    async def _finished(self, channel: int, message: str, text: str) -> bool:
        """Edit a preview into the answer. Returns whether it was still there."""
        try:
            await self._edit(channel, message, written(text))
        except discord.NotFound:
            return False
        return True

    async def _edit(self, channel: int, message: str, text: str) -> None:
        with handle_message_parameters(content=text, allowed_mentions=discord.AllowedMentions.none()) as given:
            await self._link().http.edit_message(channel, int(message), params=given)

    async def _found(self, channel: int, outbound: Outbound) -> str | None:
        """Look for a message that may have arrived: by its nonce, or by its text when it was sent after the first attempt."""
        link = self._link()
        since = _after(outbound.recorded, AFTER)
        page = await link.http.logs_from(channel, LOOK_BACK, after=int(since) if since else None)
        text = written(outbound.text)
        for one in [dict[str, Any](found) for found in page]:
            mine = str(one["author"]["id"]) == link.me
            if mine and (str(one.get("nonce")) == outbound.key or (since is not None and one.get("content") == text)):
                return str(one["id"])
        return None

    async def post(self, conversation: Conversation, text: str) -> str:
        """Post the first form of a preview, silently."""
        try:
            flags = discord.MessageFlags(suppress_embeds=True, suppress_notifications=True)
            channel = await self.channel(conversation)
            with handle_message_parameters(content=text, flags=flags, allowed_mentions=discord.AllowedMentions.none()) as given:
                return str((await self._link().http.send_message(channel, params=given))["id"])
        except TROUBLE as error:
            raise send_error(error) from error

    async def edit(self, conversation: Conversation, message: str, text: str) -> None:
        """Edit a preview."""
        try:
            await self._edit(await self.channel(conversation), message, text)
        except TROUBLE as error:
            raise send_error(error) from error

    async def typing(self, conversation: Conversation) -> None:
        """Show "typing" for about ten seconds. Raises one of TROUBLE, or NotSent."""
        await self._link().http.send_typing(await self.channel(conversation))

    async def channel(self, conversation: Conversation) -> int:
        """Return the channel to write to: the thread, the group's channel, or the private one of a person."""
        if conversation.kind == "group":
            return _number(conversation.thread or conversation.id)
        known = self._dms.get(conversation.id)
        if known is None:
            opened: dict[str, Any] = dict(await self._link().http.start_private_message(_number(conversation.id)))
            known = self._dms[conversation.id] = str(opened["id"])
        return int(known)


def _reply(channel: int, message: str | None) -> dict[str, Any]:
    if message is None:
        return {}
    return {"message_reference": {"message_id": str(_number(message)), "channel_id": str(channel), "fail_if_not_exists": False}}


def _after(recorded: str | None, prefix: str) -> str | None:
    return recorded.removeprefix(prefix) if recorded is not None and recorded.startswith(prefix) else None


def _number(identity: str) -> int:
    if not identity.isdecimal():
        raise NotSent(f"{identity[:80]!r} is no id of Discord's", permanent=True)
    return int(identity)
