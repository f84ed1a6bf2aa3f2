"""What is noted of a turn: its names on log lines (structlog is used only where it is imported), its tool calls in the ledger."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
from collections.abc import Iterator

from agent.loop.call_log import CallState
from agent.messages import ToolCall
from agent.tools.protocol import Effect
from gateway.ledger.protocol import TurnLedger
from gateway.ledger.rows import ToolState


@contextlib.contextmanager
def bound(**names: str) -> Iterator[None]:
    """Mark every line that is logged within the block, in this task and those it starts."""
    structlog = sys.modules.get("structlog")
    if structlog is None:
        yield
        return
    with structlog.contextvars.bound_contextvars(**names):
        yield


class LedgerCallLog:
    """Records the tool calls of one turn in the ledger (see ``agent.loop.call_log``): one transaction before a call, one after."""

    def __init__(self, turns: TurnLedger, turn: str) -> None:
        self._turns = turns
        self._turn = turn

    async def state(self, key: str) -> CallState:
        """Return how far a call got."""
        record = await self._turns.tool_call(self._turn, key)
        return _as_call_state(None if record is None else record.state)

    async def begin(self, key: str, call: ToolCall, effect: Effect) -> CallState:
        """Record that a call is about to run; return how far it got before."""
        arguments = call.raw if call.arguments is None else json.dumps(call.arguments, sort_keys=True)
        digest = hashlib.sha256(arguments.encode("utf-8", "replace")).hexdigest()
        return _as_call_state(await self._turns.begin_call(self._turn, key, call.name, digest, effect))

    async def end(self, key: str) -> None:
        """Record that its result is in the transcript. A call that was refused, or whose outcome is unknown, keeps its state."""
        await self._turns.end_call(self._turn, key)


def _as_call_state(state: ToolState | None) -> CallState:
    return "new" if state is None or state == "planned" else state
