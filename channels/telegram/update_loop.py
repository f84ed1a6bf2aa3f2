"""Runs one bot: signs in, sets its command menu, and receives updates.

Long polling confirms an update only after it is stored. Importing this module loads the client library.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from telegram import BotCommand, BotCommandScopeAllGroupChats, BotCommandScopeAllPrivateChats
from telegram.constants import BotCommandLimit
from telegram.error import Conflict, InvalidToken, RetryAfter, TelegramError

from channels.common.log import Log
from channels.errors import ChannelBroken
from channels.protocol import HookAnswer, HookRequest, MenuEntry
from channels.telegram.bot import describe_error, wait_of, wrong_token
from channels.telegram.bot_mentions import Me
from channels.telegram.receiving import Receiver, ReceiverDeps
from channels.telegram.recent_messages import SeenMessages
from channels.telegram.settings import TelegramAccount, TelegramCommand
from channels.telegram.updates import ALLOWED, Reader
from channels.telegram.webhook import Hook

if TYPE_CHECKING:
    from telegram import Bot, Update, User

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
        reader.own_commands = own_commands(settings, entries, self._deps.log, account)
        entries |= {name: MenuEntry(name=name, help=one.description) for name, one in reader.own_commands.items()}
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
                await self._deps.backoff.wait("telegram does not answer", describe_error(error, self._deps.bot))

    async def _offer(self, entries: dict[str, MenuEntry]) -> None:
        """Set the menu. Best effort: commands work without it."""
        try:
            await offer(self._deps.bot, entries)
        except (TelegramError, TypeError, KeyError, ValueError) as error:
            self._deps.log.info(
                "the menu of commands was not set", error=describe_error(error, self._deps.bot), account=self._deps.account
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


def own_commands(
    settings: TelegramAccount, menu: Mapping[str, MenuEntry], log: Log, account: str
) -> dict[str, TelegramCommand]:
    """Return the owner's own commands by name, without those that Telegram has no room for, or whose names are taken."""
    found: dict[str, TelegramCommand] = {}
    for one in settings.custom_commands:
        taken = one.command in menu or one.command in found
        if taken or len(menu) + len(found) >= BotCommandLimit.MAX_COMMAND_NUMBER:
            why = "its name is taken" if taken else f"Telegram takes {BotCommandLimit.MAX_COMMAND_NUMBER} commands"
            log.warning("a command of the settings was left out", command=one.command, why=why, account=account)
        else:
            found[one.command] = one
    return found


async def offer(bot: Bot, menu: dict[str, MenuEntry]) -> None:
    """Set the menu for private chats and groups, if it differs. Raises ``TelegramError``."""
    commands = tuple(BotCommand(name, _description(entry)) for name, entry in menu.items())
    for scope in SCOPES:
        if await bot.get_my_commands(scope=scope) != commands:
            await bot.set_my_commands(commands, scope=scope)


def _description(entry: MenuEntry) -> str:
    text = " ".join(f"{entry.help} {entry.argument}".split()) or entry.name
    return text[: BotCommandLimit.MAX_DESCRIPTION]


EMPTY_PAUSE = 1.0
"""Seconds of pause after an empty answer that came sooner than was asked for, as from a proxy that holds no request open."""
EARLY = 0.5
"""Seconds by which an empty answer may be early."""
WARY_SECONDS = 15.0
"""How long a channel that lost its bot to another program must poll undisturbed before it counts as connected again: each of our
requests ends one of the other program's, which it soon repeats."""


class Poller:
    """One bot's loop.

    The offset is sent until one request with it has succeeded, and then left out: Telegram answers with the earliest
    unconfirmed update by itself, and an offset kept for longer would throw away what comes after an idle week, when Telegram
    may begin to count at a lower number. For the same reason a start goes without one: what was taken before and not
    confirmed comes again, and the gateway recognises it by its keys. The stored cursor tells how far reading got.
    """

    def __init__(self, deps: ReceiverDeps, receiver: Receiver) -> None:
        self._deps = deps
        self._receiver = receiver
        self._offset: int | None = None
        self._rival_since: float | None = None
        self._announced = False
        self._wary = deps.wary
        self._began = deps.clock.monotonic()
        self._failed = False

    async def run(self) -> None:
        """Poll until cancelled.

        Raises:
            ChannelBroken: the token is wrong, or another program keeps polling.
        """
        while True:
            asked, waits = self._deps.clock.monotonic(), self._announced or self._wary
            seconds = (
                self._deps.settings.poll_timeout_seconds if waits else 0
            )  # at first none: what waits to be sent goes at once
            try:
                updates = await self._deps.bot.get_updates(offset=self._offset, timeout=seconds, allowed_updates=ALLOWED)
            except InvalidToken as error:
                raise wrong_token(self._deps.settings, self._deps.account) from error
            except RetryAfter as error:
                await self._deps.clock.sleep(wait_of(error))
            except Conflict as error:
                await self._conflict(error)
            except TelegramError as error:
                self._failed = True
                await self._deps.backoff.wait("telegram does not answer", describe_error(error, self._deps.bot))
            else:
                self._heard()
                if updates:
                    await self._take(updates)
                elif self._deps.clock.monotonic() - asked < seconds - EARLY:
                    await self._deps.clock.sleep(EMPTY_PAUSE)

    def _heard(self) -> None:
        """Note a successful poll; it also confirmed the offset that it carried."""
        self._offset = None
        if self._rival_since is not None:
            self._rival_since = None
            self._deps.trouble("")
        if self._deps.backoff.failures:
            self._deps.backoff.over()
        if self._wary and self._deps.clock.monotonic() - self._began < WARY_SECONDS:
            return
        self._wary = False
        self._deps.sink.alive()
        if not self._announced or self._failed:  # what waits to be sent need not wait any longer
            self._announced, self._failed = True, False
            self._deps.sink.ready()

    async def _take(self, updates: Sequence[Update]) -> None:
        """Hand a batch to the gateway; only when it is durable may the next request confirm it."""
        try:
            self._offset = await self._receiver.take(updates)
        except Exception as error:  # noqa: BLE001 - what could not be stored must be delivered again
            await self._deps.backoff.wait("messages could not be stored, and will be fetched again", str(error))

    async def _conflict(self, error: Conflict) -> None:
        """Put up with another poller for a while: it may be our own former self, whose request is still open."""
        if "webhook" in str(error):
            self._deps.log.warning("a webhook was set for this bot; it is removed, because this gateway polls")
            await self._try_removing_webhook()
            return
        now = self._deps.clock.monotonic()
        self._rival_since = now if self._rival_since is None else self._rival_since
        patience = self._deps.settings.conflict_seconds
        self._deps.trouble(
            f"Another program polls this bot, which takes messages away; after {patience:.0f} seconds this channel stops."
        )
        if self._wary or now - self._rival_since >= patience:
            raise ChannelBroken(
                f"another program polls the bot of telegram account {self._deps.account}",
                hint="stop the other program, or give each its own bot (@BotFather, /newbot)",
            ) from error
        await self._deps.backoff.wait("another program polls this bot", describe_error(error, self._deps.bot))

    async def _try_removing_webhook(self) -> None:
        try:
            await self._deps.bot.delete_webhook()
        except TelegramError as error:
            await self._deps.backoff.wait("the webhook could not be removed", describe_error(error, self._deps.bot))
