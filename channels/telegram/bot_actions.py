"""Everything that one bot sends or shows: messages, typing, reactions, previews. Importing this module loads the client library."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from telegram.constants import ChatAction, ReactionEmoji
from telegram.error import BadRequest, ChatMigrated, Forbidden, InvalidToken, RetryAfter, TelegramError

from channels.common.log import Log
from channels.common.markdown import styled
from channels.common.previews import Previews
from channels.errors import NotSent
from channels.messages import ChatAddress
from channels.protocol import Clock
from channels.telegram.bot import make_bot, send_error, wait_of
from channels.telegram.pacing import Pacer
from channels.telegram.recent_messages import SeenMessages
from channels.telegram.send_options import as_html_or_plain, number, placing
from channels.telegram.sending import Sender
from channels.telegram.settings import TelegramAccount

if TYPE_CHECKING:
    from telegram import Bot


NEAREST: Final = {
    "✅": "👌",
    "✔": "👌",
    "☑": "👌",
    "❌": "👎",
    "⛔": "👎",
    "⚠": "😱",
    "⏳": "✍",
    "⌛": "✍",
    "⚙": "👨‍💻",
    "🛠": "👨‍💻",
    "🔧": "👨‍💻",
    "💻": "👨‍💻",
    "🧠": "🤔",
    "💭": "🤔",
    "🚀": "⚡",
    "🙂": "😁",
    "😀": "😁",
    "😊": "🥰",
}
"""Stand-ins for what Telegram does not let bots put under a message."""
OTHERWISE: Final = "👀"
PRIVACY_MODE: Final = (
    "privacy mode is on, so Telegram gives the bot only commands, mentions and replies to it: @BotFather, /setprivacy, Disable, then "
    "remove the bot from the group and add it again; or make it an administrator"
)
_ADMINISTRATORS: Final = frozenset({"creator", "administrator"})
_TAKEN: Final = {str(one): str(one) for one in ReactionEmoji} | {str(one).rstrip("\ufe0f"): str(one) for one in ReactionEmoji}


def taken(emoji: str) -> str:
    """Return the emoji if Telegram accepts it, or the most similar one."""
    bare = emoji.strip().rstrip("\ufe0f")
    return _TAKEN.get(bare) or NEAREST.get(bare, OTHERWISE)


async def react(bot: Bot, chat: int, message: int, emoji: str | None) -> None:
    """Put it there, or take it off. Where a group does not allow this one, nothing is shown. Raises ``TelegramError``."""
    try:
        await bot.set_message_reaction(chat, message, [] if emoji is None else [taken(emoji)])
    except BadRequest as error:
        if "reaction" not in str(error).lower():
            raise


class BotActions:
    """A bot, its pacing and its previews. Slow to create (certificates are read): create it in a thread.

    ``chunks`` cuts Markdown into messages; ``moved`` is told when a group turns out to have another id.
    """

    def __init__(
        self,
        settings: TelegramAccount,
        *,
        clock: Clock,
        log: Log,
        seen: SeenMessages,
        moved: Callable[[ChatAddress, ChatAddress], Awaitable[None]],
        chunks: Callable[[str], list[str]],
    ) -> None:
        self.connection = make_bot(settings)
        bot = self.connection.bot
        self._bot = bot
        self.pacer = Pacer(clock, on=settings.pacing)
        self.sender = Sender(bot, settings, pacer=self.pacer, seen=seen, moved=moved)

        def first(text: str) -> str:
            pieces = chunks(text)
            if not pieces:
                raise NotSent("there is nothing to show yet")
            return pieces[0]

        self.showing = LivePreview(bot, self.sender, settings=settings, pacer=self.pacer, clock=clock, log=log, first=first)

    async def typing(self, conversation: ChatAddress) -> None:
        """Show "typing", and a draft that would fade. Raises ``TelegramError``, ``ChannelError`` or ValueError."""
        if self.pacer.held(conversation.id):
            return
        await self.showing.drafts.refresh(conversation, DRAFT_FADES)
        await self._sign(conversation)

    async def _sign(self, conversation: ChatAddress) -> None:
        thread = None if conversation.thread is None else int(conversation.thread)
        try:
            await self._bot.send_chat_action(int(conversation.id), ChatAction.TYPING, message_thread_id=thread)
        except RetryAfter as error:
            self.pacer.hold(conversation.id, wait_of(error))
            raise

    async def administers(self, conversation: ChatAddress, person: str) -> bool:
        """Return whether a person is an administrator of a group. One who writes anonymously has the group's own id."""
        if person == conversation.id:
            return True
        try:
            member = await self._bot.get_chat_member(int(conversation.id), int(person))
        except (TelegramError, ValueError):
            return False
        return member.status in _ADMINISTRATORS

    async def unheard(self, conversation: ChatAddress) -> str:
        """Return why the bot is not given all messages of a group. An administrator is given them whatever its privacy mode is."""
        me = await self._bot.get_me()
        if me.can_read_all_group_messages or await self.administers(conversation, str(me.id)):
            return ""
        return PRIVACY_MODE

    async def answers(self, conversation: ChatAddress) -> bool:
        """Say whether Telegram takes a typing sign, or refuses it in words that show that it works."""
        if self.pacer.held(conversation.id):
            return True
        try:
            await self._sign(conversation)
        except (RetryAfter, BadRequest, Forbidden, InvalidToken, ChatMigrated, ValueError):
            return True
        except (TelegramError, TypeError, KeyError):
            return False
        return True

    async def react(self, conversation: ChatAddress, message_id: str, emoji: str | None) -> None:
        """Put an emoji under a message. Raises ``TelegramError`` or ValueError."""
        if not self.pacer.held(conversation.id):
            await react(self._bot, int(conversation.id), int(message_id), emoji)


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
        self.drafts = Previews(_Drafts(bot, pacer, first), clock, after=DRAFT_AFTER)
        self.previews = Previews(_Edits(sender, pacer, first), clock, between=lambda place: between[place.kind])
        self._without_drafts = settings.streaming in {"edit", "off"}

    async def show(self, conversation: ChatAddress, turn: str, text: str) -> None:
        """Show the answer so far. Raises ``ChannelError``."""
        if conversation.kind == "direct" and not self._without_drafts:
            try:
                await self.drafts.show(conversation, turn, text)
            except NotSent as refusal:
                if not refusal.permanent:
                    raise
                self._without_drafts = True
                self._log.info("this Bot API server does not accept drafts", error=str(refusal))
        elif self._settings.streaming in {"edit", "auto"}:
            await self.previews.show(conversation, turn, text)

    def ended(self, conversation: ChatAddress, turn: str) -> None:
        """No more is shown of a turn."""
        self.drafts.end(conversation, turn)
        self.previews.end(conversation, turn)

    async def end(self, conversation: ChatAddress, turn: str | None = None) -> str | None:
        """End what is shown of a turn; return the message that becomes the answer, if there is one."""
        await self.drafts.take(conversation, turn)
        return await self.previews.take(conversation, turn)


