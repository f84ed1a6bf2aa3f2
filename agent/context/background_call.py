"""Background model calls (memory flush, summary, title): not shown to anyone, and not recorded in the transcript."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from agent.context.session_context import SessionContext
from agent.messages import AssistantMessage, Failure, with_distinct_call_ids
from agent.models.middleware.answer_limit import bounded
from agent.models.protocol import Model, Request


async def call_in_background(
    context: SessionContext, request: Request, *, model: Model | None = None, learn: bool = True
) -> AssistantMessage:
    """Call the session's model, or ``model``, in the background.

    A call that takes longer than ``compaction.timeoutSeconds`` fails. With ``learn`` the request extends the session's own
    prompt, and the reported usage corrects the session's token estimate.
    """
    asked = model or context.model
    if learn and model is None:
        context.watch.look_aside(request)
    limit = context.settings.compaction.timeout_seconds
    try:
        async with asyncio.timeout(limit):
            async for piece in bounded(asked, replace(request, background=True)):
                if isinstance(piece, AssistantMessage):
                    if learn and model is None and piece.usage is not None:
                        context.learn(request, piece.usage.prompt)
                    return with_distinct_call_ids(piece)
    except TimeoutError:
        message = f"{asked.name} gave no answer within {limit:g} seconds (agents.defaults.compaction.timeoutSeconds)."
        return AssistantMessage(content=(), model=asked.name, stop="error", failure=Failure(kind="timeout", message=message))
    raise RuntimeError(f"{asked.name} ended its stream without an answer")
