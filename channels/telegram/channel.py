"""Telegram as a channel: one bot, private text messages, long polling."""

from __future__ import annotations

import asyncio
import importlib
import random as system_random
import unicodedata
from typing import TYPE_CHECKING

from channels.chunking import cut, utf16_length
from channels.errors import ChannelError
from channels.log import NoLog
from channels.markdown import styled
from channels.styled import plain

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from telegram import Bot
    from telegram.request import HTTPXRequest

    from channels.clock import Clock
    from channels.log import Log
    from channels.messages import Conversation, Outbound, Sent
    from channels.protocol import Door
    from channels.telegram.settings import TelegramAccount, TelegramSettings


class TelegramChannel:
    """A ``Channel``. The client library is loaded in a thread, when ``run``, ``send`` or ``probe`` first needs it."""

    name = "telegram"

    def __init__(
        self,
        settings: TelegramSettings,
        account: str,
        *,
        clock: Clock,
        log: Log | None = None,
        random: Callable[[], float] = system_random.random,
    ) -> None:
        self.account = account
        self._settings: TelegramAccount = settings.account(account)
        self._clock = clock
        self._log: Log = log or NoLog()
        self._random = random
        self._making: asyncio.Task[tuple[Bot, list[HTTPXRequest]]] | None = None

    async def run(self, door: Door) -> None:
        """Poll until cancelled; see ``channels.telegram.polling``."""
        bot = await self._bot()
        from channels.telegram.polling import Poller

        await Poller(bot, self._settings, self.account, door=door, clock=self._clock, random=self._random, log=self._log).run()

    def chunks(self, markdown: str) -> list[str]:
        """Cut a reply into messages. Takes about 1 ms a kilobyte of text: call it in a thread for very long ones."""
        pieces = cut(markdown, self._settings.text_chunk_limit, utf16_length)
        return [piece for piece in pieces if _visible(plain(styled(piece)))]

    async def send(self, outbound: Outbound, record: Callable[[str], Awaitable[None]]) -> Sent:
        """Deliver one chunk; see ``channels.telegram.sending``."""
        bot = await self._bot()
        from channels.telegram.sending import send

        by_edit = self._settings.delivery == "edit"
        return await send(bot, outbound, record, link_preview=self._settings.link_preview, by_edit=by_edit)

    async def typing(self, conversation: Conversation) -> None:
        """Show "typing" for about five seconds; call it again for longer."""
        bot = await self._bot()
        from telegram.error import TelegramError

        from channels.telegram.sending import show_typing

        try:
            await show_typing(bot, conversation)
        except (TelegramError, ValueError) as error:
            self._log.info("typing was not shown", error=type(error).__name__, account=self.account)

    async def probe(self) -> str:
        """Ask who the bot is, and return its name, such as ``@my_bot``.

        Raises:
            ChannelError: it cannot be reached; ``ChannelBroken`` when its token is wrong.
        """
        bot = await self._bot()
        from telegram.error import InvalidToken, TelegramError

        from channels.telegram.bot import told, wrong_token

        try:
            me = await bot.get_me()
        except InvalidToken as error:
            raise wrong_token(self._settings, self.account) from error
        except TelegramError as error:
            raise ChannelError(
                f"{self._settings.api_root} does not answer: {told(error, bot)}",
                mend="check the network, and channels.telegram.apiRoot",
            ) from error
        return f"@{me.username}"

    async def close(self) -> None:
        """Close the connections."""
        if self._making is not None and self._making.done() and self._making.exception() is None:
            for request in self._making.result()[1]:
                await request.shutdown()
        self._making = None

    async def _bot(self) -> Bot:
        if self._making is None:
            self._making = asyncio.ensure_future(asyncio.to_thread(_make, self._settings))
        making = self._making
        try:
            return (await asyncio.shield(making))[0]
        except ChannelError:
            self._making = None
            raise


def _make(settings: TelegramAccount) -> tuple[Bot, list[HTTPXRequest]]:
    """Load the library and make the bot; half a second of work that must not stop the event loop."""
    for part in ("polling", "sending"):
        importlib.import_module(f"channels.telegram.{part}")
    from channels.telegram.bot import make_bot

    return make_bot(settings)


def _visible(text: str) -> bool:
    """Tell whether Telegram would take it: a text of blanks and format characters alone is empty to it."""
    return any(unicodedata.category(letter) not in {"Zs", "Zl", "Zp", "Cc", "Cf"} for letter in text)
