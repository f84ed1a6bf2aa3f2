"""Converts a Telegram update (https://core.telegram.org/bots/api#update) to an inbound message with its content, or another event."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from telegram import Message

from channels.common.chunking import utf16_length
from channels.messages import Attachment, AttachmentKind, ChatAddress, Inbound, Sender
from channels.telegram.bot import LEFT_OUT
from channels.telegram.bot_mentions import Me, Rich, Written, rich
from channels.telegram.recent_messages import Pastes, SeenMessages
from channels.telegram.settings import TelegramAccount, TelegramCommand

if TYPE_CHECKING:
    from telegram import CallbackQuery, Chat, ChatMemberUpdated, MessageReactionUpdated, PhotoSize, Sticker, Update

ALLOWED = ("message", "edited_message", "callback_query", "message_reaction", "my_chat_member")
"""The kinds of update that are asked for."""
_PRESENT = {"member", "administrator", "creator", "restricted"}
GENERAL = "1"
"""The topic of a forum that messages without a topic lie in."""


@dataclass(frozen=True, slots=True)
class Press:
    """A pressed button: its query must be answered, and the message's buttons removed."""

    query: str
    chat: int
    message: int
    allowed: bool


@dataclass(frozen=True, slots=True)
class Membership:
    """A group that the bot was added to, or removed from."""

    chat: str
    title: str
    present: bool
    by: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The content of one update; ``passed`` says why it is skipped."""

    inbound: Inbound | None = None
    moved: tuple[ChatAddress, ChatAddress] | None = None
    press: Press | None = None
    membership: Membership | None = None
    passed: str = ""


class Reader:
    """Reads the updates of one bot. ``commands`` maps names in the bot's menu to the names that the gateway knows."""

    def __init__(
        self, account: str, settings: TelegramAccount, me: Me, seen: SeenMessages, now: Callable[[], datetime]
    ) -> None:
        self._account = account
        self._settings = settings
        self._me = me
        self._seen = seen
        self._now = now
        self._pastes = Pastes()
        self.commands: Mapping[str, str] = {}
        self.own_commands: Mapping[str, TelegramCommand] = {}

    def read(self, update: Update) -> Reading:
        """Return the content of an update. A private chat has one person only, whatever an update says."""
        reading = self._read(update)
        found = reading.inbound
        if found is not None and found.conversation.kind == "direct" and found.sender.id != found.conversation.id:
            return Reading(passed="by somebody else than the person of that private chat")
        return reading

    def _read(self, update: Update) -> Reading:
        if update.callback_query is not None:
            return self._pressed(update.update_id, update.callback_query)
        if update.message_reaction is not None:
            return self._reacted(update.update_id, update.message_reaction)
        if update.my_chat_member is not None:
            return _membership(update.my_chat_member)
        message = update.message or update.edited_message
        if message is None:
            return Reading(passed="a kind of update that is not read")
        if message.migrate_to_chat_id is not None or message.migrate_from_chat_id is not None:
            return Reading(moved=self._moved(message))
        return self._written(update, message)

    def conversation(self, chat: Chat, thread: str | None) -> ChatAddress:
        """Return where a message lies."""
        kind = "direct" if chat.type == "private" else "group"
        return ChatAddress(channel="telegram", account=self._account, kind=kind, id=str(chat.id), thread=thread)  # type: ignore[arg-type]

    def _moved(self, message: Message) -> tuple[ChatAddress, ChatAddress]:
        """Return the former and the present group where a group became a supergroup. Both groups get such an update."""
        here = self.conversation(message.chat, None)
        if message.migrate_to_chat_id is not None:
            return here, replace(here, id=str(message.migrate_to_chat_id))
        return replace(here, id=str(message.migrate_from_chat_id)), here

    def _written(self, update: Update, message: Message) -> Reading:
        sender, bot = _sender(message)
        if message.chat.type == "channel" or sender is None:
            return Reading(passed="a channel's post")
        if bot and (sender.id == str(self._me.id) or not self._settings.allow_bots):
            return Reading(passed="written by a bot")
        written = Written(message, self._me)
        direct = message.chat.type == "private"
        if not direct and written.commands_another():
            return Reading(passed="a command to another bot")
        thread = _thread(message)
        self._seen.note(str(message.chat.id), str(message.message_id), thread, mine=False)
        formed = rich(message)
        files = attachments(message) + (tuple(formed.files) if formed else ())
        readable = written.readable()
        text = self._text(message, readable, formed)
        if not text and not files and direct and (strange := _unread(message)):
            text = f"[something that cannot be read here: {strange}]"
        if not text and not files:
            return Reading(passed="nothing that could be read")
        answered = replied(message)
        edited = update.edited_message is not None
        edition = int(message.edit_date.timestamp()) if message.edit_date else 0
        if edited and message.location is not None:
            return Reading(passed="a live location that moved on")
        inbound = Inbound(
            conversation=self.conversation(message.chat, thread),
            sender=sender,
            text=text,
            at=message.date,
            key=f"u:{update.update_id}",
            alias=f"m:{self._me.id}:{message.chat.id}:{message.message_id}:{edition}",
            message_id=str(message.message_id),
            reply_to=str(answered.message_id) if answered else None,
            mentioned=direct
            or written.mentions_me()
            or self._names_me(formed)
            or self._answers_me(answered)
            or self._own_command(readable)[0] is not None,
            event="edited" if edited else "message",
            target=str(message.message_id) if edited else None,
            quoted=quoted(message) if answered is not None or message.quote is not None else "",
            attachments=files,
            part_of=None if edited else self._part_of(message, sender, written.text),
            from_bot=bot,
        )
        return Reading(inbound=inbound)

    def _names_me(self, formed: Rich | None) -> bool:
        return formed is not None and (self._me.id in formed.people or any(map(self._me.is_named, formed.names)))

    def _text(self, message: Message, written: str, formed: Rich | None) -> str:
        text = written or (formed.text if formed else "")
        name, space, rest = text.partition(" ")
        known = self.commands.get(name.removeprefix("/")) if name.startswith("/") else None
        own, behind = self._own_command(text)
        if known is not None:
            text = f"/{known}{space}{rest}"
        elif own is not None:
            text = own.message(behind)
        return origin(message) + "\n".join(part for part in (text, described(message)) if part)

    def _own_command(self, text: str) -> tuple[TelegramCommand | None, str]:
        """Return the owner's own command that a text begins with, and what stands behind it."""
        name, _, rest = text.partition(" ")
        return (self.own_commands.get(name[1:].lower()) if name.startswith("/") else None), rest

    def _answers_me(self, answered: Message | None) -> bool:
        return answered is not None and answered.from_user is not None and answered.from_user.id == self._me.id

    def _part_of(self, message: Message, sender: Sender, text: str) -> str | None:
        if message.media_group_id:
            return f"album:{message.media_group_id}"
        where = (str(message.chat.id), str(message.message_thread_id), sender.id)
        return self._pastes.part_of(where, message.message_id, message.date, utf16_length(text))

    def _pressed(self, number: int, query: CallbackQuery) -> Reading:
        message = query.message
        if message is None or not query.data:
            return Reading(passed="a button that is not ours")
        chat, target, person = str(message.chat.id), str(message.message_id), str(query.from_user.id)
        thread = _thread(message) if isinstance(message, Message) else self._thread_of(chat, target)
        conversation = self.conversation(message.chat, thread)
        allowed = conversation.kind == "direct" or self._settings.may_speak(chat, thread, person)
        inbound = Inbound(
            conversation=conversation,
            sender=Sender(id=person, name=query.from_user.full_name),
            text=query.data,
            at=self._now(),
            key=f"u:{number}",
            alias=f"b:{self._me.id}:{query.id}",
            message_id=target,
            mentioned=True,
            event="button",
            target=target,
            from_bot=query.from_user.is_bot,
        )
        return Reading(inbound=inbound, press=Press(query.id, message.chat.id, message.message_id, allowed))

    def _reacted(self, number: int, reaction: MessageReactionUpdated) -> Reading:
        chat, target, person = str(reaction.chat.id), str(reaction.message_id), reaction.user
        known = self._seen.find(chat, target)
        mine = known is not None and known[1]
        text, former = (
            _emoji(reaction.new_reaction, reaction.old_reaction),
            _emoji(reaction.old_reaction, reaction.new_reaction),
        )
        direct = reaction.chat.type == "private"
        if person is None or not (text or former) or (person.is_bot and not self._settings.allow_bots):
            return Reading(passed="a reaction that did not change, or that nobody can be named for")
        wanted = {"off": False, "own": direct or mine, "all": True}[self._settings.reaction_notifications]
        if not wanted or (known is None and reaction.chat.is_forum and not direct):
            return Reading(passed="a reaction to a message that is not the bot's, or not known")
        inbound = Inbound(
            conversation=self.conversation(reaction.chat, known[0] if known else None),
            sender=Sender(id=str(person.id), name=person.full_name),
            text=text,
            at=reaction.date,
            key=f"u:{number}",
            alias=f"r:{self._me.id}:{chat}:{target}:{person.id}:{int(reaction.date.timestamp())}:{number}",
            message_id=target,
            mentioned=direct or mine,
            event="reaction",
            target=target,
            former=former,
            from_bot=person.is_bot,
        )
        return Reading(inbound=inbound)

    def _thread_of(self, chat: str, message: str) -> str | None:
        known = self._seen.find(chat, message)
        return known[0] if known else None


