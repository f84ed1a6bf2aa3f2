"""Results of the lines that answer a query best, by file: six whole passages would spend most of their tokens on lines beside them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush, nlargest
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

from msgspec import Struct, field

from memory.notes.sources import Source
from memory.search.line_matches import LineMatches, LineWords
from memory.search.ranking import scaled_cosines
from memory.store.candidates import Candidate
from memory.text.line_groups import line_groups
from memory.text.statements import statements
from memory.text.tokens import ASCII_CHARS_PER_TOKEN, estimate

_BY_LINE = 0.6
"""What a line's own words, its cosine and its label add to the score of its passage, each."""
_BY_FILE, _NEAREST = 0.5, 5
"""What the cosine of its file adds, by the mean of so many of the nearest lines there: notes of a day often answer together."""
_NEWLINE = 0.25
_LEAST = 15
"""Estimated tokens below which nothing more is added."""
_Key = tuple[str, int, int]
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


class _Passage(NamedTuple):
    """``near`` are the scaled cosines of the groups of lines, and last that of the passage; None if no candidate has a vector."""

    chunk: Candidate
    weight: float
    words: list[LineWords]
    near: list[float | None] | None

    def most(self, file: float) -> float:
        """Return the score that no line exceeds."""
        nearest = max((cosine for cosine in self.near or () if cosine is not None), default=0.0)
        return self._sum(file, max(line.share + line.named + max(line.share, nearest) for line in self.words))

    def scores(self, file: float) -> list[float]:
        """Return the score of each line."""
        near = [0.0] * len(self.words) if self.near is None else self._nearness(self.near)
        return [self._sum(file, line.share + line.named + cosine) for line, cosine in zip(self.words, near, strict=True)]

    def nearest(self) -> list[float]:
        """Return the cosines of the groups of lines, or of the passage if it has none; the nearest is no less than the words' share."""
        if self.near is None:
            return [0.0]
        *each, own = self.near
        first, *others = sorted((cosine for cosine in each or [own] if cosine is not None), reverse=True) or [0.0]
        return [max(first, *(line.share for line in self.words)), *others]

    def _sum(self, file: float, line: float) -> float:
        return self.chunk.score + self.weight * (_BY_FILE * file + _BY_LINE * line)

    def _nearness(self, near: list[float | None]) -> list[float]:
        """Return the cosine of each line: that of its group, or of the passage; if it has none, its words count twice."""
        *each, own = near
        found = [own] * len(self.words)
        groups = line_groups(self.chunk.text) if each else ()
        if len(groups) != len(each):  # the embedder refused one
            found = [max((cosine for cosine in each if cosine is not None), default=own)] * len(found)
        else:
            for (first, last), cosine in zip(groups, each, strict=True):
                found[first : last + 1] = [cosine] * (last + 1 - first)
        return [line.share if cosine is None else cosine for line, cosine in zip(self.words, found, strict=True)]


def best_lines(
    ranked: Sequence[Candidate],
    matches: LineMatches,
    *,
    most: int,
    tokens: float,
    transcript_weight: float = 1.0,
    first: Sequence[str] = (),
) -> list[FileLines]:
    """Return the lines of the candidates that answer best, until ``tokens`` are used up, of at most ``most`` files.

    A line is taken with what it belongs to: the others of its paragraph, and the heading above it. Files are in the order of their best
    lines, but those whose paths are ``first``, each with its best line at least, come before them; the first line is always taken.
    """
    files: dict[_Key, FileLines] = {}
    every = _Numbered(ranked)
    used = 0.0

    def may_add(chunk: Candidate) -> bool:
        key = _key(chunk)
        if key not in files and len(files) >= most:
            return False
        lines = files[key].lines if key in files else {}
        sizes = [len(line) for n, line in enumerate(chunk.text.split("\n"), chunk.start_line) if line and n not in lines]
        return not files or used + min(sizes, default=math.inf) / ASCII_CHARS_PER_TOKEN <= tokens

    for one in _statements(ranked, matches, transcript_weight, may_add, first):
        chunk = one.chunk
        if files and used + _LEAST > tokens:
            break
        key = _key(chunk)
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
        if held is None:
            held = files[key] = FileLines(chunk.path, chunk.source, one.score, chunk.part)
        held.lines |= new
        if all(chunk.id != other.id for other in held.chunks):
            held.chunks.append(chunk)
    found = list(files.values())
    _scale(found, ranked[0].score if ranked else 0.0)
    return found


