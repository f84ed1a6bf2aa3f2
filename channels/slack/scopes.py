"""The OAuth scopes that the app needs, and what does not work without each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from channels.slack.settings import APPS

HEADER: Final = "x-oauth-scopes"
"""Where Slack says with each answer what a token allows."""
NEEDED: Final = {
    "app_mentions:read": "hear mentions",
    "channels:history": "read public channels",
    "chat:write": "answer",
    "commands": "take the slash command",
    "files:read": "read files",
    "files:write": "send files",
    "groups:history": "read private channels",
    "im:history": "read private messages",
    "im:write": "begin private conversations",
    "mpim:history": "read group conversations",
    "reactions:read": "hear of emoji",
    "reactions:write": "put emoji",
    "users:read": "know people's names",
}
"""Scopes of the bot token, and what the app cannot do without each. The manifest in docs/slack.md asks for these."""


def lacking(headers: Mapping[str, str]) -> str:
    """Return what a token does not allow and where to add it, from the headers of an answer; nothing where all is well or not known."""
    said = headers.get(HEADER) or headers.get(HEADER.title())
    if not said:
        return ""
    granted = {scope.strip() for scope in said.split(",")}
    missing = [f"{scope} (to {what})" for scope, what in NEEDED.items() if scope not in granted]
    if not missing:
        return ""
    where = f"{APPS}, your app, OAuth & Permissions, Bot Token Scopes"
    return f"the bot token lacks scopes: {', '.join(missing)}; add them ({where}), and install the app again"
