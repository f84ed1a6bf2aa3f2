"""How the Telegram peer calls a bot: one update after the other, again and again until it is taken."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from typing import TYPE_CHECKING, Any

import aiohttp

from tests.peers.telegram_methods import bad

if TYPE_CHECKING:
    from tests.peers.telegram import TelegramPeer

AGAIN = 0.05
PORTS = {None, "443", "80", "88", "8443"}


class Webhook:
    """The webhook of the peer's bot. A peer that is ``local`` calls http addresses, as a Bot API server of one's own does."""

    def __init__(self, peer: TelegramPeer) -> None:
        self._peer = peer
        self._task: asyncio.Task[None] | None = None
        self.url = ""
        self.secret = ""
        self.error = ""
        self.error_at = 0

    def set(self, arguments: dict[str, Any]) -> bool:
        url = str(arguments.get("url") or "")
        secret = str(arguments.get("secret_token") or "")
        found = re.match(r"(https?)://([^/:]+)(?::(\d+))?", url)
        if url and (found is None or (found[1] == "http" and not self._peer.local)):
            raise bad("bad webhook: An HTTPS URL must be provided for webhook")
        if found is not None and found[3] not in PORTS and not self._peer.local:
            raise bad("bad webhook: Webhook can be set up only on ports 80, 88, 443 or 8443")
        if not re.fullmatch(r"[A-Za-z0-9_-]{0,256}", secret):
            raise bad("secret token contains unallowed characters")
        self.url, self.secret = url, secret
        if arguments.get("allowed_updates"):
            self._peer.allow(arguments["allowed_updates"])
        if self._task is None and url:
            self._task = asyncio.ensure_future(self._deliver())
        return True

    def delete(self) -> bool:
        self.url = ""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        return True

    def info(self) -> dict[str, Any]:
        about: dict[str, Any] = {
            "url": self.url,
            "has_custom_certificate": False,
            "pending_update_count": self._peer.unconfirmed,
        }
        return about | ({"last_error_date": self.error_at, "last_error_message": self.error} if self.error else {})

    async def close(self) -> None:
        task = self._task
        self.delete()
        if task is not None:
            await asyncio.gather(task, return_exceptions=True)

    async def _deliver(self) -> None:
        async with aiohttp.ClientSession() as session:
            while True:
                await self._peer.until(lambda: self._peer.unconfirmed > 0, seconds=600)
                update = self._peer.first()
                with contextlib.suppress(aiohttp.ClientError):
                    await self._call(session, update)
                if self._peer.first() is update:
                    await asyncio.sleep(AGAIN)

    async def _call(self, session: aiohttp.ClientSession, update: dict[str, Any]) -> None:
        headers = {"X-Telegram-Bot-Api-Secret-Token": self.secret} if self.secret else {}
        headers["content-type"] = "application/json"
        async with session.post(self.url, data=json.dumps(update), headers=headers) as answer:
            if answer.ok:
                await self._peer.taken(update)
            else:
                self.error, self.error_at = f"Wrong response from the webhook: {answer.status}", int(time.time())
