"""Previews of an answer: drafts, or a message that is edited. Importing this module loads the client library."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from telegram.error import BadRequest, InvalidToken, RetryAfter, TelegramError

from channels.common.log import Log
from channels.common.markdown import styled
from channels.common.previews import Previews
from channels.errors import NotSent
from channels.messages import ChatAddress
from channels.protocol import Clock
from channels.telegram.bot import send_error, wait_of
from channels.telegram.pacing import Pacer
from channels.telegram.send_options import as_html_or_plain, number, placing
from channels.telegram.sending import Sender
from channels.telegram.settings import TelegramAccount

if TYPE_CHECKING:
    from telegram import Bot

DRAFT_AFTER = 1.0
"""A draft leaves nothing behind, so it may come earlier than a message."""
DRAFT_FADES = 20.0
"""Telegram takes a draft away after 30 seconds."""
BETWEEN = 1.0
BETWEEN_IN_GROUPS = 3.0


class LivePreview:
    """Drafts in private chats, where the Bot API server has them, and edited messages elsewhere, as the settings say.

    A draft is gone when the answer comes, which is then sent as a message; an edited message becomes the answer.
    """

    def __init__(
        self,
        bot: Bot,
        sender: Sender,
        *,
        settings: TelegramAccount,
        pacer: Pacer,
        clock: Clock,
        log: Log,
        first: Callable[[str], str],
    ) -> None:
        between = {"direct": BETWEEN, "group": BETWEEN_IN_GROUPS}
        self._settings = settings
        self._log = log
        self._drafts = Previews(_Drafts(bot, pacer, first), clock, after=DRAFT_AFTER)
        self.previews = Previews(_Edits(sender, pacer, first), clock, between=lambda place: between[place.kind])
        self._without_drafts = settings.streaming in {"edit", "off"}

    async def show(self, conversation: ChatAddress, turn: str, text: str) -> None:
        """Show the answer so far. Raises ``ChannelError``."""
        if conversation.kind == "direct" and not self._without_drafts:
            try:
                await self._drafts.show(conversation, turn, text)
            except NotSent as refusal:
                if not refusal.permanent:
                    raise
                self._without_drafts = True
                self._log.info("this Bot API server does not accept drafts", error=str(refusal))
        elif self._settings.streaming in {"edit", "auto"}:
            await self.previews.show(conversation, turn, text)

    async def keep(self, conversation: ChatAddress) -> None:
        """Show a draft again before it fades. Raises ``ChannelError``."""
        await self._drafts.refresh(conversation, DRAFT_FADES)

    def ended(self, conversation: ChatAddress, turn: str) -> None:
        """No more is shown of a turn."""
        self._drafts.end(conversation, turn)
        self.previews.end(conversation, turn)

    async def end(self, conversation: ChatAddress, turn: str | None = None) -> str | None:
        """End what is shown of a turn; return the message that becomes the answer, if there is one."""
        await self._drafts.take(conversation, turn)
        return await self.previews.take(conversation, turn)


class _Edits:
    """Previews by editing messages, as far as the rate limit has room for it."""

    def __init__(self, sender: Sender, pacer: Pacer, first: Callable[[str], str]) -> None:
        self._sender = sender
        self._pacer = pacer
        self._first = first

    async def post(self, conversation: ChatAddress, text: str) -> str:
        self._spare(conversation)
        return await self._sender.post(conversation, self._first(text))

    async def edit(self, conversation: ChatAddress, message: str, text: str) -> None:
        self._spare(conversation)
        await self._sender.edit(conversation, message, self._first(text))

    def _spare(self, conversation: ChatAddress) -> None:
        if not self._pacer.spare(conversation.id):
            raise NotSent("the remaining allowance is kept for answers")


class _Drafts:
    """Telegram's drafts, as messages that are edited."""

    def __init__(self, bot: Bot, pacer: Pacer, first: Callable[[str], str]) -> None:
        self._bot = bot
        self._pacer = pacer
        self._first = first
        self._numbers = itertools.count(1)

    async def post(self, conversation: ChatAddress, text: str) -> str:
        draft = str(next(self._numbers))
        await self.edit(conversation, draft, text)
        return draft

    async def edit(self, conversation: ChatAddress, message: str, text: str) -> None:
        if wait := self._pacer.held(conversation.id):
            raise NotSent("Telegram asked to wait", retry_after=wait)
        call: Callable[..., Awaitable[bool]] = self._bot.send_message_draft
        options = placing(conversation) | {"draft_id": number(message)}
        try:
            await as_html_or_plain(styled(self._first(text)), lambda shown, **how: call(text=shown, **options, **how))
        except RetryAfter as error:
            self._pacer.hold(conversation.id, wait_of(error))
            raise send_error(error, self._bot) from error
        except (InvalidToken, BadRequest) as error:
            raise NotSent(str(error), permanent=True) from error
        except TelegramError as error:
            raise NotSent(str(error)) from error
