"""What a channel is to the gateway, and what the gateway is to a channel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from channels.messages import Conversation, Cursor, Inbound, Outbound, Sent


class Door(Protocol):
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

    async def run(self, door: Door) -> None:
        """Receive until cancelled."""
        ...

    def chunks(self, markdown: str) -> list[str]:
        """Cut a reply into Markdown pieces, each of which fits one message of the platform once rendered. No content, no pieces."""
        ...

    async def send(self, outbound: Outbound, record: Callable[[str], Awaitable[None]]) -> Sent:
        """Deliver one chunk. ``record`` durably notes a string that a later attempt will find in ``outbound.recorded``."""
        ...

    async def typing(self, conversation: Conversation) -> None:
        """Show that an answer is being written. Best effort: never raises for platform trouble."""
        ...

    async def close(self) -> None:
        """Release connections. Called once, after ``run`` ended."""
        ...


class Repeatable(Protocol):
    """An extra that a channel may offer: its ``send`` may be repeated after ``Uncertain`` as often as needed.

    True for a platform that recognises the key, or that can be read back. Elsewhere a chunk is repeated once, and then given
    up and named in a notice; unless ``record`` was called, which promises that a later attempt finds the message again.
    """

    repeats_safely: bool


class Drafts(Protocol):
    """An extra that a channel may offer: a preview of the answer while it is being written."""

    async def draft(self, conversation: Conversation, turn: str, text: str) -> None:
        """Show ``text`` (the whole reply so far) as a preview. Best effort: never raises for platform trouble."""
        ...
