"""One message said in a terminal, and what came back for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.live import Done, Rejected, Reply

if TYPE_CHECKING:
    from channels.live import LiveEvent


class Exchange:
    """Judges when the answer to a message is complete: its turn is over and all of its replies are here."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.done: Done | None = None
        self.rejected: Rejected | None = None
        self._replies: set[str] = set()

    def hear(self, frame: LiveEvent) -> bool:
        """Take a frame in; return False for a reply that was heard before, which is not to be shown again."""
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
        """Whether nothing more will come for this message."""
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
        """The exit code that the turn gave; 1 for a message that was rejected."""
        if self.rejected is not None:
            return 1
        return int((self.done.facts.get("exit") if self.done else 0) or 0)
