"""Reports on a session's context: what fills the window (``/context``), and what the last answer was based on."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from agent.context.prefix import PrefixWatch
from agent.context.session_context import SessionContext
from agent.messages import AssistantMessage, Message, ToolMessage, UserMessage, begins_turn
from agent.models import token_estimate
from agent.transcript.entries import Compacted, Said
from agent.transcript.history_view import SUMMARY_HEAD


class Part(Struct, frozen=True, kw_only=True):
    """One part of the request. ``tokens`` is an estimate; ``cached`` says that it lies before a cache mark."""

    name: str
    chars: int
    tokens: int
    cached: bool


class ContextReport(Struct, frozen=True, kw_only=True):
    """The whole request. ``tokens`` is the best figure for its size; the parts are estimates and need not add up to it.

    ``turns_left`` is a forecast of how many turns fit before the next memory flush, or None while there is too little to go by.
    ``flush_obstacle`` says why memory is never flushed, if it is not; ``too_small`` that the window is of no use. ``prefix`` says
    where the prompt last changed, if it did, and ``digest`` is the hash of each segment before the messages.
    """

    tokens: int
    window: int
    flush_at: int
    compact_above: int
    parts: tuple[Part, ...]
    turns_left: int | None
    flush_obstacle: str = ""
    too_small: str = ""
    retention: str = "5m"
    prefix: str = ""
    digest: str = ""


def context_report(context: SessionContext) -> ContextReport:
    """Describe the next request of a conversation that was prepared."""
    calibrate = context.calibration.apply
    schemas = [json.dumps({"name": t.name, "description": t.description, "input": t.parameters}) for t in context.toolbox.specs]
    parts = [
        Part(
            name="tools",
            chars=sum(map(len, schemas)),
            tokens=calibrate(token_estimate.weight_of_tools(context.toolbox.specs)),
            cached=True,
        )
    ]
    parts += [
        Part(name=segment.name, chars=len(segment.text), tokens=calibrate(token_estimate.weigh(segment.text)), cached=True)
        for segment in context.system()
    ]
    messages = context.messages()
    kinds = {"summary": [], "people": [], "answers": [], "tool results": []}  # type: dict[str, list[Message]]
    for message in messages:
        kinds[kind_of(message)].append(message)
    parts += [
        Part(
            name=name, chars=sum(map(chars_of, group)), tokens=calibrate(token_estimate.weight_of_messages(group)), cached=True
        )
        for name, group in kinds.items()
        if group
    ]
    size = context.tokens()
    return ContextReport(
        tokens=size,
        window=context.window.size,
        flush_at=context.window.flush_at,
        compact_above=context.window.compact_above,
        parts=tuple(parts),
        flush_obstacle=context.flush_obstacle,
        too_small=context.too_small,
        retention=context.ttl,
        prefix=_told_parting(context.watch),
        digest=context.watch.digest,
        turns_left=_turns_left(context, messages, context.window.flush_at - size),
    )


def _told_parting(watch: PrefixWatch) -> str:
    if watch.parting is None:
        return ""
    return f"The prompt last changed in {watch.parting}" + (f" ({watch.why})." if watch.why else ".")


def kind_of(message: Message) -> str:
    """Return which part of a history a message belongs to."""
    if isinstance(message, UserMessage):
        return "summary" if message.text.startswith(SUMMARY_HEAD) else "tool results" if message.runtime else "people"
    return "tool results" if isinstance(message, ToolMessage) else "answers"


def visible_chars(context: SessionContext) -> int:
    """Return how many characters the model is shown in all."""
    return sum(len(segment.text) for segment in context.system()) + sum(map(chars_of, context.messages()))


def chars_of(message: Message) -> int:
    """Return how much text a message has, in characters."""
    if isinstance(message, AssistantMessage):
        return len(message.text) + sum(len(json.dumps(call.arguments)) for call in message.calls)
    return len(message.text)


def _turns_left(context: SessionContext, messages: Sequence[Message], room: int) -> int | None:
    """Forecast by the turns so far, without the summary; nothing is forecast where the line is passed already."""
    turns = [message for message in messages if kind_of(message) != "summary"]
    count = sum(begins_turn(message) for message in turns)
    size = context.calibration.apply(token_estimate.weight_of_messages(turns))
    return room * count // size if count and size and room > 0 else None


_NOTE = re.compile(r"^## (\S+\.md)$", re.MULTILINE)


class GivenFile(Struct, frozen=True, kw_only=True):
    """A file or note that was in the prompt. ``lines`` is how many of its lines; ``cut`` says that more was left out."""

    name: str
    lines: int
    cut: bool


class LookedUp(Struct, frozen=True, kw_only=True):
    """Something that the model looked up for its last answer. ``hits`` are (place, score); the score is None for a file read."""

    tool: str
    query: str
    hits: tuple[tuple[str, float | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What the last answer was based on."""

    files: tuple[GivenFile, ...]
    notes: tuple[GivenFile, ...]
    pins: tuple[str, ...]
    summary: str = ""
    """When the summary in the prompt was made, or nothing."""
    looked: tuple[LookedUp, ...] = field(default=())


def explain(context: SessionContext) -> Explanation | None:
    """Return the reasons of the last answer of a conversation that was prepared; None before the first."""
    said = [entry.body.message for entry in context.transcript.entries if isinstance(entry.body, Said)]
    if not any(isinstance(message, AssistantMessage) for message in said):
        return None
    segments = {segment.name: segment.text for segment in context.system()}
    opened = context.transcript.opened
    files = tuple(_given(name, text) for name, text in segments.items() if name.endswith(".md") and "(missing)" not in text)
    made = [entry.at for entry in context.transcript.entries if isinstance(entry.body, Compacted)]
    return Explanation(
        files=files,
        notes=tuple(_notes(opened.notes)) if opened else (),
        pins=context.transcript.pins,
        summary=f"{made[-1].astimezone(context.zone):%Y-%m-%d %H:%M}" if made else "",
        looked=tuple(_lookups(said)),
    )


def _notes(text: str) -> list[GivenFile]:
    """The notes of the session's start, one by one."""
    pieces = _NOTE.split(text)
    return [_given(name, body) for name, body in zip(pieces[1::2], pieces[2::2], strict=True)]


def _given(name: str, text: str) -> GivenFile:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("# ")]
    return GivenFile(name=name, lines=len(lines), cut="[cut: " in text)


def _lookups(said: Sequence[Message]) -> list[LookedUp]:
    """What was searched and read in the last turn, in order."""
    start = max((i for i, message in enumerate(said) if begins_turn(message)), default=0)
    turn = said[start:]
    results = {message.call_id: message for message in turn if isinstance(message, ToolMessage)}
    found = []
    for message in turn:
        for call in message.calls if isinstance(message, AssistantMessage) else ():
            result = results.get(call.id)
            arguments = call.arguments or {}
            if result is None or result.is_error:
                continue
            if call.name == "memory_search":
                found.append(LookedUp(tool=call.name, query=str(arguments.get("query", "")), hits=_hits(result.text)))
            elif call.name in {"memory_get", "read", "grep"}:
                asked = arguments.get("path") or arguments.get("pattern") or ""
                found.append(LookedUp(tool=call.name, query=str(asked), hits=()))
    return found


def _hits(text: str) -> tuple[tuple[str, float | None], ...]:
    try:
        results = json.loads(text)["results"]
        return tuple((f"{hit['path']}:{hit['startLine']}-{hit['endLine']}", hit.get("score")) for hit in results)
    except (ValueError, KeyError, TypeError):
        return ()
