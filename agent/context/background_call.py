"""A model call of the runtime's own, such as a memory flush or a summary: shown to nobody, and not in the transcript."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from agent.context.session_context import SessionContext
from agent.messages import AssistantMessage, Failure, with_distinct_call_ids
from agent.models.middleware.answer_limit import bounded
from agent.models.protocol import Model, Request


async def call_in_background(
    conversation: SessionContext, request: Request, *, model: Model | None = None, learn: bool = True
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
            async for piece in bounded(asked, replace(request, background=True)):
                if isinstance(piece, AssistantMessage):
                    if learn and model is None and piece.usage is not None:
                        conversation.learn(request, piece.usage.prompt)
                    return with_distinct_call_ids(piece)
    except TimeoutError:
        told = f"{asked.name} gave no answer within {limit:g} seconds (agents.defaults.compaction.timeoutSeconds)."
        return AssistantMessage(content=(), model=asked.name, stop="error", failure=Failure(kind="timeout", message=told))
    raise RuntimeError(f"{asked.name} ended its stream without an answer")
