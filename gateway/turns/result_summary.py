"""The result summary of a turn, for clients and programs that wait for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from agent.errors import AgentError, TranscriptWriteError
from agent.loop.turn import TurnResult
from agent.models.notebook import NAME as NOTEBOOK
from gateway.base import errors
from gateway.ledger.rows import TurnEnd
from gateway.routing.routed_message import RoutedMessage

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
