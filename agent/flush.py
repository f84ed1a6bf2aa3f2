"""The silent memory flush: before history is summarised or left behind, what matters goes into today's note.

It is a side conversation on a copy of the context. The request differs from an ordinary one only in its last message, so
the provider's cached prefix is used; what may run is decided at execution: reading, and appending to today's note of the
session's audience. It ends with a receipt. Where the model neither wrote nor said NO_REPLY, the owner's own statements are
written down by rule, so that a failing model never costs a memory.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from agent import silence
from agent.accounting import added
from agent.asking import ask_aside
from agent.entries import FlushBegun, FlushReceipt, Said, WrittenNote
from agent.messages import AssistantMessage, Text, ToolCall, ToolMessage, Usage, UserMessage
from agent.particulars import salient_lines
from agent.pruning import is_cold
from agent.retention import SECONDS
from agent.wire import trimmed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.conversation import Conversation
    from agent.messages import Message

MAX_ROUNDS = 6
"""Model calls in one flush; reading a note and appending to it takes three."""
VERBATIM_CHARS = 3000
"""Most text that is put into a note because the model left it out."""
EXTRACT_CHARS = 6000
"""Longest extract written by rule."""
HINT = "If nothing is to be stored, reply with exactly NO_REPLY."
GUIDE = (
    "Only reading and appending (write with mode append) to {note} work now; earlier text in it stays. Save decisions, preferences, "
    "facts about people, promises, the state of the work and where we left off, with exact names, numbers and dates."
)

Reason = Literal["threshold", "overflow", "compact", "reset", "shutdown"]
_ONCE_A_CYCLE = frozenset({"threshold", "overflow"})
_LAST_CALLS = frozenset({"reset", "shutdown"})
LEAN_CHARS = 500
"""How much of the beginning and the end of a tool result a flush is shown that cannot use the cache."""
FITTING_SHARE = 0.75
"""What a flush may send of a request that the model just found too long."""
LEAST_SAID = 4
"""What people said since the last receipt must have this many bytes, letters and figures alone: a greeting is no reason."""


def is_due(conversation: Conversation, tokens: int) -> bool:
    """Whether the context is large enough and this compaction cycle has not been flushed yet."""
    return tokens >= conversation.window.flush_at and may_fire(conversation)


def may_fire(conversation: Conversation) -> bool:
    """Whether this compaction cycle has not been flushed for want of room yet, and there is something to flush."""
    cycle = conversation.transcript.cycle
    bodies = (entry.body for entry in conversation.transcript.entries)
    begun = any(isinstance(b, FlushBegun) and b.cycle == cycle and b.reason in _ONCE_A_CYCLE for b in bodies)
    return not begun and _is_possible(conversation) and bool(_statements(conversation))


def is_worthwhile(conversation: Conversation) -> bool:
    """Whether enough was said by people since the last receipt: a flush of an unchanged session would cost and bring nothing."""
    said = sum(len("".join(filter(str.isalnum, text)).encode()) for text in _statements(conversation))
    return said >= LEAST_SAID and _is_possible(conversation)


def _is_possible(conversation: Conversation) -> bool:
    return conversation.settings.compaction.memory_flush.enabled and conversation.may_write


async def flush(conversation: Conversation, turn: str, reason: Reason) -> FlushReceipt:
    """Run the flush and return its receipt, which by then is in the transcript.

    The mark is written first, so that a flush that fails is not tried for ever; a mark without a receipt, left by a crash, is
    made good by the next turn.

    Raises:
        NotKept: the transcript could not be written.
    """
    cycle = conversation.transcript.cycle
    statements = _statements(conversation)
    await conversation.transcript.append(turn, FlushBegun(cycle=cycle, reason=reason))
    side = _SideConversation(conversation, turn, last=reason in _LAST_CALLS)
    problem = await side.run(_shown(conversation, reason)) if conversation.model_may_write else "the model has no tool to write"
    outcome: Literal["written", "nothing", "extracted"] = "written" if side.written else "nothing"
    if problem and not side.written and statements:
        problem = await side.append(_extract(statements), problem)
        outcome = "extracted" if side.written else "nothing"
    elif conversation.settings.compaction.memory_flush.verbatim:
        problem = await side.append_missing(statements, problem)
        outcome = outcome if outcome == "written" or not side.written else "extracted"
    receipt = FlushReceipt(
        cycle=cycle,
        outcome=outcome,
        reason=reason,
        written=tuple(side.written.values()),
        usage=side.usage,
        problem=problem,
    )
    await conversation.transcript.append(turn, receipt)
    return receipt


def _shown(conversation: Conversation, reason: Reason) -> tuple[Message, ...]:
    """What the model is shown. Where the cached prompt is of no use, tool results are cut short: what matters are people's words.

    That is so for a session that is left after its cache ran out, and for one that has just overflowed: there the oldest
    messages are left out too, until the request is sure to fit.
    """
    messages = conversation.messages()
    now, ttl = conversation.clock.now(), SECONDS[conversation.ttl]
    if reason == "overflow":
        return _fitting(conversation, _lean(messages))
    if reason == "reset" and is_cold(conversation.transcript.entries, now, ttl):
        return _lean(messages)
    return messages


def _lean(messages: Sequence[Message]) -> tuple[Message, ...]:
    return tuple(
        replace(message, text=trimmed(message.text, LEAN_CHARS, LEAN_CHARS), images=())
        if isinstance(message, ToolMessage)
        else message
        for message in messages
    )


def _fitting(conversation: Conversation, messages: tuple[Message, ...]) -> tuple[Message, ...]:
    most = conversation.tokens() * FITTING_SHARE
    start = 0
    while start < len(messages) - 1 and conversation.estimated(messages[start:]) > most:
        start += 1
    return messages[start:]


async def make_good(conversation: Conversation, turn: str) -> None:
    """End a flush that a crash left open: what was said is written down by rule, without a model.

    One that was cut off by the house closing is simply void: its session goes on, and is flushed when it is time.

    Raises:
        NotKept: the transcript could not be written.
    """
    begun = _left_open(conversation)
    if begun is None or begun.reason == "shutdown":
        return
    side = _SideConversation(conversation, turn)
    problem = await side.append(_extract(_statements(conversation)), "interrupted by a restart")
    outcome: Literal["extracted", "nothing"] = "extracted" if side.written else "nothing"
    written = tuple(side.written.values())
    receipt = FlushReceipt(cycle=begun.cycle, outcome=outcome, reason=begun.reason, written=written, problem=problem)
    await conversation.transcript.append(turn, receipt)


def _left_open(conversation: Conversation) -> FlushBegun | None:
    latest = conversation.transcript.latest(FlushBegun, FlushReceipt)
    return latest.body if latest is not None and isinstance(latest.body, FlushBegun) else None


def request_text(conversation: Conversation) -> str:
    """Return the flush request: both configured prompts with today's date, and what may be done now."""
    settings = conversation.settings.compaction.memory_flush
    note = str(conversation.audience.daily_note(conversation.today()))
    texts = [settings.system_prompt, settings.prompt, GUIDE.format(note=note)]
    if silence.TOKEN not in settings.prompt:
        texts.append(HINT)
    return "[Memory flush] " + "\n".join(texts).replace("memory/YYYY-MM-DD.md", note).replace(
        "YYYY-MM-DD", f"{conversation.today():%Y-%m-%d}"
    )


