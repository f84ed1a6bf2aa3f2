"""The memory flush: before history is summarised or a session ends, the model writes what matters into the day's note.

It runs on a copy of the context. The request differs from an ordinary one only in its last message, so that the provider's
prompt cache is used. Only reading is allowed, and appending to the note of the session's audience for the day of the talk.
A receipt records what was written. What people said and the model left out is added by rule, so that a model that fails or
leaves things out loses no memory.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from datetime import date
from typing import Literal

from msgspec import structs
from msgspec.structs import replace

from agent import no_reply
from agent.context.background_call import call_in_background
from agent.context.cache_retention import SECONDS
from agent.context.note_writer import NoteWriter, Statement
from agent.context.session_context import SessionContext
from agent.context.window import is_cold
from agent.messages import AssistantMessage, Message, Text, ToolCall, ToolMessage, Usage, UserMessage, added, is_of_a_person
from agent.said_words import said_words
from agent.taint import within
from agent.transcript.entries import Entry, FlushBegun, FlushReceipt, Said
from agent.transcript.history_view import trimmed

log = logging.getLogger(__name__)

MAX_ROUNDS = 6
"""Model calls in one flush; reading a note and appending to it takes three."""
HINT = "If nothing is to be stored, reply with exactly NO_REPLY."
GUIDE = (
    "Only reading and appending (write with mode append) to {note} work now; earlier text in it stays. Save decisions, preferences, "
    "facts about people, promises, the state of the work and where we left off, with exact names, numbers and dates."
)

Reason = Literal["threshold", "overflow", "compact", "quiet", "reset", "shutdown"]
_ONCE_A_CYCLE = frozenset({"threshold", "overflow"})
_QUOTED_NAME = re.compile(r"“(.+?)”")
_LAST_CALLS = frozenset({"quiet", "reset", "shutdown"})
LEAN_CHARS = 500
"""How much of the beginning and the end of a tool result a flush is shown that cannot use the cache."""
FITTING_SHARE = 0.75
"""What a flush may send of a request that the model just found too long."""
LEAST_SAID = 4
"""What people said since the last receipt must have this many bytes, letters and figures alone: a greeting is no reason."""


def may_fire(context: SessionContext) -> bool:
    """Whether this compaction cycle has not been flushed for want of room yet, and there is something to flush."""
    cycle = context.transcript.cycle
    bodies = (entry.body for entry in context.transcript.entries)
    begun = any(isinstance(b, FlushBegun) and b.cycle == cycle and b.reason in _ONCE_A_CYCLE for b in bodies)
    return not begun and _is_possible(context) and bool(statements_of(context))


def is_worthwhile(context: SessionContext) -> bool:
    """Whether enough was said by people since the last receipt: a flush of an unchanged session would cost and bring nothing."""
    said = sum(len("".join(filter(str.isalnum, one.text)).encode()) for one in statements_of(context))
    return said >= LEAST_SAID and _is_possible(context)


def _is_possible(context: SessionContext) -> bool:
    return not context.flush_obstacle


async def flush(context: SessionContext, turn: str, reason: Reason) -> FlushReceipt:
    """Run the flush and return its receipt, which by then is in the transcript.

    The mark is written first, so that a failing flush is not tried again and again; a mark without a receipt, left by a crash, is
    made good by the next turn.

    Raises:
        TranscriptWriteError: the transcript could not be written.
    """
    cycle = context.transcript.cycle
    statements = statements_of(context)
    await context.transcript.append(turn, FlushBegun(cycle=cycle, reason=reason))
    writer = NoteWriter(context, turn)
    side = _SideConversation(context, turn, writer, last=reason in _LAST_CALLS, whole=reason != "overflow")
    problem = await side.run(_shown(context, reason)) if context.model_may_write else "the model has no tool to write"
    wrote = bool(writer.written)
    if (problem and not wrote) or context.settings.compaction.memory_flush.verbatim:
        await writer.add_statements(statements, everything=not wrote)
    receipt = _receipt(cycle, reason, writer, "; ".join(dict.fromkeys(filter(None, (problem, writer.problem)))), wrote=wrote)
    receipt = replace(receipt, usage=side.usage)
    await context.transcript.append(turn, receipt)
    _say(receipt)
    return receipt


def _say(receipt: FlushReceipt) -> None:
    """Tell the log what came of a flush."""
    files = ", ".join(note.path for note in receipt.written) or "nothing to note"
    if receipt.problem:
        log.warning("memory flush (%s): %s; %s", receipt.reason, files, receipt.problem)
    else:
        log.info("memory flush (%s): %s", receipt.reason, files)


def _receipt(cycle: str | None, reason: str, writer: NoteWriter, problem: str, *, wrote: bool) -> FlushReceipt:
    outcome: Literal["written", "nothing", "extracted"] = "written" if wrote else "extracted" if writer.written else "nothing"
    return FlushReceipt(cycle=cycle, outcome=outcome, reason=reason, written=tuple(writer.written.values()), problem=problem)


def receipt_in_words(receipt: FlushReceipt | None, why_none: str = "") -> str:
    """Say in a sentence what became of what mattered in a conversation that is left. ``why_none``: why nothing was flushed."""
    if receipt is None:
        return f"Nothing of the last one was noted: {why_none}." if why_none else ""
    notes = ", ".join(note.path for note in receipt.written)
    if receipt.outcome == "written":
        return f"What mattered in the last one is in {notes}."
    if receipt.outcome == "extracted":
        return f"What was said in the last one is in {notes}, word for word."
    if receipt.problem:
        return f"Nothing of the last one was noted: {receipt.problem.rstrip('.')}."
    return "There was nothing new to note of the last one."


def _shown(context: SessionContext, reason: Reason) -> tuple[Message, ...]:
    """What the model is shown. Where the cached prompt is of no use, tool results are cut short: what matters are people's words.

    That is so for a session that is left after its cache ran out, and for one that has just overflowed: there the oldest
    messages are left out too, until the request is sure to fit.
    """
    messages = context.messages()
    now, ttl = context.clock.now(), SECONDS[context.ttl]
    if reason == "overflow":
        return _fitting(context, _lean(messages))
    if reason in _LAST_CALLS and is_cold(context.transcript.last_call, now, ttl):
        return _lean(messages)
    return messages


def _lean(messages: Sequence[Message]) -> tuple[Message, ...]:
    return tuple(
        replace(message, text=within(message.text, lambda text: trimmed(text, LEAN_CHARS, LEAN_CHARS)), images=())
        if isinstance(message, ToolMessage)
        else message
        for message in messages
    )


def _fitting(context: SessionContext, messages: tuple[Message, ...]) -> tuple[Message, ...]:
    most = context.tokens() * FITTING_SHARE
    start = 0
    while start < len(messages) - 1 and context.estimated(messages[start:]) > most:
        start += 1
    return messages[start:]


async def make_good(context: SessionContext, turn: str, begun: FlushBegun) -> None:
    """End a flush that a crash left open after ``begun``: what was said is written down by rule, without a model.

    One that was cut off by the gateway stopping is void: its session continues, and is flushed when it is due.

    Raises:
        TranscriptWriteError: the transcript could not be written.
    """
    if begun.reason == "shutdown":
        return
    writer = NoteWriter(context, turn)
    await writer.add_statements(statements_of(context), everything=True)
    problem = "; ".join(filter(None, ("interrupted by a restart", writer.problem)))
    await context.transcript.append(turn, _receipt(begun.cycle, begun.reason, writer, problem, wrote=False))


async def keep_unseen(context: SessionContext, turn: str, dropped: Sequence[Entry]) -> None:
    """Write down by rule what people said after the last flush in messages that the model is about to lose sight of.

    A flush comes well before its compaction, and none will see these messages any more.
    """
    if not _is_possible(context) or not context.settings.compaction.memory_flush.verbatim:
        return
    unseen = {entry.id for entry in context.said_since_flush()}
    bodies = [entry.body for entry in dropped if entry.id in unseen]
    said = [body.message for body in bodies if isinstance(body, Said) and is_of_a_person(body.message)]
    statements = [one for message in said for one in _statements_in(context, message)]
    await NoteWriter(context, turn).add_statements(statements, everything=True)


def request_text(context: SessionContext) -> str:
    """Return the flush request: both configured prompts with the date of the talk, and what may be done now."""
    settings = context.settings.compaction.memory_flush
    day = day_of_the_talk(context)
    note = str(context.audience.daily_note(day))
    texts = [settings.system_prompt, settings.prompt, GUIDE.format(note=note)]
    if no_reply.TOKEN not in settings.prompt:
        texts.append(HINT)
    return "[Memory flush] " + "\n".join(texts).replace("memory/YYYY-MM-DD.md", note).replace("YYYY-MM-DD", f"{day:%Y-%m-%d}")


def day_of_the_talk(context: SessionContext) -> date:
    """The owner's date when somebody last said something that no flush has seen; today where nobody did."""
    said = _said_by_people(context)
    return context.day_of(said[-1]) if said else context.today()


