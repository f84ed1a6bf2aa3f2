"""Makes the client library's bot, and maps its errors to channel errors. Importing this module loads the library."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import httpx
from telegram import Bot, Update
from telegram.error import BadRequest, ChatMigrated, Forbidden, InvalidToken, RetryAfter, TelegramError
from telegram.request import HTTPXRequest

from channels.errors import ChannelBroken, ChannelError, NotSent, Uncertain
from channels.telegram.api_errors import told
from channels.telegram.http_transport import UNWRITTEN, BotRequests
from channels.telegram.settings import OFFICIAL, TelegramAccount

if TYPE_CHECKING:
    import ssl

_NOT_CONNECTED = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol, httpx.ProxyError)
_HINTS = {
    "blocked by the user": "the person must open the chat with the bot and press Restart",
    "bot was kicked": "add the bot to the group again",
    "not a member": "add the bot to the group again",
    "not enough rights": "let the bot send messages: group settings, Permissions or Administrators",
    "chat not found": "the person must write to the bot first; a group must have the bot as a member",
    "can't initiate conversation": "the person must write to the bot first",
    "topic_closed": "reopen the topic, or make the bot an administrator that may manage topics",
    "thread not found": "the topic was deleted",
}


class PollRequest(HTTPXRequest):
    """Requests for updates. One update that the library cannot read would make it drop, and log, the whole answer."""

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        """Return the answer, with unreadable updates reduced to their number."""
        answer = HTTPXRequest.parse_json_payload(payload)
        if isinstance(answer.get("result"), list):
            answer["result"] = [one if readable(one) else {"update_id": one["update_id"]} for one in answer["result"]]
        return answer


def readable(update: dict[str, Any]) -> bool:
    """Return whether the library can read an update."""
    try:
        Update.de_json(update, None)
    except (TypeError, KeyError, ValueError, AttributeError, OverflowError):
        return False
    return True


@dataclass(frozen=True, slots=True)
class Connection:
    """A bot and what it speaks through. ``files`` makes a client for what is too large to be held in memory.

    There is one for each file, because a download may be cancelled, and its connection lost (``channels.telegram.http_transport``).
    """

    bot: Bot
    requests: tuple[HTTPXRequest, ...]
    files: Callable[[], httpx.AsyncClient]

    async def close(self) -> None:
        """Close the connections."""
        for request in self.requests:
            await request.shutdown()


CONNECTIONS = 16
"""Requests at once, beside the one that waits for news. Further ones wait their turn: the client's pool looks at each connection
for each other one whenever a request comes or goes, which with many of them costs more than all else."""


@cache
def _certificates() -> ssl.SSLContext:
    """Return the certificates that all bots and their files are checked with: reading them is what takes long here."""
    return httpx.create_ssl_context()


def make_bot(settings: TelegramAccount, renewed: Callable[[int], None] = lambda _: None) -> Connection:
    """Return a bot that is not connected yet. The caller closes it.

    ``renewed`` is told whenever its connections had to be made anew, and how often that was.
    Slow (certificates are read): call it in a thread.

    Raises:
        ChannelBroken: there is no token.
    """
    os.environ.setdefault("PTB_TIMEDELTA", "true")  # the library's way to ask for the form of wait times that stays
    logging.getLogger("httpx").setLevel(logging.WARNING)  # its lines carry addresses, and those carry the token
    seconds = settings.timeout_seconds
    poll = settings.poll_timeout_seconds + min(seconds, 15)
    options: dict[str, Any] = {
        "connect_timeout": min(seconds, 15),
        "write_timeout": seconds,
        "httpx_kwargs": {"verify": _certificates()},
    }
    requests = (
        PollRequest(connection_pool_size=4, pool_timeout=seconds, read_timeout=poll, **options),
        BotRequests(CONNECTIONS, renewed, read_timeout=seconds, **options),
    )
    bot = Bot(
        settings.token(),
        base_url=f"{settings.api_root}/bot",
        base_file_url=f"{settings.api_root}/file/bot",
        get_updates_request=requests[0],
        request=requests[1],
    )
    patience = httpx.Timeout(seconds, connect=min(seconds, 15))
    return Connection(bot, requests, partial(httpx.AsyncClient, timeout=patience, verify=_certificates()))


def key_of(account: str) -> str:
    """Return where the settings of an account stand."""
    return "channels.telegram" + ("" if account == "default" else f".accounts.{account}")


def wrong_token(settings: TelegramAccount, account: str) -> ChannelBroken:
    """Return the error for a token that the server does not know."""
    key = key_of(account)
    where = "" if settings.api_root == OFFICIAL else f" at {settings.api_root}"
    return ChannelBroken(
        f"the token in {key}.botToken is not accepted{where}",
        hint=f"get the token from @BotFather, then: homebody config set {key}.botToken TOKEN",
    )


def wait_of(error: RetryAfter) -> float:
    """Return the seconds that Telegram asks to wait."""
    wait = error.retry_after
    return float(wait if isinstance(wait, int) else wait.total_seconds())


def send_error(error: TelegramError, bot: Bot) -> ChannelError:
    """Return NotSent for a failed send that had no effect, else Uncertain."""
    text = f"Telegram: {told(error, bot)}"
    if isinstance(error, RetryAfter):
        return NotSent(text, retry_after=wait_of(error))
    if isinstance(error, Forbidden | BadRequest):
        return NotSent(text, permanent=True, hint=_hint(text))
    if "too large" in text.lower():
        return NotSent(text, permanent=True, hint="the public Bot API server accepts 50 MB from bots, your own server 2 GB")
    if isinstance(error, InvalidToken):
        return NotSent(f"Telegram: the token is not accepted ({type(error).__name__})")
    unsent = isinstance(error.__cause__, _NOT_CONNECTED) or str(error).startswith(UNWRITTEN)
    if isinstance(error, ChatMigrated) or unsent or "(429)" in text:
        return NotSent(text)
    return Uncertain(text)


def _hint(text: str) -> str:
    """Return what a person can do about a refusal, where there is something."""
    lowered = text.lower()
    return next((hint for sign, hint in _HINTS.items() if sign in lowered), "")
