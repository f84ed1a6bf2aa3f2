"""Display names of people, for readers only: a name authorises nobody. Importing this module loads the library."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from slack_sdk.errors import SlackApiError

from channels.errors import NotSent
from channels.messages import Inbound
from channels.slack.api_errors import NO_SCOPE, TROUBLE, code_of
from channels.slack.slack_cache import Recent
from channels.slack.web_client import RateLimit

if TYPE_CHECKING:
    from slack_sdk.web.async_client import AsyncWebClient

LONGEST_WAIT = 2.0
"""Seconds that a message may wait for its writer's name."""


class People:
    """The names of those who write, each of whom is asked for once."""

    def __init__(self, web: AsyncWebClient, rate_limit: RateLimit, names: Recent[str, str]) -> None:
        self._web = web
        self._rate_limit = rate_limit
        self._names = names
        self._may = True

    async def named(self, message: Inbound) -> Inbound:
        """Return a message with its sender's name, if Slack returns it in time."""
        if message.sender.name or message.from_bot:
            return message
        name = await self._name(message.sender.id)
        return replace(message, sender=replace(message.sender, name=name)) if name else message

    async def _name(self, person: str) -> str:
        known = self._names.get(person)
        if known is not None or not self._may:
            return known or ""
        try:
            async with asyncio.timeout(LONGEST_WAIT):
                answer: Any = await self._rate_limit.call(
                    "users.info", "", lambda: self._web.users_info(user=person), for_show=True
                )
        except SlackApiError as error:
            self._may = code_of(error) != NO_SCOPE
            return ""
        except (*TROUBLE, NotSent):
            return ""
        profile = (answer.get("user") or {}).get("profile") or {}
        name = str(profile.get("display_name") or profile.get("real_name") or "")
        self._names.put(person, name)
        return name
