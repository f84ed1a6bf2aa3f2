"""What a channel is to the gateway, and what the gateway is to a channel."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from channels.messages import Attachment, ChatAddress, Cursor, Inbound, Outbound, Sent


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
    """The house as a channel sees it."""

    async def accept(self, messages: Sequence[Inbound], cursor: Cursor | None = None) -> None:
        """Take messages in. On return they and the cursor are durable, and only then may the platform be acknowledged.

        Messages that were seen before are skipped; those from people who may not speak leave no trace but a bounded pairing
        request. Raises only when nothing could be stored: the channel must then not acknowledge, and offer them again.
        """
        ...

    async def cursor(self, name: str) -> str | None:
        """Return the cursor last stored under ``name`` for this channel and account, or None."""
        ...

    async def moved(self, former: ChatAddress, present: ChatAddress) -> None:
        """Note durably that the platform gave a group another id: who may speak there, its session and what waits follow it."""
        ...

    def ready(self) -> None:
        """Say that the platform answers: held-back deliveries may start. May be called again after a reconnect."""
        ...

    def alive(self) -> None:
        """Say that the platform was heard from just now (a successful poll, a heartbeat's answer)."""
        ...


class Channel(Protocol):
    """One account on one platform.

    Contract: ``run`` returns only when cancelled and raises ``ChannelBroken`` when trying again cannot help; everything
    passing (network, 429, 5xx) it retries itself with back-off. ``send`` raises ``NotSent`` or ``Uncertain`` and nothing else.
    """

    name: str
    account: str

    async def run(self, sink: InboundSink) -> None:
        """Receive until cancelled."""
        ...

    def chunks(self, markdown: str) -> list[str]:
        """Cut a reply into Markdown pieces, each of which fits one message of the platform once rendered. No content, no pieces."""
        ...

    async def send(self, outbound: Outbound, record: Callable[[str], Awaitable[None]]) -> Sent:
        """Deliver one chunk. ``record`` durably notes a string that a later attempt will find in ``outbound.recorded``."""
        ...

    async def typing(self, conversation: ChatAddress) -> None:
        """Show that an answer is being written. Best effort: never raises for platform trouble."""
        ...

    async def close(self) -> None:
        """Release connections. Called once, after ``run`` ended."""
        ...


class Repeatable(Protocol):
    """An extra that a channel may offer: its ``send`` may be repeated after ``Uncertain`` as often as needed.

    True for a platform that recognises the key, or that can be read back. Elsewhere a chunk is repeated with longer and longer pauses,
    and after some attempts given up and named in a notice; unless ``record`` was called, which promises that a later attempt
    finds the message again.
    """

    repeats_safely: bool


class Answers(Protocol):
    """An extra that a channel may offer: asking whether a message would be taken now, without saying anything.

    Asked before a chunk is repeated that may have arrived, so that no copy is sent to a platform that is still in trouble.
    """

    async def answers(self, conversation: ChatAddress) -> bool:
        """Say whether the platform answers. Never raises for platform trouble."""
        ...


class Paced(Protocol):
    """An extra that a channel may offer: waiting for the platform's limits before a send begins, and not within it.

    A process that dies while it waits here has surely not sent, so that nothing is in doubt afterwards.
    """

    async def paced(self, conversation: ChatAddress) -> None:
        """Wait until a message may go there, for some seconds at most. Takes no turn, and raises nothing."""
        ...


class Drafts(Protocol):
    """An extra that a channel may offer: a preview of the answer while it is being written."""

    async def draft(self, conversation: ChatAddress, turn: str, text: str) -> None:
        """Show ``text`` (the whole reply so far) as a preview. Best effort: never raises for platform trouble."""
        ...


class DraftsEnd(Protocol):
    """An extra of a channel whose previews become the answer: it is told when a turn shows no more of it."""

    def draft_ended(self, conversation: ChatAddress, turn: str) -> None:
        """Let whatever is sent next take the preview's place. Until then only the turn's own messages do. Quick."""
        ...


class Fetches(Protocol):
    """An extra that a channel may offer: getting the files that came with messages."""

    async def fetch(self, attachment: Attachment, path: Path, limit: int) -> None:
        """Save a file at ``path``, which does not exist yet; where it fails nothing is left there.

        Raises:
            NotFetched: it is larger than ``limit`` bytes, gone, or could not be had.
        """
        ...


class Reacts(Protocol):
    """An extra that a channel may offer: an emoji of the bot's own under a person's message."""

    async def react(self, conversation: ChatAddress, message_id: str, emoji: str | None) -> None:
        """Put ``emoji`` there in the place of an earlier one; None takes it off. Best effort: never raises for platform trouble."""
        ...


class Shows(Protocol):
    """An extra that a channel may offer: messages with more than text. Where it does not, the house sends words instead."""

    shows: frozenset[Literal["buttons", "files"]]
    """What of ``Outbound.buttons`` and ``Outbound.enclosure`` its ``send`` takes."""


class Refers(Protocol):
    """An extra that a channel may offer: messages shown as a reply to another one."""

    reply_to_mode: Literal["off", "first", "all"]
    """Which pieces of an answer in a group name the message they answer in ``Outbound.reply_to``, when the agent does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MenuEntry:
    """A command that a platform's menu may offer. ``argument`` is a hint such as ``[on|off]``, or empty."""

    name: str
    help: str
    argument: str = ""


class Menu(Protocol):
    """An extra that a channel may offer: a menu of commands. A choice from it arrives as a message such as ``/status``."""

    async def menu(self, entries: Sequence[MenuEntry]) -> None:
        """Offer these commands, and change nothing where they are offered already. Called before ``run``; works in ``run``."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRequest:
    """An HTTP request of a platform, as it came. Header names are in small letters."""

    method: str
    query: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class HookAnswer:
    """What the platform is answered."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class Probed(Protocol):
    """An extra that a channel may offer: asking now whether the platform answers, for ``homebody channels status --probe``."""

    async def probe(self) -> str:
        """Return the bot's name there. Works without ``run``, and beside a ``run`` in another process. Raises ChannelError."""
        ...


class Remarks(Protocol):
    """An extra that a channel may offer: what its owner may want to know of it, for ``homebody channels status``."""

    def remarks(self) -> Sequence[str]:
        """Return sentences of its own; none when all is as it should be."""
        ...


class Beats(Protocol):
    """An extra that a channel may offer: the platform gives regular signs of life, so that the lack of them means something."""

    silence: float
    """Seconds without ``InboundSink.alive`` after which the channel is shown as silent."""


class Troubled(Protocol):
    """An extra that a channel may offer: what does not work at the moment though messages pass, for ``homebody channels status``."""

    trouble: str
    """What is wrong, in words; empty when nothing is. What the channel does about it by itself is said there too."""


class Hooked(Protocol):
    """An extra that a channel may offer: the platform calls us. Requests come to ``/hooks/<channel>/<account>`` of the gateway."""

    hooked: bool
    """Whether the settings ask for it."""

    async def hear(self, request: HookRequest) -> HookAnswer:
        """Check that the request is the platform's own, have the door accept what it says, and only then answer.

        Called while ``run`` runs; before that, and for what is forged, it answers without touching anything. A channel that can
        tell a forged request by its headers also has ``refuses(request) -> HookAnswer | None``, which is asked before a body is read.
        """
        ...
