"""Sends one chunk or file to Telegram, and records how far the attempt got. Importing this module loads the client library."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import structs
from telegram.error import BadRequest, ChatMigrated, RetryAfter, TelegramError

from channels.common.markdown import Styled, styled
from channels.errors import ChannelError, NotSent, Uncertain
from channels.messages import MARKS, ChatAddress, Outbound, OutboundFile, Sent, mark
from channels.telegram.bot import send_error, wait_of
from channels.telegram.file_sending import captioned, send_album, send_file
from channels.telegram.pacing import Pacer
from channels.telegram.recent_messages import SeenMessages
from channels.telegram.send_options import NO_LINK_PREVIEW, as_html_or_plain, company, placing
from channels.telegram.settings import TelegramAccount

if TYPE_CHECKING:
    from telegram import Bot

    from channels.telegram.bot_actions import LivePreview

    Record = Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The ids that earlier attempts recorded: of the message for the text, and of the file; ``after`` is one that is older than both.

    They are valid in their chat only: a group that became a supergroup has new message ids.
    """

    chat: str
    text: int | None = None
    file: int | None = None
    after: int | None = None

    def written(self) -> str:
        """Return it as a string for ``read``."""
        return json.dumps({key: value for key, value in asdict(self).items() if value is not None}, separators=(",", ":"))


def read(recorded: str | None, chat: str) -> Progress:
    """Return what was recorded for this chat. An older form was the message's number alone."""
    if recorded is None:
        return Progress(chat=chat)
    if recorded.isdecimal():
        return Progress(chat=chat, text=int(recorded))
    try:
        progress = Progress(**json.loads(recorded))
    except (ValueError, TypeError):
        return Progress(chat=chat)
    return progress if progress.chat == chat else Progress(chat=chat)


PLACEHOLDER = "…"
CANDIDATES = 5
"""Ids that are tried for an ellipsis that was left behind: other private chats of the bot use up ids, too."""
_GONE = ("to edit not found", "can't be edited", "message_id_invalid")


