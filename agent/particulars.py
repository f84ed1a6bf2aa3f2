"""What a summary must not lose: identifiers, dates, amounts and addresses, found by rule and put back where they are missing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from agent.messages import AssistantMessage, ToolMessage, UserMessage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from agent.messages import Message

HEAD = "## Kept word for word"
MOST_LINES = 60
_LINE_CHARS = 240
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
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'(\d])|\n+|(?<=[。！？])")
_CUE = re.compile(
    r"\b(?:decid\w+|decision|agreed?|chose|choose|chosen|settled on|promis\w+|remind|remember|never|always|prefers?|must not|"
    r"don't forget|deadline|from now on|entschieden|beschlossen|versproch\w+|merk dir|erinner\w*|immer|niemals?|vergiss nicht)\b"
    r"|决定|答应|记住|約束|決め|覚えて",
    re.IGNORECASE,
)
"""Words that tell a decision, a promise, a wish or a habit: English, German, Chinese, Japanese."""
_WORD = re.compile(r"\w{4,}")
PASTED_CHARS = 2000
"""A longer message counts as pasted: what matters in it is for the model to say."""
_CHANGES = frozenset({"write", "edit", "patch", "apply_patch"})


def particulars(text: str) -> Iterator[str]:
    """Find identifiers, dates, amounts, paths and addresses."""
    for match in _PARTICULAR.finditer(text):
        yield match[0].rstrip(".,;:")


def kept_lines(dropped: Sequence[Message], former: str, known: str, most_chars: int) -> str:
    """Return what to put behind a summary: the sentences whose particulars are neither in the summary nor in memory (``known``).

    What people and the agent said counts, the newest first where there is too much; what tools gave counts only where one of
    them took it up. ``former`` is the summary before, whose own particulars are checked too.
    """
    there = _normal(known)
    sentences = [*_sentences([former]), *_sentences(m.text for m in dropped if isinstance(m, (UserMessage, AssistantMessage)))]
    lines: list[str] = []
    left = most_chars
    for sentence in reversed(sentences):
        lost = [found for found in particulars(sentence) if _normal(found) not in there]
        if not lost:
            continue
        line = "- " + (sentence if len(sentence) <= _LINE_CHARS else _around(sentence, lost))
        left -= len(line) + 1
        if left < 0 or len(lines) >= MOST_LINES:
            break
        lines.append(line)
        there += "\n" + _normal(line)
    lines.reverse()
    lines += [line for line in _files(dropped, there) if len(line) < left]
    return f"{HEAD}\n" + "\n".join(lines) if lines else ""


def salient_lines(statements: Sequence[str], known: str, most_chars: int) -> str:
    """Return sentences that a note must not lack: they hold particulars, or tell a decision, promise, wish or preference.

    ``known`` is what is written already: a sentence is left out when its particulars all stand there, or, where it has none, when
    all its long words stand together in one line. Questions and pasted texts are passed over; the newest count first.
    """
    there = _normal(known)
    lines = [set(_WORD.findall(line)) for line in map(_normal, known.splitlines())]
    kept: list[str] = []
    left = most_chars
    for sentence in reversed(list(_sentences(text for text in statements if len(text) <= PASTED_CHARS))):
        found = list(particulars(sentence))
        if sentence.endswith("?") or len(sentence) > _LINE_CHARS or not (found or _CUE.search(sentence)):
            continue
        words = set(_WORD.findall(_normal(sentence)))
        told = all(_normal(one) in there for one in found) if found else any(words <= line for line in lines)
        if told:
            continue
        left -= len(sentence) + 3
        if left < 0:
            break
        kept.append(f"- {sentence}")
        there += "\n" + _normal(sentence)
        lines.append(words)
    return f"{HEAD}\n\n" + "\n".join(reversed(kept)) + "\n" if kept else ""


def _sentences(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        for sentence in _SENTENCE.split(text):
            bare = sentence.strip().removeprefix("- ").strip()
            if bare and not bare.startswith("#"):
                yield " ".join(bare.split())


def _around(sentence: str, lost: Sequence[str]) -> str:
    """Shorten a long sentence to the first thing that would be lost, with what stands around it; name the others."""
    at = max(0, sentence.find(lost[0]) - _LINE_CHARS // 2)
    piece = sentence[at : at + _LINE_CHARS]
    others = [found for found in lost if found not in piece][:10]
    return f"{'…' if at else ''}{piece}…" + (f" (also: {', '.join(others)})" if others else "")


def _files(dropped: Sequence[Message], there: str) -> Iterator[str]:
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
