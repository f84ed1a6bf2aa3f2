"""The agent's journal of tool calls, kept in the ledger."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.journal import CallState
    from agent.messages import ToolCall
    from agent.tools.protocol import Effect
    from gateway.ledger.protocol import TurnLedger


class LedgerJournal:
    """The calls of one turn (see ``agent.journal.Journal``)."""

    def __init__(self, ledger: TurnLedger, turn: str) -> None:
        self._ledger = ledger
        self._turn = turn

    async def state(self, key: str) -> CallState:
        """Say how far a call came."""
        record = await self._ledger.tool_state(self._turn, key)
        return "new" if record is None or record.state == "planned" else record.state

    async def started(self, key: str, call: ToolCall, effect: Effect) -> None:
        """Note that a call is about to run."""
        arguments = call.raw if call.arguments is None else json.dumps(call.arguments, sort_keys=True)
        digest = hashlib.sha256(arguments.encode("utf-8", "replace")).hexdigest()
        await self._ledger.tool_planned(self._turn, key, call.name, digest, effect)
        await self._ledger.tool_started(self._turn, key)

    async def done(self, key: str) -> None:
        """Note that its result is in the transcript. A call that was refused, or whose outcome is unknown, stays what it is."""
        record = await self._ledger.tool_state(self._turn, key)
        if record is not None and record.state == "started":
            await self._ledger.tool_done(self._turn, key)
