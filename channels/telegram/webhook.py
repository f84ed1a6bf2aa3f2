"""Receives updates by webhook, in place of polling. Importing this module loads the client library."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from telegram import Update
from telegram.error import InvalidToken, RetryAfter, TelegramError

from channels.errors import ChannelBroken
from channels.protocol import HookAnswer, HookRequest
from channels.telegram.bot import describe_error, key_of, readable_part, wait_of, wrong_token
from channels.telegram.receiving import Receiver, ReceiverDeps
from channels.telegram.settings import LOOK_SECONDS
from channels.telegram.updates import ALLOWED

if TYPE_CHECKING:
    from telegram import WebhookInfo

AT_A_TIME = 1
"""Calls that Telegram may make at once. One, so that messages come in their order."""


def address_of(url: str, account: str) -> str:
    """Return the full URL of the webhook."""
    return url if urlsplit(url).path.strip("/") else f"{url}/hooks/telegram/{account}"


class Hook:
    """One bot's webhook: sets it where it differs and checks it regularly; ``hear`` handles calls."""

    def __init__(self, deps: ReceiverDeps, receiver: Receiver) -> None:
        self._deps = deps
        self._receiver = receiver
        self._address = address_of(deps.settings.webhook_url or "", deps.account)
        self._in_order = asyncio.Lock()
        self._announced = False
        self._told_of: object = None

    async def run(self) -> None:
        """Keep the webhook set until cancelled.

        Raises:
            ChannelBroken: the token is wrong, Telegram does not take the address, or there is no secret.
        """
        if self._deps.settings.webhook_secret is None:
            raise ChannelBroken(
                f"{key_of(self._deps.account)}.webhookSecret is not set, and without it anybody could send messages to the bot",
                hint=f"homebody config set {key_of(self._deps.account)}.webhookSecret $(openssl rand -hex 24)",
            )
        while True:
            try:
                await self._look(self._deps.settings.webhook_secret.get_secret_value())
            except InvalidToken as error:
                raise wrong_token(self._deps.settings, self._deps.account) from error
            except RetryAfter as error:
                await self._deps.clock.sleep(wait_of(error))
            except TelegramError as error:
                if "bad webhook" in str(error).lower():
                    key, why = key_of(self._deps.account), describe_error(error, self._deps.bot)
                    raise ChannelBroken(
                        f"Telegram rejects {self._address} as {key}.webhookUrl: {why}",
                        hint="give the public https address (port 443, 80, 88 or 8443), or unset webhookUrl to poll",
                    ) from error
                await self._deps.backoff.wait("telegram does not answer", describe_error(error, self._deps.bot))
            else:
                await self._deps.clock.sleep(LOOK_SECONDS)

    async def hear(self, request: HookRequest) -> HookAnswer:
        """Handle one call. If it cannot be stored, the answer is 503, and Telegram calls again."""
        if request.method != "POST":
            return HookAnswer(status=405, headers={"allow": "POST"})
        try:
            raw = json.loads(request.body)
            raw["update_id"] = int(raw["update_id"])
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            return HookAnswer(status=400, body=b"not an update")
        update = Update.de_json(readable_part(raw), self._deps.bot)
        async with self._in_order:
            self._deps.sink.alive()
            try:
                await self._receiver.take([update])
            except Exception as error:  # noqa: BLE001 - what could not be stored must be delivered again
                self._deps.log.warning(
                    "a message could not be stored, and will be delivered again", error=str(error), account=self._deps.account
                )
                return HookAnswer(status=503, headers={"retry-after": "5"})
        return HookAnswer(status=200)

    async def _look(self, secret: str) -> None:
        info = await self._deps.bot.get_webhook_info()
        if not self._announced or info.url != self._address:
            if self._announced:
                self._deps.log.warning(
                    "another program changed the webhook; it is set again", address=info.url, account=self._deps.account
                )
            await self._deps.bot.set_webhook(
                self._address, secret_token=secret, allowed_updates=ALLOWED, max_connections=AT_A_TIME
            )
        self._deps.backoff.over()
        self._deps.sink.alive()
        self._tell_trouble(info)
        if not self._announced:
            self._announced = True
            self._deps.sink.ready()

    def _tell_trouble(self, info: WebhookInfo) -> None:
        """Log once why Telegram cannot reach the webhook."""
        if info.last_error_date is None or info.last_error_date == self._told_of:
            return
        self._told_of = info.last_error_date
        self._deps.log.warning(
            "telegram could not deliver to the webhook",
            error=info.last_error_message,
            waiting=info.pending_update_count,
            account=self._deps.account,
        )
