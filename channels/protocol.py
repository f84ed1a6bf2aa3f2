"""The interfaces between a channel and the gateway."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct, field

from channels.errors import NotSent
from channels.messages import Attachment, ChatAddress, Cursor, Inbound, Outbound, OutboundFile, Sent


class Clock(Protocol):
    """Time as channels read it; the gateway passes one in, and tests pass one that they set by hand."""

    def now(self) -> datetime:
        """Return the current instant, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never decrease."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for this many seconds."""
        ...


class InboundSink(Protocol):
    """Where a channel delivers what it receives; the gateway implements it."""

    async def accept(self, messages: Sequence[Inbound], cursor: Cursor | None = None) -> None:
        """Store messages. On return they and the cursor are durable, and only then may the platform be acknowledged.

        Messages that were seen before are skipped; messages from people who may not write are dropped, except for a bounded pairing
        request. Raises only if nothing could be stored: the channel must then not acknowledge, and must deliver them again.
        """
        ...

    async def cursor(self, name: str) -> str | None:
        """Return the cursor last stored under ``name`` for this channel and account, or None."""
        ...

    async def admits(self, person: str) -> bool:
        """Return whether a person, by id, may write in private now: paired or listed. For platforms where an invitation is accepted."""
        ...

    async def moved(self, former: ChatAddress, present: ChatAddress) -> None:
        """Record durably that the platform gave a group another id; its rules, session and queued messages move to the new id."""
        ...

    async def added(self, group: ChatAddress, *, key: str, title: str = "", by: str = "") -> None:
        """Report that the bot was added to a group: it says there who it is, or the owner is told how to allow the group.

        ``key`` is the same when the platform tells it again, and another one when the bot is added anew. ``title`` is the group's name and
        ``by`` that of the person who added the bot; either may be empty. Raises only if nothing could be stored.
        """
        ...

    async def bounced(self, conversation: ChatAddress, platform_id: str, error: NotSent) -> bool:
        """Record durably that a message, which the platform had taken, was not delivered after all.

        One that is ``held`` is queued again in its old place; any other counts as refused, and the owner is told. Returns whether the
        message is known. Raises only if nothing could be stored: the platform must then report it again.
        """
        ...

    def tell_owner(self, text: str) -> None:
        """Have the owner told a line that nobody asked for, in a chat of theirs, if there is one. Returns at once."""
        ...

    def ready(self) -> None:
        """Report that the platform can be reached, so that queued deliveries may start. May be called again after a reconnect."""
        ...

    def alive(self) -> None:
        """Report that the platform was heard from just now (a successful poll, an answered heartbeat)."""
        ...


class Channel(Protocol):
    """One account on one platform.

    ``run`` ends only when it is cancelled, or with ``ChannelBroken`` when trying again cannot help; temporary failures
    (network, 429, 5xx) it retries itself with backoff. ``send`` raises ``NotSent`` or ``Uncertain`` and nothing else.
    """

    name: str
    account: str

    async def run(self, sink: InboundSink) -> None:
        """Receive until cancelled."""
        ...

    def chunks(self, markdown: str) -> list[str]:
        """Split a reply into Markdown pieces, each of which fits one message of the platform once rendered; none for an empty reply."""
        ...

    async def send(self, outbound: Outbound, record: Callable[[str], Awaitable[None]]) -> Sent:
        """Deliver one chunk. ``record`` stores a string durably, which a later attempt finds in ``outbound.recorded``."""
        ...

    async def typing(self, conversation: ChatAddress) -> None:
        """Show that an answer is being written. Best effort: raises nothing when the platform fails."""
        ...

    async def close(self) -> None:
        """Release connections. Called once, after ``run`` ended."""
        ...


class Repeatable(Protocol):
    """Optional: ``send`` may be repeated after ``Uncertain`` as often as needed.

    True for a platform that recognises the key, or whose messages can be read back. Elsewhere a chunk is retried with backoff, and
    after some attempts given up and named in a notice; unless ``record`` was called, which promises that a later attempt
    finds the message.
    """

    repeats_safely: bool


