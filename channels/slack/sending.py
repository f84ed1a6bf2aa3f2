"""Sending to Slack: every message carries its key in its metadata, by which a doubtful one is found.

Importing this module loads the library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slack_sdk.errors import SlackApiError

from channels.errors import NotSent, Uncertain
from channels.messages import Sent
from channels.previews import PREFIX
from channels.slack.client import NO_SCOPE, TROUBLE, code_of, send_error
from channels.slack.mrkdwn import written

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from slack_sdk.web.async_client import AsyncWebClient

    from channels.messages import Conversation, Outbound
    from channels.previews import Previews

EVENT = "homebody_message"
LOOK_BACK = 100
_QUIET = {"unfurl_links": False, "unfurl_media": False, "link_names": False, "parse": "none"}
_GONE = {"message_not_found", "cant_update_message", "edit_window_closed"}


class Sender:
    """One app's voice. ``dms`` holds the private channel of each person; it is asked for when it is not known."""

    def __init__(self, web: AsyncWebClient, dms: dict[str, str]) -> None:
        self._web = web
        self._dms = dms
        self.reads_back = True
        """Whether the app may read what it said; found out when a message is looked for."""

    async def send(self, outbound: Outbound, record: Callable[[str], Awaitable[None]], previews: Previews) -> Sent:
        """Send a chunk, or make it the last edit of a preview. A doubtful one is looked for first.

        Raises:
            NotSent: it did not arrive.
            Uncertain: it may have.
        """
        recorded = outbound.recorded or ""
        preview = recorded.removeprefix(PREFIX) if recorded.startswith(PREFIX) else await previews.take(outbound.conversation)
        if preview is not None:
            await record(PREFIX + preview)
        try:
            channel = await self.channel(outbound.conversation)
            if preview is not None and await self._finished(channel, preview, outbound):
                return Sent(platform_id=preview)
            found = await self._found(channel, outbound) if outbound.uncertain else None
            return Sent(platform_id=found or await self._post(channel, outbound))
        except TROUBLE as error:
            raise send_error(error) from error

    async def _post(self, channel: str, outbound: Outbound) -> str:
        posted = await self._web.chat_postMessage(
            channel=channel,
            text=written(outbound.text),
            thread_ts=outbound.conversation.thread,
            metadata=_metadata(outbound.key),
            **_QUIET,  # type: ignore[arg-type]
        )
        return str(posted["ts"])

    async def _finished(self, channel: str, message: str, outbound: Outbound) -> bool:
        """Edit a preview into the answer. Returns whether it was still there."""
        try:
            await self._edit(channel, message, written(outbound.text), metadata=_metadata(outbound.key))
        except SlackApiError as error:
            if code_of(error) in _GONE:
                return False
            raise
        return True

    async def _edit(self, channel: str, message: str, text: str, **more: Any) -> None:
        await self._web.chat_update(channel=channel, ts=message, text=text, link_names=False, parse="none", **more)

    async def _found(self, channel: str, outbound: Outbound) -> str | None:
        """Look for a message that may have arrived, by its key."""
        thread = outbound.conversation.thread
        try:
            if thread is not None:
                page = await self._web.conversations_replies(
                    channel=channel, ts=thread, limit=LOOK_BACK, include_all_metadata=True
                )
            else:
                page = await self._web.conversations_history(channel=channel, limit=LOOK_BACK, include_all_metadata=True)
        except SlackApiError as error:
            if code_of(error) == NO_SCOPE:
                self.reads_back = False
                return None
            raise Uncertain(f"Slack: what was said before cannot be read: {code_of(error)}") from error
        for one in page.get("messages") or []:
            metadata = one.get("metadata") or {}
            if metadata.get("event_type") == EVENT and (metadata.get("event_payload") or {}).get("key") == outbound.key:
                return str(one["ts"])
        return None

    async def post(self, conversation: Conversation, text: str) -> str:
        """Post the first form of a preview. Raises ChannelError."""
        try:
            channel = await self.channel(conversation)
            posted = await self._web.chat_postMessage(
                channel=channel,
                text=text,
                thread_ts=conversation.thread,
                **_QUIET,  # type: ignore[arg-type]
            )
            return str(posted["ts"])
        except TROUBLE as error:
            raise send_error(error) from error

    async def edit(self, conversation: Conversation, message: str, text: str) -> None:
        """Edit a preview. Raises ChannelError."""
        try:
            await self._edit(await self.channel(conversation), message, text)
        except TROUBLE as error:
            raise send_error(error) from error

    async def typing(self, conversation: Conversation) -> None:
        """Show "is typing", which Slack has in assistant threads only. Raises one of TROUBLE."""
        if conversation.kind == "direct" and conversation.thread is not None:
            channel = await self.channel(conversation)
            await self._web.assistant_threads_setStatus(channel_id=channel, thread_ts=conversation.thread, status="is typing…")

    async def channel(self, conversation: Conversation) -> str:
        """Return the channel to write to: a group's, or the private one of a person."""
        if conversation.kind == "group":
            return conversation.id
        known = self._dms.get(conversation.id)
        if known is None:
            opened = await self._web.conversations_open(users=conversation.id)
            found: Any = opened.get("channel") or {}
            if "id" not in found:
                raise NotSent(f"Slack opens no private channel with {conversation.id[:40]!r}", permanent=True)
            known = self._dms[conversation.id] = str(found["id"])
        return known


def _metadata(key: str) -> dict[str, Any]:
    return {"event_type": EVENT, "event_payload": {"key": key}}
