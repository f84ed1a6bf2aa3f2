"""Reads a session transcript of Clawdbot or OpenClaw: JSON lines that form a tree, of which the last line's branch is what was said.

Lines have a ``type``: ``session`` (the head), ``message``, ``compaction`` (with a summary), and others that say nothing to people.
They are read from the last one backwards, since a line comes after its parent: so a file of any size takes the memory of what is
kept of it, and what was compacted is not read at all.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal

LONGEST_LINE: Final = 32 * 1024 * 1024
"""A longer line is passed over: it holds a picture or the output of a command."""
MOST_TEXT: Final = 8 * 1024 * 1024
"""Characters of messages that are kept, the latest: beyond every context window, and what a session holds in memory here."""
_EACH: Final = 256
"""What a message counts besides its text."""
_PIECE: Final = 1024 * 1024
_LINKS: Final = 4096
"""Bytes at the beginning of a broken line in which its id and its parent are looked for."""
_ID: Final = re.compile(rb'"id":"([^"\\]+)"')
_PARENT: Final = re.compile(rb'"parentId":"([^"\\]+)"')


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
    agent's own memory, so that what the model said may follow from untrusted text. ``broken`` counts lines that could not be read,
    and ``cut`` tells that there were more messages than are kept.
    """

    summary: str = ""
    messages: list[ForeignMessage]
    tools: int = 0
    pictures: int = 0
    outside: bool = False
    broken: int = 0
    cut: bool = False


_OWN_MEMORY: Final = frozenset({"memory_search", "memory_get", "session_status"})


def read_transcript(path: Path) -> ForeignTranscript:
    """Return the branch that ends with the last message of a file.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        return read_branch(lines_backwards(file))


def read_branch(lines: Iterable[bytes | None], *, one_branch: bool = False) -> ForeignTranscript:
    """Return the branch that ends with the first of ``lines``, which come last one first; None stands for one that is too long.

    ``one_branch``: they are all of it.
    """
    branch = _Branch(one_branch)
    for line in lines:
        if branch.take(line):
            break
    return branch.end()


def lines_backwards(file: BinaryIO, piece: int = _PIECE) -> Iterator[bytes | None]:
    """Yield the lines of a file that are not blank, last one first; None for one that is longer than ``LONGEST_LINE``."""
    at = file.seek(0, os.SEEK_END)
    pieces: list[bytes] = []  # of the line that is being put together, last one first
    size = 0
    while at > 0:
        step = min(piece, at)
        at -= step
        file.seek(at)
        *whole, first = reversed(file.read(step).split(b"\n"))
        for part in whole:
            if (line := _joined(pieces, part, size)) is None or line.strip():
                yield line
            pieces, size = [], 0
        size += len(first)
        if size <= LONGEST_LINE:
            pieces.append(first)
        else:
            pieces.clear()
    if (line := _joined(pieces, b"", size)) is None or line.strip():
        yield line


def _joined(pieces: list[bytes], first: bytes, size: int) -> bytes | None:
    return None if size + len(first) > LONGEST_LINE else b"".join([first, *reversed(pieces)])


class _Branch:
    """Follows the parents from one line to the one before it on the same branch, and keeps what was said.

    A line that cannot be read, right before its child, is taken for the parent: then the branch goes on with the line before it.
    """

    def __init__(self, one_branch: bool) -> None:
        self._found = ForeignTranscript(messages=[])
        self._all = one_branch
        self._wanted: str | None = None
        """The id of the line that comes next on the branch; None for whichever comes next."""
        self._adjacent = True
        self._kept_from: str | None = None
        self._kept: list[ForeignMessage] = []
        self._text = 0

    def take(self, line: bytes | None) -> bool:
        """Look at the line before; return whether the branch ends here."""
        if self._wanted is not None and not self._adjacent and line is not None and self._wanted.encode() not in line:
            return False
        raw = _parsed(line)
        if raw is None:
            self._found.broken += 1
            return self._pass_over(line)
        if raw["type"] == "session":
            return False
        identity = raw.get("id")
        if self._wanted is not None and identity != self._wanted:
            self._adjacent = False
            return False
        return self._on_branch(raw, identity)

    def _on_branch(self, raw: dict[str, Any], identity: object) -> bool:
        if raw["type"] == "message":
            self._keep(raw)
        elif raw["type"] == "compaction" and self._kept_from is None:
            self._found.summary = str(raw.get("summary") or "")
            self._kept_from = str(raw.get("firstKeptEntryId") or "")
            self._kept, self._found.messages = self._found.messages, []
            if not self._kept_from:
                return True
        if self._kept_from is not None and identity == self._kept_from:
            self._kept += self._found.messages
            self._found.messages = []
            return True
        if self._text > MOST_TEXT:
            self._found.cut = True
            return True
        self._adjacent = True
        if "parentId" in raw and not self._all:
            self._wanted = None if raw["parentId"] is None else str(raw["parentId"])
            return self._wanted is None
        self._wanted = None
        return False

    def _pass_over(self, line: bytes | None) -> bool:
        """Go on where a line that cannot be read stands on the branch."""
        start = (line or b"")[:_LINKS]
        identity, parent = _ID.search(start), _PARENT.search(start)
        if self._wanted is None or identity is None or parent is None:
            self._wanted = None if self._adjacent else self._wanted
        elif identity[1].decode(errors="replace") == self._wanted:
            self._wanted, self._adjacent = parent[1].decode(errors="replace"), True
        return False

    def _keep(self, raw: dict[str, Any]) -> None:
        before = len(self._found.messages)
        _take(self._found, raw)
        self._text += sum(len(message.text) + _EACH for message in self._found.messages[before:])

    def end(self) -> ForeignTranscript:
        """Return what was found, first message first."""
        found = self._found
        if self._kept_from is not None:
            # What stands before a compaction counts up to the line that it names; without such a line, all of that was summarised.
            found.messages = self._kept + (found.messages if found.cut else [])
        found.messages.reverse()
        return found


def _parsed(line: bytes | None) -> dict[str, Any] | None:
    try:
        raw = json.loads(line or b"")
        return raw if isinstance(raw, dict) and isinstance(raw.get("type"), str) else None
    except (ValueError, RecursionError):
        return None


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
