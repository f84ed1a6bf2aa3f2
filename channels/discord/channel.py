"""The Discord channel: one bot, its private messages, and the servers that the settings list."""

from __future__ import annotations

import asyncio
import random as system_random
from typing import TYPE_CHECKING, Literal

from channels.common.backoff import LONGEST
from channels.common.chat_channel import ChatChannel
from channels.common.chunking import fitted
from channels.common.previews import Previews
from channels.discord.markup import written
from channels.discord.token_conflict import TokenConflict
from channels.errors import ChannelError, NotFetched, NotSent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from channels.common.backoff import Backoff
    from channels.common.log import Log
    from channels.discord.auto_threads import AutoThreads
    from channels.discord.bot_reactions import BotReactions
    from channels.discord.gateway_client import GatewayClient
    from channels.discord.receiving import Receiver
    from channels.discord.sending import Sender
    from channels.discord.settings import DiscordAccount, DiscordSettings
    from channels.messages import Attachment, ChatAddress, Outbound, Sent
    from channels.protocol import Clock, InboundSink, MenuEntry

BETWEEN_EDITS = 1.25
"""Discord allows five edits in five seconds; the last of them is to be left for the answer."""

INVITE = "https://discord.com/oauth2/authorize?client_id={}&scope=bot%20applications.commands&permissions=274878008384"
"""Where the owner of a server lets a bot in, with the rights that docs/discord.md names."""


