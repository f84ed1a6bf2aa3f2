"""Runs the tool calls of an answer: side by side where they only read, at most once where they have an effect, within limits.

Calls that wait for an approval are found and withdrawn here, too (``unsettled``, ``withdraw``).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from msgspec import structs
from msgspec.structs import replace

from agent.context.session_context import SessionContext
from agent.events import Event, ToolFinished, ToolOutput, ToolStarted
from agent.loop.call_log import CallLog
from agent.loop.gate import AskedCall, Gate, OpenGate, Verdict
from agent.messages import AssistantMessage, Text, ToolCall, ToolMessage, UserMessage
from agent.taint import unfenced
from agent.tools.protocol import ToolContext
from agent.tools.toolbox import LOOKS_AROUND, OUTSIDE, WITHHELD, result_cap
from agent.transcript.entries import Entry, Said
from agent.transcript.history_view import unknown
from agent.transcript.transcript import Transcript

BEHIND_ONE_THAT_WAITS = (
    "Not run: it comes after a call that waits for the owner's approval. Ask for it again if it is still wanted then."
)
APPROVED = "the owner approved it."
"""What is said of a call that the owner approved."""
_LONGEST_CALL = 300
"""Characters of a call that are told of it where its summary is not."""
_APPROVAL, _SUMMARY = "approval", "summary"


def placeholder(call: ToolCall, approval: str, summary: str) -> ToolMessage:
    """Return the result of a call that is not run yet."""
    text = (
        f"Not run yet: it waits for the owner's approval #{approval}. A message will say what came of it; do not call it again."
    )
    return ToolMessage(call_id=call.id, name=call.name, text=text, details={_APPROVAL: approval, _SUMMARY: summary})


def outcome(asked: AskedCall, decision: str, result: ToolMessage | None, at: datetime) -> UserMessage:
    """Return the message that tells what came of a call. It is readable alone, because the call may be summarised by then."""
    what = asked.summary or f"{asked.call.name} {json.dumps(asked.call.arguments, ensure_ascii=False)}"[:_LONGEST_CALL]
    head = f"[Approval #{asked.approval}: {decision}"
    if result is None:
        return UserMessage(content=(Text(text=f"{head} It was not run: {what}]"),), at=at, runtime=True)
    text = f"{head} Result of {asked.call.name} ({what}){', which failed' if result.is_error else ''}:]\n{result.text}"
    return UserMessage(content=(Text(text=text), *result.images), at=at, taint=result.taint, runtime=True)


def came_of(text: str) -> Literal["done", "failed", "not run"]:
    """Return what the message of ``outcome`` with this text tells of its call."""
    head, ran, _ = text.partition(":]\n")
    if not ran:
        return "not run"
    return "failed" if head.endswith(", which failed") else "done"


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


log = logging.getLogger(__name__)

OVERTAKEN = "Not run: something new was said meanwhile. Read it, then decide whether this is still wanted."


@dataclass(kw_only=True)
class ToolRunner:
    """The tool calls of one turn. Results are in the transcript, in the order of the calls, when ``run`` returns.

    ``overtaken`` says whether a person has written since the model asked for the calls: calls that would change something are then
    not run, so that "no, wait" comes in time. ``waiting`` holds the ids of the approvals that the turn waits for.
    """

    context: SessionContext
    turn: str
    journal: CallLog
    emit: Callable[[Event], None]
    overtaken: Callable[[], bool] = lambda: False
    gate: Gate = field(default_factory=OpenGate)
    calls: list[ToolMessage] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    repeats: int = 0
    """How many calls were refused because they repeated the same result."""
    _refused_in_a_row: int = 0
    _seen: Counter[str] = field(default_factory=Counter)

    @property
    def stuck(self) -> bool:
        """Whether the model only repeats calls that were refused as repeats."""
        return self._refused_in_a_row >= self.context.settings.limits.max_repeats

    @property
    def exhausted(self) -> bool:
        """Whether the limit of tool calls is reached, or the model only repeats refused calls."""
        return self.stuck or len(self.calls) >= self.context.settings.limits.max_tool_calls

    async def run(self, calls: Sequence[ToolCall], answer: str) -> None:
        """Run the calls of the answer whose entry is ``answer``.

        Reading ones run side by side; as soon as one changes something, all run one after the other.

        Raises:
            TranscriptWriteError: the transcript could not be written.
        """
        effects = [self.context.toolbox.effect_of(call.name) for call in calls]
        if all(effect == "pure" for effect in effects):
            results = await asyncio.gather(*(self._run(call, answer, beside=calls[:place]) for place, call in enumerate(calls)))
            for call, result in zip(calls, results, strict=True):
                await self._keep(call, result, answer)
            return
        for call, effect in zip(calls, effects, strict=True):
            reason = ""
            if effect != "pure" and (self.waiting or self.overtaken()):
                reason = BEHIND_ONE_THAT_WAITS if self.waiting else OVERTAKEN
            if reason and await self._untouched(call, answer):
                await self._leave(call, reason)
            else:
                await self._keep(call, await self._run(call, answer), answer)

    async def _run(self, call: ToolCall, answer: str, beside: Sequence[ToolCall] = ()) -> ToolMessage:
        """Run a call, or refuse it. ``beside`` are those of the same answer before it whose results are not kept yet."""
        if len(self.calls) + len(beside) >= self.context.settings.limits.max_tool_calls:
            return _refusal(call, "No tool calls are left in this turn. Answer now with what you have.")
        if self._repeated(call, beside):
            self.repeats += 1
            self._refused_in_a_row += 1
            return _refusal(
                call, "You made this same call again and again and got the same result. Do something else, or answer."
            )
        self._refused_in_a_row = 0
        key = call_key(answer, call)
        context = structs.replace(self.context.tool_context(self.turn), call=key)
        verdict = await self._judged(key, call, context)
        if verdict.decision != "allow" and not await self._untouched(call, answer):
            return self._unknown(call, context)  # it was allowed when it began, before a restart
        match verdict.decision:
            case "deny":
                return _refusal(call, f"Not run: {verdict.reason}")
            case "ask":
                self.waiting.append(verdict.approval)
                return placeholder(call, verdict.approval, verdict.summary)
        return await self._executed(key, call, context)

    async def settle(self, asked: Sequence[AskedCall]) -> None:
        """Run or refuse calls that the owner was asked about, and record what came of each. Those that are still open wait on.

        Raises:
            TranscriptWriteError: the transcript could not be written.
        """
        for one in asked:
            context = structs.replace(self.context.tool_context(self.turn), call=one.key)
            if one.at is not None:  # a yes is to what was shown: "in ten minutes" counts from then
                context = structs.replace(context, now=one.at.astimezone(context.now.tzinfo))
            effect = self.context.toolbox.effect_of(one.call.name)
            if effect != "pure" and not await self._began_never(one.key):
                # it was allowed and began before a restart: whatever it changed itself must not be taken for a reason to ask again
                told = self._unknown(one.call, context)
                if effect == "idempotent":  # its contract: the same call leaves the same state, and was approved
                    told = await self._executed(one.key, one.call, structs.replace(context, approved=True))
                await self._record(one, Verdict(decision="allow", reason=APPROVED), told)
                continue
            verdict = await self._judged(one.key, one.call, context, must_be_judged=True)
            if verdict.decision == "ask":
                self.waiting.append(verdict.approval)
                continue
            result = None
            if verdict.decision == "allow":
                try:
                    result = await self._executed(one.key, one.call, structs.replace(context, approved=True))
                except asyncio.CancelledError:
                    await asyncio.shield(self._record(one, verdict, self._unknown(one.call, context)))
                    raise
            await self._record(one, verdict, result)

    async def _record(self, asked: AskedCall, verdict: Verdict, result: ToolMessage | None) -> None:
        message = outcome(asked, verdict.reason, result, self.context.now())
        await self.context.transcript.append(outcome_name(self.turn, asked.approval), Said(message=message), n=0)
        if result is not None:
            await self.journal.end(asked.key)
            self.calls.append(result)

    async def _executed(self, key: str, call: ToolCall, context: ToolContext) -> ToolMessage:
        """Run a call that may run, unless it has an effect and began before."""
        effect = self.context.toolbox.effect_of(call.name)
        if effect != "pure" and await self.journal.begin(key, call, effect) != "new" and effect == "effect":
            return self._unknown(call, context)
        self.emit(ToolStarted(call))
        context = structs.replace(context, progress=lambda text: self.emit(ToolOutput(call, text)))
        began = self.context.clock.monotonic()
        limit = min(self.context.settings.limits.tool_result_chars, result_cap(self.context.window.size))
        result = await self.context.toolbox.run(call, context, permit=self.context.permit, max_chars=limit)
        self.emit(ToolFinished(call, result, self.context.clock.monotonic() - began))
        return result

    def _unknown(self, call: ToolCall, context: ToolContext) -> ToolMessage:
        """Return the result of a call that a restart interrupted, with what its tool knows of it."""
        result = unknown(call)
        known = self.context.toolbox.known_of(call, context)
        return replace(result, text=f"{result.text} {known}") if known else result

    async def _judged(self, key: str, call: ToolCall, context: ToolContext, *, must_be_judged: bool = False) -> Verdict:
        """Ask the gate about a call, unless it would carry a secret outside.

        ``must_be_judged``: a call whose tool cannot say any more what it would do may not run.
        """
        if self.context.toolbox.withholds(call):
            return Verdict(decision="deny", reason=WITHHELD.removeprefix("not run: "))
        try:
            toolbox = self.context.toolbox
            if call.name in OUTSIDE - LOOKS_AROUND or toolbox.effect_of(call.name) == "pure":
                act = toolbox.act_of(call, context)
            else:  # what changes files or events looks at them first
                act = await asyncio.to_thread(toolbox.act_of, call, context)
        except Exception:  # a defect in one tool must not end the turn, and what cannot be judged must not run
            log.exception("tool %s could not say what it would do in turn %s", call.name, context.turn)
            return Verdict(decision="deny", reason=f"{call.name} failed because of a defect in it; the log has the details.")
        if act is None and must_be_judged:
            return Verdict(decision="deny", reason=f"{call.name} can no longer say what the call would do.")
        if act is None:
            return Verdict(decision="allow")
        return await self.gate.judge(key, call, act, context)

    async def _untouched(self, call: ToolCall, answer: str) -> bool:
        return await self._began_never(call_key(answer, call))

    async def _began_never(self, key: str) -> bool:
        return await self.journal.state(key) == "new"

    async def _leave(self, call: ToolCall, reason: str) -> None:
        result = _refusal(call, reason)
        await self.context.transcript.append(self.turn, Said(message=result))
        self.calls.append(result)

    async def _keep(self, call: ToolCall, result: ToolMessage, answer: str) -> None:
        await self.context.transcript.append(self.turn, Said(message=result))
        if self.context.toolbox.effect_of(call.name) != "pure":
            await self.journal.end(call_key(answer, call))
        self.calls.append(result)
        self._seen[_fingerprint(call, result)] += 1

    def _repeated(self, call: ToolCall, beside: Sequence[ToolCall]) -> bool:
        """Whether this call already had the same result as often as is allowed, counting the calls that run beside it."""
        prefix = _fingerprint(call, None)
        most = max((count for key, count in self._seen.items() if key.startswith(prefix)), default=0)
        now = sum(_fingerprint(other, None) == prefix for other in beside)
        return most + now >= self.context.settings.limits.max_repeats


def _refusal(call: ToolCall, text: str) -> ToolMessage:
    return ToolMessage(call_id=call.id, name=call.name, text=text, is_error=True)


def _fingerprint(call: ToolCall, result: ToolMessage | None) -> str:
    arguments = call.raw if call.arguments is None else json.dumps(call.arguments, sort_keys=True, ensure_ascii=False)
    asked = hashlib.sha256(f"{call.name}\0{arguments}".encode("utf-8", "replace")).hexdigest()
    if result is None:
        return asked
    return asked + hashlib.sha256(unfenced(result.text).encode("utf-8", "replace")).hexdigest()
