"""Merges ranked chunks into passages, within a limit of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from memory.notes.sources import Source
from memory.store.candidates import Candidate
from memory.text.tokens import estimate


@dataclass(slots=True)
class Passage:
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


def merge_adjacent(ranked: Sequence[Candidate], *, most: int, tokens: float) -> list[Passage]:
    """Take chunks in order until ``tokens`` are used up, and merge adjacent ones.

    Returns at most ``most`` passages; when there are that many, further chunks only extend them. The first chunk is always
    taken. Passages have the order and the score of their best chunk.
    """
    passages: list[Passage] = []
    used = 0.0
    for chunk in ranked:
        touching = [] if chunk.part else [passage for passage in passages if _touches(passage, chunk)]
        if not touching and len(passages) >= most:
            continue
        cost = _new_tokens(touching, chunk)
        if passages and used + cost > tokens:
            break
        used += cost
        if not touching:
            passages.append(Passage(chunk.path, chunk.source, chunk.start_line, chunk.end_line, chunk.score, [chunk]))
            continue
        first, *others = touching
        for other in others:  # the chunk bridges two passages
            first.chunks += other.chunks
            passages.remove(other)
        first.chunks.append(chunk)
        first.start_line = min(member.start_line for member in first.chunks)
        first.end_line = max(member.end_line for member in first.chunks)
    return passages


def one_per_chunk(ranked: Sequence[Candidate], *, most: int) -> list[Passage]:
    """Return the first ``most`` chunks as one passage each, for the reference ranking."""
    return [Passage(c.path, c.source, c.start_line, c.end_line, c.score, [c]) for c in ranked[:most]]


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
        estimate(line) + 0.25
        for number, line in enumerate(lines, chunk.start_line)
        if not any(passage.start_line <= number <= passage.end_line for passage in touching)
    )
