"""One turn: messages in, a reply out. Every step is durable, so that a restart resumes the turn where it was.

Its loop (``Turn._loop``): call the model, run its tool calls, add messages that arrived meanwhile, until it answers without tools.
Failures arrive as data (a failed answer, a refused call). The loop only decides whether to continue.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from agent import no_reply
from agent.characters import is_blank
from agent.context.context_budget import ContextBudget
from agent.context.session_context import SessionContext
from agent.events import AnswerFinished, Event, FailedOver, ReplyNote
from agent.loop.call_log import CallLog, NoCallLog
from agent.loop.gate import AskedCall, Gate, OpenGate
from agent.loop.model_call import AnswerStream, call_model, cut_answer
from agent.loop.steering_source import ExtraMessage, SteeringSource
from agent.loop.tool_runner import ToolRunner, unsettled, withdraw
from agent.messages import AssistantMessage, Failure, FailureKind, ToolMessage, Usage, UserMessage, added, begins_turn
from agent.transcript.entries import Compacted, Entry, FlushReceipt, Said, SentPart, TurnEnded
from agent.transcript.history_view import turn_of
from agent.transcript.transcript import Transcript

_REMARKS = {
    "length": "\n\n[The answer was cut off at the model's limit. Say “go on” for the rest.]",
    "repeated": "\n\n[The model began to repeat itself, so it was stopped here.]",
}
NEAR_FULL = 0.7
"""Share of the usable window above which a request that was refused for an unknown reason is tried once more after freeing context."""
GRACE_ROUNDS = 2
"""How many more answers with tool calls are accepted after the limit of tool calls was reached."""
SLICE = 5.0
"""Seconds between two looks at the clock. What passes beyond twice that in one of them, the process was stopped or the machine asleep."""
MOST_CUTS = 5
"""How often an answer may break off after a part of it was sent, and be continued, in one turn."""
Ended = Literal["answered", "silent", "failed", "stopped"]
Outcome = Ended | Literal["suspended"]


class TurnResult(Struct, frozen=True, kw_only=True):
    """The result of a turn. ``reply`` is for the person (empty when silent); ``context`` and ``window`` are in tokens.

    ``receipts`` are those of memory flushes, ``compactions`` the summaries that were made on the way. ``failure`` is why a model
    gave no answer. ``chosen`` is the model that was to answer, ``model`` the one that did; ``stood_in`` says why they differ.
    ``asides`` are lines to be told with the reply; ``thoughts`` is what the model let be seen of its thinking. A turn that is
    "suspended" waits for the approvals in ``waits_for`` (ids), and goes on when it is run again.
    """

    outcome: Outcome
    reply: str
    model: str
    usage: Usage | None
    context: int
    window: int
    calls: tuple[ToolMessage, ...]
    seconds: float
    receipts: tuple[FlushReceipt, ...] = ()
    compactions: int = 0
    failure: FailureKind | None = None
    chosen: str = ""
    stood_in: FailedOver | None = None
    asides: tuple[str, ...] = ()
    thoughts: str = ""
    waits_for: tuple[str, ...] = ()


class Ending(Struct, frozen=True):
    """How the loop ended. ``answer`` is the model's last word; with "failed" it says what was wrong.

    "suspended": it goes on with the same messages once the owner has decided. ``answer`` is None where the model was not asked.
    """

    outcome: Literal["answered", "failed", "stopped", "suspended"]
    answer: AssistantMessage | None


@dataclass(kw_only=True)
class Turn:
    """One turn of a session. ``background``: no person started the turn, so it never flushes.

    ``begun``: its messages are in the transcript, and stay in the history however the turn ends.
    ``answered``: the result of a turn whose answer is in the transcript. Whatever ends the turn from then on, the answer counts as said.
    ``speaker`` may send answers while they are written.
    """

    context: SessionContext
    id: str
    emit: Callable[[Event], None]
    journal: CallLog = field(default_factory=NoCallLog)
    gate: Gate = field(default_factory=OpenGate)
    arrivals: SteeringSource = field(default_factory=SteeringSource)
    speaker: AnswerStream | None = None
    background: bool = False
    begun: bool = field(default=False, init=False)
    answered: TurnResult | None = field(default=None, init=False)
    _given: tuple[Sequence[UserMessage], Sequence[ExtraMessage]] = ((), ())
    _tools: ToolRunner = field(init=False)
    _headroom: ContextBudget = field(init=False)
    _asked: bool = False
    _doubted: bool = False
    _asides: list[str] = field(default_factory=list)
    _stood_in: FailedOver | None = None
    _thoughts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Set up what acts and what makes room."""
        self._tools = ToolRunner(
            context=self.context,
            turn=self.id,
            journal=self.journal,
            emit=self.emit,
            overtaken=self.arrivals.any,
            gate=self.gate,
        )
        self._headroom = ContextBudget(self.context, f"{self.id}~room", self._hear, flushes=not self.background)

    @property
    def tool_calls(self) -> int:
        """How many tools the turn has called so far."""
        return len(self._tools.calls)

    @property
    def repeats(self) -> int:
        """How many of them were refused as repeats."""
        return self._tools.repeats

    async def run(
        self, messages: Sequence[UserMessage], further: Sequence[ExtraMessage] = (), asked: Sequence[AskedCall] = ()
    ) -> TurnResult:
        """Answer ``messages`` and ``further`` ones together.

        Run again with the same id and messages after a crash, it goes on where it was. What was taken in on the way is given
        with ``further`` then, and the calls that its owner was asked about with ``asked``.

        A time-out ends the turn with what was done so far. Cancellation leaves a valid transcript and is raised on.

        Raises:
            TranscriptWriteError: the transcript could not be written.
        """
        began = self.context.clock.monotonic()
        self._given = messages, further
        self.context.turn = self.id
        await self.context.prepare()
        limit = self.context.settings.limits.timeout_seconds
        try:
            try:
                async with running_limit(limit):
                    resume = await self._begin(messages, further, asked)
                    ending = await self._loop(resume)
            except TimeoutError:
                note = AssistantMessage(content=(), model=self.context.model.name, stop="cancelled")
                ending = Ending("suspended", None) if self._tools.waiting else Ending("stopped", note)
                if ending.outcome == "stopped":
                    await self.keep_unanswered(stopped=True)
            return await self._end(ending, self.context.clock.monotonic() - began)
        finally:
            await self.context.transcript.settle()

    async def withdraw(self, reason: str) -> None:
        """Record that calls which wait for the owner will not run, because the turn ends for good.

        Raises:
            TranscriptWriteError: the transcript could not be written.
        """
        await withdraw(self.context.transcript, self.id, (), reason, self.context.now())

    async def keep_unanswered(self, *, stopped: bool) -> None:
        """Put the messages that it was given into the transcript, where a flush or a summary before them was not over yet.

        ``stopped``: the model is told that they were not answered because they were stopped.

        Raises:
            TranscriptWriteError: the transcript could not be written.
        """
        messages, further = self._given
        if not self.begun:
            if self.context.transcript.opened is None:
                await self.context.prepare()
            for n, message in enumerate(messages):
                await self.context.transcript.append(self.id, Said(message=message), n=n)
            await self._put(further)
        if stopped:
            await mark_stopped(self.context.transcript, self.id)

    async def _loop(self, resume: tuple[AssistantMessage, str] | None) -> Ending:
        """Run until the model is done. ``resume`` is an answer that a restart found last in the transcript.

        A message that arrives while the final answer is written is left for the next turn.
        """
        pending = resume
        grace, cuts = GRACE_ROUNDS, MOST_CUTS
        if pending is None and self._tools.waiting:
            return Ending("suspended", None)
        while True:
            answer, entry = pending or await self._call_model()
            pending = None
            if answer.stop == "cut":
                if (cuts := cuts - 1) < 0:
                    return Ending("failed", replace(answer, failure=_cut_too_often(answer.model)))
                continue
            overflowed = answer.stop == "overflow" or (answer.failure is not None and answer.failure.kind == "overflow")
            if overflowed and await self._headroom.after_overflow():
                continue
            if answer.failure is not None or overflowed:
                return Ending("failed", answer)
            if not answer.calls:
                return Ending("answered", answer)
            if self._tools.exhausted and (grace := grace - 1) < 0:
                return Ending("stopped", answer)
            await self._tools.run(answer.calls, entry)
            if self._tools.waiting:
                return Ending("suspended", answer)
            await self._put(await self.arrivals.take())

    async def _call_model(self) -> tuple[AssistantMessage, str]:
        """Ask the model once; the answer is durable, and comes with the id of its entry. Between rounds the context is judged anew."""
        if self._asked:
            await self._headroom.judge()
        self._asked = True
        answer, entry = await call_model(self.context, self.context.request(), self.id, self._hear, self.speaker)
        failure = answer.failure
        if failure is not None and failure.unclear and not self._doubted:
            self._doubted = True
            if self.context.tokens() >= NEAR_FULL * self.context.window.compact_above:
                answer = replace(answer, stop="overflow")  # a refusal in words that nobody knows here may mean the length
        return answer, entry

    async def _begin(
        self, messages: Sequence[UserMessage], further: Sequence[ExtraMessage], asked: Sequence[AskedCall]
    ) -> tuple[AssistantMessage, str] | None:
        """Put the messages into the transcript, unless a restart finds them there; return the answer to go on from, if any.

        Calls that were asked about and decided since are run or refused.
        """
        self.begun = bool(asked)
        await self._end_broken()
        said = [entry for entry in self.context.transcript.of_turn(self.id) if isinstance(entry.body, Said)]
        if not said:
            await self._headroom.before_turn([*messages, *(one.message for one in further)])
            if (news := self.context.news_of_files()) is not None:
                await self.context.transcript.append(f"{self.id}~files", news, n=0, durable=False)
        for n, message in enumerate(messages):
            await self.context.transcript.append(self.id, Said(message=message), n=n, durable=False)  # the inbox has it
        if further:
            await self._put(further)
        self.begun = True
        if not said and not asked:
            return None
        await self._tools.settle(unsettled(self.context.transcript, self.id, asked))
        return _unfinished(said)

    async def _end_broken(self) -> None:
        """Record an answer that a crash cut off after parts of it were sent, in this turn or in one that was given up."""
        transcript = self.context.transcript
        latest = transcript.latest(SentPart, Said)
        if latest is not None and isinstance(latest.body, SentPart):
            turn = latest.id.rpartition(":")[0]
            if (cut := cut_answer(transcript.entries, self.context.model.name)) is not None:
                await transcript.append(turn, Said(message=cut))

    async def _put(self, further: Sequence[ExtraMessage]) -> None:
        """Append further messages to the transcript, each under its own name."""
        for one in further:
            await self.context.transcript.append(f"{self.id}~{one.name}", Said(message=one.message), n=0)

    async def _end(self, ending: Ending, seconds: float) -> TurnResult:
        if ending.outcome == "suspended":
            return self._result(ending, "suspended", "", seconds)  # the turn has not ended, and its messages are not answered
        section = "subagents" if self.context.task else "limits"
        setting = f"agents.defaults.{section}.timeoutSeconds"
        stuck = ending.outcome == "stopped" and self._tools.stuck
        reply, outcome = _reply(ending, self.context.settings.limits.timeout_seconds, setting, stuck=stuck)
        result = self._result(ending, outcome, reply, seconds)
        self.answered = result if ending.outcome == "answered" else None
        facts = {
            "seconds": round(seconds, 3),
            "context": result.context,
            "toolCalls": len(result.calls),
            "prompt": self.context.watch.digest,
        }
        await self.context.transcript.append(self.id, TurnEnded(turn=self.id, outcome=outcome, facts=facts))
        return result

    def _result(self, ending: Ending, outcome: Outcome, reply: str, seconds: float) -> TurnResult:
        failure = ending.answer.failure if ending.answer is not None else None
        return TurnResult(
            outcome=outcome,
            reply=reply,
            model=ending.answer.model if ending.answer is not None else self.context.model.name,
            usage=self._usage(),
            context=self.context.tokens(),
            window=self.context.window.size,
            calls=tuple(self._tools.calls),
            seconds=seconds,
            receipts=tuple(self._headroom.receipts),
            compactions=self._headroom.compactions,
            failure=failure.kind if outcome == "failed" and failure else None,
            chosen=self.context.model.name,
            stood_in=self._stood_in,
            asides=tuple(dict.fromkeys(self._asides)),
            thoughts="\n\n".join(self._thoughts),
            waits_for=tuple(self._tools.waiting) if outcome == "suspended" else (),
        )

    def _hear(self, event: Event) -> None:
        """Collect what is added to the reply, and pass every event on."""
        if isinstance(event, ReplyNote):
            self._asides.append(event.text)
        elif isinstance(event, FailedOver):
            self._stood_in = event
        elif isinstance(event, AnswerFinished):
            self._thoughts += [part.text for part in event.message.content if part.type == "thinking" and part.text.strip()]
        self.emit(event)

    def _usage(self) -> Usage | None:
        """The usage of all model calls of this turn, including flush and summary."""
        transcript = self.context.transcript
        entries = [*transcript.of_turn(self.id), *transcript.of_turn(f"{self.id}~room")]
        total: Usage | None = None
        for body in (entry.body for entry in entries):
            if isinstance(body, Said):
                usage = body.message.usage if isinstance(body.message, AssistantMessage) else None
            else:
                usage = body.usage if isinstance(body, (FlushReceipt, Compacted)) else None
            if usage is not None:
                total = usage if total is None else added(total, usage)
        return total


