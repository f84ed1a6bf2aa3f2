"""The interface of a terminal client's connection to one conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from channels.live import LiveEvent


class Link(Protocol):
    """One client's line to one conversation."""

    async def say(self, text: str, *, key: str, hints: Mapping[str, str] | None = None) -> None:
        """Send a message; it is durable on return. Saying it again under the same ``key`` is harmless.

        Raises:
            ChannelError: it was not stored. ``LinkLost`` when nobody can say.
        """
        ...

    async def stop(self) -> None:
        """Stop the running turn, out of band."""
        ...

    def frames(self) -> AsyncIterator[LiveEvent]:
        """Yield what arrives, until the link is closed from either side; for one reader.

        A Reply counts as delivered once it was yielded.

        Raises:
            LinkLost: the connection broke.
        """
        ...

    async def close(self) -> None:
        """Detach. Deliveries that were not yielded go to whoever attaches next."""
        ...