class _SideConversation:
    """The model calls of a flush. ``whole``: they go on from the session's own prompt, whose cache they are to find."""

    def __init__(self, context: SessionContext, turn: str, writer: NoteWriter, *, last: bool, whole: bool) -> None:
        self._last = last
        self._whole = whole
        self._writer = writer
        self.usage: Usage | None = None
        self._context = context
        self._turn = turn
        self._request = request_text(context)
        self._note = context.audience.daily_note(day_of_the_talk(context))
        self._taint = context.taint

    async def run(self, history: Sequence[Message]) -> str:
        """Let the model write. Returns what went wrong, or an empty string."""
        now = self._context.clock.now()
        said: list[Message] = [UserMessage(content=(Text(text=self._request),), at=now)]
        for _ in range(MAX_ROUNDS):
            request = self._context.request(history=history, extra=said)
            if self._last:  # nothing comes after it that an hour's keeping would be good for
                request = structs.replace(request, cache_ttl="5m")
            answer = await call_in_background(
                self._context, request, model=self._context.flush_model, learn=self._whole and not self._last
            )
            self._count(answer)
            if answer.failure is not None:
                return answer.failure.message
            if not answer.calls:
                silent = bool(self._writer.written) or not no_reply.without_no_reply(answer.text).strip()
                return "" if silent else "the model answered in words and wrote nothing"
            said.append(answer)
            said.extend([await self._run(call) for call in answer.calls])
        return "" if self._writer.written else "the model made no end of it"

    async def _run(self, call: ToolCall) -> ToolMessage:
        scene = self._context.tool_context(self._turn, self._taint)
        if self._context.toolbox.only_reads(call, scene):
            result = await self._context.toolbox.run(call, scene)
            self._taint = self._taint.union(result.taint)
            return result
        content = (call.arguments or {}).get("content")
        if call.name != "write" or not isinstance(content, str):
            text = f"Refused: during a memory flush only reading, and write with mode append to {self._note}, are possible."
            return ToolMessage(call_id=call.id, name=call.name, text=text, is_error=True)
        added = await self._writer.add(content, self._note, self._taint)
        return ToolMessage(call_id=call.id, name=call.name, text=added.told, is_error=added.refused)

    def _count(self, answer: AssistantMessage) -> None:
        self.usage = added(self.usage, answer.usage)


