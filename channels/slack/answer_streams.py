"""Streams answers with Slack's streaming methods (https://docs.slack.dev/reference/methods/chat.startStream).

A stream belongs to a thread, can only be appended to, cannot be edited while it is open, and is ended by Slack after a time without
updates. When the new text does not continue what was shown, the stream is ended and its message is edited from then on.
Importing this module loads the library.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from slack_sdk.errors import SlackApiError

from channels.common.log import Log
from channels.common.recent import Recent
from channels.errors import NotSent
from channels.slack.api_errors import TROUBLE, code_of, waiting
from channels.slack.block_kit import MOST_MARKDOWN, streamable
from channels.slack.web_client import RateLimit

if TYPE_CHECKING:
    from slack_sdk.web.async_client import AsyncWebClient

STREAM = "stream:"
"""How a note begins that names a message which may be a stream."""
ENDED = "message_not_in_streaming_state"
MOST = 100
_UNKNOWN = ""
"""What a stream shows whose last call was cut off."""
LONGEST_GOODBYE = 2.0
_LEAVE = 1000
"""Letters of the most that a message holds which the end of an answer may need."""


class Streams:
    """The open streams of one app, by message."""

    def __init__(self, web: AsyncWebClient, rate_limit: RateLimit, log: Log, *, team: str) -> None:
        self._web = web
        self._rate_limit = rate_limit
        self._log = log
        self._team = team
        self._shown: Recent[str, str] = Recent(MOST)
        self._open: dict[str, str] = {}
        self._usable = True

    def holds(self, message: str) -> bool:
        """Return whether a message is a stream that is open, as far as is known here."""
        return self._shown.get(message) is not None

    async def close(self) -> None:
        """End open streams as they are: Slack shows an abandoned stream as broken."""
        with contextlib.suppress(*TROUBLE):
            async with asyncio.timeout(LONGEST_GOODBYE):
                for message, channel in list(self._open.items()):
                    await self.end(channel, message)

    async def start(self, channel: str, thread: str, person: str, text: str) -> str | None:
        """Start a stream and return its message; None if Slack does not stream here or now."""
        said = streamable(text, MOST_MARKDOWN - _LEAVE)
        if not self._usable or not said.strip():
            return None
        try:
            begun = await self._rate_limit.call(
                "chat.startStream",
                "",
                lambda: self._web.chat_startStream(
                    channel=channel,
                    thread_ts=thread,
                    markdown_text=said,
                    recipient_user_id=person,
                    recipient_team_id=self._team,
                ),
                for_show=True,
            )
        except SlackApiError as error:
            if waiting(error) is None:
                self._usable = False
                self._log.info("slack does not stream answers here; their messages are edited instead", error=code_of(error))
            return None
        message = str(begun["ts"])
        self._shown.put(message, said)
        self._open[message] = channel
        return message

    async def append(self, channel: str, message: str, text: str) -> bool:
        """Append text. Returns False if the stream has ended, and the message must be edited from now on."""
        shown, said = self._shown.get(message), streamable(text, MOST_MARKDOWN - _LEAVE)
        if not shown or not said.startswith(shown):
            await self.end(channel, message)
            return False
        if said == shown:
            return True
        self._shown.put(message, _UNKNOWN)
        try:
            await self._rate_limit.call(
                "chat.appendStream",
                "",
                lambda: self._web.chat_appendStream(channel=channel, ts=message, markdown_text=said[len(shown) :]),
                for_show=True,
            )
        except SlackApiError as error:
            if waiting(error) is not None:
                self._shown.put(message, shown)
                raise
            if code_of(error) != ENDED:
                await self.end(channel, message)
            self._forget(message)
            return False
        except NotSent:
            self._shown.put(message, shown)
            raise
        self._shown.put(message, said)
        return True

    async def finish(self, channel: str, message: str, text: str, more: dict[str, Any]) -> bool:
        """End a stream with the rest of the answer and its buttons. Returns False if the message must be edited instead.

        If it is unknown what a stream shows, it is ended as it is, which may be repeated.
        """
        shown = self._shown.take(message)
        if not shown or not text.startswith(shown):
            await self.end(channel, message)
            return False
        rest = text[len(shown) :]
        try:
            await self._rate_limit.call(
                "chat.stopStream",
                "",
                lambda: self._web.chat_stopStream(channel=channel, ts=message, markdown_text=rest or None, **more),
            )
        except SlackApiError as error:
            if waiting(error) is not None:
                self._shown.put(message, shown)
                raise
            if code_of(error) != ENDED:
                self._log.info("a stream did not end normally", error=code_of(error))
                await self.end(channel, message)
            self._forget(message)
            return False
        self._forget(message)
        return True

    async def end(self, channel: str, message: str) -> None:
        """End a stream as it is. It may have ended already."""
        self._shown.take(message)
        try:
            await self._web.chat_stopStream(channel=channel, ts=message)
        except SlackApiError as error:
            if code_of(error) != ENDED:
                self._log.info("a stream was not ended", error=code_of(error))
        self._forget(message)

    def _forget(self, message: str) -> None:
        self._shown.take(message)
        self._open.pop(message, None)