class Encloses(Protocol):
    """Optional: what is said with an answer, such as that the gateway was restarted, is part of the answer's first message."""

    encloses: bool


class Answers(Protocol):
    """Optional: check whether the platform would accept a message now, without sending one.

    Called before a chunk that may have arrived is repeated, so that no copy is sent while the platform still fails.
    """

    async def answers(self, conversation: ChatAddress) -> bool:
        """Return whether the platform answers. Raises nothing when the platform fails."""
        ...


class Paced(Protocol):
    """Optional: wait for the platform's rate limits before a send begins, not within it.

    A process that is killed while it waits here has certainly not sent, so no message is in doubt afterwards.
    """

    async def paced(self, conversation: ChatAddress) -> None:
        """Wait until a message may be sent there, for some seconds at most. Uses up no allowance, and raises nothing."""
        ...


class Drafts(Protocol):
    """Optional: a preview of the answer while it is being written."""

    async def draft(self, conversation: ChatAddress, turn: str, text: str) -> None:
        """Show ``text`` (the whole reply so far) as a preview. Best effort: raises nothing when the platform fails."""
        ...


class Follows(Protocol):
    """Optional, for channels whose clients wait for the answer to one message: which turn answers which messages."""

    append_only: bool
    """Whether a preview can only be added to, so that what is gone from the answer again is left out of it: the output of a tool."""

    def turn_began(self, conversation: ChatAddress, turn: str, messages: Sequence[str]) -> None:
        """A turn, as passed to ``draft``, answers messages (``Inbound.message_id``) while they wait. Does not block."""
        ...


class DraftsEnd(Protocol):
    """Optional, for channels whose preview becomes the answer: called when a turn shows no more previews."""

    def draft_ended(self, conversation: ChatAddress, turn: str) -> None:
        """Let the next message of any kind replace the preview. Until then only messages of the same turn do. Does not block."""
        ...


class Fetches(Protocol):
    """Optional: download the files that came with messages."""

    async def fetch(self, attachment: Attachment, path: Path, limit: int) -> None:
        """Save a file at ``path``, which does not exist yet. On failure nothing is left there.

        Raises:
            NotFetched: it is larger than ``limit`` bytes, gone, or could not be downloaded.
        """
        ...


class Reacts(Protocol):
    """Optional: the bot's own reaction on a person's message."""

    async def react(self, conversation: ChatAddress, message_id: str, emoji: str | None) -> None:
        """Set the reaction to ``emoji``; None removes it. Best effort: raises nothing when the platform fails."""
        ...


class Shows(Protocol):
    """Optional: messages with buttons and files. Elsewhere the gateway describes them in text."""

    shows: frozenset[Literal["buttons", "files"]]
    """Which of ``Outbound.buttons`` and ``Outbound.enclosure`` its ``send`` supports."""


class GathersAlbums(Protocol):
    """Optional: several files as one message."""

    album_most: int
    """The most files in one."""
    album_bytes: int
    """The most bytes in one."""

    def album_kind(self, file: OutboundFile, size: int) -> str:
        """Return as what a file of ``size`` bytes goes with others; files of one kind that follow each other go together. Empty: alone."""
        ...


class Speaks(Protocol):
    """Optional: recordings that are shown as voice messages. Elsewhere they are sent as MP3 files."""

    voice_format: Literal["opus", "mp3"]
    """The format that a recording needs for it: Ogg with Opus, or MP3."""


class Refers(Protocol):
    """Optional: messages shown as a reply to another message."""

    reply_to_mode: Literal["off", "first", "all"]
    """Which pieces of an answer in a group carry the answered message in ``Outbound.reply_to``, unless the agent says otherwise."""


class MenuEntry(Struct, frozen=True, kw_only=True):
    """A command in a platform's menu. ``argument`` describes its argument, such as ``[on|off]``, or is empty."""

    name: str
    help: str
    argument: str = ""


