"""A terminal client's connection to one conversation, and the tracking of one message until its answer is complete."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

from channels.live import Done, LiveEvent, Rejected, Reply


class Link(Protocol):
    """One client's connection to one conversation."""

    async def say(self, text: str, *, key: str, hints: Mapping[str, str] | None = None, files: Sequence[str] = ()) -> None:
        """Send a message; it is durable on return. Sending it again with the same ``key`` has no effect.

        ``files`` are absolute paths of files on the gateway's machine. They are copied when the turn begins.

        Raises:
            ChannelError: it was not stored. ``LinkLost`` if that is unknown.
        """
        ...

    async def stop(self) -> None:
        """Stop the running turn, out of band."""
        ...

    def frames(self) -> AsyncIterator[LiveEvent]:
        """Yield live events until either side closes the connection; for one reader.

        A Reply counts as delivered once it was yielded.

        Raises:
            LinkLost: the connection broke.
        """
        ...

    async def close(self) -> None:
        """Disconnect. Replies that were not yielded go to the next client."""
        ...


class Exchange:
    """Tracks when the answer to a message is complete: its turn has ended and all of its replies have arrived."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.done: Done | None = None
        self.rejected: Rejected | None = None
        self._replies: set[str] = set()

    def hear(self, frame: LiveEvent) -> bool:
        """Record an event; return False for a repeated reply, which must not be shown again."""
        if isinstance(frame, Reply):
            if frame.key in self._replies:
                return False
            self._replies.add(frame.key)
        elif isinstance(frame, Done) and frame.key == self.key:
            self.done = frame
        elif isinstance(frame, Rejected) and frame.key == self.key:
            self.rejected = frame
        return True

    @property
    def over(self) -> bool:
        """Whether nothing more will arrive for this message."""
        if self.rejected is not None:
            return True
        if self.done is None:
            return False
        named = self.done.facts.get("replyKeys")
        if named is not None:
            return self._replies.issuperset(named)
        return len(self._replies) >= int(self.done.facts.get("chunks") or 0)

    @property
    def exit_code(self) -> int:
        """The exit code that the turn gave, or that was given with the rejection."""
        if self.rejected is not None:
            return self.rejected.exit
        return int((self.done.facts.get("exit") if self.done else 0) or 0)
