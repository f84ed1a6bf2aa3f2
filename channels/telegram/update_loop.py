"""Runs one bot: signs in, sets its command menu, and receives updates. Importing this module loads the client library."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from telegram import BotCommand, BotCommandScopeAllGroupChats, BotCommandScopeAllPrivateChats
from telegram.constants import BotCommandLimit
from telegram.error import InvalidToken, RetryAfter, TelegramError

from channels.protocol import HookAnswer, HookRequest, MenuEntry
from channels.telegram.api_errors import told
from channels.telegram.bot import wait_of, wrong_token
from channels.telegram.bot_mentions import Me
from channels.telegram.polling import Poller
from channels.telegram.receiving import Receiver, ReceiverDeps
from channels.telegram.recent_messages import SeenMessages
from channels.telegram.settings import TelegramAccount
from channels.telegram.updates import Reader
from channels.telegram.webhook import Hook

if TYPE_CHECKING:
    from telegram import Bot, User


PRIVACY = (
    "privacy mode is on, so in groups it hears only commands and replies to it, though requireMention is false: "
    "@BotFather, /setprivacy, Disable, then remove the bot from the group and add it again; or make it an administrator"
)


class Listener:
    """Runs one bot until it is cancelled."""

    def __init__(self, deps: ReceiverDeps, seen: SeenMessages) -> None:
        self._deps = deps
        self._seen = seen
        self._receiver: Receiver | None = None
        self._hook: Hook | None = None
        self._offering: asyncio.Task[None] | None = None

    async def run(self, menu: Sequence[MenuEntry]) -> None:
        """Listen until cancelled.

        Raises:
            ChannelBroken: the owner must act.
        """
        settings, account = self._deps.settings, self._deps.account
        me = await self._who_am_i()
        self._deps.signed_in(f"@{me.username}")
        hint = unheard(me, settings)
        if hint:
            self._deps.log.warning(hint, account=self._deps.account)
        reader = Reader(account, settings, Me(me.id, me.username or ""), self._seen, self._deps.clock.now)
        entries = named(menu)
        reader.commands = {name: entry.name.removeprefix("/") for name, entry in entries.items()}
        if entries:
            self._offering = asyncio.create_task(self._offer(entries))
        self._receiver = Receiver(self._deps, reader)
        if self._deps.settings.webhook_url is None:
            await Poller(self._deps, self._receiver).run()
        else:
            self._hook = Hook(self._deps, self._receiver)
            await self._hook.run()

    async def hear(self, request: HookRequest) -> HookAnswer:
        """Handle a call that carries the secret."""
        return HookAnswer(status=503, headers={"retry-after": "5"}) if self._hook is None else await self._hook.hear(request)

    async def close(self) -> None:
        """Cancel best-effort requests."""
        if self._offering is not None:
            self._offering.cancel()
            await asyncio.gather(self._offering, return_exceptions=True)
        if self._receiver is not None:
            await self._receiver.close()

    async def _who_am_i(self) -> User:
        """Ask for the bot's own id and name, until there is an answer."""
        while True:
            try:
                return await self._deps.bot.get_me()
            except InvalidToken as error:
                raise wrong_token(self._deps.settings, self._deps.account) from error
            except RetryAfter as error:
                await self._deps.clock.sleep(wait_of(error))
            except TelegramError as error:
                await self._deps.backoff.wait("telegram does not answer", told(error, self._deps.bot))

    async def _offer(self, entries: dict[str, MenuEntry]) -> None:
        """Set the menu. Best effort: commands work without it."""
        try:
            await offer(self._deps.bot, entries)
        except (TelegramError, TypeError, KeyError, ValueError) as error:
            self._deps.log.info(
                "the menu of commands was not set", error=told(error, self._deps.bot), account=self._deps.account
            )


def unheard(me: User, settings: TelegramAccount) -> str:
    """Return what the bot cannot receive although the settings ask for it; an empty string if all is well."""
    wanted = any(
        not rule.at(topic).require_mention
        for rule in settings.groups.values()
        for topic in (None, *rule.topics)
        if rule.enabled
    )
    return PRIVACY if wanted and settings.group_policy != "disabled" and not me.can_read_all_group_messages else ""


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
    """Set the menu for private chats and groups, if it differs. Raises ``TelegramError``."""
    commands = tuple(BotCommand(name, _description(entry)) for name, entry in menu.items())
    for scope in SCOPES:
        if await bot.get_my_commands(scope=scope) != commands:
            await bot.set_my_commands(commands, scope=scope)


def _description(entry: MenuEntry) -> str:
    text = " ".join(f"{entry.help} {entry.argument}".split()) or entry.name
    return text[: BotCommandLimit.MAX_DESCRIPTION]
