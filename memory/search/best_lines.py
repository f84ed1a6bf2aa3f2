"""Results of the lines that answer a query best, by file: six whole passages would spend most of their tokens on lines beside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from msgspec import Struct, field

from memory.notes.sources import Source
from memory.search.line_matches import LineMatches
from memory.search.ranking import scaled_cosines
from memory.store.candidates import Candidate
from memory.text.line_groups import line_groups
from memory.text.statements import statements
from memory.text.tokens import ASCII_CHARS_PER_TOKEN, estimate

_BY_LINE = 0.6
"""What a line's own words, its cosine and its label add to the score of its passage, each."""
_NEWLINE = 0.25
_LEAST = 15
"""Estimated tokens below which nothing more is added."""
_GAP = "[… line {}]"
_GAP_TOKENS = estimate(_GAP.format(100)) + _NEWLINE


class FileLines(Struct):
    """Lines of one file, by number; ``score`` is that of the best. A part of a long line is alone."""

    path: str
    source: Source
    score: float
    part: int = 0
    lines: dict[int, str] = field(default_factory=dict)
    chunks: list[Candidate] = field(default_factory=list)

    @property
    def start_line(self) -> int:
        """The first line."""
        return min(self.lines)

    @property
    def end_line(self) -> int:
        """The last line."""
        return max(self.lines)

    @property
    def pieces(self) -> tuple[tuple[int, int], ...]:
        """First and last line of each run of lines."""
        return tuple(_runs(self.lines))

    @property
    def text(self) -> str:
        """The lines, and between those that do not follow one another the number of the next one."""
        said = ["\n".join(self.lines[number] for number in range(first, last + 1)) for first, last in self.pieces]
        gaps = [_GAP.format(first) for first, _ in self.pieces[1:]]
        return "\n".join([said[0], *(line for pair in zip(gaps, said[1:], strict=True) for line in pair)])


class _Scored(NamedTuple):
    score: float
    chunk: Candidate
    first: int
    last: int
    heading: int | None


def best_lines(
    ranked: Sequence[Candidate], matches: LineMatches, *, most: int, tokens: float, transcript_weight: float = 1.0
) -> list[FileLines]:
    """Return the lines of the candidates that answer best, until ``tokens`` are used up, of at most ``most`` files.

    A line is taken with what it belongs to: the others of its paragraph, and the heading above it. Files are in the order of their best
    lines; the first line is always taken.
    """
    files: dict[tuple[str, int, int], FileLines] = {}
    every = _numbered(ranked)
    used, best = 0.0, 0.0
    for one in sorted(_statements(ranked, matches, transcript_weight), key=_order):
        chunk = one.chunk
        if files and used + _LEAST > tokens:
            break
        key = (chunk.path, chunk.start_line if chunk.part else 0, chunk.part)
        held = files.get(key)
        if held is None and len(files) >= most:
            continue
        lines = held.lines if held else {}
        least = sum(len(every[key][n]) for n in range(one.first, one.last + 1) if n not in lines) / ASCII_CHARS_PER_TOKEN
        if not least or (files and used + least > tokens):
            continue
        new, cost = _addition(one, lines, every[key])
        if not new or (files and used + cost > tokens):
            continue
        used += cost
        best = best or one.score
        if held is None:
            score = ranked[0].score * (one.score / best if best > 0 else 1.0)
            held = files[key] = FileLines(chunk.path, chunk.source, score, chunk.part)
        held.lines |= new
        if all(chunk.id != other.id for other in held.chunks):
            held.chunks.append(chunk)
    return list(files.values())


def _numbered(ranked: Sequence[Candidate]) -> dict[tuple[str, int, int], dict[int, str]]:
    """Return all lines of the candidates, by file and number."""
    every: dict[tuple[str, int, int], dict[int, str]] = {}
    for chunk in ranked:
        if chunk.part:
            every[chunk.path, chunk.start_line, chunk.part] = {chunk.start_line: chunk.text}
        else:
            every.setdefault((chunk.path, 0, 0), {}).update(enumerate(chunk.text.split("\n"), chunk.start_line))
    return every


def _statements(ranked: Sequence[Candidate], matches: LineMatches, transcript_weight: float) -> Iterator[_Scored]:
    known = {(chunk.id, n): cosine for chunk in ranked for n, cosine in enumerate(_cosines(chunk)) if cosine is not None}
    cosines = scaled_cosines(known)
    for chunk in ranked:
        weight = _BY_LINE * (transcript_weight if chunk.source == "sessions" else 1.0)
        scores: list[float] = []
        for number, line in enumerate(matches.by_line(chunk.text)):
            near = cosines.get((chunk.id, number), line.share) if cosines else 0.0
            scores.append(chunk.score + weight * (line.share + line.named + near))
        if chunk.part:
            yield _Scored(max(scores), chunk, chunk.start_line, chunk.start_line, None)
            continue
        start = chunk.start_line
        for first, last, heading in statements(chunk.text):
            at = None if heading is None else start + heading
            yield _Scored(max(scores[first : last + 1]), chunk, start + first, start + last, at)


def _cosines(chunk: Candidate) -> list[float | None]:
    """Return the cosine of each line of a chunk, where it is known: that of its group, or of the chunk."""
    count = chunk.text.count("\n") + 1
    if chunk.lines is None:
        return [chunk.vector] * count
    groups = line_groups(chunk.text)
    found: list[float | None] = [chunk.vector] * count
    if len(groups) != len(chunk.lines.each):  # the embedder refused one
        return [chunk.lines.line] * count
    for (first, last), cosine in zip(groups, chunk.lines.each, strict=True):
        found[first : last + 1] = [cosine] * (last + 1 - first)
    return found


def _addition(one: _Scored, held: dict[int, str], every: dict[int, str]) -> tuple[dict[int, str], float]:
    """Return the lines that a statement adds to those of its file, with its heading and what is blank between them, and their cost."""
    wanted = [n for n in (*([] if one.heading is None else [one.heading]), *range(one.first, one.last + 1)) if n not in held]
    if all(number == one.heading for number in wanted):
        return {}, 0.0
    new = {number: every[number] for number in wanted}
    gaps = -max(0, len(_runs(held)) - 1)
    for (_, before), (after, _) in pairwise(_runs([*held, *new])):
        blank = [number for number in range(before + 1, after) if number in every and not every[number].strip()]
        if len(blank) == after - before - 1:
            new |= dict.fromkeys(blank, "")
        else:
            gaps += 1
    return new, sum(estimate(line) + _NEWLINE for line in new.values()) + gaps * _GAP_TOKENS


def _runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return first and last number of each run of numbers that follow one another."""
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1] = found[-1][0], number
        else:
            found.append((number, number))
    return found


def _order(one: _Scored) -> tuple[float, str, int, int]:
    return -one.score, one.chunk.path, one.first, one.chunk.part