async def mark_stopped(transcript: Transcript, turn: str) -> None:
    """Record that a turn was stopped before its last message was answered, if that is what the transcript ends with. Idempotent.

    Raises:
        TranscriptWriteError: the transcript could not be written.
    """
    latest = transcript.latest(Said)
    if latest is None or turn_of(latest) != turn or not isinstance(latest.body, Said) or not begins_turn(latest.body.message):
        return
    answer = AssistantMessage(content=(), model="", stop="cancelled")
    await transcript.append(f"{turn}~stopped", Said(message=answer))


def _cut_too_often(model: str) -> Failure:
    hint = "Say “go on” for the rest, or choose another model with /model."
    return Failure(kind="network", message=f"{model} broke off its answer {MOST_CUTS + 1} times.", hint=hint)


def _unfinished(said: Sequence[Entry]) -> tuple[AssistantMessage, str] | None:
    """Return the last answer of an interrupted turn with the calls that still lack a result; None: the model is to be asked."""
    answered: set[str] = set()
    for entry in reversed(said):
        assert isinstance(entry.body, Said)
        message = entry.body.message
        if isinstance(message, ToolMessage):
            answered.add(message.call_id)
        elif isinstance(message, AssistantMessage):
            if message.failure is not None or message.stop in {"error", "cancelled", "overflow", "cut"}:
                return None
            missing = {call.id for call in message.calls} - answered
            if message.calls and not missing:
                return None
            content = tuple(part for part in message.content if part.type != "tool_call" or part.id in missing)
            return replace(message, content=content), entry.id
        else:
            return None
    return None


