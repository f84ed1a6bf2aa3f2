"""What was said in a conversation of the page, on disk: what a platform would keep. A file of JSON lines for each conversation.

Answers are in the transcript, too; what is here besides are replies of commands, questions with buttons, files, and which words were
typed here. Of a large file the older half is dropped.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

LARGEST: Final = 4 * 1024 * 1024
"""Bytes of a file after which its older half is dropped."""
FILES: Final = "files"
UPLOADS: Final = "uploads"


class ConversationLog:
    """The lines of one conversation, in memory once they were read. Methods block."""

    def __init__(self, folder: Path, conversation: str) -> None:
        self._path = folder / f"{hashlib.sha256(conversation.encode()).hexdigest()[:24]}.jsonl"
        self._lines: list[dict[str, Any]] | None = None
        self._keys: set[str] = set()

    def lines(self) -> list[dict[str, Any]]:
        """Return all lines, the oldest first. One that cannot be read is left out."""
        if self._lines is None:
            try:
                raw = self._path.read_bytes()
            except FileNotFoundError:
                raw = b""
            self._lines = [line for text in raw.splitlines() if (line := _read(text)) is not None]
            self._keys = {str(line["key"]) for line in self._lines if "key" in line}
        return list(self._lines)

    def holds(self, key: str) -> bool:
        """Return whether there is a line with a key."""
        self.lines()
        return key in self._keys

    def add(self, line: Mapping[str, Any]) -> Mapping[str, Any]:
        """Add a line, and return it; it is durable then. Of a key that is there already the line that is there is returned.

        Raises OSError; it may be there nevertheless, which is seen when it is added again.
        """
        if "key" in line and self.holds(str(line["key"])):
            return next(one for one in self.lines() if str(one.get("key")) == str(line["key"]))
        try:
            self._add(line)
        except OSError:
            self._lines = None
            raise
        return line

    def _add(self, line: Mapping[str, Any]) -> None:
        known = self.lines()
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        written = json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        with os.fdopen(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600), "r+b") as file:
            end = file.seek(0, os.SEEK_END)
            if end:
                file.seek(end - 1)
                written = (
                    written if file.read(1) == b"\n" else b"\n" + written
                )  # a line that a loss of power cut off stays apart
            file.write(written)
            file.flush()
            os.fsync(file.fileno())
        known.append(dict(line))
        self._lines = known
        if "key" in line:
            self._keys.add(str(line["key"]))
        if end > LARGEST:
            self._halve(known)

    def _halve(self, known: list[dict[str, Any]]) -> None:
        kept = known[len(known) // 2 :]
        fresh = self._path.with_suffix(".tmp")
        with os.fdopen(
            os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600), "wb"
        ) as file:
            file.writelines(json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n" for line in kept)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)
        self._lines = kept


def _read(text: bytes) -> dict[str, Any] | None:
    try:
        line = json.loads(text)
    except ValueError:
        return None
    return line if isinstance(line, dict) else None
