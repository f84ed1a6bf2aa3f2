"""One model call of a turn: streamed as events, and recorded in the transcript when it is complete or cancelled.

An answer may be sent in parts while it is being written. Each part is in the transcript before it is sent. When the answer is
completed, the parts are its beginning; when it breaks off, they are recorded as an answer that was cut off, and the model is asked to
continue.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Protocol, cast

from msgspec.structs import replace

from agent.context.session_context import SessionContext
from agent.events import AnswerFinished, Event, FailedOver, Progress, ReplyNote, Restarted, TextDelta, ThinkingDelta
from agent.messages import AssistantMessage, Failure, Text, with_distinct_call_ids
from agent.models.failures import TRANSIENT
from agent.models.middleware.answer_limit import bounded
from agent.models.protocol import Part, Request
from agent.no_reply import NoReplyFilter
from agent.transcript.entries import Entry, Said, SentPart
from agent.transcript.history_view import SHRINKING


class AnswerStream(Protocol):
    """Takes an answer as it is written, and sends it in parts. It appends a ``SentPart`` to the transcript first, and raises nothing."""

    def hear(self, text: str) -> None:
        """Take more of the answer, of which a person may see all. Quick."""
        ...

    async def stop(self) -> None:
        """The answer is over, or void: forget what was not sent of it. Nothing is sent from then on until more is heard."""
        ...


def cut_answer(entries: Iterable[Entry], model: str) -> AssistantMessage | None:
    """Return what was sent of an answer that these entries end with and that is not whole, as an answer; None when nothing was."""
    words, closing = "", ""
    for entry in entries:
        if isinstance(entry.body, SentPart):
            words, closing = words + entry.body.text, entry.body.closing
        elif isinstance(entry.body, Said):
            words = closing = ""
    return AssistantMessage(content=(Text(text=words + closing),), model=model, stop="cut") if words else None


async def call_model(
    context: SessionContext,
    request: Request,
    turn: str,
    emit: Callable[[Event], None],
    speaker: AnswerStream | None = None,
) -> tuple[AssistantMessage, str]:
    """Call the model and return its answer, which by then is in the transcript, and the id of its entry. Failures are answers too.

    An answer that breaks off after a part of it was sent by ``speaker`` is that part, with ``stop`` "cut": the same call would
    say it again. On cancellation what was said so far is kept, marked as cancelled, or as cut off where a part was sent;
    later turns are shown it as stopped.

    Raises:
        TranscriptWriteError: the transcript could not be written.
    """
    context.watch.observe(request, context.transcript.latest(*SHRINKING))
    call = _Call(context, turn, emit, speaker)
    try:
        answer, wait = await call.streamed(request)
    except asyncio.CancelledError:
        await asyncio.shield(call.left_off())
        raise
    if speaker is not None:
        await speaker.stop()
    cut = call.cut() if answer is None or answer.failure is not None else None
    if cut is not None:
        entry = await context.transcript.append(turn, Said(message=cut))
        if answer is None or _worth_going_on(answer.failure):
            emit(AnswerFinished(cut))
            await context.clock.sleep(wait)
            return cut, entry.id
    assert answer is not None
    if answer.calls:
        answer = with_distinct_call_ids(answer)
    if answer.stop == "repeated" and (sent := call.cut()) is not None and not answer.text.startswith(sent.text):
        answer = replace(answer, content=sent.content)  # more of the loop was sent than is kept otherwise
    acted_on = bool(answer.calls)  # otherwise the end of the turn follows at once, and is durable
    entry = await context.transcript.append(turn, Said(message=answer), durable=acted_on)
    if answer.usage is not None:
        context.learn(request, answer.usage.prompt)
    elif answer.failure is not None and answer.failure.prompt is not None:
        context.learn(request, answer.failure.prompt)
    emit(AnswerFinished(answer))
    return answer, entry.id


@dataclass
class _Call:
    """A running call. ``heard`` is what the current attempt has streamed."""

    context: SessionContext
    turn: str
    emit: Callable[[Event], None]
    speaker: AnswerStream | None
    heard: list[str] = field(default_factory=list)

    async def streamed(self, request: Request) -> tuple[AssistantMessage | None, float]:
        """Return the answer; or None, and for how long to wait, when it would begin anew after a part of it was sent."""
        gate = NoReplyFilter()
        stream = cast("AsyncGenerator[Part, None]", bounded(self.context.model, request))
        async with aclosing(stream) as parts:
            async for piece in parts:
                if isinstance(piece, AssistantMessage):
                    if (rest := gate.finish()) and piece.failure is None:
                        self.emit(TextDelta(rest))
                    return piece, 0.0
                if isinstance(piece, Restarted):
                    if not await self._begins_anew(piece):
                        return None, piece.wait
                    gate = NoReplyFilter()
                elif isinstance(piece, (ThinkingDelta, ReplyNote, FailedOver)):
                    self.emit(piece)
                elif not isinstance(piece, Progress):
                    self.heard.append(piece.text)
                    if shown := gate.feed(piece.text):
                        self.emit(TextDelta(shown))
                        if self.speaker is not None:
                            self.speaker.hear(shown)
        raise RuntimeError(f"{self.context.model.name} ended its stream without an answer")

    async def _begins_anew(self, restarted: Restarted) -> bool:
        """Forget what was said of the answer; False, and nothing is forgotten, where a part of it was sent."""
        if self.speaker is not None:
            await self.speaker.stop()
        if self.cut() is not None:
            return False
        self.heard.clear()
        self.emit(restarted)
        return True

    def cut(self) -> AssistantMessage | None:
        """Return what was sent of the answer, if anything was."""
        return cut_answer(self.context.transcript.of_turn(self.turn), self.context.model.name)

    async def left_off(self) -> None:
        """Keep what was said of an answer that is not wanted any more."""
        if self.speaker is not None:
            await self.speaker.stop()
        partial = AssistantMessage(content=(Text(text="".join(self.heard)),), model=self.context.model.name, stop="cancelled")
        await self.context.transcript.append(self.turn, Said(message=self.cut() or partial))


def _worth_going_on(failure: Failure | None) -> bool:
    """Whether to ask for the rest of an answer: not where the provider named a time that was too long to wait."""
    return failure is not None and failure.kind in TRANSIENT and failure.retry_after is None