class Overhears(Protocol):
    """Optional, for platforms that do not give a bot every message of a group."""

    async def unheard(self, conversation: ChatAddress) -> str:
        """Return why the bot is not given messages of a group that do not mention it, with what to do; empty where it is given them."""
        ...


class Ranks(Protocol):
    """Optional, for platforms whose groups have administrators."""

    async def administers(self, conversation: ChatAddress, person: str) -> bool:
        """Return whether a person, by id, is an administrator of a group. False where the platform fails."""
        ...


class Menu(Protocol):
    """Optional: a menu of commands. A chosen command arrives as a message such as ``/status``."""

    async def menu(self, entries: Sequence[MenuEntry]) -> None:
        """Set the menu, without a request where it is set already. Called before ``run``; takes effect in ``run``."""
        ...


class HookRequest(Struct, frozen=True, kw_only=True):
    """An HTTP request from a platform. Header names are in lower case."""

    method: str
    query: str
    headers: Mapping[str, str]
    body: bytes


class HookAnswer(Struct, frozen=True, kw_only=True):
    """The HTTP response to the platform."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class Probed(Protocol):
    """Optional: check now whether the platform answers, for ``homebody channels status --probe``."""

    async def probe(self) -> str:
        """Return the bot's name on the platform. Works without ``run``, and beside a ``run`` in another process. Raises ChannelError."""
        ...


class Proposes(Protocol):
    """Optional: settings that can be found out at the platform, for ``homebody setup``."""

    async def proposals(self) -> Mapping[str, tuple[str, str]]:
        """Return keys of the account's settings, each with the words that ask for it and a value. Raises ChannelError."""
        ...


class Instructs(Protocol):
    """Optional, for platforms where an address or a word of this gateway's has to be entered: ``homebody setup`` prints it."""

    def instructions(self) -> Sequence[str]:
        """Return what has to be entered there, a sentence each. Works without ``run``."""
        ...


class Remarks(Protocol):
    """Optional: remarks for the owner, shown by ``homebody channels status``."""

    def remarks(self) -> Sequence[str]:
        """Return the remarks, a sentence each; none when there is nothing to say."""
        ...


class Beats(Protocol):
    """Optional, for platforms with a heartbeat: after how much silence the platform counts as silent."""

    silence: float
    """Seconds without ``InboundSink.alive`` after which the channel is shown as silent."""


class HtmlReader(Protocol):
    """Reads the HTML of others as its reader would see it."""

    async def __call__(self, html: bytes, charset: str) -> str:
        """Return the visible text as Markdown. Raises ValueError where it cannot be read, with the reason."""
        ...


class ReadsHtml(Protocol):
    """Optional, for platforms whose messages are HTML: the gateway sets what reads it, in a process with limits, before ``run``."""

    html: HtmlReader | None
    """None until it is set."""


class ReadsPlainTexts(Protocol):
    """Optional, for platforms whose texts may be in any encoding, unsaid: the gateway sets what reads them before ``run``."""

    plain: Callable[[bytes, str], str] | None
    """Takes the bytes and what was said of their encoding; None until it is set."""


class Away(Protocol):
    """Optional, for platforms that are not heard of for minutes also when all is well: whether they are there."""

    away: str
    """Why the platform cannot be reached at the moment, in words; empty when it can. The channel is shown as silent meanwhile."""


class Troubled(Protocol):
    """Optional: what does not work at the moment although messages pass, for ``homebody channels status``."""

    trouble: str
    """What is wrong and what the channel does about it, in words; empty when nothing is wrong."""


class Hooked(Protocol):
    """Optional: webhooks. The platform sends requests to ``/hooks/<channel>/<account>`` of the gateway."""

    hooked: bool
    """Whether the settings turn webhooks on."""

    async def hear(self, request: HookRequest) -> HookAnswer:
        """Verify the request, have the sink accept its messages, and only then answer.

        Called while ``run`` runs; before that, and for a forged request, it answers without any effect. A channel that can
        recognise a forged request by its headers also has ``refuses(request) -> HookAnswer | None``, called before the body is read.
        """
        ...
