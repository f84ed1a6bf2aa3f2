"""What people are shown of one transcript entry, as JSON values."""

from __future__ import annotations

from typing import Any, Final

from agent.messages import AssistantMessage, Image, Message, Text, Thinking, ToolMessage, UserMessage
from agent.transcript.entries import (
    Body,
    Compacted,
    Entry,
    FilesChanged,
    FlushReceipt,
    Opened,
    Pinned,
    Pruned,
    Said,
    Unanswered,
    Unpinned,
)

TEXT_CHARS: Final = 20_000
"""Longest text of one entry in a page; ``cut`` then says how long it is."""


def as_json(number: int, entry: Entry | None) -> dict[str, Any]:
    """Return what people are shown of an entry as JSON values. ``number`` is its place among those that are shown."""
    if entry is None:
        return {"n": number, "kind": "unreadable"}
    return {"n": number, "id": entry.id, "at": entry.at.isoformat(timespec="seconds"), **_facts(entry)}


def _facts(entry: Entry) -> dict[str, Any]:
    match entry.body:
        case Said(message=message):
            return _said(message)
        case Opened(agent=agent, key=key, notes=notes, pins=pins):
            return {"kind": "opened", "agent": agent, "sessionKey": key, "pins": list(pins), **_cut(notes)}
        case Compacted(summary=summary, tokens_before=before, tokens_after=after, reason=reason):
            return {"kind": "compaction", "before": before, "after": after, "reason": reason, **_cut(summary)}
        case FlushReceipt(written=written, outcome=outcome, problem=problem):
            return {"kind": "flush", "outcome": outcome, "notes": [note.path for note in written], **_cut(problem)}
        case Pruned(trimmed=trimmed, aged=aged, cleared=cleared):
            return {"kind": "pruning", "trimmed": len(trimmed) + len(aged), "cleared": len(cleared), "text": ""}
    return _short_facts(entry.body)


def _short_facts(body: Body) -> dict[str, Any]:
    """Return the facts of what is but one line of text."""
    match body:
        case Pinned(text=text) | Unpinned(text=text) | Unanswered(note=text) | FilesChanged(note=text):
            return {"kind": body.kind, **_cut(text)}
    return {"kind": body.kind, "text": ""}


def _said(message: Message) -> dict[str, Any]:
    match message:
        case UserMessage(sender=sender, taint=taint, runtime=runtime, automation=automation):
            role = "runtime" if runtime else "user"
            more = {"sender": sender, "automation": automation, "taint": list(taint), "pictures": _pictures(message.content)}
            return {"kind": role, **{key: value for key, value in more.items() if value}, **_cut(message.text)}
        case AssistantMessage(model=model, stop=stop, failure=failure, usage=usage):
            calls = [{"name": call.name, "arguments": call.arguments, "raw": call.raw} for call in message.calls]
            thoughts = "\n\n".join(part.text for part in message.content if isinstance(part, Thinking) and part.text)
            more = {
                "calls": calls,
                "thoughts": thoughts,
                "failure": failure.message if failure else "",
                "cost": usage.cost if usage else None,
            }
            facts = {key: value for key, value in more.items() if value}
            return {"kind": "assistant", "model": model, "stop": stop, **facts, **_cut(message.text)}
        case ToolMessage(name=name, is_error=is_error, taint=taint, images=images, text=text):
            more = {"taint": list(taint), "pictures": len(images)}
            facts = {key: value for key, value in more.items() if value}
            return {"kind": "tool", "name": name, "isError": is_error, **facts, **_cut(text)}
    raise AssertionError(message)


def _pictures(content: tuple[Text | Image, ...]) -> int:
    return sum(isinstance(part, Image) for part in content)


def _cut(text: str) -> dict[str, Any]:
    return {"text": text} if len(text) <= TEXT_CHARS else {"text": text[:TEXT_CHARS], "cut": len(text)}
