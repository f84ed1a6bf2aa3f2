"""The app's own reaction on a message, one at a time. Importing this module loads the library."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from slack_sdk.errors import SlackApiError

from channels.common.log import Log
from channels.slack.api_errors import code_of
from channels.slack.emoji import name_of
from channels.slack.rate_limit import RateLimit
from channels.slack.slack_cache import PLACE, Recent, SlackCache

if TYPE_CHECKING:
    from slack_sdk.web.async_client import AsyncWebClient

_ALREADY = {"already_reacted", "no_reaction"}


class Reactions:
    """What the app has put where. Of messages that it did not see come, Slack is asked."""

    def __init__(self, web: AsyncWebClient, rate_limit: RateLimit, log: Log, known: SlackCache, *, me: str) -> None:
        self._web = web
        self._rate_limit = rate_limit
        self._log = log
        self._known = known
        self._me = me
        self._put: Recent[PLACE, str] = Recent()

    async def react(self, channel: str, message: str, emoji: str | None) -> None:
        """Put an emoji under a message in the place of an earlier one; None takes it off. Raises SlackApiError and its like."""
        name = name_of(emoji) if emoji else None
        if emoji and name is None:
            self._log.info("slack has no name for an emoji, so no reaction was set", emoji=emoji)
            return
        earlier = await self._earlier(channel, message, gone=name is None)
        if name is not None and name not in earlier:
            await self._call("reactions.add", lambda: self._web.reactions_add(channel=channel, timestamp=message, name=name))
            self._put.put((channel, message), name)
        for one in earlier:
            if one != name:
                await self._remove(channel, message, one)
        if name is None:
            self._put.take((channel, message))

    async def _remove(self, channel: str, message: str, name: str) -> None:
        await self._call("reactions.remove", lambda: self._web.reactions_remove(channel=channel, timestamp=message, name=name))

    async def _earlier(self, channel: str, message: str, *, gone: bool) -> list[str]:
        known = self._put.get((channel, message))
        if known is not None:
            return [known]
        if not gone and self._known.fresh.get((channel, message)):
            return []
        answer = await self._rate_limit.call(
            "reactions.get", "", lambda: self._web.reactions_get(channel=channel, timestamp=message, full=True), for_show=True
        )
        shown = (answer.get("message") or {}).get("reactions") or []
        return [str(one["name"]) for one in shown if self._me in (one.get("users") or [])]

    async def _call(self, method: str, calling: Callable[[], Awaitable[object]]) -> None:
        try:
            await self._rate_limit.call(method, "", calling, for_show=True)
        except SlackApiError as error:
            if code_of(error) not in _ALREADY:
                raise