def _scale(found: Sequence[FileLines], most: float) -> None:
    """Scale the scores of files so that the best is ``most``; none is less than that of a file behind it."""
    best = max((file.score for file in found), default=0.0)
    least = 0.0
    for file in reversed(found):
        least = file.score = max(least, most * (file.score / best if best > 0 else 1.0))


class _Numbered(dict[_Key, dict[int, str]]):
    """All lines of the candidates, by file and number; a file's are numbered when they are asked for."""

    def __init__(self, ranked: Sequence[Candidate]) -> None:
        self._chunks: dict[_Key, list[Candidate]] = {}
        for chunk in ranked:
            self._chunks.setdefault(_key(chunk), []).append(chunk)

    def __missing__(self, key: _Key) -> dict[int, str]:
        lines = self[key] = {}
        for chunk in self._chunks[key]:
            lines |= {chunk.start_line: chunk.text} if chunk.part else enumerate(chunk.text.split("\n"), chunk.start_line)
        return lines


def _key(chunk: Candidate) -> _Key:
    return chunk.path, chunk.start_line if chunk.part else 0, chunk.part


def _statements(
    ranked: Sequence[Candidate],
    matches: LineMatches,
    transcript_weight: float,
    may_add: Callable[[Candidate], bool],
    first: Sequence[str],
) -> Iterator[_Scored]:
    """Yield the statements of the candidates, best first, but before them the best one of each file in ``first``.

    Cutting a passage into statements costs more than the rest: it is done when no statement before is better than what it may have, if
    ``may_add`` says that then any of it may be used.
    """
    known = {(chunk.id, n): cosine for chunk in ranked for n, cosine in enumerate(_cosines(chunk)) if cosine is not None}
    scaled = scaled_cosines(known)
    passages: list[_Passage] = []
    for chunk in ranked:
        weight = transcript_weight if chunk.source == "sessions" else 1.0
        near = [scaled.get((chunk.id, n)) for n in range(len(_cosines(chunk)))] if scaled else None
        passages.append(_Passage(chunk, weight, matches.by_line(chunk.text), near))
    files = _files(passages)
    for path in first:
        if of_it := [one for passage in passages if passage.chunk.path == path for one in _scored(passage, files[path])]:
            yield min(of_it, key=_order)
    order = sorted((-passage.most(files[passage.chunk.path]), place) for place, passage in enumerate(passages))
    waiting: list[tuple[tuple[float, str, int, int, int], _Scored]] = []
    for best, place in order:
        passage = passages[place]
        while waiting and waiting[0][0][0] < best:
            yield heappop(waiting)[1]
        for one in _scored(passage, files[passage.chunk.path]) if may_add(passage.chunk) else ():
            heappush(waiting, (_order(one), one))
    while waiting:
        yield heappop(waiting)[1]


def _files(passages: Sequence[_Passage]) -> dict[str, float]:
    """Return how near each file is: the mean of its nearest lines, 0 if no candidate has a vector. Parts of a line count as one line."""
    found: dict[str, list[float]] = {}
    parts: dict[tuple[str, int], float] = {}
    for passage in passages:
        chunk, near = passage.chunk, passage.nearest()
        if chunk.part:
            place = chunk.path, chunk.start_line
            parts[place] = max(parts.get(place, -math.inf), *near)
        else:
            found.setdefault(chunk.path, []).extend(near)
    for (path, _), nearest in parts.items():
        found.setdefault(path, []).append(nearest)
    return {path: fmean(nlargest(_NEAREST, near)) for path, near in found.items()}


def _scored(passage: _Passage, file: float) -> Iterator[_Scored]:
    """Yield the statements of a passage."""
    chunk, scores = passage.chunk, passage.scores(file)
    if chunk.part:
        yield _Scored(max(scores), chunk, chunk.start_line, chunk.start_line, None)
        return
    start = chunk.start_line
    for first, last, heading in statements(chunk.text):
        at = None if heading is None else start + heading
        yield _Scored(max(scores[first : last + 1]), chunk, start + first, start + last, at)


def _cosines(chunk: Candidate) -> tuple[float | None, ...]:
    """Return the cosines of the groups of lines of a chunk, and last its own."""
    return (*(chunk.lines.each if chunk.lines else ()), chunk.vector)


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


def _order(one: _Scored) -> tuple[float, str, int, int, int]:
    return -one.score, one.chunk.path, one.first, one.chunk.part, one.chunk.id
