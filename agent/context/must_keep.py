"""What is particular in a text: identifiers, dates, amounts, addresses, paths; and the sentences and files they stand in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from agent.messages import AssistantMessage, Message, ToolMessage

HEAD = "## Kept word for word"
LINE_CHARS = 240
"""Longest line that is kept of a sentence."""
_FILES = 20
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_KINDS = (
    r"https?://[^\s<>\"')\]]+",
    r"[\w.+-]+@[\w-]+\.[\w.-]+",
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d)?",
    r"\d{1,2}[./]\d{1,2}[./]\d{2,4}",
    rf"\d{{1,2}}\.? {_MONTH}(?: \d{{4}})?",
    rf"{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?(?:,? \d{{4}})?",
    r"\d{1,2}:\d\d(?::\d\d)?",
    r"[$€£¥]\s?\d[\d.,]*",
    r"\d[\d.,]*\s?(?:EUR|USD|GBP|CHF|JPY|€|£|%|km|kg|[kMGT]B|euros?|dollars?)",
    r"(?:~|\.{1,2})?(?:/[\w.@-]+){2,}",
    r"[\w-]+(?:/[\w.-]+)+\.\w{1,5}",
    r"\+\d[\d \-]{6,}\d",
    r"(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[A-Za-z0-9][\w-]{3,}",
    r"\d{4,}",
)
_PARTICULAR = re.compile("|".join(rf"(?<![A-Za-z0-9])(?:{kind})" for kind in _KINDS), re.ASCII)
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-ZÀ-ÖØ-Þ\"'“„(\d])|\n+|(?<=[。！？])")
_NO_END = re.compile(
    r"(?:^|[\s(])(?:[A-Za-z]|\d{1,2}|Dr|Mr|Mrs|Ms|Prof|St|Str|Nr|No|Fr|Hr|Tel|approx|ca|bzw|vs|etc|e\.g|i\.e|z\. ?B|d\. ?h|u\. ?a)\.$"
)
"""What ends with a dot and is no end of a sentence: initials, ordinal numbers, abbreviations."""
_CHANGES = frozenset({"write", "edit", "patch", "apply_patch"})


def particulars(text: str) -> Iterator[str]:
    """Find identifiers, dates, amounts, paths and addresses."""
    for match in _PARTICULAR.finditer(text):
        yield match[0].rstrip(".,;:")


def sentences_of(texts: Iterable[str]) -> Iterator[str]:
    """Take texts apart into sentences and lines, without list marks; headings are left out."""
    for text in texts:
        start = 0
        for cut in [*_SENTENCE.finditer(text), None]:
            end = len(text) if cut is None else cut.start()
            if cut is not None and "\n" not in cut[0] and _NO_END.search(text[start:end]):
                continue
            bare = text[start:end].strip().removeprefix("- ").strip()
            start = end if cut is None else cut.end()
            if bare and not bare.startswith("#"):
                yield " ".join(bare.split())


def around(sentence: str, lost: Sequence[str]) -> str:
    """Shorten a long sentence to the first thing that would be lost, with what stands around it; name the others."""
    at = max(0, sentence.find(lost[0]) - LINE_CHARS // 2)
    piece = sentence[at : at + LINE_CHARS]
    others = [found for found in lost if found not in piece][:10]
    return f"{'…' if at else ''}{piece}…" + (f" (also: {', '.join(others)})" if others else "")


def files_of(dropped: Sequence[Message], known: str) -> Iterator[str]:
    """Return which files were changed and read, as far as ``known`` does not name them."""
    there = _normal(known)
    read: dict[str, None] = {}
    changed: dict[str, None] = {}
    failed = {message.call_id for message in dropped if isinstance(message, ToolMessage) and message.is_error}
    for message in dropped:
        for call in message.calls if isinstance(message, AssistantMessage) else ():
            path = (call.arguments or {}).get("path")
            if isinstance(path, str) and call.id not in failed and _normal(path) not in there:
                (changed if call.name in _CHANGES else read)[path] = None
    if changed:
        yield f"- Files changed: {', '.join(list(changed)[-_FILES:])}"
    if read:
        yield f"- Files read: {', '.join(list(read)[-_FILES:])}"


def _normal(text: str) -> str:
    return " ".join(text.split()).casefold()
