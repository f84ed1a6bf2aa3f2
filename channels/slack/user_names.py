"""Display names of people, for readers only: a name authorises nobody. Importing this module loads the library."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from slack_sdk.errors import SlackApiError

from channels.common.recent import Recent
from channels.errors import NotSent
from channels.messages import Inbound
from channels.slack.api_errors import NO_SCOPE, TROUBLE, code_of
from channels.slack.web_client import RateLimit

if TYPE_CHECKING:
    from slack_sdk.web.async_client import AsyncWebClient

LONGEST_WAIT = 2.0
"""Seconds that Slack may take to return a name, which a message waits for."""
AT_ONCE = 4
"""Names that are asked for at once."""


class People:
    """The names of those who write, each of whom is asked for once."""

    def __init__(self, web: AsyncWebClient, rate_limit: RateLimit, names: Recent[str, str]) -> None:
        self._web = web
        self._rate_limit = rate_limit
        self._names = names
        self._may = True
        self._places = asyncio.Semaphore(AT_ONCE)
        self._asking: dict[str, asyncio.Task[str]] = {}

    async def named(self, message: Inbound) -> Inbound:
        """Return a message with its sender's name, if Slack returns it in time."""
        if message.sender.name or message.from_bot:
            return message
        name = await self._name(message.sender.id)
        return replace(message, sender=replace(message.sender, name=name)) if name else message

    def begin(self, person: str) -> None:
        """Begin to ask for a name, so that messages of several people do not wait for each other's."""
        if self._names.get(person) is None and self._may and person not in self._asking:
            task = self._asking[person] = asyncio.ensure_future(self._asked(person))
            task.add_done_callback(lambda _: self._asking.pop(person, None))

    async def _name(self, person: str) -> str:
        self.begin(person)
        asking = self._asking.get(person)
        return self._names.get(person) or "" if asking is None else await asyncio.shield(asking)

    async def _asked(self, person: str) -> str:
        try:
            async with self._places, asyncio.timeout(LONGEST_WAIT):
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
