"""The Telegram channel: one bot, its private chats, and the groups that the settings list."""

from __future__ import annotations

import asyncio
import hmac
import random as system_random
import unicodedata
from typing import TYPE_CHECKING, Literal

from channels.common.chat_channel import ChatChannel
from channels.common.chunking import cut, utf16_length
from channels.common.markdown import plain, styled
from channels.errors import ChannelBroken, ChannelError, NotSent
from channels.protocol import HookAnswer, HookRequest
from channels.telegram.file_forms import ALBUM_BYTES, ALBUM_MOST, album_kind
from channels.telegram.recent_messages import SeenMessages
from channels.telegram.settings import LONGEST_PAUSE, LOOK_SECONDS, TelegramAccount

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from channels.common.log import Log
    from channels.messages import Attachment, ChatAddress, Outbound, Sent
    from channels.protocol import Clock, InboundSink, MenuEntry
    from channels.telegram.bot_actions import BotActions
    from channels.telegram.settings import TelegramSettings
    from channels.telegram.update_loop import Listener


class TelegramChannel(ChatChannel):
    """A ``Channel`` with ``Drafts``, ``Fetches``, ``Reacts``, ``Menu``, ``Speaks``, ``GathersAlbums`` and ``Hooked``.

    The client library is loaded in a thread, when it is first needed.
    """

    name = "telegram"
    PARTS = ("update_loop", "bot_actions", "get_file")

    voice_format: Literal["opus", "mp3"] = "opus"
    album_most = ALBUM_MOST
    album_bytes = ALBUM_BYTES
    album_kind = staticmethod(album_kind)

    def __init__(
        self,
        settings: TelegramSettings,
        account: str,
        *,
        clock: Clock,
        log: Log | None = None,
        random: Callable[[], float] = system_random.random,
    ) -> None:
        self._settings: TelegramAccount = settings.account(account)
        super().__init__(account, clock=clock, streaming=self._settings.streaming != "off", log=log, random=random)
        self.hooked = self._settings.webhook_url is not None
        self.reply_to_mode = self._settings.reply_to_mode
        between = LOOK_SECONDS if self.hooked else self._settings.poll_timeout_seconds
        self.silence = between + self._settings.timeout_seconds + LONGEST_PAUSE
        self._seen = SeenMessages()
        self._menu: Sequence[MenuEntry] = ()
        self._sink: InboundSink | None = None
        self._listener: Listener | None = None
        self._making: asyncio.Task[BotActions] | None = None
        self._actions: BotActions | None = None
        """What speaks for the bot, once it was first needed."""
        self._wary = False
        self.trouble = ""
        self.known_as = ""

    async def run(self, sink: InboundSink) -> None:
        """Listen until cancelled; see ``channels.telegram.update_loop``."""
        actions = await self._made_actions()
        from telegram.error import Conflict

        from channels.telegram.receiving import ReceiverDeps
        from channels.telegram.update_loop import Listener

        deps = ReceiverDeps(
            bot=actions.connection.bot,
            settings=self._settings,
            account=self.account,
            sink=sink,
            clock=self._clock,
            backoff=self._backoff(LONGEST_PAUSE),
            log=self._log,
            trouble=self._in_trouble,
            signed_in=self._signed_in,
            wary=self._wary,
        )
        listener = Listener(deps, self._seen)
        self._sink, self._listener = sink, listener
        try:
            async with self._keeping(actions.showing.previews, sink):
                await listener.run(self._menu)
        except ChannelBroken as broken:
            self._wary = isinstance(broken.__cause__, Conflict)
            await self.close()  # the next run reads the token again
            raise
        finally:
            self._listener = None
            self.trouble = ""
            await listener.close()

    def chunks(self, markdown: str) -> list[str]:
        """Split a reply into messages. Takes about 1 ms per kilobyte of text: call it in a thread for very long texts."""
        apart = self._settings.chunk_mode == "newline"
        pieces = cut(markdown, self._settings.text_chunk_limit, utf16_length, apart=apart)
        return [piece for piece in pieces if _visible(plain(styled(piece)))]

    async def send(self, outbound: Outbound, record: Callable[[str], Awaitable[None]]) -> Sent:
        """Deliver one chunk or file; see ``channels.telegram.sending``."""
        try:
            actions = await self._made_actions()
        except ChannelError as error:  # there is no token
            raise NotSent(str(error), hint=error.hint) from error
        return await actions.sender.send(outbound, record, actions.showing)

    async def _show_typing(self, conversation: ChatAddress) -> None:
        await (await self._made_actions()).typing(conversation)

    async def paced(self, conversation: ChatAddress) -> None:
        """Keep to Telegram's limits; see ``channels.telegram.pacing``."""
        if self._actions is not None:
            await self._actions.pacer.free(conversation.id)

    async def administers(self, conversation: ChatAddress, person: str) -> bool:
        """See ``channels.protocol.Ranks``."""
        try:
            return await (await self._made_actions()).administers(conversation, person)
        except ChannelError:
            return False

    async def unheard(self, conversation: ChatAddress) -> str:
        """See ``channels.protocol.Overhears``."""
        passing: tuple[type[Exception], ...] = (ChannelError, *self._passing())
        try:
            return await (await self._made_actions()).unheard(conversation)
        except passing as error:
            return f"Telegram does not answer: {type(error).__name__}; try again in a moment"

    async def answers(self, conversation: ChatAddress) -> bool:
        """Send a typing action, and return whether the answer shows that Telegram works."""
        try:
            return await (await self._made_actions()).answers(conversation)
        except ChannelError:  # without a token the attempt itself says what is wrong
            return True

    async def _show_preview(self, conversation: ChatAddress, turn: str, text: str) -> None:
        await (await self._made_actions()).showing.show(conversation, turn, text)

    def draft_ended(self, conversation: ChatAddress, turn: str) -> None:
        """See ``channels.protocol.DraftsEnd``."""
        if self._actions is not None:
            self._actions.showing.ended(conversation, turn)

    async def _show_reaction(self, conversation: ChatAddress, message_id: str, emoji: str | None) -> None:
        """Set a reaction on a message; an emoji that bots may not use is replaced by the most similar one."""
        await (await self._made_actions()).react(conversation, message_id, emoji)

    async def fetch(self, attachment: Attachment, path: Path, limit: int) -> None:
        """Save a file; see ``channels.telegram.get_file``."""
        actions = await self._made_actions()
        from channels.telegram.get_file import fetch

        await fetch(actions.connection, self._settings.api_root, attachment, path, limit)

    async def menu(self, entries: Sequence[MenuEntry]) -> None:
        """Offer commands in private chats and groups, once the channel runs. What Telegram shows already is not set again."""
        self._menu = tuple(entries)

    async def hear(self, request: HookRequest) -> HookAnswer:
        """Handle a call from Telegram. One without the secret is answered with 401."""
        refused = self.refuses(request)
        if refused is not None:
            return refused
        if self._listener is None:
            return HookAnswer(status=503, headers={"retry-after": "5"})
        return await self._listener.hear(request)

    def refuses(self, request: HookRequest) -> HookAnswer | None:
        """Refuse a call without the secret by its headers alone, so that nothing more of it is read."""
        return None if self.hooked and is_ours(request, self._settings) else HookAnswer(status=401)

    async def probe(self) -> str:
        """Ask who the bot is, and return its name, such as ``@my_bot``, with what its settings at @BotFather keep from it.

        Raises:
            ChannelError: it cannot be reached; ``ChannelBroken`` when its token is wrong.
        """
        bot = (await self._made_actions()).connection.bot
        from telegram.error import InvalidToken, TelegramError

        from channels.telegram.bot import describe_error, wrong_token
        from channels.telegram.update_loop import unheard

        try:
            me = await bot.get_me()
        except InvalidToken as error:
            raise wrong_token(self._settings, self.account) from error
        except TelegramError as error:
            raise ChannelError(
                f"{self._settings.api_root} does not answer: {describe_error(error, bot)}",
                hint="check the network, and channels.telegram.apiRoot",
            ) from error
        hint = unheard(me, self._settings)
        return f"@{me.username} ({hint})" if hint else f"@{me.username}"

    async def close(self) -> None:
        """Close the connections."""
        if self._actions is not None:
            await self._actions.connection.close()
        self._making = self._actions = None

    def _passing(self) -> tuple[type[Exception], ...]:
        from telegram.error import TelegramError

        return (TelegramError, ValueError, TypeError, KeyError)

    async def _made_actions(self) -> BotActions:
        if self._actions is not None:
            return self._actions
        if self._making is None:
            self._making = asyncio.ensure_future(asyncio.to_thread(self._make))
        making = self._making
        try:
            actions = await asyncio.shield(making)
        except ChannelError:
            self._making = None
            raise
        if making is self._making:
            self._actions = actions
        return actions

    def _make(self) -> BotActions:
        """Load the library and make the bot; half a second of work that must not stop the event loop."""
        self._load_here()
        from channels.telegram.bot_actions import BotActions

        return BotActions(
            self._settings,
            clock=self._clock,
            log=self._log,
            seen=self._seen,
            moved=self._moved,
            chunks=self.chunks,
        )

    def _signed_in(self, name: str) -> None:
        self.known_as = name

    def _in_trouble(self, trouble: str) -> None:
        self.trouble = trouble

    async def _moved(self, former: ChatAddress, present: ChatAddress) -> None:
        """Tell the gateway that a group has another id."""
        if self._sink is None:
            return
        try:
            await self._sink.moved(former, present)
        except Exception as error:
            # whatever the gateway could not store is found out again with the next attempt, and nothing was sent
            raise NotSent(f"the group's new id {present.id} could not be stored: {error}") from error


def _visible(text: str) -> bool:
    """Return whether Telegram would take it: a text of blanks and format characters alone is empty to it."""
    return any(unicodedata.category(letter) not in {"Zs", "Zl", "Zp", "Cc", "Cf"} for letter in text)


HEADER = "x-telegram-bot-api-secret-token"


def is_ours(request: HookRequest, settings: TelegramAccount) -> bool:
    """Return whether a call carries the secret, compared in constant time."""
    expected = settings.webhook_secret
    shown = request.headers.get(HEADER, "").encode("utf-8", "replace")
    return expected is not None and hmac.compare_digest(shown, expected.get_secret_value().encode())
