"""Sends messages to Slack. Each carries its key in its metadata, by which a message in doubt is found again.

Importing this module loads the client library.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from slack_sdk.errors import SlackApiError

from channels.common.log import Log
from channels.common.previews import PREFIX, Previews
from channels.errors import ChannelBroken, ChannelError, NotSent, Uncertain
from channels.messages import MARKS, Button, ChatAddress, Outbound, Sent, mark
from channels.slack.answer_streams import STREAM, Streams
from channels.slack.api_errors import NO_SCOPE, TROUBLE, code_of, refusal, send_error
from channels.slack.block_kit import harmless, letter
from channels.slack.file_transfer import UPLOAD, Uploads
from channels.slack.inbound import is_stamp
from channels.slack.settings import SlackAccount
from channels.slack.slack_cache import SlackCache
from channels.slack.web_client import RateLimit

if TYPE_CHECKING:
    from slack_sdk.web.async_client import AsyncWebClient


EVENT = "homebody_message"
_QUIET: dict[str, Any] = {"unfurl_links": False, "unfurl_media": False, "link_names": False, "parse": "none"}
_GONE = {"message_not_found", "cant_update_message", "edit_window_closed"}
_NO_MARKDOWN = {
    "no_text",
    "invalid_blocks",
    "invalid_arguments",
    "invalid_arg_name",
    "markdown_text_conflict",
    "invalid_blocks_format",
}


class Sender:
    """Sends the messages of one app. ``refused`` is called when Slack no longer accepts the token."""

    def __init__(
        self,
        settings: SlackAccount,
        web: AsyncWebClient,
        known: SlackCache,
        rate_limit: RateLimit,
        log: Log,
        *,
        refused: Callable[[ChannelBroken], None],
        team: str,
    ) -> None:
        self._settings = settings
        self._web = web
        self._known = known
        self._rate_limit = rate_limit
        self._log = log
        self._refused = refused
        self._markdown = settings.markup == "markdown"
        self._status = True
        self._back = SentLookup(web)
        self.streams = Streams(web, rate_limit, log, team=team)
        self._uploads = Uploads(web, rate_limit)

    @property
    def reads_back(self) -> bool:
        """Whether the app may read its own messages; known after the first search."""
        return self._back.allowed

    async def send(self, outbound: Outbound, record: Callable[[str], Awaitable[None]], previews: Previews) -> Sent:
        """Send a chunk, or make it the last edit of a preview. A doubtful one is looked for first.

        Raises:
            NotSent: it did not arrive.
            Uncertain: it may have.
        """
        preview = await self._preview(outbound, previews)
        if preview is not None and outbound.enclosure is None:
            perhaps_stream = self.streams.holds(preview) or previews.found(preview) or _was(outbound, STREAM)
            note = (STREAM if perhaps_stream else PREFIX) + preview
            await record(note)
            outbound = replace(outbound, recorded=note)
        if preview is not None:
            await previews.settle(outbound.conversation, preview)
        else:
            outbound = previews.marked(outbound)
        try:
            channel = await self.channel(outbound.conversation)
            sent = await self._sent(channel, outbound, record, preview)
        except TROUBLE as error:
            raise self._told(error) from error
        await previews.told(outbound)
        self._known.threads.put((channel, sent.platform_id), self._thread(outbound) or "")
        return sent

    async def _preview(self, outbound: Outbound, previews: Previews) -> str | None:
        for prefix in (PREFIX, STREAM):
            if _was(outbound, prefix):
                return (outbound.recorded or "").removeprefix(prefix)
        return await previews.take(outbound.conversation, outbound.turn)

    async def _sent(
        self, channel: str, outbound: Outbound, record: Callable[[str], Awaitable[None]], preview: str | None
    ) -> Sent:
        thread = self._thread(outbound)
        if preview is not None and outbound.enclosure is not None:
            await self._withdraw(channel, preview)
        elif preview is not None and await self._finished(channel, preview, outbound):
            return Sent(platform_id=preview)
        if outbound.enclosure is not None:
            upload = (outbound.recorded or "").removeprefix(UPLOAD) if _was(outbound, UPLOAD) else None
            found = await self._back.find(channel, thread, lambda one: _has_file(one, upload)) if upload else None
            marked = self._marked(outbound) if upload else outbound  # what was not noted cannot be seen yet
            return Sent(platform_id=found or await self._uploads.send(marked, channel, thread, record))
        found = await self._back.find(channel, thread, lambda one: _has_key(one, outbound.key)) if outbound.uncertain else None
        return Sent(platform_id=found or await self._post(channel, self._marked(outbound), thread))

    def _marked(self, outbound: Outbound) -> Outbound:
        """Say of a message in doubt that it may be a repeated one, where it could not be looked for."""
        marked = self.reads_back or outbound.text.startswith(MARKS)
        return outbound if marked else replace(outbound, text=mark(outbound) + outbound.text)

    async def _post(self, channel: str, outbound: Outbound, thread: str | None) -> str:
        async def posting(said: dict[str, Any]) -> Any:
            return await self._web.chat_postMessage(
                channel=channel, thread_ts=thread, metadata=_metadata(outbound.key), **said, **_QUIET
            )

        posted = await self._said(
            outbound.text,
            lambda said: self._rate_limit.call("chat.postMessage", channel, lambda: posting(said)),
            outbound.buttons,
        )
        return str(posted["ts"])

    async def _said(
        self, text: str, saying: Callable[[dict[str, Any]], Awaitable[Any]], buttons: tuple[Button, ...] = ()
    ) -> Any:
        """Say it as Markdown; where Slack does not take that, in its own notation."""
        if not self._markdown:
            return await saying(letter(text, buttons, as_markdown=False))
        try:
            return await saying(letter(text, buttons, as_markdown=True))
        except SlackApiError as error:
            if code_of(error) not in _NO_MARKDOWN:
                raise
            self._markdown = code_of(error) != "no_text"
            self._log.info("markdown was rejected", error=code_of(error), for_good=not self._markdown)
        return await saying(letter(text, buttons, as_markdown=False))

    async def _finished(self, channel: str, message: str, outbound: Outbound) -> bool:
        """Make a preview the answer. Returns whether it was still there."""
        metadata = _metadata(outbound.key)
        try:
            if self.streams.holds(message) or _was(outbound, STREAM):
                blocks = letter(outbound.text, outbound.buttons, as_markdown=True).get("blocks")
                more = {"metadata": metadata, **({"blocks": blocks[-1:]} if blocks else {})}
                if await self.streams.finish(channel, message, harmless(outbound.text), more):
                    return True
            await self._said(
                outbound.text, lambda said: self._edit(channel, message, {**said, "metadata": metadata}), outbound.buttons
            )
        except SlackApiError as error:
            if code_of(error) in _GONE:
                return False
            raise
        return True

    async def _withdraw(self, channel: str, message: str) -> None:
        """Take a preview away in whose place a file comes; only for show."""
        try:
            if self.streams.holds(message):
                await self.streams.end(channel, message)
            await self._web.chat_delete(channel=channel, ts=message)
        except TROUBLE as error:
            self._log.info("a preview was not removed", error=type(error).__name__)

    async def _edit(self, channel: str, message: str, said: dict[str, Any], *, for_show: bool = False) -> None:
        async def editing() -> Any:
            return await self._web.chat_update(channel=channel, ts=message, link_names=False, parse="none", **said)

        await self._rate_limit.call("chat.update", "", editing, for_show=for_show)

    # -- previews ----------------------------------------------------------------------------------------------------

    async def post(self, conversation: ChatAddress, text: str, cut: Callable[[str], list[str]]) -> str:
        """Post the first form of a preview, as a stream where Slack has one. Raises ChannelError."""
        try:
            channel = await self.channel(conversation)
            if self._settings.streaming == "auto" and conversation.thread is not None and self._markdown:
                person = conversation.id if conversation.kind == "direct" else self._known.writers.get(conversation.address)
                message = await self.streams.start(channel, conversation.thread, person, text) if person else None
                if message is not None:
                    return message

            async def posting(said: dict[str, Any]) -> Any:
                return await self._web.chat_postMessage(channel=channel, thread_ts=conversation.thread, **said, **_QUIET)

            posted = await self._said(
                cut(text)[0],
                lambda said: self._rate_limit.call("chat.postMessage", channel, lambda: posting(said), for_show=True),
            )
            return str(posted["ts"])
        except TROUBLE as error:
            raise send_error(error) from error

    async def edit(self, conversation: ChatAddress, message: str, text: str, cut: Callable[[str], list[str]]) -> None:
        """Show more of a preview. Raises ChannelError."""
        try:
            channel = await self.channel(conversation)
            if self.streams.holds(message) and await self.streams.append(channel, message, text):
                return
            await self._said(cut(text)[0], lambda said: self._edit(channel, message, said, for_show=True))
        except TROUBLE as error:
            raise send_error(error) from error

    async def remove(self, conversation: ChatAddress, message: str) -> None:
        """Delete a preview, which may be a stream that was cut off. Raises ChannelError."""
        try:
            channel = await self.channel(conversation)
            if conversation.thread is not None:
                await self.streams.end(channel, message)
            await self._web.chat_delete(channel=channel, ts=message)
        except TROUBLE as error:
            if isinstance(error, SlackApiError) and code_of(error) in _GONE:
                return
            raise send_error(error) from error

    async def typing(self, conversation: ChatAddress) -> None:
        """Show that an answer is written, which Slack has in threads only. Raises one of TROUBLE, or ChannelError."""
        words = self._settings.assistant.status
        if conversation.thread is None or not self._status or not words:
            return
        thread, channel = conversation.thread, await self.channel(conversation)
        try:
            await self._rate_limit.call(
                "assistant.threads.setStatus",
                "",
                lambda: self._web.assistant_threads_setStatus(channel_id=channel, thread_ts=thread, status=words),
                for_show=True,
            )
        except SlackApiError as error:
            self._status = code_of(error) not in {NO_SCOPE, "unknown_method", "not_allowed_token_type"}
            raise

    async def channel(self, conversation: ChatAddress) -> str:
        """Return the channel to write to: a group's, or the private one of a person."""
        if conversation.kind == "group":
            return conversation.id
        known = self._known.dms.get(conversation.id)
        if known is None:
            opened = await self._web.conversations_open(users=conversation.id)
            found: Any = opened.get("channel") or {}
            if "id" not in found:
                raise NotSent(f"Slack does not open a private channel with {conversation.id[:40]!r}", permanent=True)
            known = self._known.dms[conversation.id] = str(found["id"])
        return known

    def _thread(self, outbound: Outbound) -> str | None:
        """Return the thread to write in: that of the conversation, or one under the message that is answered."""
        return outbound.conversation.thread or (outbound.reply_to if is_stamp(outbound.reply_to) else None)

    def _told(self, error: BaseException) -> ChannelError:
        if isinstance(error, SlackApiError) and code_of(error) != NO_SCOPE:
            refused = refusal(error, self._settings, "bot_token")
            if refused is not None:
                self._refused(refused)
        return send_error(error)