class _SideConversation:
    """The model's part of a flush."""

    def __init__(self, conversation: Conversation, turn: str, *, last: bool = False) -> None:
        self._last = last
        self.written: dict[str, WrittenNote] = {}
        self.usage: Usage | None = None
        self._conversation = conversation
        self._turn = turn
        self._day = conversation.today()
        self._note = str(conversation.audience.daily_note(self._day))

    async def run(self, history: Sequence[Message]) -> str:
        """Let the model write. Returns what went wrong, or an empty string."""
        now = self._conversation.clock.now()
        said: list[Message] = [UserMessage(content=(Text(text=request_text(self._conversation)),), at=now)]
        for _ in range(MAX_ROUNDS):
            request = self._conversation.request(history=history, extra=said)
            if self._last:  # nothing comes after it that an hour's keeping would be good for
                request = replace(request, cache_ttl="5m")
            answer = await ask_aside(self._conversation, request, model=self._conversation.flush_model, learn=not self._last)
            self._count(answer)
            if answer.failure is not None:
                return answer.failure.message
            if not answer.calls:
                return (
                    ""
                    if self.written or not silence.spoken(answer.text).strip()
                    else "the model answered in words and wrote nothing"
                )
            said.append(answer)
            said.extend([await self._run(call) for call in answer.calls])
        return "" if self.written else "the model made no end of it"

    async def _run(self, call: ToolCall) -> ToolMessage:
        if self._conversation.toolbox.effect_of(call.name) == "pure":
            return await self._conversation.toolbox.run(call, self._conversation.scene(self._turn))
        content = (call.arguments or {}).get("content")
        if call.name != "write" or not isinstance(content, str):
            text = f"Refused: during a memory flush only reading, and write with mode append to {self._note}, are possible."
            return ToolMessage(call_id=call.id, name=call.name, text=text, is_error=True)
        problem = await self.append(content, "")
        text = problem or f"Appended to {self._note}."
        return ToolMessage(call_id=call.id, name=call.name, text=text, is_error=bool(problem))

    async def append(self, content: str, problem: str) -> str:
        """Append the blocks of ``content`` that the note does not hold yet. Returns ``problem``, or what went wrong with it."""
        before = await asyncio.to_thread(self._read)
        fresh = _fresh_blocks(before or "", content)
        if not fresh:
            return problem
        arguments = {"path": self._note, "content": fresh, "mode": "append"}
        call = ToolCall(id="flush", name="write", arguments=arguments)
        result = await self._conversation.keep(call, self._turn)
        if result.is_error:
            return "; ".join(filter(None, (problem, result.text)))
        after = await asyncio.to_thread(self._read) or ""
        first = self.written.get(self._note)
        self.written[self._note] = WrittenNote(
            path=self._note,
            bytes_before=first.bytes_before if first else len((before or "").encode()),
            bytes_after=len(after.encode()),
            sha256_before=first.sha256_before if first else _digest(before),
            sha256_after=_digest(after) or "",
        )
        return problem

    async def append_missing(self, statements: Sequence[str], problem: str) -> str:
        """Append what people said and no note may lack, where the model left it out. Returns ``problem``, or what went wrong."""
        known = f"{self._conversation.notes_known()}\n{await asyncio.to_thread(self._read) or ''}"
        return await self.append(salient_lines(statements, known, VERBATIM_CHARS), problem)

    def _read(self) -> str | None:
        return self._conversation.workspace.daily(self._conversation.audience, self._day)

    def _count(self, answer: AssistantMessage) -> None:
        self.usage = added(self.usage, answer.usage)


