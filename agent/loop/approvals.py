"""Tool calls that wait for the owner's approval: the placeholder result, and the message that later tells what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from agent.loop.gate import AskedCall
from agent.messages import AssistantMessage, Text, ToolCall, ToolMessage, UserMessage
from agent.transcript.entries import Entry, Said
from agent.transcript.transcript import Transcript

BEHIND_ONE_THAT_WAITS = (
    "Not run: it comes after a call that waits for the owner's approval. Ask for it again if it is still wanted then."
)
APPROVED = "the owner approved it."
"""What is said of a call that the owner approved."""
_APPROVAL, _SUMMARY = "approval", "summary"


def placeholder(call: ToolCall, approval: str, summary: str) -> ToolMessage:
    """Return the result of a call that is not run yet."""
    text = (
        f"Not run yet: it waits for the owner's approval #{approval}. A message will say what came of it; do not call it again."
    )
    return ToolMessage(call_id=call.id, name=call.name, text=text, details={_APPROVAL: approval, _SUMMARY: summary})


def outcome(asked: AskedCall, decision: str, result: ToolMessage | None, at: datetime) -> UserMessage:
    """Return the message that tells what came of a call. It is readable alone, because the call may be summarised by then."""
    what = asked.summary or asked.call.name
    head = f"[Approval #{asked.approval}: {decision}"
    if result is None:
        return UserMessage(content=(Text(text=f"{head} It was not run: {what}]"),), at=at, runtime=True)
    text = f"{head} Result of {asked.call.name} ({what}){', which failed' if result.is_error else ''}:]\n{result.text}"
    return UserMessage(content=(Text(text=text), *result.images), at=at, taint=result.taint, runtime=True)


def outcome_name(turn: str, approval: str) -> str:
    """Return the name under which the transcript holds the outcome of a call."""
    return f"{turn}~approval-{approval}"


def unsettled(transcript: Transcript, turn: str, asked: Sequence[AskedCall]) -> list[AskedCall]:
    """Return the calls of a turn whose outcome is not in the transcript: those of ``asked``, and those with a placeholder.

    The latter are all there is after a crash between the placeholder and the question. The former are known also where the
    transcript shows a summary in their place.
    """
    found = {one.approval: one for one in asked}
    for one in _with_placeholder(transcript.of_turn(turn)):
        found.setdefault(one.approval, one)
    return [one for one in found.values() if not transcript.holds(outcome_name(turn, one.approval))]


async def withdraw(transcript: Transcript, turn: str, asked: Sequence[AskedCall], reason: str, at: datetime) -> None:
    """Record that the calls of a turn that still wait will not run. Idempotent.

    Raises:
        TranscriptWriteError: the transcript could not be written.
    """
    for one in unsettled(transcript, turn, asked):
        await transcript.append(outcome_name(turn, one.approval), Said(message=outcome(one, reason, None, at)), n=0)


def _with_placeholder(entries: Sequence[Entry]) -> list[AskedCall]:
    found: list[AskedCall] = []
    calls: dict[str, tuple[str, ToolCall]] = {}
    for entry in entries:
        match entry.body:
            case Said(message=AssistantMessage() as answer):
                calls = {call.id: (call_key(entry.id, call), call) for call in answer.calls}
            case Said(message=ToolMessage(call_id=call_id, details={"approval": str(approval)} as details)) if call_id in calls:
                key, call = calls[call_id]
                found.append(AskedCall(approval=approval, key=key, call=call, summary=str(details.get(_SUMMARY, ""))))
    return found


def call_key(answer: str, call: ToolCall) -> str:
    """Name a call within its turn: by the number of the answer whose entry is ``answer``, and the call's id, which models reuse."""
    return f"{answer.rpartition(':')[2]}/{call.id}"
