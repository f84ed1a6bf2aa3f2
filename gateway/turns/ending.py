"""How a turn ends: its state, its reply, and what other sessions and the chat's own session are told of it, in one transaction.

Also what marks the replies of automations as unasked, and the result summary for clients and programs that wait.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, TypeAlias

from agent.errors import AgentError, TranscriptWriteError
from agent.loop.turn import TurnResult
from agent.models.notebook import NAME as NOTEBOOK
from agent.taint import Marks, fenced, random_mark
from channels.silent import is_silent
from gateway.agents.running_agent import RunningAgent
from gateway.approvals.gate import LIFETIME
from gateway.base import errors
from gateway.ledger.protocol import TurnLedger
from gateway.ledger.rows import Arrival, InboxRow, NewApproval, NewEvent, NewOutbound, TurnEnd, Unasked
from gateway.ledger.unasked import APPROVAL
from gateway.routing.automation import is_isolated
from gateway.routing.routed_message import RoutedMessage
from gateway.telemetry.recorder import Telemetry
from gateway.turns.quoting import cut, label_of, unmarked

LONGEST_EVENT: Final = 1500
"""Characters of an isolated run's reply that the session of its chat is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTurn:
    """The end of an automation's turn. ``text`` is what came of it, also where nobody is sent it; ``taint`` that of its session."""

    message: RoutedMessage
    state: TurnEnd
    text: str
    taint: tuple[str, ...] = ()
    reason: str = ""


Results: TypeAlias = "Callable[[EndedTurn], Awaitable[Sequence[tuple[str, Arrival]]]]"
"""Returns the messages, each with its account, that tell other sessions of a turn's end. It may be called again for the same end."""


async def _nothing(_ended: EndedTurn) -> Sequence[tuple[str, Arrival]]:
    return ()


class TurnEndings:
    """Ends turns. ``results`` is asked about each automation's turn; ``hand_out`` enqueues a stored message."""

    def __init__(
        self,
        turns: TurnLedger,
        *,
        results: Results = _nothing,
        hand_out: Callable[[InboxRow], Awaitable[None]],
        telemetry: Telemetry | None = None,
    ) -> None:
        self.telemetry = telemetry or Telemetry()
        self._turns = turns
        self.results = results
        self._hand_out = hand_out

    async def end(
        self,
        turn: str,
        state: TurnEnd,
        message: RoutedMessage | None = None,
        chunks: Sequence[NewOutbound] = (),
        *,
        text: str = "",
        taint: Collection[str] = (),
        reason: str = "",
        returned: Collection[int] = (),
    ) -> tuple[str, ...]:
        """End a turn and queue its reply; return the keys of the reply's chunks. ``message`` is its first one.

        What other sessions are told is stored with it, and enqueued afterwards.

        Raises:
            StorageFailed, InvalidTransition: nothing was stored.
        """
        arrivals: Sequence[tuple[str, Arrival]] = ()
        events: Sequence[NewEvent] = ()
        if message is not None and message.automation is not None:
            ended = EndedTurn(message=message, state=state, text=text, taint=tuple(sorted(taint)), reason=reason)
            arrivals, events = await self.results(ended), told_to_chat(ended, chunks)
        finished = await self._turns.finish(
            turn, state, chunks, reason=reason, returned=returned, arrivals=arrivals, events=events
        )
        self.telemetry.turn_ended(state, message.origin if message is not None else "unknown")
        for row in finished.rows:
            await self._hand_out(row)
        return finished.keys


def told_to_chat(ended: EndedTurn, chunks: Sequence[NewOutbound], marks: Marks = random_mark) -> list[NewEvent]:
    """Return what the session of a chat is told of a reply that an isolated run sends there; tainted text is fenced."""
    automation = ended.message.automation
    if automation is None or not chunks or not is_isolated(ended.message.route.session):
        return []
    place, said = chunks[0].conversation, unmarked(cut(ended.text.strip(), LONGEST_EVENT))
    if is_silent(place) or not said:
        return []
    said = fenced(said, ended.taint, marks) if ended.taint else said
    line = f"[{label_of(automation)} said here, outside of this conversation]\n{said}"
    return [NewEvent(conversation=place, line=line, sources=ended.taint)]


def unasked_of(agent: RunningAgent, message: RoutedMessage) -> Unasked | None:
    """Return the mark of a message's reply; None for a reply to a person, or one that is urgent."""
    automation = message.automation
    if automation is None or automation.urgent:
        return None
    return agent.unasked(automation.source, automation.name)


def marked(chunks: Sequence[NewOutbound], unasked: Unasked | None) -> list[NewOutbound]:
    """Return chunks with the mark of their message."""
    return [replace(chunk, unasked=unasked) for chunk in chunks]


def asked_when_awake(question: NewApproval, unasked: Unasked | None, now: datetime) -> NewApproval:
    """Return a question with the time until which it is open: if it is held in quiet hours, that begins when they end."""
    until = None if unasked is None else unasked.rule.quiet_until(now)
    return question if until is None else replace(question, expires=until + LIFETIME)


def as_question(question: NewApproval, unasked: Unasked | None) -> Unasked | None:
    """Return the mark of the chunks that ask a question: they do not count, and are not sent once it is decided."""
    return None if unasked is None else replace(unasked, source=f"{APPROVAL}{question.id}", counts=False)


DEFECT = "⚠️ Something went wrong on my side, and I gave this up; see the log. Say it again, or ask in another way."

_LONGEST_REASON: Final = 300
"""Characters of the reason that is stored of a failed turn."""


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
    return f"⚠️ {error}" + (f"\n{error.hint}" if error.hint else ""), code


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


def failure_of(message: RoutedMessage, state: TurnEnd, text: str) -> str:
    """Return why a job's or webhook's turn failed, for those who look it up. A sub-agent's failure is told in its result."""
    automation = message.automation
    if automation is None or automation.parent is not None or state != "failed":
        return ""
    line = " ".join(text.removeprefix("⚠️").split())
    return line if len(line) <= _LONGEST_REASON else f"{line[: _LONGEST_REASON - 1]}…"
