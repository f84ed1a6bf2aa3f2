"""Opens a thread for an answer, on the message that it answers (https://discord.com/developers/docs/resources/channel#start-thread-from-message).

A thread has the id of the message that it was opened on, so a conversation in it has its address before it exists. Importing this module
loads the library.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import discord
from msgspec.structs import replace

from channels.common.log import Log
from channels.discord.api_errors import TROUBLE, meaning, send_error
from channels.discord.gateway_client import GatewayClient
from channels.discord.inbound import Place, spoken
from channels.discord.settings import DiscordAccount
from channels.errors import NotSent
from channels.messages import ChatAddress, Inbound

LONGEST_NAME: Final = 100
MOST: Final = 1000
_THERE: Final = 160004
"""Discord's code for a message on which a thread was opened before."""
_TOO_MANY, _UNAUTHORISED, _SERVER = 429, 401, 500


def with_thread(message: Inbound, place: Place, settings: DiscordAccount) -> Inbound:
    """Return a message with the thread that its answer opens, where the settings say so. A command opens none."""
    opens = message.mentioned or not settings.needs_mention(place.guild, place.id)
    if (
        not opens
        or not place.guild
        or place.parent
        or message.text.startswith("/")
        or not settings.threaded(place.guild, place.id)
    ):
        return message
    return replace(message, conversation=replace(message.conversation, thread=message.target or message.message_id))


class AutoThreads:
    """Which threads there are, and how they are opened. ``exists`` says what events have told of."""

    def __init__(self, settings: DiscordAccount, account: str, log: Log) -> None:
        self._settings = settings
        self._account = account
        self._log = log
        self._writes_to: dict[str, str] = {}
        """Where messages of a thread are written: in the thread, or in its channel where no thread can be opened."""

    async def channel(
        self, conversation: ChatAddress, link: GatewayClient, exists: Callable[[str], bool], *, opening: bool
    ) -> str:
        """Return the channel to write to. A thread that is not there yet is opened if ``opening``; else its channel stands for it.

        Raises:
            NotSent: Discord could not be asked, or be told to open it.
        """
        thread = conversation.thread or conversation.id
        automatic = conversation.thread is not None and self._settings.threaded(conversation.space or "", conversation.id)
        if not automatic or exists(thread):
            return thread
        known = self._writes_to.get(thread)
        if known is None:
            try:
                known = await self._found_or_opened(conversation, thread, link, opening=opening)
            except TROUBLE as error:
                raise _not_sent(error) from error
            if known != conversation.id or opening:
                self._remember(thread, known)
        return known

    def _remember(self, thread: str, channel: str) -> None:
        self._writes_to[thread] = channel
        while len(self._writes_to) > MOST:
            del self._writes_to[next(iter(self._writes_to))]

    async def _found_or_opened(self, conversation: ChatAddress, thread: str, link: GatewayClient, *, opening: bool) -> str:
        if await _is_there(link, thread):
            return thread
        if not opening:
            return conversation.id
        channel = int(conversation.id)
        rule = self._settings.guild(conversation.space or "")
        minutes = 60 if rule is None else rule.auto_archive_duration
        try:
            message: dict[str, Any] = dict(await link.http.get_message(channel, int(thread)))
            name = title(spoken(message, link.me))
            await link.http.start_thread_with_message(channel, int(thread), name=name, auto_archive_duration=minutes)
        except discord.HTTPException as error:
            if error.code == _THERE:
                return thread
            if error.status >= _SERVER or error.status in {_TOO_MANY, _UNAUTHORISED}:
                raise
            text, hint = meaning(error)
            self._log.warning(
                "no thread can be opened, so the answer stands in the channel",
                channel=conversation.id,
                error=text,
                hint=hint or "let the bot create public threads (its role, Permissions), or set autoThread to false",
                account=self._account,
            )
            return conversation.id
        return thread


async def _is_there(link: GatewayClient, thread: str) -> bool:
    try:
        await link.http.get_channel(int(thread))
    except (discord.NotFound, discord.Forbidden):
        return False
    return True


def _not_sent(error: BaseException) -> NotSent:
    """Return the error for a thread that could not be opened: nothing was written yet."""
    found = send_error(error)
    return found if isinstance(found, NotSent) else NotSent(f"the thread could not be opened: {found}")


def title(text: str) -> str:
    """Return the name of a thread about a text: its first line."""
    line = next((one for one in map(str.strip, text.splitlines()) if one), "") or "Conversation"
    return line if len(line) <= LONGEST_NAME else f"{line[: LONGEST_NAME - 1].rstrip()}…"
