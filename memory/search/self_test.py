"""Measures search on the owner's own notes: questions made of their lines, and how often the lines are among the results.

Questions are made by rule: of the commoner half of the words of a line, with "when" where the line names a time, and of names that occur in
a few lines. They hold the text of their lines, so that they still count after lines have moved; what is no longer in the notes is left out.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from memory.protocol import Hit
from memory.text.folding import folded
from memory.text.terms import query_terms
from memory.text.times import tells_time

Kind = Literal["words", "when", "name"]
Judged = tuple[float, float, float]
"""Of one question: whether any line, and whether all, were among the first six results, and the nDCG."""

SHOWN: Final = 6
MOST_QUESTIONS: Final = 120
_FEWEST_WORDS: Final = 5
_MOST_WORDS: Final = 4
_LINES_OF_A_NAME: Final = range(2, 5)
_LONGEST: Final = 600


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the lines that answer it."""

    kind: Kind
    text: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Shares of questions of which any line, or all, were among the first six results, and the mean nDCG."""

    questions: int
    any: float
    all: float
    ndcg: float


def make_questions(notes: Iterable[str], *, most: int = MOST_QUESTIONS) -> list[Question]:
    """Make questions of the texts of notes; the same notes give the same questions."""
    lines = list(dict.fromkeys(line.strip() for text in notes for line in text.split("\n") if len(line) <= _LONGEST))
    common = Counter(word.lower() for line in lines for word in set(query_terms(line, at_least_any=False).words))
    made = [question for line in lines if (question := _of_line(line, common)) is not None]
    by_name: dict[str, list[str]] = {}
    for line in lines:
        words = query_terms(line, at_least_any=False).words
        for name in {word for word in words[1:] if word[:1].isupper() and word[1:].islower()}:
            by_name.setdefault(name, []).append(line)
    made += [
        Question("name", f"What about {name}?", tuple(found))
        for name, found in by_name.items()
        if len(found) in _LINES_OF_A_NAME
    ]
    return sorted(made, key=lambda one: hashlib.sha256(one.text.encode("utf-8", "replace")).digest())[:most]


async def measure(
    questions: Sequence[Question],
    search: Callable[[str], Awaitable[Sequence[Hit]]],
    progress: Callable[[str, int, int], None] = lambda _what, _done, _total: None,
) -> list[Judged]:
    """Ask the questions and return how each was answered."""
    results: list[Judged] = []
    for done, question in enumerate(questions, 1):
        results.append(judge(question.lines, await search(question.text)))
        progress("asking", done, len(questions))
    return results


def figures_of(judged: Iterable[tuple[str, Judged]]) -> dict[str, Figures]:
    """Return the figures of questions by their kinds, and of all of them under "all"."""
    results: dict[str, list[Judged]] = {"all": []}
    for kind, one in judged:
        results["all"].append(one)
        results.setdefault(kind, []).append(one)
    return {kind: _figures(rows) for kind, rows in results.items()}


def judge(lines: Sequence[str], hits: Sequence[Hit]) -> Judged:
    """Return any, all and nDCG of one answer; the gain of a result is the lines that no earlier one held."""
    left, gain = set(lines), 0.0
    for rank, hit in enumerate(hits[:SHOWN], 1):
        found = {line for line in left if line in hit.snippet}
        gain += len(found) / math.log2(rank + 1)
        left -= found
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(SHOWN, len(set(lines))) + 1))
    return float(len(left) < len(set(lines))), float(not left), min(1.0, gain / ideal)


def _of_line(line: str, common: Mapping[str, int]) -> Question | None:
    """Return a question of the commoner half of a line's words: the rarer ones would find it at once."""
    words = query_terms(line, at_least_any=False).words
    if line.startswith("#") or len(words) < _FEWEST_WORDS:
        return None
    timed = {word for word in words if tells_time([folded(word)])}
    distinctive = sorted((word for word in words if word not in timed), key=lambda word: -common[word.lower()])[
        : len(words) // 2
    ]
    asked = " ".join([word for word in words if word in distinctive][:_MOST_WORDS])
    if not asked:
        return None
    return Question("when", f"When {asked}?", (line,)) if timed else Question("words", asked, (line,))


def _figures(rows: Sequence[Judged]) -> Figures:
    count = len(rows)
    means = [round(sum(row[place] for row in rows) / count, 4) if count else 0.0 for place in range(3)]
    return Figures(questions=count, any=means[0], all=means[1], ndcg=means[2])
