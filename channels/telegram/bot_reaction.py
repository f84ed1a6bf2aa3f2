"""An emoji of the bot's under a message. Importing this module loads the client library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from telegram.constants import ReactionEmoji
from telegram.error import BadRequest

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
    """Return the emoji as Telegram takes it, or what comes nearest."""
    bare = emoji.strip().rstrip("\ufe0f")
    return _TAKEN.get(bare) or NEAREST.get(bare, OTHERWISE)


async def react(bot: Bot, chat: int, message: int, emoji: str | None) -> None:
    """Put it there, or take it off. Where a group does not allow this one, nothing is shown. Raises ``TelegramError``."""
    try:
        await bot.set_message_reaction(chat, message, [] if emoji is None else [taken(emoji)])
    except BadRequest as error:
        if "reaction" not in str(error).lower():
            raise
