"""Long polling that confirms an update only after the house has it. Importing this module loads the client library."""

from __future__ import annotations

from typing import TYPE_CHECKING

from telegram.error import Conflict, InvalidToken, RetryAfter, TelegramError

from channels.errors import ChannelBroken
from channels.messages import Cursor
from channels.telegram.bot import told, wait_of, wrong_token
from channels.telegram.updates import ALLOWED, inbound

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from telegram import Bot, Update

    from channels.clock import Clock
    from channels.log import Log
    from channels.protocol import Door
    from channels.telegram.settings import TelegramAccount

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
CURSOR = "offset"


class Poller:
    """One bot's loop.

    The offset is sent until one request with it has succeeded, and then left out: Telegram answers with the earliest
    unconfirmed update by itself, and an offset kept for longer would throw away what comes after an idle week, when Telegram
    may begin to count at a lower number. For the same reason a start goes without one: what was taken before and not
    confirmed comes again, and the door knows it by its keys. The stored cursor tells how far reading got.
    """

    def __init__(
        self,
        bot: Bot,
        settings: TelegramAccount,
        account: str,
        *,
        door: Door,
        clock: Clock,
        random: Callable[[], float],
        log: Log,
    ) -> None:
        self._bot = bot
        self._settings = settings
        self._account = account
        self._bot_id = bot.token.partition(":")[0]
        self._door = door
        self._clock = clock
        self._random = random
        self._log = log
        self._offset: int | None = None
        self._failures = 0
        self._rival_since: float | None = None
        self._announced = False

    async def run(self) -> None:
        """Poll until cancelled.

        Raises:
            ChannelBroken: the token is wrong, or another program keeps polling.
        """
        while True:
            try:
                updates = await self._get()
            except InvalidToken as error:
                raise wrong_token(self._settings, self._account) from error
            except RetryAfter as error:
                await self._clock.sleep(wait_of(error))
            except Conflict as error:
                await self._conflict(error)
            except TelegramError as error:
                await self._pause("telegram does not answer", told(error, self._bot))
            else:
                self._heard()
                if updates:
                    await self._take(updates)

    async def _get(self) -> Sequence[Update]:
        """Ask for updates. The first request is answered at once: what waits to be sent must not wait for somebody to write."""
        seconds = self._settings.poll_timeout_seconds if self._announced else 0
        return await self._bot.get_updates(offset=self._offset, timeout=seconds, allowed_updates=ALLOWED)

    def _heard(self) -> None:
        """Note a successful poll; it also confirmed the offset that it carried."""
        self._offset = None
        self._rival_since = None
        self._failures = 0
        self._door.alive()
        if not self._announced:
            self._announced = True
            self._door.ready()

    async def _take(self, updates: Sequence[Update]) -> None:
        """Hand a batch to the house; only when it is durable may the next request confirm it."""
        found = [(update, inbound(update, self._account, self._bot_id)) for update in updates]
        for update, message in found:
            if message is None:
                self._log.info("passed an update over: only private text messages are read", update=update.update_id)
        following = updates[-1].update_id + 1
        try:
            await self._door.accept([message for _, message in found if message], Cursor(name=CURSOR, value=str(following)))
        except Exception as error:  # noqa: BLE001 - whatever the house could not store must be offered again
            await self._pause("messages could not be stored, and will be fetched again", str(error))
        else:
            self._offset = following

    async def _conflict(self, error: Conflict) -> None:
        """Put up with another poller for a while: it may be our own former self, whose request is still open."""
        if "webhook" in str(error):
            self._log.warning("a webhook was set for this bot; it is removed, for this house polls")
            await self._try_removing_webhook()
            return
        now = self._clock.monotonic()
        self._rival_since = now if self._rival_since is None else self._rival_since
        if now - self._rival_since >= self._settings.conflict_seconds:
            raise ChannelBroken(
                f"another program polls the bot of telegram account {self._account}",
                mend="stop the other program, or give each its own bot (@BotFather, /newbot)",
            ) from error
        await self._pause("another program polls this bot", told(error, self._bot))

    async def _try_removing_webhook(self) -> None:
        try:
            await self._bot.delete_webhook()
        except TelegramError as error:
            await self._pause("the webhook could not be removed", told(error, self._bot))

    async def _pause(self, event: str, error: str) -> None:
        """Wait longer each time, and not all houses at once."""
        longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2**self._failures)
        self._failures = min(self._failures + 1, 10)
        pause = longest * (0.5 + self._random() / 2)
        self._log.warning(event, error=error, pause=round(pause, 1), account=self._account)
        await self._clock.sleep(pause)
