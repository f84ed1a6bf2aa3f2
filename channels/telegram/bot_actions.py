"""Everything that one bot sends or shows: messages, typing, reactions, previews. Importing this module loads the client library."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from telegram.constants import ChatAction, ReactionEmoji
from telegram.error import BadRequest, ChatMigrated, Forbidden, InvalidToken, RetryAfter, TelegramError

from channels.common.log import Log
from channels.errors import NotSent
from channels.messages import ChatAddress, Outbound, Sent
from channels.protocol import Clock
from channels.telegram.bot import make_bot, wait_of
from channels.telegram.live_preview import LivePreview
from channels.telegram.pacing import Pacer
from channels.telegram.recent_messages import SeenMessages
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
        self._pacer = Pacer(clock, on=settings.pacing)
        self._sender = Sender(bot, settings, pacer=self._pacer, seen=seen, moved=moved)

        def first(text: str) -> str:
            pieces = chunks(text)
            if not pieces:
                raise NotSent("there is nothing to show yet")
            return pieces[0]

        self.showing = LivePreview(bot, self._sender, settings=settings, pacer=self._pacer, clock=clock, log=log, first=first)

    async def send(self, outbound: Outbound, record: Callable[[str], Awaitable[None]]) -> Sent:
        """Deliver one chunk or file."""
        return await self._sender.send(outbound, record, self.showing.end)

    async def typing(self, conversation: ChatAddress) -> None:
        """Show "typing", and a draft that would fade. Raises ``TelegramError``, ``ChannelError`` or ValueError."""
        if self._pacer.held(conversation.id):
            return
        await self.showing.keep(conversation)
        await self._sign(conversation)

    async def _sign(self, conversation: ChatAddress) -> None:
        thread = None if conversation.thread is None else int(conversation.thread)
        try:
            await self._bot.send_chat_action(int(conversation.id), ChatAction.TYPING, message_thread_id=thread)
        except RetryAfter as error:
            self._pacer.hold(conversation.id, wait_of(error))
            raise

    async def paced(self, conversation: ChatAddress) -> None:
        """Wait until a message may go to a chat."""
        await self._pacer.free(conversation.id)

    async def answers(self, conversation: ChatAddress) -> bool:
        """Say whether Telegram takes a typing sign, or refuses it in words that show that it works."""
        if self._pacer.held(conversation.id):
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
        if not self._pacer.held(conversation.id):
            await react(self._bot, int(conversation.id), int(message_id), emoji)