class _Edits:
    """Previews by editing messages, as far as the rate limit has room for it."""

    posts_once = 0.0

    def __init__(self, sender: Sender, pacer: Pacer, first: Callable[[str], str]) -> None:
        self._sender = sender
        self.pacer = pacer
        self._first = first

    async def post(self, conversation: ChatAddress, text: str, key: str) -> str:
        del key  # Telegram has none for a message
        self._spare(conversation)
        return await self._sender.post(conversation, self._first(text))

    async def edit(self, conversation: ChatAddress, message: str, text: str) -> None:
        self._spare(conversation)
        await self._sender.edit(conversation, message, self._first(text))

    async def remove(self, conversation: ChatAddress, message: str) -> None:
        await self._sender.remove(conversation, message)

    def _spare(self, conversation: ChatAddress) -> None:
        if not self.pacer.spare(conversation.id):
            raise NotSent("the remaining allowance is kept for answers")


class _Drafts:
    """Telegram's drafts, as messages that are edited."""

    posts_once = 0.0

    def __init__(self, bot: Bot, pacer: Pacer, first: Callable[[str], str]) -> None:
        self._bot = bot
        self.pacer = pacer
        self._first = first
        self._numbers = itertools.count(1)

    async def post(self, conversation: ChatAddress, text: str, key: str) -> str:
        del key
        draft = str(next(self._numbers))
        await self.edit(conversation, draft, text)
        return draft

    async def remove(self, conversation: ChatAddress, message: str) -> None:
        """Do nothing: a draft fades."""

    async def edit(self, conversation: ChatAddress, message: str, text: str) -> None:
        if wait := self.pacer.held(conversation.id):
            raise NotSent("Telegram asked to wait", retry_after=wait)
        call: Callable[..., Awaitable[bool]] = self._bot.send_message_draft
        options = placing(conversation) | {"draft_id": number(message)}
        try:
            await as_html_or_plain(styled(self._first(text)), lambda shown, **how: call(text=shown, **options, **how))
        except RetryAfter as error:
            self.pacer.hold(conversation.id, wait_of(error))
            raise send_error(error, self._bot) from error
        except (InvalidToken, BadRequest) as error:
            raise NotSent(str(error), permanent=True) from error
        except TelegramError as error:
            raise NotSent(str(error)) from error