def _said_by_people(context: SessionContext) -> list[UserMessage]:
    """The messages of people since the last receipt."""
    bodies = (entry.body for entry in context.said_since_flush())
    return [body.message for body in bodies if isinstance(body, Said) and is_of_a_person(body.message)]


def statements_of(context: SessionContext) -> list[Statement]:
    """What people said since the last receipt, each with the day when it was said."""
    return [one for message in _said_by_people(context) for one in _statements_in(context, message)]


def _statements_in(context: SessionContext, message: UserMessage) -> list[Statement]:
    """Return what a message says. The owner's own words are trusted, those that the message brings along are not."""
    day, taint, words = context.day_of(message), frozenset(message.taint), said_words(message.text)
    brought = [*filter(None, [words.before]), *("\n".join(one.lines) for one in words.brought)]
    owners = context.audience.kind == "owner" and not any(one.startswith("person:") for one in taint)
    speaker = _name_of(message) if context.audience.kind == "group" else ""
    own = frozenset() if owners else taint
    statements = [Statement(day, one.text, own, (one.who or speaker) if speaker else "", edited=True) for one in words.edits]
    if words.own:
        statements.append(Statement(day, words.own, own, speaker))
    return statements + [Statement(day, text, taint) for text in brought]


def _name_of(message: UserMessage) -> str:
    """The name of who sent a message, which its head has in quotation marks."""
    quoted = _QUOTED_NAME.match(message.sender)
    return quoted[1] if quoted is not None and quoted[1] != "?" else ""