def _digest(text: str | None) -> str | None:
    return None if text is None else hashlib.sha256(text.encode()).hexdigest()


def _fresh_blocks(existing: str, content: str) -> str:
    """Return the paragraphs of ``content`` that ``existing`` does not hold, whatever their spacing and case."""
    known = {_normal(block) for block in re.split(r"\n\s*\n", existing)} | {_normal(line) for line in existing.splitlines()}
    blocks = [block.strip("\n") for block in re.split(r"\n\s*\n", content)]
    fresh = [block for block in blocks if block.strip() and _normal(block) not in known]
    return "\n\n".join(fresh) + "\n" if any(not block.lstrip().startswith("#") for block in fresh) else ""


def _normal(block: str) -> str:
    return " ".join(block.split()).casefold().lstrip("-*+ ")


def _statements(conversation: Conversation) -> list[str]:
    """What people said since the last receipt."""
    return [
        entry.body.message.text
        for entry in conversation.said_since_flush()
        if isinstance(entry.body, Said) and isinstance(entry.body.message, UserMessage)
    ]


def _extract(statements: Sequence[str]) -> str:
    """Return what people said as list items, the newest kept where it is too much. Questions are left out."""
    items = [f"- {' '.join(text.split())[:600]}" for text in statements if text.strip() and not text.strip().endswith("?")]
    kept: list[str] = []
    left = EXTRACT_CHARS
    for item in reversed(items):
        left -= len(item) + 1
        if left < 0:
            break
        kept.append(item)
    return "## Said in conversation (kept word for word)\n\n" + "\n".join(reversed(kept)) + "\n" if kept else ""
