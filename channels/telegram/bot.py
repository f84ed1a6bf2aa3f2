"""Makes the client library's bot and its HTTP transport, and maps its errors to channel errors. Importing this module loads the library.

httpcore 1.0.9 loses a connection for good when the task of a request is cancelled at the wrong moment: while it hands the connection
back, or when it was just given a new one (https://github.com/encode/httpcore/issues/1093). A typing request is cancelled whenever an
answer is ready, so that a busy bot runs out of connections. Here a request is never cancelled once it has begun: the caller may stop
waiting, and the request ends by itself. No more requests are started than there are connections, so a request that has to wait for a
connection shows that the pool has lost some; then a new client is made at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

import httpx
from telegram import Bot, Update
from telegram.error import BadRequest, ChatMigrated, Forbidden, InvalidToken, NetworkError, RetryAfter, TelegramError, TimedOut
from telegram.request import HTTPXRequest

from channels.errors import ChannelBroken, ChannelError, NotSent, Uncertain
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

    There is one for each file, because a download may be cancelled, and its connection lost (``channels.telegram.bot``).
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

    ``renewed`` is called with a count whenever its connections had to be replaced.
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


POOL_SECONDS: Final = 5.0
"""How long a request may wait for a connection though one must be free. It is no more than a few steps of the event loop."""
UNWRITTEN: Final = "the request was not written"
"""Begins the message of an error before which the request certainly did not leave as a whole, so that it has no effect."""
_LEFT: Final = "homebody.left"


class BotRequests(HTTPXRequest):
    """As many requests at once as there are connections, none of which is ever cancelled.

    ``renewed`` is called, with how often that was done, when a new client had to be made.
    """

    __slots__ = ("_begun", "_former", "_free", "_renewals", "_renewed", "_waiting")

    def __init__(self, connections: int, renewed: Callable[[int], None], **options: Any) -> None:
        super().__init__(connection_pool_size=connections, pool_timeout=POOL_SECONDS, **options)
        self._client_kwargs["event_hooks"] = {"request": [traced]}
        self._client = self._build_client()
        self._free = connections
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._begun: set[asyncio.Task[tuple[int, bytes] | Exception]] = set()
        self._former: list[httpx.AsyncClient] = []
        self._renewals = 0
        self._renewed = renewed

    async def do_request(self, url: str, method: str, *args: Any, **options: Any) -> tuple[int, bytes]:
        """Make a request. Being cancelled leaves one that was begun to itself, and takes back one that was not."""
        await self._turn()
        task = asyncio.ensure_future(self._outcome(url, method, *args, **options))
        self._begun.add(task)
        task.add_done_callback(self._ended)
        outcome = await asyncio.shield(task)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def shutdown(self) -> None:
        """Close the connections; a request that is still under way is broken off."""
        for task in self._begun:
            task.cancel()
        await asyncio.gather(*self._begun, return_exceptions=True)
        await super().shutdown()
        for client in self._former:
            await client.aclose()
        self._former.clear()

    async def _turn(self) -> None:
        """Wait until there is a connection for one more request, in the order of asking."""
        if self._free > 0:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_back()
            raise

    def _give_back(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def _ended(self, task: asyncio.Task[tuple[int, bytes] | Exception]) -> None:
        self._begun.discard(task)
        self._give_back()

    async def _outcome(self, url: str, method: str, *args: Any, **options: Any) -> tuple[int, bytes] | Exception:
        """Return the answer or the error, so that an error nobody awaits is not reported as lost."""
        client = self._client
        try:
            try:
                return await super().do_request(url, method, *args, **options)
            except TimedOut as error:
                if not isinstance(error.__cause__, httpx.PoolTimeout):
                    raise
                await self._renew(client)
                return await super().do_request(url, method, *args, **options)
        except NetworkError as error:
            if not isinstance(error.__cause__, httpx.RequestError) or may_have_left(error.__cause__):
                return error
            told = NetworkError(f"{UNWRITTEN}: {error}")
            told.__cause__ = error.__cause__
            return told
        except Exception as error:  # noqa: BLE001 - it is raised where somebody waits
            return error

    async def _renew(self, client: httpx.AsyncClient) -> None:
        """Make a new client, unless that was done meanwhile. The former one is closed when what it has under way may be over."""
        if self._client is not client:
            return
        self._former.append(client)
        self._client = self._build_client()
        self._renewals += 1
        self._renewed(self._renewals)
        if len(self._former) > 1:
            await self._former.pop(0).aclose()


async def traced(request: httpx.Request) -> None:
    """Have the transport note whether a request may have left as a whole."""
    left = request.extensions[_LEFT] = [False]

    async def trace(event: str, info: dict[str, Any]) -> None:
        if event.endswith("send_request_body.started"):
            left[0] = True
        elif event.endswith("send_request_body.failed") and type(info.get("exception")).__name__ == "WriteError":
            left[0] = False  # what could not be written is missing, and a server does nothing about a part

    request.extensions["trace"] = trace


def may_have_left(error: httpx.RequestError) -> bool:
    """Whether a request that failed may have left as a whole."""
    try:
        left = error.request.extensions.get(_LEFT)
    except RuntimeError:  # the library did not say which request it was
        return True
    return left is None or left == [True]


_NAME_SERVICE = ("Name or service not known", "name resolution", "nodename nor servname", "No address associated")
_UNREADABLE = re.compile(r"\. Parsing the server response .*", re.DOTALL)
LONGEST = 300
_WORDS: tuple[tuple[type[httpx.TransportError], str], ...] = (
    (httpx.ConnectTimeout, "no connection to {host} in time: this machine is offline, or something blocks the way"),
    (httpx.ReadTimeout, "{host} did not answer in time"),
    (httpx.WriteTimeout, "{host} did not take the request in time"),
    (httpx.ProxyError, "the proxy does not let us through to {host} ({why})"),
    (httpx.ConnectError, "no connection to {host} ({why})"),
    (httpx.NetworkError, "the line to {host} was cut before an answer came"),
    (httpx.RemoteProtocolError, "the line to {host} was cut before an answer came"),
)


def told(error: BaseException, bot: Bot) -> str:
    """Return why a call failed, without the token, which addresses and some messages carry."""
    host = httpx.URL(bot.base_url).host
    words = _of_the_line(error, host) or _of_the_line(error.__cause__, host) or _UNREADABLE.sub("", str(error))
    words = words.replace(bot.token, "(token)") or type(error).__name__
    return words if len(words) <= LONGEST else words[: LONGEST - 1] + "…"


def _of_the_line(cause: BaseException | None, host: str) -> str:
    """Return what is wrong with the connection to a server; an empty string for an answer of the server itself."""
    if isinstance(cause, httpx.ConnectError) and any(sign in str(cause) for sign in _NAME_SERVICE):
        return f"{host} cannot be found: this machine is offline, or its name service does not answer"
    words = next((words for kind, words in _WORDS if isinstance(cause, kind)), "")
    return words.format(host=host, why=str(cause) or "refused")
