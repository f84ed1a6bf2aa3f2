"""Splits Markdown into chunks of whole lines, with their line range and headings, and detects lines without content."""

from __future__ import annotations

import re
from calendar import day_name, month_name
from collections.abc import Iterator, Sequence

from msgspec import Struct

from memory.text.tokens import estimate

_NEWLINE = 0.25
_LONGEST_HEADING = 200


class Chunk(Struct, frozen=True):
    """Lines ``start_line`` to ``end_line`` (1-based, inclusive) of a file.

    ``heading`` is the path of headings above the first line, outermost first. ``part`` is 0 for whole lines; a line longer
    than a chunk is cut into parts 1, 2, ... that all bear its number. ``words`` is what the keyword side gets of it where that
    is not the whole text.
    """

    start_line: int
    end_line: int
    text: str
    heading: str = ""
    part: int = 0
    words: str = ""


def split_lines(text: str) -> list[str]:
    """Split at line feeds, as editors count lines; carriage returns and a final newline go away."""
    lines = text.split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def chunk(lines: Sequence[str], *, tokens: int, overlap: int, template: frozenset[str] = frozenset()) -> list[Chunk]:
    """Split ``lines`` into chunks of at most ``tokens`` estimated tokens.

    Every line with content is in a chunk (see ``memory.text.chunks``; ``template`` are the lines of a new workspace). A chunk
    begins with the last whole lines of the one before: as few as reach ``overlap`` tokens, as long as they leave half of the
    chunk to new text.
    """
    said = informative_lines(lines, template)
    if not any(said):
        return []
    headings = _headings(lines, said)
    silent = [not tells and not (line == "" or line.isspace()) for line, tells in zip(lines, said, strict=True)]
    chunks: list[Chunk] = []
    for first, last, part, text in _pieces(lines, tokens, overlap):
        if not any(said[first : last + 1]):
            continue
        whole = not part and any(silent[first : last + 1])
        words = "\n".join(lines[n] for n in range(first, last + 1) if said[n]) if whole else ""
        chunks.append(Chunk(first + 1, last + 1, text, headings[first], part, words))
    return chunks


def chunks_of_talk(lines: Sequence[str], *, tokens: int, overlap: int, before: int = 0, repeated: int = 0) -> list[Chunk]:
    """Return what ``chunk`` does, for lines that all have content and none of which is a heading or a fence.

    They may come behind ``before`` others: from the first line of one of the chunks on, of whose lines the first ``repeated``
    end the chunk before it.
    """
    return [
        Chunk(before + first + 1, before + last + 1, text, "", part)
        for first, last, part, text in _pieces(lines, tokens, overlap, repeated)
    ]


def _pieces(lines: Sequence[str], tokens: int, overlap: int, repeated: int = 0) -> Iterator[tuple[int, int, int, str]]:
    """Yield (first, last, part, text), 0-based."""
    weights = [estimate(line) + _NEWLINE for line in lines]
    first, size = 0, sum(weights[:repeated])
    fresh = repeated  # the first line of this chunk that was in none before
    for index, weight in enumerate(weights[repeated:], repeated):
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
    """Return the first line that is repeated in the next chunk; never the whole chunk that began at ``first``."""
    start, carried = end, 0.0
    while start - 1 > first and carried < overlap and carried + weights[start - 1] <= room:
        start -= 1
        carried += weights[start]
    return start


def _parts(line: str, tokens: int, overlap: int) -> Iterator[str]:
    """Split one long line at spaces if possible, repeating up to ``overlap`` tokens of whole words."""
    per_token = len(line) / max(1.0, estimate(line))
    size = max(1, int(tokens * per_token))
    back = min(int(overlap * per_token), size // 2)
    start = 0
    while True:
        end = start + size
        if end >= len(line):
            yield line[start:]
            return
        blank = line.rfind(" ", start + back + 1, end)
        end = blank + 1 if blank > 0 else end
        yield line[start:end]
        start = line.find(" ", end - back, end - 1) + 1 or (end if blank > 0 else end - back)


def _headings(lines: Sequence[str], said: Sequence[bool]) -> list[str]:
    """Return for every line the path of headings with content above it, including the line itself."""
    path: list[tuple[int, str]] = []
    joined = ""
    out: list[str] = []
    for line, level, tells in zip(lines, heading_levels(lines), said, strict=True):
        if level and (found := HEADING.match(line)):
            text = (found[2] or "").strip() if tells else ""
            path = [*(entry for entry in path if entry[0] < level), (level, text)]
            joined = " > ".join(text for _, text in path if text)[:_LONGEST_HEADING]
        out.append(joined)
    return out


HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_WORD = re.compile(r"[^\W_]|[^\x00-\x7f]")
_DAY = re.compile(rf"[\W\d_]|\b(?:{'|'.join([*day_name, *filter(None, month_name)])})\b", re.IGNORECASE)


def heading_levels(lines: Sequence[str]) -> list[int]:
    """Return the heading level of every line, 1 to 6; 0 for other lines and inside code blocks."""
    found: list[int] = []
    fence = ""
    for line in lines:
        mark = FENCE.match(line)
        level = 0
        if mark and (not fence or (mark[1][0] == fence[0] and len(mark[1]) >= len(fence))):
            fence = "" if fence else mark[1]
        elif not fence and line.lstrip(" ").startswith("#") and (heading := HEADING.match(line)):
            level = len(heading[1])
        found.append(level)
    return found


def informative_lines(lines: Sequence[str], template: frozenset[str]) -> list[bool]:
    """Return for every line whether it has content.

    Lines of ASCII punctuation only have none. Lines of ``template`` (stripped) and headings that are only a date have none
    either, except headings with content below them. The title of a template never has content.
    """
    depth = heading_levels(lines)
    said = [bool(_WORD.search(line)) and line.strip() not in template for line in lines]
    for number, level in enumerate(depth):
        if level and said[number]:
            said[number] = bool(_DAY.sub("", lines[number]))
    below = [False] * 8  # whether something was said below a heading of each level, from the end
    for number in range(len(lines) - 1, -1, -1):
        level = depth[number]
        if not level:
            below = [one or said[number] for one in below]
            continue
        if below[level] and not said[number]:
            said[number] = bool(_WORD.search(lines[number])) and not (level == 1 and lines[number].strip() in template)
        below = [one or said[number] if at < level else False for at, one in enumerate(below)]
    return said


def is_only_headings(text: str) -> bool:
    """Return whether a text consists of headings only."""
    return all(not line.strip() or line.lstrip(" ").startswith("#") for line in text.split("\n"))