class DiscordChannel(ChatChannel):
    """A ``Channel`` with ``Drafts``, ``Fetches``, ``Reacts``, ``Speaks`` and ``Menu``.

    The client library is loaded in a thread, when ``run`` or ``probe`` first needs it.
    """

    name = "discord"
    PARTS = ("receiving", "sending", "attachments", "bot_reactions", "auto_threads")
    voice_format: Literal["opus", "mp3"] = "opus"
    repeats_safely = True
    posts_once = 120.0
    """Discord compares nonces for some minutes; see ``channels.common.previews``."""

    def __init__(
        self,
        settings: DiscordSettings,
        account: str,
        *,
        clock: Clock,
        log: Log | None = None,
        random: Callable[[], float] = system_random.random,
    ) -> None:
        self._settings: DiscordAccount = settings.account(account)
        super().__init__(account, clock=clock, streaming=self._settings.streaming != "off", log=log, random=random)
        self.reply_to_mode = self._settings.reply_to_mode
        self.silence = self._settings.heartbeat_timeout_seconds + LONGEST
        self._receiver: Receiver | None = None
        self._reactions: BotReactions | None = None
        self._threads: AutoThreads | None = None
        self._entries: Sequence[MenuEntry] | None = None
        self._told = False
        self._dms: dict[str, str] = {}
        self._conflict = TokenConflict(clock, self._log, account)
        self._previews = Previews(self, clock, between=lambda _: BETWEEN_EDITS)

    @property
    def trouble(self) -> str:
        """What is wrong although Discord is reached; see ``channels.protocol.Troubled``."""
        return "" if self._receiver is None else self._receiver.trouble

    async def run(self, sink: InboundSink) -> None:
        """Listen until cancelled, with longer and longer pauses between connections that fail."""
        await self._load()
        from channels.discord.auto_threads import AutoThreads
        from channels.discord.bot_reactions import BotReactions

        self._reactions = BotReactions()
        self._threads = AutoThreads(self._settings, self.account, self._log)
        try:
            async with self._keeping(self._previews, sink):
                await self._reconnecting(lambda backoff: self._listen(sink, backoff))
        finally:
            self._receiver = None

    async def _listen(self, sink: InboundSink, backoff: Backoff) -> None:
        from channels.discord.receiving import Receiver

        assert self._reactions is not None
        self._receiver = None
        receiver = Receiver(
            self._settings,
            self.account,
            sink=sink,
            clock=self._clock,
            random=self._random,
            log=self._log,
            dms=self._dms,
            reactions=self._reactions,
            conflict=self._conflict,
        )
        try:
            await receiver.link.sign_in()
            self._receiver = receiver
            backoff.over()
            self._tell_invitation(receiver.link.application_id)
            await self._best_effort(self._offer(), "the menu of commands could not be set")
            await receiver.run()
        finally:
            await asyncio.shield(asyncio.ensure_future(receiver.close()))

    def _tell_invitation(self, application: int | None) -> None:
        """Log once the link by which the bot is added to a server."""
        if application is not None and not self._told:
            self._told = True
            self._log.info(
                "signed in; the bot is added to a server by its link", link=INVITE.format(application), account=self.account
            )

    def chunks(self, markdown: str) -> list[str]:
        """Split a reply into messages of at most 2,000 characters and 17 lines."""
        settings = self._settings
        apart = settings.chunk_mode == "newline"
        return fitted(markdown, settings.text_chunk_limit, written, lines=settings.max_lines_per_message, apart=apart)

    async def send(self, outbound: Outbound, record: Callable[[str], Awaitable[None]]) -> Sent:
        """Deliver one chunk; see ``channels.discord.sending``."""
        return await self._sender().send(outbound, record, self._previews)

    async def fetch(self, attachment: Attachment, path: Path, limit: int) -> None:
        """Save a file that came with a message; see ``channels.discord.attachments``."""
        from channels.discord.attachments import Fetcher

        try:
            await Fetcher(self._settings, self._link).fetch(attachment, path, limit)
        except NotSent as error:
            raise NotFetched(str(error), permanent=False) from error

    async def menu(self, entries: Sequence[MenuEntry]) -> None:
        """Set the menu, now or as soon as Discord is reached."""
        self._entries = entries
        if self._receiver is not None:
            await self._best_effort(self._offer(), "the menu of commands could not be set")

    async def _offer(self) -> None:
        from channels.discord.interactions import offer

        if self._entries is None:
            return
        entries = self._entries if self._settings.commands.native else ()
        if await offer(self._link(), entries):
            self._log.info("the menu of commands was set", commands=len(entries), account=self.account)

    async def _show_reaction(self, conversation: ChatAddress, message_id: str, emoji: str | None) -> None:
        from channels.discord.sending import number

        if self._reactions is not None:
            in_channel = self._opened_on(conversation, message_id)
            channel = number(conversation.id) if in_channel else await self._sender().channel(conversation, opening=False)
            await self._reactions.put(self._link(), channel, str(number(message_id)), emoji)

    async def _show_typing(self, conversation: ChatAddress) -> None:
        await self._sender().typing(conversation)

    async def post(self, conversation: ChatAddress, text: str, key: str) -> str:
        """Post a preview; see ``channels.common.previews``."""
        return await self._sender().post(conversation, self._shortened(text), key)

    async def edit(self, conversation: ChatAddress, message: str, text: str) -> None:
        """Edit a preview; see ``channels.common.previews``."""
        await self._sender().edit(conversation, message, self._shortened(text))

    async def remove(self, conversation: ChatAddress, message: str) -> None:
        """Delete a preview; see ``channels.common.previews``."""
        await self._sender().remove(conversation, message)

    async def probe(self) -> str:
        """Ask who the bot is, and return its name, such as ``my_bot``.

        Raises:
            ChannelError: it cannot be reached; ``ChannelBroken`` when its token is wrong, or it may not read messages.
        """
        await self._load()
        from channels.discord.api_errors import TROUBLE
        from channels.discord.gateway_client import GatewayClient

        link = GatewayClient(self._settings, lambda *_: None, clock=self._clock, backoff=self._backoff())
        try:
            await link.sign_in()
            link.check_intents()
            return str(link.user)
        except TROUBLE as error:
            raise ChannelError(
                f"{self._settings.api_root} does not answer: {error}", hint="check the network, and channels.discord.apiRoot"
            ) from error
        finally:
            await link.close()

    async def close(self) -> None:
        """Close the connection."""
        if self._receiver is not None:
            await self._receiver.close()

    def _shortened(self, text: str) -> str:
        pieces = self.chunks(text)
        if not pieces:
            raise NotSent("there is nothing to show yet")
        return written(pieces[0])

    def _passing(self) -> tuple[type[Exception], ...]:
        from channels.discord.api_errors import TROUBLE

        return TROUBLE

    def _described(self, error: Exception) -> str:
        return str(error) or type(error).__name__

    def _sender(self) -> Sender:
        from channels.discord.sending import Sender

        return Sender(
            self._settings,
            self._link,
            clock=self._clock,
            dms=self._dms,
            conflict=self._conflict,
            thread=self._thread,
            opened_on=self._opened_on,
        )

    def _opened_on(self, conversation: ChatAddress, message: str) -> bool:
        return self._receiver is not None and self._receiver.opened_on(conversation, message)

    async def _thread(self, conversation: ChatAddress, *, opening: bool) -> str:
        """Return the channel of a group's conversation; see ``channels.discord.auto_threads``."""
        receiver = self._receiver
        if self._threads is None or receiver is None:
            raise NotSent("Discord is not connected")
        return await self._threads.channel(conversation, self._link(), receiver.knows, opening=opening)

    def _link(self) -> GatewayClient:
        if self._receiver is None or self._receiver.link.is_closed():
            raise NotSent("Discord is not connected")
        return self._receiver.link
