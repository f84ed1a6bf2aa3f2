"""Marks of notations such as Slack's and WhatsApp's, which have no escape and do not span lines: ``*bold*``, ``_italic_``, ``~strike~``."""

from __future__ import annotations

import re
from typing import Final

WORDLESS: Final = "\u200b"
"""A character without width that parts a mark from its word."""
_ADDRESS: Final = re.compile(r"(https?://[^\s<>]+)")
_MARK: Final = re.compile(r"(?<!\w)([*_~`])(?=\S)")


def parted(text: str) -> str:
    """Return a text in which no mark takes effect. Addresses stay as they are."""
    parts = _ADDRESS.split(text)
    parts[::2] = [_MARK.sub(rf"\1{WORDLESS}", part) for part in parts[::2]]
    return "".join(parts)


def marked(inside: str, mark: str) -> str:
    """Mark each line: marks do not span lines, and blanks next to them are not accepted."""
    lines = []
    for line in inside.split("\n"):
        core = line.strip()
        before = line[: len(line) - len(line.lstrip())]
        lines.append(f"{before}{mark}{core}{mark}{line[len(before) + len(core) :]}" if core else line)
    return "\n".join(lines)