def _reply(ending: Ending, timeout: float, setting: str, *, stuck: bool = False) -> tuple[str, Ended]:
    """Return what the person is told, and the outcome. ``setting`` names the one that the time limit comes from."""
    answer = ending.answer
    assert answer is not None
    if ending.outcome == "answered":
        reply = no_reply.without_no_reply(answer.text)
        if is_blank(reply):
            return "", "silent"
        return reply + _REMARKS.get(answer.stop, ""), "answered"
    if ending.outcome == "stopped":
        if answer.stop == "cancelled":
            return f"⚠️ I stopped: this took longer than {timeout:g} seconds ({setting}).", "stopped"
        why = "too many tool calls in one turn (agents.defaults.limits.maxToolCalls)."
        if stuck:
            why = "the model asked for the same thing again and again (agents.defaults.limits.maxRepeats)."
        return f"{answer.text.strip()}\n\n⚠️ I stopped: {why}".strip(), "stopped"
    failure = answer.failure
    if failure is None:
        return (
            "⚠️ The conversation no longer fits the model's window. Say /new to begin afresh.",
            "failed",
        )
    return f"⚠️ {failure.message}" + (f"\n{failure.hint}" if failure.hint else ""), "failed"


@contextlib.asynccontextmanager
async def running_limit(seconds: float) -> AsyncIterator[None]:
    """Raise TimeoutError in the block once it has run for so long. A pause of the whole process counts for a moment only.

    A laptop that slept, or a virtual machine that was stopped, must not end what it was about to go on with.
    """
    loop = asyncio.get_running_loop()
    left, wait, began = seconds, min(SLICE, max(seconds, 0.0)), loop.time()
    timer: asyncio.TimerHandle

    def look() -> None:  # a timer and no task: every turn has one
        nonlocal left, wait, began, timer
        now = loop.time()
        left -= min(now - began, max(wait, 2 * SLICE))
        if left <= 0:
            limit.reschedule(now)
            return
        wait, began = min(SLICE, left), now
        timer = loop.call_later(wait, look)

    async with asyncio.timeout(None) as limit:
        timer = loop.call_later(wait, look)
        try:
            yield
        finally:
            timer.cancel()