def _membership(change: ChatMemberUpdated) -> Reading:
    before, after = change.old_chat_member.status in _PRESENT, change.new_chat_member.status in _PRESENT
    if before == after or change.chat.type not in {"group", "supergroup"}:
        return Reading(passed="a change of the bot's rights, or in a private chat")
    key = f"added:{change.date.timestamp():.0f}"
    return Reading(membership=Membership(str(change.chat.id), change.chat.title or "", after, change.from_user.full_name, key))


def _sender(message: Message) -> tuple[Sender | None, bool]:
    """Return the sender, and whether it is a bot. Anonymous administrators and channels have the id of their chat.

    What a bot sent in somebody's name, as bots connected to a business account do, is that bot's.
    """
    if message.is_automatic_forward:
        return None, False
    if message.sender_business_bot is not None:
        return Sender(id=str(message.sender_business_bot.id), name=message.sender_business_bot.full_name), True
    if message.sender_chat is not None:
        return Sender(id=str(message.sender_chat.id), name=message.sender_chat.effective_name or ""), False
    user = message.from_user
    return (None, False) if user is None else (Sender(id=str(user.id), name=user.full_name), user.is_bot)


def _thread(message: Message) -> str | None:
    """Return the topic. Outside of topics the same field numbers reply chains, which are no topics."""
    if message.is_topic_message and message.message_thread_id is not None:
        return str(message.message_thread_id)
    return GENERAL if message.chat.is_forum and message.chat.type == "supergroup" else None


