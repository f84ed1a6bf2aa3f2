"""Long polling that confirms an update only after it is stored. Importing this module loads the client library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from telegram.error import Conflict, InvalidToken, RetryAfter, TelegramError

from channels.errors import ChannelBroken
from channels.telegram.api_errors import told
from channels.telegram.bot import wait_of, wrong_token
from channels.telegram.receiving import Receiver, ReceiverDeps
from channels.telegram.updates import ALLOWED

if TYPE_CHECKING:
    from telegram import Update


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
    confirmed comes again, and the door knows it by its keys. The stored cursor tells how far reading got.
    """

    def __init__(self, deps: ReceiverDeps, receiver: Receiver) -> None:
        self._deps = deps
        self._receiver = receiver
        self._offset: int | None = None
        self._seconds = 0
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
            asked = self._deps.clock.monotonic()
            try:
                updates = await self._get()
            except InvalidToken as error:
                raise wrong_token(self._deps.settings, self._deps.account) from error
            except RetryAfter as error:
                await self._deps.clock.sleep(wait_of(error))
            except Conflict as error:
                await self._conflict(error)
            except TelegramError as error:
                self._failed = True
                await self._deps.backoff.wait("telegram does not answer", told(error, self._deps.bot))
            else:
                self._heard()
                if updates:
                    await self._take(updates)
                elif self._deps.clock.monotonic() - asked < self._seconds - EARLY:
                    await self._deps.clock.sleep(EMPTY_PAUSE)

    async def _get(self) -> Sequence[Update]:
        """Ask for updates. The first request is answered at once: what waits to be sent must not wait for somebody to write."""
        waits = self._announced or self._wary
        self._seconds = self._deps.settings.poll_timeout_seconds if waits else 0
        return await self._deps.bot.get_updates(offset=self._offset, timeout=self._seconds, allowed_updates=ALLOWED)

    def _heard(self) -> None:
        """Note a successful poll; it also confirmed the offset that it carried."""
        self._offset = None
        self._rival_since = None
        self._deps.backoff.over()
        if self._wary and self._deps.clock.monotonic() - self._began < WARY_SECONDS:
            return
        self._wary = False
        self._deps.trouble("")
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
        await self._deps.backoff.wait("another program polls this bot", told(error, self._deps.bot))

    async def _try_removing_webhook(self) -> None:
        try:
            await self._deps.bot.delete_webhook()
        except TelegramError as error:
            await self._deps.backoff.wait("the webhook could not be removed", told(error, self._deps.bot))
