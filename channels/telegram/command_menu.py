"""The bot's menu of commands. Importing this module loads the client library."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from telegram import BotCommand, BotCommandScopeAllGroupChats, BotCommandScopeAllPrivateChats
from telegram.constants import BotCommandLimit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from telegram import Bot

    from channels.protocol import MenuEntry

SCOPES: Final = (BotCommandScopeAllPrivateChats(), BotCommandScopeAllGroupChats())


def named(entries: Sequence[MenuEntry]) -> dict[str, MenuEntry]:
    """Return the entries by the names that Telegram takes: small letters, digits and _. The first of two alike counts."""
    found: dict[str, MenuEntry] = {}
    for entry in entries:
        name = re.sub(r"[^a-z0-9_]", "_", entry.name.lower().removeprefix("/"))[: BotCommandLimit.MAX_COMMAND]
        if name.strip("_"):
            found.setdefault(name, entry)
    return dict(list(found.items())[: BotCommandLimit.MAX_COMMAND_NUMBER])


async def offer(bot: Bot, menu: dict[str, MenuEntry]) -> None:
    """Set the menu for private chats and for groups, where it is another one. Raises ``TelegramError``."""
    commands = tuple(BotCommand(name, _description(entry)) for name, entry in menu.items())
    for scope in SCOPES:
        if await bot.get_my_commands(scope=scope) != commands:
            await bot.set_my_commands(commands, scope=scope)


def _description(entry: MenuEntry) -> str:
    text = " ".join(f"{entry.help} {entry.argument}".split()) or entry.name
    return text[: BotCommandLimit.MAX_DESCRIPTION]
