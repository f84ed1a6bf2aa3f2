"""Describes failed Bot API requests in plain words, without the token. Importing this module loads the client library."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import httpx

if TYPE_CHECKING:
    from telegram import Bot

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
    """Say what is wrong with the line to a server; nothing for what the server itself said."""
    if isinstance(cause, httpx.ConnectError) and any(sign in str(cause) for sign in _NAME_SERVICE):
        return f"{host} cannot be found: this machine is offline, or its name service does not answer"
    words = next((words for kind, words in _WORDS if isinstance(cause, kind)), "")
    return words.format(host=host, why=str(cause) or "refused")
