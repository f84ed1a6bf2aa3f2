"""The gate: decides before a tool call runs whether it may run, needs the owner's approval, or is refused."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, Protocol

from msgspec import Struct

from agent.messages import ToolCall
from agent.tools.protocol import Act, ToolContext


class Verdict(Struct, frozen=True, kw_only=True):
    """What the gate decides on one call.

    ``reason`` says why a call is refused or asked about, in words for the model and for people. ``approval`` is the id of the approval
    that an "ask" waits for, ``summary`` says what the call would do. ``untrusted``: an "allow" that holds also while untrusted text is
    in view, because the owner's rule says so.
    """

    decision: Literal["allow", "ask", "deny"]
    reason: str = ""
    approval: str = ""
    summary: str = ""
    untrusted: bool = False


class AskedCall(Struct, frozen=True, kw_only=True):
    """A call that the owner was asked about. ``key`` names it within its turn; ``summary`` says what it would do.

    ``at`` is when it was asked about first, by which "in ten minutes" counts; None where that is not known.
    """

    approval: str
    key: str
    call: ToolCall
    summary: str = ""
    at: datetime | None = None


class Gate(Protocol):
    """Judges the tool calls of one turn."""

    async def judge(self, key: str, call: ToolCall, act: Act, context: ToolContext) -> Verdict:
        """Decide on a call. ``key`` names it within the turn, as in the call log, so that a repeat after a crash asks no second time.

        For a call that was asked about before, the answer follows from what the owner decided.
        """
        ...


class OpenGate:
    """A gate that allows everything."""

    async def judge(self, key: str, call: ToolCall, act: Act, context: ToolContext) -> Verdict:  # noqa: ARG002  (the protocol's parameters)
        """Allow the call."""
        return Verdict(decision="allow")
