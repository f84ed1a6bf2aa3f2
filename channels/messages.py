"""Inbound and outbound messages, and the address of a conversation."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Final, Literal, get_args

from msgspec import Struct, field

ChatKind = Literal["direct", "group"]
AttachmentKind = Literal["image", "voice", "audio", "video", "document"]
InboundEvent = Literal["message", "edited", "reaction", "button"]
THREAD_MARK: Final = ":thread:"
"""What stands between a group and a thread of it in an address."""
CLIENT_CHANNELS: Final = frozenset({"terminal", "api", "web"})
"""Channels whose conversations are read by a client that is connected at the moment, if any: nothing is sent there unasked."""
API: Final = "api"
"""The channel of programs that call the gateway over HTTP."""
WEB: Final = "web"
"""The channel of the page in the browser."""
ADDRESS_PARTS: Final = 4
"""Channel, account, kind and id."""


class ChatAddress(Struct, frozen=True, kw_only=True):
    """The address of a conversation: where a message came from and where its answer goes. Ids are the platform's and never change.

    ``space`` is the guild or team that a group belongs to, on platforms that have them; it is not part of ``address``.
    """

    channel: str
    account: str = "default"
    kind: ChatKind
    id: str
    thread: str | None = None
    space: str | None = None

    @property
    def address(self) -> str:
        """A stable, readable key, such as ``telegram:default:direct:42`` or ``slack:default:group:C1:thread:17.5``."""
        base = f"{self.channel}:{self.account}:{self.kind}:{self.id}"
        return base if self.thread is None else f"{base}{THREAD_MARK}{self.thread}"

    @classmethod
    def parse(cls, address: str, *, space: str | None = None) -> ChatAddress:
        """Return the conversation of an ``address``, which does not name the ``space``. The last thread mark is taken as the thread's.

        Raises:
            ValueError: it is no address.
        """
        head, mark, thread = address.rpartition(THREAD_MARK)
        if not mark:
            head, thread = address, ""
        parts = head.split(":", 3)
        if len(parts) != ADDRESS_PARTS or parts[2] not in get_args(ChatKind):
            raise ValueError(f"{address[:80]!r} is not the address of a conversation: expected channel:account:direct|group:id")
        channel, account, kind, identity = parts
        return cls(
            channel=channel,
            account=account,
            kind="group" if kind == "group" else "direct",
            id=identity,
            thread=thread or None,
            space=space,
        )


class Sender(Struct, frozen=True, kw_only=True):
    """Who wrote a message. Only ``id`` authorises: names can be changed and copied."""

    id: str
    name: str = ""


class Attachment(Struct, frozen=True, kw_only=True):
    """A file that came with a message and is still on the platform. No field may be trusted.

    ``handle`` is for the channel's ``fetch``. ``name`` and ``media_type`` are what the sender says (either may be empty),
    ``size`` is in bytes, None where the platform does not say. ``recorded``: its sender spoke it into this conversation, which the platform
    says; never set for what is forwarded.
    """

    kind: AttachmentKind
    handle: str
    name: str = ""
    media_type: str = ""
    size: int | None = None
    recorded: bool = False


class Inbound(Struct, frozen=True, kw_only=True):
    """One message as a platform delivered it.

    ``key`` and ``alias`` identify it in two ways (Telegram: ``u:<update_id>`` and ``m:<bot>:<chat>:<message>:<edit date>``), so that a
    redelivery is recognised even when the platform renumbers one of the two. ``at`` is when it was sent, with a zone.
    ``hints`` (agent, session, model) come from a local client with the owner's rights; no other channel sets them.

    ``event`` says what happened. "edited": ``target`` (a message of this conversation) now reads ``text``. "reaction": somebody put the
    emoji ``text`` under ``target``, or took ``former`` away there, or both. "button": a button under ``target`` was pressed, whose
    value is ``text``. ``quoted`` is the beginning of the message that this one replies to, ``context`` what the sender's program says
    beside it. Messages of one sender with the same ``part_of`` (an album, a text that the platform cut up) are parts of one.
    ``from_bot``: a program wrote it.
    """

    conversation: ChatAddress
    sender: Sender
    text: str
    at: datetime
    key: str
    alias: str
    message_id: str
    reply_to: str | None = None
    mentioned: bool = False
    event: InboundEvent = "message"
    target: str | None = None
    former: str = ""
    quoted: str = ""
    context: str = ""
    attachments: tuple[Attachment, ...] = ()
    part_of: str | None = None
    from_bot: bool = False
    hints: Mapping[str, str] = field(default_factory=dict)


class Cursor(Struct, frozen=True, kw_only=True):
    """A read position of a channel, stored in the same transaction as the messages up to that point."""

    name: str
    value: str


class Button(Struct, frozen=True, kw_only=True):
    """A button below a message. ``value`` (at most 60 bytes of UTF-8) is the text of the event when it is pressed."""

    label: str
    value: str


class OutboundFile(Struct, frozen=True, kw_only=True):
    """A file to send: the gateway's own copy, which is kept until the message is delivered.

    ``album`` are further files that go with it as one message (``channels.protocol.GathersAlbums``); each has its own ``caption``.
    """

    path: Path
    name: str
    media_type: str
    caption: str = ""
    album: tuple[OutboundFile, ...] = ()

    @property
    def paths(self) -> tuple[Path, ...]:
        """All files of the message."""
        return (self.path, *(one.path for one in self.album))

    @property
    def shown(self) -> str:
        """The names of all files, as lists of messages show them."""
        return "📎 " + ", ".join((self.name, *(one.name for one in self.album)))


class Outbound(Struct, frozen=True, kw_only=True):
    """One chunk to send, as Markdown within the channel's limit. With ``enclosure`` the text is the file's caption, and may be empty.

    ``key`` (25 characters at most) is the same on every attempt. ``attempt`` starts at 1. ``recorded`` is what an earlier
    attempt passed to ``record`` (a placeholder's id, say), or None. ``uncertain`` says that an earlier attempt may have arrived;
    ``restarted`` that the process was started again since that attempt.
    ``turn`` is the turn whose answer it is, as passed to ``draft``; empty for a message outside of turns; None if unknown.
    """

    key: str
    conversation: ChatAddress
    text: str
    reply_to: str | None = None
    buttons: tuple[Button, ...] = ()
    enclosure: OutboundFile | None = None
    attempt: int = 1
    recorded: str | None = None
    uncertain: bool = False
    restarted: bool = False
    turn: str | None = None


class Sent(Struct, frozen=True, kw_only=True):
    """Proof of delivery: the platform's id of the message."""

    platform_id: str


REPEATED = "(repeated after restart)\n"
"""Precedes a message whose earlier attempt was interrupted by the end of the process."""
PERHAPS = "(possibly repeated)\n"
"""Precedes a message whose earlier attempt ended without a known result in this process."""
MARKS = (REPEATED, PERHAPS)


def mark(outbound: Outbound) -> str:
    """Return what precedes the text: nothing for a message that certainly has not arrived yet."""
    if not outbound.uncertain:
        return ""
    return REPEATED if outbound.restarted else PERHAPS
