"""One turn while it is answered: its messages, its names in logs and figures, its tool calls in the ledger, and its result as facts."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from agent.errors import AgentError, TranscriptWriteError
from agent.messages import ToolCall
from agent.models.notebook import NAME as NOTEBOOK
from agent.tools.protocol import Effect
from gateway.agents.running_agent import RunningAgent
from gateway.approvals.approval_gate import TurnFacts
from gateway.base import errors
from gateway.budget.budget_guard import Spender
from gateway.ledger.protocol import TurnLedger
from gateway.ledger.rows import Approval, ToolState, Turn
from gateway.queue.steering import RunningTurn
from gateway.routing.routed_message import RoutedMessage
from gateway.sessions.sessions_file import SessionRecord
from gateway.turns.user_message import label_of, sources_of

if TYPE_CHECKING:
    from agent.loop.call_log import CallState
    from agent.loop.turn import TurnResult


class TurnContext(Struct, frozen=True):
    """The messages of one turn and what it needs besides. ``message`` is the first one.

    ``further`` are the others, ``running`` is what is known of the turn while it runs. ``asked`` are the questions that were asked
    about its tool calls before.
    """

    agent: RunningAgent
    message: RoutedMessage
    further: Sequence[RoutedMessage]
    record: SessionRecord
    turn: Turn
    greeting: str
    running: RunningTurn
    asked: Sequence[Approval] = ()

    @property
    def answered(self) -> tuple[RoutedMessage, ...]:
        """All messages that the turn answers, those that joined it on the way included."""
        return (self.message, *self.further, *self.running.steered)

    @property
    def taint(self) -> Collection[str]:
        """The sources of untrusted text that the turn's session has seen."""
        running = self.running.turn
        return sources_of(self.message) if running is None else running.context.taint

    @property
    def for_gate(self) -> TurnFacts:
        """What the gate is told of the turn."""
        return TurnFacts(
            name=self.message.row.uid,
            agent=self.agent.id,
            session=self.record.key,
            transcript=self.record.session,
            workspace=str(self.agent.workspace.root),
            conversation=self.message.inbound.conversation,
            asked_by=self.message.automation.asked_by if self.message.automation is not None else None,
        )

    @property
    def spender(self) -> Spender:
        """For whom or what the turn's model calls are made."""
        automation = self.message.automation
        if automation is None:
            return Spender(origin=self.message.origin)
        return Spender(
            origin=automation.origin,
            source=automation.source,
            label=label_of(automation),
            usd=automation.daily_usd,
            tokens=automation.daily_tokens,
        )

    @property
    def timed(self) -> tuple[str, str, dict[str, str]]:
        """Under which name, origin and attributes the work on the turn is timed."""
        attributes = {
            "homebody.agent": self.agent.id,
            "homebody.session": self.record.key,
            "homebody.channel": self.message.inbound.conversation.channel,
            "homebody.origin": self.message.origin,
            "homebody.message": self.message.row.uid,
        }
        return self.turn.id, self.message.origin, attributes

    def result(
        self, reply: str, result: TurnResult | None = None, *, keys: Sequence[str] = (), exit_code: int = 0
    ) -> dict[str, Any]:
        """Return the facts of the turn's result (see ``turn_facts``)."""
        return turn_facts(self.agent.id, self.record.key, self.record.session, reply, result, keys=keys, exit_code=exit_code)


@contextlib.contextmanager
def bound(**names: str) -> Iterator[None]:
    """Mark every line that is logged within the block, in this task and those it starts."""
    structlog = sys.modules.get("structlog")
    if structlog is None:
        yield
        return
    with structlog.contextvars.bound_contextvars(**names):
        yield


class LedgerCallLog(Struct, eq=False):
    """Records the tool calls of one turn in the ledger (see ``agent.loop.call_log``): one transaction before a call, one after."""

    turns: TurnLedger
    turn: str

    async def state(self, key: str) -> CallState:
        """Return how far a call got."""
        record = await self.turns.tool_call(self.turn, key)
        return _as_call_state(None if record is None else record.state)

    async def begin(self, key: str, call: ToolCall, effect: Effect) -> CallState:
        """Record that a call is about to run; return how far it got before."""
        arguments = call.raw if call.arguments is None else json.dumps(call.arguments, sort_keys=True)
        digest = hashlib.sha256(arguments.encode("utf-8", "replace")).hexdigest()
        return _as_call_state(await self.turns.begin_call(self.turn, key, call.name, digest, effect))

    async def end(self, key: str) -> None:
        """Record that its result is in the transcript. A call that was refused, or whose outcome is unknown, keeps its state."""
        await self.turns.end_call(self.turn, key)


def _as_call_state(state: ToolState | None) -> CallState:
    return "new" if state is None or state == "planned" else state


DEFECT = "⚠️ Something went wrong on my side, and I gave this up; see the log. Say it again, or ask in another way."


def exit_of(result: TurnResult) -> int:
    """Return the exit code of a program that asked: a note that could not be written is a failure, too."""
    if result.outcome != "failed":
        unwritten = result.model == NOTEBOOK and any(call.name == "write" and call.is_error for call in result.calls)
        return errors.FAILED if unwritten else errors.OK
    return errors.NO_MODEL if result.failure in {"auth", "unknown_model"} else errors.FAILED


def in_words(error: AgentError | errors.HomebodyError) -> tuple[str, int]:
    """Put an error into words for the chat, with the exit code for a program that asked."""
    known = errors.as_homebody_error(error)
    code = errors.STORAGE_FAILED if isinstance(error, TranscriptWriteError) else known.exit_code if known else errors.FAILED
    if isinstance(error, AgentError) and not isinstance(error, TranscriptWriteError):
        code = errors.NO_MODEL
    return errors.for_chat(f"⚠️ {error}" + (f"\n{error.hint}" if error.hint else "")), code


def turn_facts(
    agent: str,
    key: str,
    session: str,
    reply: str,
    result: TurnResult | None = None,
    *,
    keys: Sequence[str] = (),
    exit_code: int = 0,
) -> dict[str, Any]:
    """What ``homebody agent --json`` prints, with the fields that a client needs. A figure not known is None.

    ``chosen`` is the model that was to answer, ``model`` the one that did. ``keys`` are those of the pieces of the reply, by
    which a client knows them among others that arrive.
    """
    usage = result.usage if result else None
    return {
        "reply": reply,
        "agent": agent,
        "sessionKey": key,
        "sessionId": session,
        "model": result.model if result else None,
        "chosen": result.chosen if result else None,
        "usage": {
            "input": usage.input if usage else None,
            "output": usage.output if usage else None,
            "cacheRead": usage.cache_read if usage else None,
            "cacheWrite": usage.cache_write if usage else None,
            "cost": usage.cost if usage else None,
        },
        "context": {"tokens": result.context if result else None, "window": result.window if result else None},
        "toolCalls": [
            {"name": call.name, "error": call.is_error} | _json(call.details) for call in (result.calls if result else ())
        ],
        "ms": round(result.seconds * 1000) if result else None,
        "chunks": len(keys),
        "replyKeys": list(keys),
        "exit": exit_code,
    }


def _json(details: Mapping[str, Any]) -> dict[str, Any]:
    return {"details": dict(details)} if details else {}
