"""The prompt of a past call, rebuilt from the transcript and the session's present instructions by the code that makes requests.

No second copy of a prompt is kept. Its messages follow from the transcript alone, so they are exact. Instructions and tools come from
files and settings that may have changed since: each turn records their hashes, so it can be told which of them are the same.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from agent.context.context_report import kind_of
from agent.context.past_calls import shown_before
from agent.context.prefix import digest
from agent.context.session_context import SessionContext
from agent.messages import AssistantMessage, Image, Message, Thinking, ToolMessage, Usage, UserMessage
from agent.models import token_estimate
from agent.models.protocol import Request
from agent.transcript.entries import Entry, Said, TurnEnded
from agent.transcript.history_view import turn_of

Exact = Literal["yes", "changed", "unknown"]
Cached = Literal["read", "sent", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptPart:
    """One part of a prompt. ``exact`` says whether it is known to be what was sent; ``cached`` whether the provider read it from its cache.

    ``text`` is what the model was shown; ``tokens`` is this part's share of the reported total, an estimate.
    """

    name: str
    kind: str
    text: str
    chars: int
    tokens: int
    exact: Exact
    cached: Cached
    at: datetime | None = None
    pictures: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PastPrompt:
    """A prompt with its parts in the order in which they were sent. ``gone`` names instructions that were sent and are not there now."""

    call: str
    at: datetime
    model: str
    usage: Usage | None
    parts: tuple[PromptPart, ...]
    exact: Exact
    gone: tuple[str, ...] = ()


def past_prompt(context: SessionContext, entries: Sequence[Entry], call: str, *, light: bool = False) -> PastPrompt | None:
    """Return the prompt that was answered by the entry ``call``; None if no entry of that id is an answer of a model.

    ``entries`` are all of the session's; ``context`` was prepared.
    """
    answer = next((one for one in entries if one.id == call), None)
    said = answer.body.message if answer is not None and isinstance(answer.body, Said) else None
    history = shown_before(entries, call, context.zone, light=light)
    if answer is None or not isinstance(said, AssistantMessage) or history is None:
        return None
    request = context.request(history=history)
    known = _recorded(entries, turn_of(answer))
    marks = _compared(request, known)
    whole = [
        _tools(request, marks.get("tools", "unknown")),
        *(
            _part(
                one.name, "instructions", one.text, marks.get(_digest_name(one.name), "unknown" if known is None else "changed")
            )
            for one in request.system
        ),
        *(_message(number, message) for number, message in enumerate(history, 1)),
    ]
    present = {_digest_name(one.name) for one in request.system} | {"tools"}
    gone = tuple(name for name in known or () if name not in present)
    exact: Exact = "unknown" if known is None else "changed" if gone or any(p.exact != "yes" for p in whole) else "yes"
    parts = _weighed(context, whole, history, request, said.usage)
    return PastPrompt(call=call, at=answer.at, model=said.model, usage=said.usage, parts=parts, exact=exact, gone=gone)


def message_text(message: Message) -> str:
    """Return what a provider is sent of a message, as text: words, calls with their arguments, results."""
    if not isinstance(message, AssistantMessage):
        return message.text
    lines = [f"[thought] {part.text}" for part in message.content if isinstance(part, Thinking) and part.text]
    lines += [message.text] if message.text else []
    lines += [f"[call {one.name}] {_arguments(one.arguments, one.raw)}" for one in message.calls]
    return "\n".join(lines)


def _arguments(given: dict[str, Any] | None, raw: str) -> str:
    return raw if given is None else json.dumps(given, ensure_ascii=False)


def _recorded(entries: Sequence[Entry], turn: str) -> dict[str, str] | None:
    """Return the hashes of instructions and tools that a turn recorded at its end; None where it has not ended."""
    for entry in reversed(entries):
        if isinstance(entry.body, TurnEnded) and entry.body.turn == turn:
            digest = str(entry.body.facts.get("prompt") or "")
            return dict(one.rpartition(":")[::2] for one in digest.split()) or None
    return None


def _compared(request: Request, known: dict[str, str] | None) -> dict[str, Exact]:
    if known is None:
        return {}
    now = dict(one.rpartition(":")[::2] for one in digest(request).split())
    return {name: "yes" if known.get(name) == hashed else "changed" for name, hashed in now.items()}


def _digest_name(name: str) -> str:
    return name.replace(" ", "-")


def _part(name: str, kind: str, text: str, exact: Exact, *, at: datetime | None = None, pictures: int = 0) -> PromptPart:
    return PromptPart(
        name=name,
        kind=kind,
        text=text,
        chars=len(text),
        tokens=0,
        exact=exact,
        cached="unknown",
        at=at,
        pictures=pictures,
    )


def _tools(request: Request, exact: Exact) -> PromptPart:
    listed = [{"name": t.name, "description": t.description, "parameters": t.parameters} for t in request.tools]
    text = "\n".join(json.dumps(one, ensure_ascii=False) for one in listed)
    return _part("tools", "tools", text, exact)


def _message(number: int, message: Message) -> PromptPart:
    text = message_text(message)
    pictures = sum(
        isinstance(part, Image) for part in (message.images if isinstance(message, ToolMessage) else message.content)
    )
    at = message.at if isinstance(message, UserMessage) else None
    return _part(f"message {number}", kind_of(message), text, "yes", at=at, pictures=pictures)


def _weighed(
    context: SessionContext, parts: Sequence[PromptPart], history: Sequence[Message], request: Request, usage: Usage | None
) -> tuple[PromptPart, ...]:
    """Share the reported total out, and mark what lies before the end of what the provider read from its cache."""
    weights = [
        token_estimate.weight_of_tools(request.tools),
        *(token_estimate.weigh(segment.text) for segment in request.system),
        *(token_estimate.weight_of(message) for message in history),
    ]
    likely = [context.calibration.apply(weight) for weight in weights]
    whole = sum(likely) or 1
    total = usage.prompt if usage is not None and usage.prompt else whole
    end, found = 0.0, []
    for part, tokens in zip(parts, likely, strict=True):
        share = tokens * total / whole
        middle, end = end + share / 2, end + share
        cached: Cached = "unknown" if usage is None or not usage.prompt else "read" if middle < usage.cache_read else "sent"
        found.append(replace(part, tokens=round(share), cached=cached))
    return tuple(found)
