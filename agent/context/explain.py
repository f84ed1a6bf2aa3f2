"""Explains the last answer: which files and notes were in the prompt, and what the model looked up."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from agent.context.session_context import SessionContext
from agent.messages import AssistantMessage, Message, ToolMessage, is_of_a_person
from agent.transcript.entries import Compacted, Said

_NOTE = re.compile(r"^## (\S+\.md)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenFile:
    """A file or note that was in the prompt. ``lines`` is how many of its lines; ``cut`` says that more was left out."""

    name: str
    lines: int
    cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LookedUp:
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
        looked=tuple(_looked(said)),
    )


def _notes(text: str) -> list[GivenFile]:
    """The notes of the session's start, one by one."""
    pieces = _NOTE.split(text)
    return [_given(name, body) for name, body in zip(pieces[1::2], pieces[2::2], strict=True)]


def _given(name: str, text: str) -> GivenFile:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("# ")]
    return GivenFile(name=name, lines=len(lines), cut="[cut: " in text)


def _looked(said: Sequence[Message]) -> list[LookedUp]:
    """What was searched and read in the last turn, in order."""
    start = max((i for i, message in enumerate(said) if is_of_a_person(message)), default=0)
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
        told = json.loads(text)["results"]
        return tuple((f"{hit['path']}:{hit['startLine']}-{hit['endLine']}", hit.get("score")) for hit in told)
    except (ValueError, KeyError, TypeError):
        return ()
