"""Addresses of chats as people write them, checked against the platforms and accounts of the settings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from channels.built_in import BUILT_IN
from channels.messages import API, WEB, ChatAddress
from channels.silent import is_silent
from gateway.base.errors import UsageError

if TYPE_CHECKING:
    from gateway.settings.root import Settings

LIST: Final = "homebody channels chats"
"""The command that lists addresses."""
_EXAMPLE: Final = "telegram:default:direct:42"
_DEFAULT: Final = "default"
_SHOWN: Final = 80


def checked_address(text: str, settings: Settings) -> ChatAddress:
    """Return the chat that an address names.

    Raises:
        UsageError: it is none, or no platform or account of the settings can have such a chat.
    """
    try:
        place = ChatAddress.parse(text)
    except ValueError:
        raise _unfit(text, "is no address of a chat") from None
    if is_silent(place):
        raise _unfit(text, "is no chat that anybody reads")
    if place.channel == "terminal":
        raise _unfit(text, "is the terminal, which nobody may have open then")
    if place.channel == WEB:
        raise _unfit(text, "is a conversation of the page in the browser, which nobody may have open then")
    if place.channel == API:
        raise _unfit(text, "is a conversation of a program that calls the API, which is told only what it asks for")
    section = settings.channels.section(place.channel)
    if section is None:
        raise _unfit(text, f"names the channel {place.channel[:_SHOWN]!r}, which there is not")
    if place.account not in {_DEFAULT, *getattr(section, "accounts", ())}:
        raise _unfit(text, f"names the account {place.account[:_SHOWN]!r} of {place.channel}, which is not in the settings")
    pattern = next((one.chat_ids.get(place.kind, "") for one in BUILT_IN if one.name == place.channel), "")
    if not re.fullmatch(pattern or r"\S+", place.id):
        what = "a person" if place.kind == "direct" else "a group"
        raise _unfit(text, f"ends in {place.id[:_SHOWN]!r}, which is no id of {what} on {place.channel}")
    return place


def _unfit(text: str, why: str) -> UsageError:
    hint = f"An address is written like {_EXAMPLE}; `{LIST}` lists those of your chats."
    return UsageError(f"{text[:_SHOWN]!r} {why}", hint=hint)
