"""Maps the error codes of Slack's Web API (https://docs.slack.dev/reference/methods) to channel errors with hints.

Importing this module loads the library.
"""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError

from channels.errors import ChannelBroken, ChannelError, NotSent, Uncertain
from channels.slack.settings import APPS, OFFICIAL, TOKENS, SlackAccount, Which
from channels.waits import seconds_to_wait

TROUBLE = (SlackClientError, aiohttp.ClientError, OSError, asyncio.TimeoutError)
"""What passing trouble looks like; the library lets those of its transport through."""
NO_SCOPE = "missing_scope"
TOO_OFTEN = "ratelimited"
DEFAULT_WAIT = 5.0
_TOKEN = {
    "invalid_auth": "it is not known",
    "not_authed": "none was given",
    "account_inactive": "its app or workspace is gone",
    "token_revoked": "it was taken back, or the app was removed",
    "token_expired": "it has run out",
    "not_allowed_token_type": "it is another kind of token",
    "app_uninstalled": "the app was removed",
    "invalid_app_id": "its app is gone",
}
_SLACKS_OWN = {"fatal_error", "internal_error", "service_unavailable", "request_timeout", "team_added_to_org"}
_INVITE = "write /invite @ and the app's name there"
_HINTS = {
    "not_in_channel": ("the app is not in this channel", _INVITE),
    "channel_not_found": (
        "there is no such channel, or it is private and the app is not in it",
        f"{_INVITE}; the ids are in channels.slack.channels",
    ),
    "is_archived": ("the channel is archived", "unarchive it in Slack, or take it out of channels.slack.channels"),
    "restricted_action": (
        "the workspace lets only some people post there",
        "ask an admin of the workspace to let the app post",
    ),
    "restricted_action_read_only_channel": (
        "the channel can only be read",
        "ask an admin of the workspace to let the app post",
    ),
    "restricted_action_thread_only_channel": (
        "the channel takes posts in threads only",
        "homebody config set channels.slack.replyToMode all",
    ),
    "messages_tab_disabled": (
        "people cannot write to the app in private",
        f"{APPS}, your app, App Home, Show Tabs: switch the Messages Tab on",
    ),
    "user_not_found": ("there is no such person in this workspace", "look at channels.slack.dm.allowFrom"),
    "user_disabled": ("this person's account is closed", "take it out of channels.slack.dm.allowFrom"),
    "cannot_dm_bot": ("a bot cannot be written to in private", "take it out of channels.slack.dm.allowFrom"),
    "msg_too_long": ("the message is too long", "homebody config set channels.slack.textChunkLimit 3000"),
    "thread_not_found": ("the thread is gone", ""),
    "storage_limit_reached": ("the workspace has no room for files", "delete files in Slack, or take a larger plan"),
}
_TOO_MANY = 429
_SERVER = 500


def code_of(error: SlackApiError) -> str:
    """Return Slack's error code, or an empty string."""
    return str(_data(error).get("error") or "")


def waiting(error: SlackApiError) -> float | None:
    """Return the seconds that Slack asks to wait, or None."""
    if _status(error) != _TOO_MANY and code_of(error) != TOO_OFTEN:
        return None
    wait = seconds_to_wait(getattr(error.response, "headers", {}).get("Retry-After"))
    return DEFAULT_WAIT if wait is None else wait


def passing(error: SlackApiError) -> bool:
    """Return whether an error is Slack's own trouble, which ends by itself, and no refusal."""
    return _status(error) >= _SERVER or code_of(error) in _SLACKS_OWN or not code_of(error)


def refusal(error: SlackApiError, settings: SlackAccount, which: Which) -> ChannelBroken | None:
    """Return what the owner must do about an error, or None when trying again can help."""
    code = code_of(error)
    if code in _TOKEN:
        return refused_token(code, settings, which)
    if code == NO_SCOPE:
        return ChannelBroken(_scope(error, TOKENS[which][0]), hint=_SCOPE_HINT)
    return None


def refused_token(code: str, settings: SlackAccount, which: Which) -> ChannelBroken:
    """Return the error for a token that Slack does not accept."""
    key, _, where = TOKENS[which]
    at = "" if settings.api_root == OFFICIAL else f" at {settings.api_root}"
    return ChannelBroken(
        f"the token in channels.slack.{key} is not accepted{at}: {_TOKEN.get(code, 'Slack says so')} ({code})",
        hint=f"get a new one ({where}), then: homebody config set channels.slack.{key} TOKEN",
    )


def send_error(error: BaseException) -> ChannelError:
    """Return NotSent for a failed send that had no effect, else Uncertain."""
    if isinstance(error, SlackApiError):
        return _refused_send(error)
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return NotSent("Slack cannot be reached")
    return Uncertain(f"Slack: {str(error) or type(error).__name__}")


def _refused_send(error: SlackApiError) -> ChannelError:
    code, wait = code_of(error), waiting(error)
    if wait is not None:
        return NotSent(f"Slack: {code or TOO_OFTEN}", retry_after=wait)
    if code in _TOKEN:
        return NotSent(
            f"Slack: {code}, the token is not accepted: {_TOKEN[code]}",
            hint=f"get a new token ({TOKENS['bot_token'][2]}), then: homebody config set channels.slack.botToken TOKEN",
        )
    if code == NO_SCOPE:
        return NotSent(f"Slack: {code}, {_scope(error, 'botToken')}", hint=_SCOPE_HINT)
    if passing(error):
        return Uncertain(f"Slack: {code or _status(error)}")
    text, hint = _HINTS.get(code, ("", ""))
    return NotSent(f"Slack: {code}, {text}" if text else f"Slack: {code}", permanent=True, hint=hint)


_SCOPE_HINT = f"add it ({APPS}, your app, OAuth & Permissions, Bot Token Scopes), and install the app again"


def _scope(error: SlackApiError, key: str) -> str:
    return f"the token in channels.slack.{key} lacks the scope {_data(error).get('needed', '')}"


def _data(error: SlackApiError) -> dict[str, Any]:
    data: Any = getattr(error.response, "data", error.response)
    return data if isinstance(data, dict) else {}


def _status(error: SlackApiError) -> int:
    return getattr(error.response, "status_code", None) or getattr(error.response, "status", None) or 0