class Sender:
    """Sends for one bot. ``moved`` is called when a group turns out to have a new id."""

    def __init__(
        self,
        bot: Bot,
        settings: TelegramAccount,
        *,
        pacer: Pacer,
        seen: SeenMessages,
        moved: Callable[[ChatAddress, ChatAddress], Awaitable[None]],
    ) -> None:
        self._bot = bot
        self._settings = settings
        self._pacer = pacer
        self._seen = seen
        self._moved = moved

    async def send(self, outbound: Outbound, record: Record, showing: LivePreview) -> Sent:
        """Send a chunk as HTML, or as plain text if Telegram rejects the HTML.

        Telegram has no key against doubles, and a bot cannot read its chat. So a chunk that may have arrived is repeated with a mark;
        or, where a preview of the answer stands or ``delivery`` is ``edit``, it is put in the place of a message whose id was
        recorded before: an edit can be repeated as often as needed, so that at worst one ellipsis is left over.

        ``showing`` has the preview of the answer.

        Raises:
            NotSent: it did not arrive.
            Uncertain: it may have.
        """
        preview_id = None if outbound.enclosure is not None else await showing.end(outbound.conversation, outbound.turn)
        if outbound.enclosure is None:
            outbound = showing.previews.marked(outbound)
        settle = partial(showing.previews.settle, outbound.conversation)
        try:
            sent = await self._send(outbound, record, None if preview_id is None else int(preview_id), settle)
            await showing.previews.told(outbound)
        except ChatMigrated as migrated:
            present = structs.replace(outbound.conversation, id=str(migrated.new_chat_id))
        else:
            return sent
        await self._moved(outbound.conversation, present)
        try:
            return await self._send(structs.replace(outbound, conversation=present, reply_to=None), record, None, settle)
        except ChatMigrated as again:
            raise NotSent(f"Telegram: the group moved twice: {again}") from again

    async def _send(self, outbound: Outbound, record: Record, shown: int | None, settle: Record) -> Sent:
        chat = outbound.conversation.id
        progress = read(outbound.recorded, chat)
        try:
            if outbound.enclosure is not None:
                return await self._send_file(outbound, outbound.enclosure, record, progress)
            if shown is not None and progress.text is None:
                progress = replace(progress, text=shown)
                await record(progress.written())
            if progress.text is not None:
                await settle(str(progress.text))
            return Sent(platform_id=str(await self._send_text(outbound, record, progress)))
        except ChatMigrated:
            raise
        except TelegramError as error:
            raise self._meaning(error, chat) from error
        except OSError as error:
            raise NotSent(f"the file cannot be read: {error}") from error
        except (TypeError, KeyError, ValueError) as error:
            raise Uncertain(f"Telegram returned a message that cannot be read: {error!r}") from error

    async def _send_text(self, outbound: Outbound, record: Record, progress: Progress) -> int:
        content = styled(outbound.text)
        options = placing(outbound.conversation)
        if outbound.reply_to is not None or outbound.buttons:
            options |= company(outbound)
        if not self._settings.link_preview:
            options |= NO_LINK_PREVIEW
        if self._settings.delivery == "edit" or progress.text is not None or progress.file is not None:
            message_id = await self._placed(outbound, record, progress, options)
            if await self._edited(message_id, content, options):
                return message_id
        prefix = mark(outbound) if outbound.uncertain and not outbound.text.startswith(MARKS) else ""
        await self._pacer.turn(outbound.conversation.id)
        message = await as_html_or_plain(
            content, lambda text, **how: self._bot.send_message(text=prefix + text, **options, **how)
        )
        return self._noted(message.message_id, outbound.conversation)

    async def _placed(self, outbound: Outbound, record: Record, progress: Progress, options: dict[str, Any]) -> int:
        """Return the message to edit the text into: that of an earlier attempt, or a new one."""
        if progress.text is not None:
            return progress.text
        place, newest = outbound.conversation, self._seen.newest_private
        if place.kind == "direct" and place.thread is None:
            if outbound.uncertain and progress.after is not None:
                lost = await self._lost_placeholder(outbound, progress.after, options)
                if lost is not None:
                    await record(replace(progress, text=lost).written())
                    return lost
            elif newest:
                progress = replace(progress, after=newest)
                await record(progress.written())
        await self._pacer.turn(outbound.conversation.id)
        plain_options = {key: value for key, value in options.items() if key != "reply_markup"}
        message = await self._bot.send_message(text=PLACEHOLDER, **plain_options)
        await record(replace(progress, text=message.message_id).written())
        return self._noted(message.message_id, outbound.conversation)

    async def _lost_placeholder(self, outbound: Outbound, after: int, options: dict[str, Any]) -> int | None:
        """Return the ellipsis that an attempt left behind whose answer never came, with the text put in its place; None if there is none.

        In a private chat nothing else of the bot can have come between, and what a person wrote cannot be edited.
        """
        for candidate in range(after + 1, after + 1 + CANDIDATES):
            known = self._seen.find(outbound.conversation.id, str(candidate))
            if known is None and await self._edited(candidate, styled(outbound.text), options):
                return self._noted(candidate, outbound.conversation)
        return None

    async def _edited(self, message_id: int, content: Styled, options: dict[str, Any]) -> bool:
        """Edit the text into a message. Returns False if that message is gone."""
        await self._pacer.quiet(str(options["chat_id"]))
        fitting = {key: value for key, value in options.items() if key in {"chat_id", "link_preview_options", "reply_markup"}}
        try:
            await as_html_or_plain(
                content, lambda text, **how: self._bot.edit_message_text(text=text, message_id=message_id, **fitting, **how)
            )
        except BadRequest as error:
            told = str(error).lower()
            if "not modified" in told:
                return True
            if any(sign in told for sign in _GONE):
                return False
            raise
        return True

    async def _send_file(self, outbound: Outbound, enclosure: OutboundFile, record: Record, progress: Progress) -> Sent:
        """Send a file, or an album, with the text as its caption; one that is too long for that follows as a message of its own."""
        caption, rest = captioned((mark(outbound) if progress.file is None else "") + outbound.text)
        if progress.file is None:
            await self._pacer.turn(outbound.conversation.id, messages=len(enclosure.paths))
            options = placing(outbound.conversation) | company(outbound)
            sending = send_album if enclosure.album else send_file
            messages = await sending(self._bot, enclosure, caption, options, self._settings)
            first, *_ = [self._noted(one.message_id, outbound.conversation) for one in messages]
            progress = replace(progress, file=first)
            if rest:
                await record(progress.written())
        if rest:
            following = structs.replace(outbound, text=rest, enclosure=None, reply_to=None, buttons=(), uncertain=False)
            await self._send_text(following, record, progress)
        return Sent(platform_id=str(progress.file))

    async def post(self, conversation: ChatAddress, text: str) -> str:
        """Post a preview. Raises ``ChannelError``."""
        options = placing(conversation) | NO_LINK_PREVIEW
        try:
            message = await as_html_or_plain(
                styled(text), lambda shown, **how: self._bot.send_message(text=shown, **options, **how)
            )
        except TelegramError as error:
            raise self._meaning(error, conversation.id) from error
        return str(self._noted(message.message_id, conversation))

    async def edit(self, conversation: ChatAddress, message: str, text: str) -> None:
        """Edit a preview. Raises ``ChannelError``."""
        try:
            await self._edited(int(message), styled(text), placing(conversation) | NO_LINK_PREVIEW)
        except TelegramError as error:
            raise self._meaning(error, conversation.id) from error

    async def remove(self, conversation: ChatAddress, message: str) -> None:
        """Delete a preview. A group that has another id by now has other messages. Raises ``ChannelError``."""
        try:
            await self._bot.delete_message(conversation.id, int(message))
        except ChatMigrated:
            return
        except BadRequest as error:
            if "to delete not found" not in str(error).lower():
                raise self._meaning(error, conversation.id) from error
        except TelegramError as error:
            raise self._meaning(error, conversation.id) from error

    def _meaning(self, error: TelegramError, chat: str) -> ChannelError:
        if isinstance(error, RetryAfter):
            self._pacer.hold(chat, wait_of(error))
        return send_error(error, self._bot)

    def _noted(self, message: int, conversation: ChatAddress) -> int:
        self._seen.note(conversation.id, str(message), conversation.thread, mine=True)
        return message
