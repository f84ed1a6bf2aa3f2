"""What a turn notes down before it acts, so that a restart knows what may have happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from agent.messages import ToolCall
    from agent.tools.protocol import Effect

CallState = Literal["new", "started", "done", "unknown"]


class Journal(Protocol):
    """A durable record of one turn's tool calls.

    ``key`` names a call within the turn: the place of the answer that asks for it, and the call's id (which models repeat).
    """

    async def state(self, key: str) -> CallState:
        """Say how far a call came, here or before a restart."""
        ...

    async def started(self, key: str, call: ToolCall, effect: Effect) -> None:
        """Note that a call is about to run. On return the note is durable."""
        ...

    async def done(self, key: str) -> None:
        """Note that a call's result is in the transcript."""
        ...


class NoJournal:
    """For turns that nobody will resume: remembers nothing."""

    async def state(self, key: str) -> CallState:  # noqa: ARG002  (the protocol's parameter)
        """Every call is new."""
        return "new"

    async def started(self, key: str, call: ToolCall, effect: Effect) -> None:
        """Note nothing."""

    async def done(self, key: str) -> None:
        """Note nothing."""
