"""Passages: adjacent chunks of one file, merged within a limit of results and tokens, the last one cut to what is left of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from memory.notes.sources import Source
from memory.search.line_matches import LineMatches
from memory.store.candidates import Candidate
from memory.text.tokens import estimate

_NEWLINE = 0.25
_LEAST = 40
"""Estimated tokens below which nothing more is added."""

Cut = Callable[[Candidate, float], Candidate | None]
"""Returns the lines of a chunk that fit into so many tokens, or None."""


class Passage(Struct):
    """Adjacent or overlapping chunks of one file, with the best score among them."""

    path: str
    source: Source
    start_line: int
    end_line: int
    score: float
    chunks: list[Candidate] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The lines of the chunks, each once."""
        ordered = sorted(self.chunks, key=lambda chunk: (chunk.start_line, chunk.part))
        if ordered[0].part:
            return ordered[0].text
        lines: dict[int, str] = {}
        for chunk in ordered:
            lines.update(enumerate(chunk.text.split("\n"), chunk.start_line))
        return "\n".join(lines[number] for number in sorted(lines))

    @property
    def pieces(self) -> tuple[tuple[int, int], ...]:
        """First and last line of each run of lines."""
        return ((self.start_line, self.end_line),)


def merge_adjacent(ranked: Sequence[Candidate], *, most: int, tokens: float, cut: Cut | None = None) -> list[Passage]:
    """Take chunks in order until ``tokens`` are used up, and merge adjacent ones.

    Returns at most ``most`` passages; when there are that many, further chunks only extend them. The first chunk is always
    taken. Of one that does not fit, ``cut`` says what to take instead. Passages have the order and the score of their best chunk.
    """
    passages: list[Passage] = []
    used = 0.0
    for chunk in ranked:
        if passages and used + _LEAST > tokens:
            break
        touching = [] if chunk.part else [passage for passage in passages if _touches(passage, chunk)]
        if not touching and len(passages) >= most:
            continue
        cost = _new_tokens(touching, chunk)
        if passages and used + cost > tokens:
            piece = cut(chunk, tokens - used) if cut is not None and not touching else None
            if piece is not None:
                used += estimate(piece.text)
                passages.append(_passage(piece))
            continue
        used += cost
        if touching:
            _join(passages, touching, chunk)
        else:
            passages.append(_passage(chunk))
    return passages


def one_per_chunk(ranked: Sequence[Candidate], *, most: int) -> list[Passage]:
    """Return the first ``most`` chunks as one passage each, for the reference ranking."""
    return [_passage(chunk) for chunk in ranked[:most]]


def cut_by(matches: LineMatches) -> Cut:
    """Return how to cut a chunk: to the line that matches best and as many of its neighbours as fit, better ones first."""

    def cut(chunk: Candidate, tokens: float) -> Candidate | None:
        if chunk.part:
            return None
        lines = chunk.text.split("\n")
        sizes = [estimate(line) + _NEWLINE for line in lines]
        shares = [words.share for words in matches.by_line(chunk.text)]
        first = last = max(range(len(lines)), key=lambda number: shares[number])
        left = tokens - sizes[first]
        if left < 0:
            return None
        while beside := [n for n in (first - 1, last + 1) if 0 <= n < len(lines) and sizes[n] <= left]:
            number = max(beside, key=lambda n: (shares[n], n))
            left -= sizes[number]
            first, last = min(first, number), max(last, number)
        text = "\n".join(lines[first : last + 1])
        return replace(chunk, start_line=chunk.start_line + first, end_line=chunk.start_line + last, text=text)

    return cut


def _passage(chunk: Candidate) -> Passage:
    return Passage(chunk.path, chunk.source, chunk.start_line, chunk.end_line, chunk.score, [chunk])


def _join(passages: list[Passage], touching: Sequence[Passage], chunk: Candidate) -> None:
    """Add a chunk to the first passage that it touches, and the others that it touches too: it bridges them."""
    first, *others = touching
    for other in others:
        first.chunks += other.chunks
        passages.remove(other)
    first.chunks.append(chunk)
    first.start_line = min(member.start_line for member in first.chunks)
    first.end_line = max(member.end_line for member in first.chunks)


def _touches(passage: Passage, chunk: Candidate) -> bool:
    return (
        passage.path == chunk.path
        and not passage.chunks[0].part
        and chunk.start_line <= passage.end_line + 1
        and chunk.end_line >= passage.start_line - 1
    )


def _new_tokens(touching: Sequence[Passage], chunk: Candidate) -> float:
    """Estimate the tokens that a chunk adds; lines that are already included do not count."""
    if not touching:
        return estimate(chunk.text)
    lines = chunk.text.split("\n")
    return sum(
        estimate(line) + _NEWLINE
        for number, line in enumerate(lines, chunk.start_line)
        if not any(passage.start_line <= number <= passage.end_line for passage in touching)
    )