def _was(outbound: Outbound, prefix: str) -> bool:
    return (outbound.recorded or "").startswith(prefix)


def _metadata(key: str) -> dict[str, Any]:
    return {"event_type": EVENT, "event_payload": {"key": key}}


def _has_key(message: dict[str, Any], key: str) -> bool:
    metadata = message.get("metadata") or {}
    return metadata.get("event_type") == EVENT and (metadata.get("event_payload") or {}).get("key") == key


def _has_file(message: dict[str, Any], file: str | None) -> bool:
    return any(one.get("id") == file for one in message.get("files") or [])


LAST = 100
PAGE = 200
MOST_PAGES = 10
LATELY = 3600.0
"""Seconds before the last reply of a long thread from which on it is looked through: Slack shows threads from their beginning."""


class SentLookup:
    """Finds messages that the app sent. ``allowed`` becomes False when Slack says that the scopes do not allow it."""

    def __init__(self, web: AsyncWebClient) -> None:
        self._web = web
        self.allowed = True

    async def find(self, channel: str, thread: str | None, is_it: Callable[[dict[str, Any]], bool]) -> str | None:
        """Return the time stamp of the message, or None if it does not exist.

        Raises:
            Uncertain: the messages could not be read.
        """
        try:
            async for page in self._pages(channel, thread):
                for one in page.get("messages") or []:
                    if is_it(one):
                        return str(one["ts"])
        except SlackApiError as error:
            if code_of(error) != NO_SCOPE:
                raise Uncertain(f"Slack: earlier messages cannot be read: {code_of(error)}") from error
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
