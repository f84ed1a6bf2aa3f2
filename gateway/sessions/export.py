"""Exports a conversation as Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from zoneinfo import ZoneInfo

from agent.messages import AssistantMessage, Message, ToolMessage, UserMessage
from agent.transcript.entries import Compacted, Entry, FlushReceipt, Opened, Pinned, Said

RESULT_CHARS = 2000
"""How much of a tool's result a page shows; the JSONL has all of it."""


def page(entries: Iterable[Entry | None], zone: ZoneInfo) -> Iterator[str]:
    """Yield the page in blocks, each a paragraph or more. A line of the transcript that cannot be read is told where it stands."""
    day = ""
    for entry in entries:
        if entry is None:
            yield "*(unreadable line)*"
            continue
        at = entry.at.astimezone(zone)
        block = _block(entry, f"{at:%H:%M}")
        if not block:
            continue
        if not isinstance(entry.body, Opened) and f"{at:%Y-%m-%d}" != day:
            day = f"{at:%Y-%m-%d}"
            yield f"## {day}"
        yield block


def _block(entry: Entry, time: str) -> str:
    match entry.body:
        case Opened(agent=agent, session=session, key=key):
            return f"# {key}\n\nAgent {agent}, session {session}, begun {entry.at:%Y-%m-%d %H:%M} UTC."
        case Said(message=message):
            return _message(message, time)
        case Compacted(summary=summary):
            return f"*{time}: summary of the conversation so far, written for the model:*\n\n{_quoted(summary)}"
        case FlushReceipt(written=written) if written:
            return f"*{time}: noted in {', '.join(note.path for note in written)}*"
        case Pinned(text=text):
            return f"*{time}: pinned:* {text}"
    return ""


def _message(message: Message, time: str) -> str:
    match message:
        case UserMessage(sender=sender):
            return f"**{sender or 'You'}** · {time}\n\n{message.text}".rstrip()
        case AssistantMessage():
            calls = [f"> 🔧 `{call.name}` {json.dumps(call.arguments, ensure_ascii=False)}" for call in message.calls]
            trouble = f"*(no answer: {message.failure.message})*" if message.failure else ""
            end = "*(interrupted)*" if message.stop == "cut" else ""
            parts = [part for part in (message.text, "\n".join(calls), trouble, end) if part]
            return "\n\n".join([f"**Agent** · {time} · {message.model}", *parts]) if parts else ""
        case ToolMessage(name=name, text=text):
            cut = f"\n[cut: {len(text):,} characters in all]" if len(text) > RESULT_CHARS else ""
            return f"> {'✗' if message.is_error else '✓'} `{name}`\n\n{_fenced(text[:RESULT_CHARS] + cut)}"
    return ""


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def _fenced(text: str) -> str:
    """Fence a text so that nothing in it ends the fence."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"