def _emoji(these: Sequence[object], others: Sequence[object]) -> str:
    """Return the emoji that are among these reactions and not among the others."""
    known = set(others)
    fresh = [one for one in these if one not in known]
    return " ".join(
        str(getattr(one, "emoji", "⭐" if getattr(one, "type", "") == "paid" else "(custom emoji)")) for one in fresh
    )


LONGEST_QUOTE = 500
_FORMER_FORWARD = ("forward_date", "forward_from", "forward_from_chat", "forward_sender_name")
_NOT_CONTENT = frozenset({*_FORMER_FORWARD, "forward_from_message_id", "forward_signature", "rich_message", LEFT_OUT})
_GIFTS = ("gift", "unique_gift", "giveaway", "giveaway_winners")
_FILES: tuple[tuple[str, AttachmentKind, str], ...] = (
    ("voice", "voice", "audio/ogg"),
    ("audio", "audio", ""),
    ("animation", "video", "video/mp4"),
    ("video", "video", ""),
    ("video_note", "video", "video/mp4"),
    ("document", "document", ""),
)


def attachments(message: Message) -> tuple[Attachment, ...]:
    """Return the files of a message: of a photo the largest size, of an animation not the document that repeats it."""
    found = [_file(kind, one, media) for name, kind, media in _FILES if (one := getattr(message, name)) is not None]
    if _forwarded_from(message) is None and message.via_bot is None:
        found = [replace(one, recorded=one.kind == "voice") for one in found]
    if message.animation is not None:
        found = found[:1]
    if message.photo:
        largest: PhotoSize = max(message.photo, key=lambda one: one.width * one.height)
        found.append(_file("image", largest, "image/jpeg"))
    if message.sticker is not None and not message.sticker.is_animated:
        found.append(_sticker(message.sticker))
    return tuple(found)


def _file(kind: AttachmentKind, file: Any, media_type: str) -> Attachment:
    name = getattr(file, "file_name", None) or ""
    media_type = getattr(file, "mime_type", None) or media_type
    return Attachment(kind=kind, handle=file.file_id, name=name, media_type=media_type, size=file.file_size)


def _sticker(sticker: Sticker) -> Attachment:
    return _file("video", sticker, "video/webm") if sticker.is_video else _file("image", sticker, "image/webp")


