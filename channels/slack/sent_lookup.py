"""Looking for a message of our own that may have arrived: among the last of a channel, or of a thread.

Importing this module loads the library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slack_sdk.errors import SlackApiError

from channels.errors import Uncertain
from channels.slack.api_errors import NO_SCOPE, code_of
from channels.slack.inbound import is_stamp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from slack_sdk.web.async_client import AsyncWebClient

LAST = 100
PAGE = 200
MOST_PAGES = 10
LATELY = 3600.0
"""Seconds before the last reply of a long thread from which on it is looked through: Slack shows threads from their beginning."""


class LookingBack:
    """Reads back what one app said. ``allowed`` turns False when Slack says that its scopes do not reach so far."""

    def __init__(self, web: AsyncWebClient) -> None:
        self._web = web
        self.allowed = True

    async def find(self, channel: str, thread: str | None, is_it: Callable[[dict[str, Any]], bool]) -> str | None:
        """Return the time stamp of the message, or None when it is not there.

        Raises:
            Uncertain: nobody can say, for it could not be read.
        """
        try:
            async for page in self._pages(channel, thread):
                for one in page.get("messages") or []:
                    if is_it(one):
                        return str(one["ts"])
        except SlackApiError as error:
            if code_of(error) != NO_SCOPE:
                raise Uncertain(f"Slack: what was said before cannot be read: {code_of(error)}") from error
            self.allowed = False
        return None

    async def _pages(self, channel: str, thread: str | None) -> AsyncIterator[Any]:
        if thread is None:
            yield await self._web.conversations_history(channel=channel, limit=LAST, include_all_metadata=True)
            return
        first: Any = await self._replies(channel, thread)
        yield first
        parent: dict[str, Any] = next(iter(first.get("messages") or []), {})
        latest = parent.get("latest_reply")
        if not _next(first) or not is_stamp(latest):
            return
        oldest, cursor = f"{float(str(latest)) - LATELY:.6f}", None
        for _ in range(MOST_PAGES):
            page = await self._replies(channel, thread, oldest=oldest, cursor=cursor)
            yield page
            cursor = _next(page)
            if cursor is None:
                return

    async def _replies(self, channel: str, thread: str, **more: Any) -> Any:
        return await self._web.conversations_replies(channel=channel, ts=thread, limit=PAGE, include_all_metadata=True, **more)


def _next(page: Any) -> str | None:
    return (page.get("response_metadata") or {}).get("next_cursor") or None
