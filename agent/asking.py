"""One model call: streamed to whoever watches, kept in the transcript when whole, cancelled cleanly."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from agent.entries import Said
from agent.events import AnswerFinished, Aside, Progress, Restarted, StoodIn, TextDelta, ThinkingDelta
from agent.messages import AssistantMessage, Failure, Text, ToolCall
from agent.silence import Gate

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.conversation import Conversation
    from agent.events import Event
    from agent.models.protocol import Model, Request


async def ask(
    conversation: Conversation, request: Request, turn: str, emit: Callable[[Event], None]
) -> tuple[AssistantMessage, str]:
    """Call the model and return its answer, which by then is in the transcript, and the id of its entry. Failures are answers too.

    On cancellation what was said so far is kept, marked as cancelled; such answers are never shown to a model again.

    Raises:
        NotKept: the transcript could not be written.
    """
    streamed: list[str] = []
    conversation.watch.look(request, conversation.transcript.entries)
    try:
        answer = await _streamed(conversation, request, emit, streamed)
    except asyncio.CancelledError:
        partial = AssistantMessage(content=(Text(text="".join(streamed)),), model=conversation.model.name, stop="cancelled")
        await asyncio.shield(conversation.transcript.append(turn, Said(message=partial)))
        raise
    answer = with_distinct_ids(answer)
    entry = await conversation.transcript.append(turn, Said(message=answer))
    if answer.usage is not None:
        conversation.learn(request, answer.usage.prompt)
    emit(AnswerFinished(answer))
    return answer, entry.id


async def _streamed(
    conversation: Conversation, request: Request, emit: Callable[[Event], None], streamed: list[str]
) -> AssistantMessage:
    gate = Gate()
    async for piece in conversation.model.stream(request):
        if isinstance(piece, AssistantMessage):
            if (rest := gate.finish()) and piece.failure is None:
                emit(TextDelta(rest))
            return piece
        if isinstance(piece, Restarted):
            gate = Gate()
            streamed.clear()
            emit(piece)
        elif isinstance(piece, (ThinkingDelta, Aside, StoodIn)):
            emit(piece)
        elif not isinstance(piece, Progress):
            streamed.append(piece.text)
            if shown := gate.feed(piece.text):
                emit(TextDelta(shown))
    raise RuntimeError(f"{conversation.model.name} ended its stream without an answer")


async def ask_aside(
    conversation: Conversation, request: Request, *, model: Model | None = None, learn: bool = True
) -> AssistantMessage:
    """Call the model (or another one) for the runtime's own ends: nothing is shown, nothing is kept.

    One that takes longer than ``compaction.timeoutSeconds`` has failed. ``learn`` says that the request goes on from the
    conversation's own, so that what is reported of it tells about the conversation.
    """
    asked = model or conversation.model
    if learn and model is None:
        conversation.watch.look_aside(request)
    limit = conversation.settings.compaction.timeout_seconds
    try:
        async with asyncio.timeout(limit):
            async for piece in asked.stream(replace(request, background=True)):
                if isinstance(piece, AssistantMessage):
                    if learn and model is None and piece.usage is not None:
                        conversation.learn(request, piece.usage.prompt)
                    return with_distinct_ids(piece)
    except TimeoutError:
        told = f"{asked.name} gave no answer within {limit:g} seconds (agents.defaults.compaction.timeoutSeconds)."
        return AssistantMessage(content=(), model=asked.name, stop="error", failure=Failure(kind="timeout", message=told))
    raise RuntimeError(f"{asked.name} ended its stream without an answer")


def with_distinct_ids(answer: AssistantMessage) -> AssistantMessage:
    """Give calls that share an id, or have none, ids of their own: results are paired by id."""
    seen: set[str] = set()
    parts = []
    for part in answer.content:
        fixed = part
        if isinstance(part, ToolCall):
            call_id = part.id or "call"
            while call_id in seen:
                call_id = f"{call_id}_{len(seen)}"
            seen.add(call_id)
            fixed = part if call_id == part.id else replace(part, id=call_id)
        parts.append(fixed)
    return answer if tuple(parts) == answer.content else replace(answer, content=tuple(parts))
