"""What a turn records about its tool calls, so that a restart knows which of them may have had an effect."""

from __future__ import annotations

from typing import Literal, Protocol

from agent.messages import ToolCall
from agent.tools.protocol import Effect

CallState = Literal["new", "started", "done", "unknown"]


class CallLog(Protocol):
    """A durable record of one turn's tool calls.

    ``key`` names a call within the turn: the number of the answer that asks for it, and the call's id (models reuse ids).
    """

    async def state(self, key: str) -> CallState:
        """Return how far a call got, in this process or before a restart."""
        ...

    async def begin(self, key: str, call: ToolCall, effect: Effect) -> CallState:
        """Record durably that a call is about to run, and return how far it got before.

        A call with an effect that is not new keeps its state and must not be run again.
        """
        ...

    async def end(self, key: str) -> None:
        """Record that a call's result is in the transcript. Changes only a call that is started."""
        ...


class NoCallLog:
    """A call log that records nothing, for turns that are never resumed."""

    async def state(self, key: str) -> CallState:  # noqa: ARG002  (the protocol's parameter)
        """Return "new" for every call."""
        return "new"

    async def begin(self, key: str, call: ToolCall, effect: Effect) -> CallState:  # noqa: ARG002  (the protocol's parameters)
        """Return "new" for every call."""
        return "new"

    async def end(self, key: str) -> None:
        """Record nothing."""
