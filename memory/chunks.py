"""Cutting Markdown into pieces of whole lines, each with its range and the headings it stands under."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memory.tokens import estimate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_NEWLINE = 0.25
_LONGEST_HEADING = 200


@dataclass(frozen=True, slots=True)
class Chunk:
    """Lines ``start_line`` to ``end_line`` (1-based, inclusive) of a file.

    ``heading`` is the path of headings above the first line, outermost first. ``part`` is 0 for whole lines; a line longer
    than a chunk is cut into parts 1, 2, ... that all bear its number.
    """

    start_line: int
    end_line: int
    text: str
    heading: str = ""
    part: int = 0


def split_lines(text: str) -> list[str]:
    """Split at line feeds, as editors count lines; carriage returns and a final newline go away."""
    lines = text.split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def chunk(lines: Sequence[str], *, tokens: int, overlap: int) -> list[Chunk]:
    """Cut ``lines`` into chunks of at most ``tokens`` estimated tokens.

    Every line is in some chunk. A chunk begins with the last whole lines of the one before: as few as reach ``overlap``
    tokens, as long as they leave half of the chunk to new text. A file of blank lines has no chunks.
    """
    if not any(line.strip() for line in lines):
        return []
    headings = _headings(lines)
    chunks: list[Chunk] = []
    for first, last, part, text in _pieces(lines, tokens, overlap):
        chunks.append(Chunk(first + 1, last + 1, text, headings[first], part))
    return chunks


def _pieces(lines: Sequence[str], tokens: int, overlap: int) -> Iterator[tuple[int, int, int, str]]:
    """Yield (first, last, part, text), 0-based."""
    weights = [estimate(line) + _NEWLINE for line in lines]
    first, size = 0, 0.0
    fresh = 0  # the first line of this chunk that was in none before
    for index, weight in enumerate(weights):
        if weight > tokens:
            if fresh < index:
                yield first, index - 1, 0, "\n".join(lines[first:index])
            for part, text in enumerate(_parts(lines[index], tokens, overlap), 1):
                yield index, index, part, text
            first = fresh = index + 1
            size = 0.0
            continue
        if size + weight > tokens and fresh < index:
            yield first, index - 1, 0, "\n".join(lines[first:index])
            first = _overlap_start(weights, first, index, overlap=overlap, room=min(tokens / 2, tokens - weight))
            fresh = index
            size = sum(weights[first:index])
        size += weight
    if fresh < len(lines):
        yield first, len(lines) - 1, 0, "\n".join(lines[first:])


def _overlap_start(weights: Sequence[float], first: int, end: int, *, overlap: int, room: float) -> int:
    """Find the line from which on ``weights[:end]`` are repeated; never all of the chunk that began at ``first``."""
    start, carried = end, 0.0
    while start - 1 > first and carried < overlap and carried + weights[start - 1] <= room:
        start -= 1
        carried += weights[start]
    return start


def _parts(line: str, tokens: int, overlap: int) -> Iterator[str]:
    """Cut one long line at blanks where there are some, repeating about ``overlap`` tokens."""
    per_token = len(line) / max(1.0, estimate(line))
    size = max(1, int(tokens * per_token))
    back = min(int(overlap * per_token), size // 2)
    start = 0
    while True:
        end = start + size
        if end >= len(line):
            yield line[start:]
            return
        blank = line.rfind(" ", start + size // 2 + back, end)
        end = blank + 1 if blank > 0 else end
        yield line[start:end]
        start = end - back


def _headings(lines: Sequence[str]) -> list[str]:
    """Return for every line the headings it stands under, a heading line counting for itself; code blocks have none."""
    path: list[tuple[int, str]] = []
    joined, fence = "", ""
    out: list[str] = []
    for line in lines:
        mark = _FENCE.match(line)
        if mark and (not fence or (mark[1][0] == fence[0] and len(mark[1]) >= len(fence))):
            fence = "" if fence else mark[1]
        elif not fence and line.lstrip(" ").startswith("#") and (found := _HEADING.match(line)):
            level = len(found[1])
            path = [*(entry for entry in path if entry[0] < level), (level, (found[2] or "").strip())]
            joined = " > ".join(text for _, text in path if text)[:_LONGEST_HEADING]
        out.append(joined)
    return out