def _unread(message: Message) -> str:
    """Return the names of what a message holds and nothing here reads, "" for none: a gift, a kind that the library does not know."""
    left = message.api_kwargs.get(LEFT_OUT)
    named = [*(left if isinstance(left, list) else ()), *message.api_kwargs]
    found = [str(one).replace("_", " ") for one in named if one not in _NOT_CONTENT and re.fullmatch(r"[a-z_]{1,40}", str(one))]
    return ", ".join([*(one.replace("_", " ") for one in _GIFTS if getattr(message, one, None) is not None), *found][:3])


def described(message: Message) -> str:
    """Return a description in brackets of content other than text and files, such as a location; empty for service messages."""
    lines: list[str] = []
    if message.sticker is not None:
        named = f" of the set {message.sticker.set_name}" if message.sticker.set_name else ""
        lines.append(f"sticker {message.sticker.emoji or ''}".rstrip() + named)
    if message.venue is not None or message.location is not None:
        lines.append(_place(message))
    if message.contact is not None:
        name = " ".join(filter(None, (message.contact.first_name, message.contact.last_name)))
        lines.append(f"contact: {name}, {message.contact.phone_number}")
    if message.poll is not None:
        lines.append(f"poll: {message.poll.question} — {' / '.join(one.text for one in message.poll.options)}")
    if message.dice is not None:
        lines.append(f"{message.dice.emoji} shows {message.dice.value}")
    if message.checklist is not None:
        lines.append(f"checklist: {message.checklist.title} — {' / '.join(one.text for one in message.checklist.tasks)}")
    hidden = [name for name in ("game", "story", "paid_media") if getattr(message, name) is not None]
    lines += [f"{name.replace('_', ' ')}, which bots cannot see" for name in hidden]
    return "\n".join(f"[{line}]" for line in lines if line)


def _place(message: Message) -> str:
    if message.venue is not None:
        at = message.venue.location
        return f"place: {message.venue.title}, {message.venue.address} ({at.latitude:.5f}, {at.longitude:.5f})"
    if message.location is None:
        return ""
    live = "live location" if message.location.live_period else "location"
    return f"{live}: {message.location.latitude:.5f}, {message.location.longitude:.5f}"


def origin(message: Message) -> str:
    """Return a line that says whose words these are, when they are not the sender's own; else nothing."""
    lines = []
    forwarded = _forwarded_from(message)
    if forwarded is not None:
        lines.append(f"[forwarded from {_one_line(forwarded or 'somebody')}]\n")
    if message.via_bot is not None:
        lines.append(f"[made with @{message.via_bot.username}]\n")
    return "".join(lines)


def _forwarded_from(message: Message) -> str | None:
    """Return who wrote or named what a message carries, "" for somebody; None where that is its sender.

    Bot API servers before 7.0 say it in fields that the library does not know. A contact and a place have names that others gave them.
    """
    found, former = message.forward_origin, message.api_kwargs
    if found is not None:
        user, name = getattr(found, "sender_user", None), getattr(found, "sender_user_name", None)
        chat = getattr(found, "sender_chat", None) or getattr(found, "chat", None)
        return user.full_name if user else name or (chat.effective_name if chat else "") or ""
    if any(field in former for field in _FORMER_FORWARD):
        who = former.get("forward_from") or former.get("forward_from_chat")
        names = [who.get(part) for part in ("first_name", "last_name", "title")] if isinstance(who, dict) else []
        return " ".join(str(one) for one in (*names, former.get("forward_sender_name")) if one)
    if message.contact is not None:
        return "a contact"
    if message.venue is not None:
        return "a map"
    if message.poll is not None and any(one.added_by_user or one.added_by_chat for one in message.poll.options):
        return "a shared poll"
    return "a shared checklist" if message.checklist is not None and message.checklist.others_can_add_tasks else None


def quoted(message: Message) -> str:
    """Return the beginning of what this message answers, or the part of it that its sender chose."""
    answered = replied(message)
    if message.quote is not None:
        text = message.quote.text
    elif answered is not None:
        formed = rich(answered)
        text = answered.text or answered.caption or (formed.text if formed else "") or described(answered) or _kinds(answered)
    else:
        return ""
    return text if len(text) <= LONGEST_QUOTE else text[: LONGEST_QUOTE - 1] + "…"


def replied(message: Message) -> Message | None:
    """Return the message that this one replies to. In a topic Telegram names the topic's first message, which is not a reply."""
    answered = message.reply_to_message
    return None if answered is None or answered.forum_topic_created is not None else answered


def _kinds(message: Message) -> str:
    return " ".join(f"[{one.kind}]" for one in attachments(message))


def _one_line(text: str) -> str:
    return " ".join(text.split())[:100]
