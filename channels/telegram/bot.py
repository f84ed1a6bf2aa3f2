"""Makes the client library's bot, and maps the library's errors to channel errors. Importing this module loads the library."""

from __future__ import annotations

import logging
import os
import re
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import httpx
from telegram import Bot, Update
from telegram.error import BadRequest, ChatMigrated, Forbidden, InvalidToken, RetryAfter, TelegramError

from channels.errors import ChannelBroken, ChannelError, NotSent, Uncertain
from channels.telegram.proxy import proxy_of
from channels.telegram.settings import OFFICIAL, TelegramAccount
from channels.telegram.transport import InBetween, NotWritten, PatientTransport, Seconds, Transport

if TYPE_CHECKING:
    import ssl

log = logging.getLogger(__name__)

LEFT_OUT = "homebody_left_out"
"""The field that names what was left out of a message."""
_CORE = frozenset({"message_id", "date", "chat", "from", "message_thread_id", "is_topic_message"})
"""The fields of a message that say who wrote it, where and when."""
_WHOSE = frozenset({"forward_origin", "sender_chat", "via_bot", "sender_business_bot", "is_automatic_forward"})
"""Those that say whose words it has: without one of them, words of others would pass for the sender's own."""
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


class PollTransport(Transport):
    """Requests for updates. One update that the library cannot read would make it drop, and log, the whole answer."""

    __slots__ = ()

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        """Return the answer, with what the library cannot read left out."""
        answer = Transport.parse_json_payload(payload)
        if isinstance(answer.get("result"), list):
            answer["result"] = [readable_part(one) for one in answer["result"]]
        return answer


def readable_part(update: dict[str, Any]) -> dict[str, Any]:
    """Return an update without the fields of its message that the library cannot read; its number alone where that is not enough.

    Servers older or newer than the library send fields in another form; the text is there nevertheless.
    """
    if _is_readable(update):
        return update
    number = {"update_id": update["update_id"]}
    kind = next((one for one in ("message", "edited_message") if isinstance(update.get(one), dict)), None)
    if kind is None:
        return number
    message: dict[str, Any] = update[kind]
    core = {key: value for key, value in message.items() if key in _CORE}
    read = {key: value for key, value in message.items() if _is_readable({**number, kind: {**core, key: value}})}
    part, left = {**number, kind: {**core, **read}}, message.keys() - core.keys() - read.keys()
    if left & _WHOSE or not _is_readable(part):
        return number
    log.warning("left out of a message what the library cannot read: %s", ", ".join(sorted(left)))
    return {**part, kind: {**part[kind], LEFT_OUT: sorted(left)}}


def _is_readable(update: dict[str, Any]) -> bool:
    try:
        Update.de_json(update, None)
    except (TypeError, KeyError, ValueError, AttributeError, OverflowError):
        return False
    return True


@dataclass(frozen=True, slots=True)
class Connection:
    """A bot and what carries its requests; ``files`` carries downloads."""

    bot: Bot
    requests: tuple[Transport, ...]
    files: Transport

    async def close(self) -> None:
        """Close the connections."""
        for transport in (*self.requests, self.files):
            await transport.shutdown()


CONNECTIONS = 16
"""Requests at once, beside the one that waits for news and downloads. Further ones wait their turn."""


@cache
def _certificates() -> ssl.SSLContext:
    """Return the certificates that all bots and their files are checked with: reading them is what takes long here."""
    context = httpx.create_ssl_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def make_bot(settings: TelegramAccount) -> Connection:
    """Return a bot that is not connected yet. The caller closes it.

    Slow (certificates are read): call it in a thread.

    Raises:
        ChannelBroken: there is no token, or the environment names a proxy of a kind that is not supported.
    """
    os.environ.setdefault("PTB_TIMEDELTA", "true")  # the library's way to ask for the form of wait times that stays
    logging.getLogger("httpx").setLevel(logging.WARNING)  # its lines carry addresses, and those carry the token
    token = settings.token()
    seconds = settings.timeout_seconds
    line = _certificates(), proxy_of(settings.api_root, settings.proxy_address)
    usual = Seconds(connect=min(seconds, 15), read=seconds, write=seconds)
    requests = (
        PollTransport(*line, replace(usual, read=settings.poll_timeout_seconds + min(seconds, 15))),
        PatientTransport(*line, usual, at_once=CONNECTIONS),
    )
    bot = Bot(
        token,
        base_url=f"{settings.api_root}/bot",
        base_file_url=f"{settings.api_root}/file/bot",
        get_updates_request=requests[0],
        request=requests[1],
    )
    return Connection(bot, requests, Transport(*line, usual))


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
    text = f"Telegram: {describe_error(error, bot)}"
    if isinstance(error, RetryAfter):
        return NotSent(text, retry_after=wait_of(error))
    if isinstance(error, Forbidden | BadRequest):
        return NotSent(text, permanent=True, hint=_hint(text))
    if "too large" in text.lower():
        return NotSent(text, permanent=True, hint="the public Bot API server accepts 50 MB from bots, your own server 2 GB")
    if isinstance(error, InvalidToken):
        return NotSent(f"Telegram: the token is not accepted ({type(error).__name__})")
    if isinstance(error, ChatMigrated | NotWritten | InBetween) or "(429)" in text:
        return NotSent(text)
    return Uncertain(text)


def _hint(text: str) -> str:
    """Return what a person can do about a refusal, where there is something."""
    lowered = text.lower()
    return next((hint for sign, hint in _HINTS.items() if sign in lowered), "")


_UNREADABLE = re.compile(r"\. Parsing the server response .*", re.DOTALL)
LONGEST = 300


def describe_error(error: BaseException, bot: Bot) -> str:
    """Return why a call failed, without the token, which some messages carry."""
    words = _UNREADABLE.sub("", str(error)).replace(bot.token, "(token)") or type(error).__name__
    return words if len(words) <= LONGEST else words[: LONGEST - 1] + "…"
