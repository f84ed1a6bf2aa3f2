"""Maps Discord's errors (https://discord.com/developers/docs/topics/opcodes-and-status-codes) to channel errors with hints.

Importing this module loads the library.
"""

from __future__ import annotations

import asyncio

import aiohttp
import discord

from channels.discord.settings import OFFICIAL, DiscordAccount
from channels.errors import ChannelBroken, ChannelError, NotSent, Uncertain
from channels.waits import seconds_to_wait

PORTAL = "https://discord.com/developers/applications"
NO_TOKEN = 4004
NO_INTENT = 4014
FOR_GOOD = {NO_TOKEN, 4010, 4011, 4012, 4013, NO_INTENT}
"""Codes of the gateway after which connecting anew cannot help."""
_NOT_CONNECTED = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL)
_TOO_MANY = 429
_TOO_LARGE = 413
_UNAUTHORISED = 401
_SERVER = 500
_ROLE = "in Discord: the server's name, Server Settings, Roles, the bot's role, Permissions"
_PRIVATE = "the person must share a server with the bot and let its members write (the server's name, Privacy Settings, Direct Messages)"
_MEANINGS = {
    10003: ("the channel or thread is no longer there", ""),
    10004: ("the bot is no longer on this server", f"add it again ({PORTAL}, your application, OAuth2, URL Generator: bot)"),
    20026: ("Discord has flagged this bot as spam and lets it write to nobody new", f"appeal at {PORTAL}, your application"),
    40005: (
        "the file is larger than Discord takes (10 MB from a bot, more on a boosted server)",
        "send a smaller one, or a link",
    ),
    50001: (
        "the bot does not see this channel, or is no longer on the server",
        f"switch on View Channels ({_ROLE}), or invite it anew",
    ),
    50007: ("this person takes no private messages from the bot", _PRIVATE),
    50013: (
        "the bot may not do this here",
        f"switch on Send Messages, Send Messages in Threads, Attach Files, Add Reactions and Read Message History ({_ROLE})",
    ),
    50083: ("the thread is archived", "open it again in Discord"),
    50278: ("the bot and this person share no server", _PRIVATE),
    160005: ("the thread is locked", "unlock it in Discord (the thread's menu)"),
    200000: (
        "this server's AutoMod blocked the message",
        "in Discord: Server Settings, Safety Setup, AutoMod: except the bot's role",
    ),
}

TROUBLE = (discord.DiscordException, aiohttp.ClientError, OSError, asyncio.TimeoutError)
"""What passing trouble looks like; the library lets those of its transport through."""


class InBetween(discord.DiscordException):
    """Something between here and Discord refused a request: Discord itself has said nothing."""


def is_json(error: discord.HTTPException) -> bool:
    """Return whether an error holds an answer in Discord's form."""
    return str(error.response.headers.get("Content-Type") or "").startswith("application/json")


def wrong_token(settings: DiscordAccount) -> ChannelBroken:
    """Return the error for a token that the server does not know."""
    where = "" if settings.api_root == OFFICIAL else f" at {settings.api_root}"
    return ChannelBroken(
        f"the token in channels.discord is not accepted{where}",
        hint=f"make a new one ({PORTAL}, your application, Bot, Reset Token), then: homebody config set channels.discord.token TOKEN",
    )


def no_intent() -> ChannelBroken:
    """Return the error for a bot without the Message Content Intent."""
    return ChannelBroken(
        "Discord does not let this bot read messages: the Message Content Intent is off",
        hint=f"switch it on ({PORTAL}, your application, Bot, Privileged Gateway Intents), then start the gateway again",
    )


def closed_for_good(settings: DiscordAccount, code: int) -> ChannelBroken:
    """Return the error for a gateway close code after which reconnecting is forbidden."""
    if code == NO_TOKEN:
        return wrong_token(settings)
    if code == NO_INTENT:
        return no_intent()
    return ChannelBroken(
        f"Discord's gateway closed for good with code {code}",
        hint="see https://discord.com/developers/docs/topics/opcodes-and-status-codes#gateway-gateway-close-event-codes, "
        "and look for a newer version of this program",
    )


def meaning(error: discord.HTTPException) -> tuple[str, str]:
    """Return the meaning of an error, and the hint."""
    code = 40005 if error.status == _TOO_LARGE else error.code
    text, hint = _MEANINGS.get(code, (error.text[:200] if is_json(error) else "the answer was no JSON, as of a proxy", ""))
    return f"Discord: {error.status} ({code}) {text}", hint


def send_error(error: BaseException) -> ChannelError:
    """Return NotSent for a failed send that had no effect, else Uncertain."""
    if isinstance(error, InBetween):
        return NotSent(str(error))
    if isinstance(error, discord.RateLimited):
        return NotSent("Discord asks to wait", retry_after=error.retry_after)
    if isinstance(error, discord.HTTPException):
        return _refused(error)
    if isinstance(error, _NOT_CONNECTED):
        return NotSent("Discord cannot be reached")
    return Uncertain(f"Discord: {str(error) or type(error).__name__}")


def _refused(error: discord.HTTPException) -> ChannelError:
    text, hint = meaning(error)
    if error.status == _TOO_MANY:
        return NotSent(text, retry_after=seconds_to_wait(error.response.headers.get("Retry-After")))
    if error.status == _UNAUTHORISED:
        return NotSent(text)
    return Uncertain(text) if error.status >= _SERVER else NotSent(text, permanent=True, hint=hint)
