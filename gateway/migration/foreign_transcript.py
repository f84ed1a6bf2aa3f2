"""Reads a session transcript of Clawdbot or OpenClaw: JSON lines that form a tree, of which the last line's branch is what was said.

Lines have a ``type``: ``session`` (the head), ``message``, ``compaction`` (with a summary), and others that say nothing to people.
A file may be very large: it is read twice, line by line, and only the lines that are wanted are kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal

LONGEST_LINE: Final = 32 * 1024 * 1024
"""A longer line is passed over: it holds a picture or the output of a command."""
MOST_LINES: Final = 2_000_000
_PIECE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignMessage:
    """What a person or the model said, as text. ``model`` is the provider and model of an answer."""

    role: Literal["user", "assistant"]
    text: str
    at: datetime
    model: str = ""


@dataclass(slots=True, kw_only=True)
class ForeignTranscript:
    """One branch: ``summary`` stands for what was compacted, ``messages`` are those after it.

    ``tools`` counts the results of tools, whose contents are left out; ``outside`` tells that one of them was not a note of the
    agent's own memory, so that what the model said may follow from untrusted text. ``broken`` counts lines that could not be read.
    """

    summary: str = ""
    messages: list[ForeignMessage]
    tools: int = 0
    pictures: int = 0
    outside: bool = False
    broken: int = 0


@dataclass(frozen=True, slots=True)
class _Node:
    parent: str | None
    offset: int
    length: int
    type: str


_OWN_MEMORY: Final = frozenset({"memory_search", "memory_get", "session_status"})


def read_transcript(path: Path) -> ForeignTranscript:
    """Return the branch that ends with the last message.

    Raises:
        OSError: the file cannot be read.
    """
    found = ForeignTranscript(messages=[])
    with path.open("rb") as file:
        nodes, last = _survey(file, found)
        branch = _branch(nodes, last)
        compacted = next((at for at in range(len(branch) - 1, -1, -1) if nodes[branch[at]].type == "compaction"), None)
        kept_from = ""
        if compacted is not None:
            line = _at(file, nodes[branch[compacted]])
            found.summary = str(line.get("summary") or "")
            kept_from = str(line.get("firstKeptEntryId") or "")
        start = branch.index(kept_from) if kept_from in branch else (compacted + 1 if compacted is not None else 0)
        for one in branch[start:]:
            if nodes[one].type == "message":
                _take(found, _at(file, nodes[one]))
    return found


def _survey(file: BinaryIO, found: ForeignTranscript) -> tuple[dict[str, _Node], str | None]:
    """Return the lines by id, and the id of the last one."""
    nodes: dict[str, _Node] = {}
    last: str | None = None
    for number, (offset, line) in enumerate(_lines(file, found)):
        if number >= MOST_LINES:
            break
        try:
            raw = json.loads(line)
            kind = str(raw["type"])
        except (ValueError, KeyError, TypeError, RecursionError):
            found.broken += 1
            continue
        if kind == "session":
            continue
        identity = str(raw.get("id") or f"line {number}")
        parent = raw.get("parentId", last)
        nodes[identity] = _Node(None if parent is None else str(parent), offset, len(line), kind)
        last = identity
    return nodes, last


def _lines(file: BinaryIO, found: ForeignTranscript) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not blank, each with its offset; ones that are too long count as broken."""
    offset = 0
    while line := file.readline(LONGEST_LINE + 1):
        begin = offset
        offset += len(line)
        if len(line) > LONGEST_LINE and not line.endswith(b"\n"):
            found.broken += 1
            while rest := file.readline(_PIECE):
                offset += len(rest)
                if rest.endswith(b"\n"):
                    break
        elif line.strip():
            yield begin, line


def _branch(nodes: dict[str, _Node], last: str | None) -> list[str]:
    """Return the ids from the beginning to ``last``. A parent that is missing, or a circle, ends the way back."""
    way: list[str] = []
    seen: set[str] = set()
    while last is not None and last in nodes and last not in seen:
        seen.add(last)
        way.append(last)
        last = nodes[last].parent
    return way[::-1]


def _at(file: BinaryIO, node: _Node) -> dict[str, Any]:
    file.seek(node.offset)
    found = json.loads(file.read(node.length))
    return found if isinstance(found, dict) else {}


def _take(found: ForeignTranscript, line: dict[str, Any]) -> None:
    message = line.get("message")
    if not isinstance(message, dict):
        found.broken += 1
        return
    role = message.get("role")
    if role == "toolResult":
        found.tools += 1
        found.outside = found.outside or message.get("toolName") not in _OWN_MEMORY
        return
    if role not in {"user", "assistant"}:
        return
    text, pictures = _words(message.get("content"))
    found.pictures += pictures
    if not text.strip():
        return
    model = "/".join(str(part) for part in (message.get("provider"), message.get("model")) if part)
    at = _instant(message.get("timestamp")) or _instant(line.get("timestamp")) or datetime.now(UTC)
    found.messages.append(ForeignMessage(role=role, text=text, at=at, model=model if role == "assistant" else ""))


def _words(content: Any) -> tuple[str, int]:
    """Return the text of a message, and how many pictures it has."""
    if isinstance(content, str):
        return content, 0
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    texts = [str(part.get("text") or "") for part in parts if part.get("type") == "text"]
    return "\n".join(text for text in texts if text), sum(part.get("type") == "image" for part in parts)


def _instant(value: Any) -> datetime | None:
    """Return an instant written as milliseconds or as ISO 8601; None for anything else."""
    try:
        if isinstance(value, bool):
            return None
        if isinstance(value, int | float):
            return datetime.fromtimestamp(value / 1000, UTC)
        if isinstance(value, str):
            found = datetime.fromisoformat(value)
            return found if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return None
