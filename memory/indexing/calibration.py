"""Learns how near answers are to questions in an index, before any question was answered: from questions made of its own lines.

Half of the words of a line, as somebody would ask who remembers a part of it, have best cosines like those of real questions; measured in
docs/memory.md.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial

from memory.embedding.identity import identity_of
from memory.embedding.protocol import Embedder
from memory.errors import EmbeddingFailed
from memory.store.candidates import ENOUGH
from memory.store.index import Index
from memory.store.index_thread import IndexThread
from memory.text.terms import query_terms

_CHUNKS = 30
_FEWEST_WORDS = 4
_MOST_WORDS = 5


async def calibrate(index: Index, embedder: Embedder, thread: IndexThread) -> None:
    """Ask the embedder for some questions made of lines of the live generation, unless enough is known. It may fail: it is tried again."""
    who = identity_of(embedder)
    if not await thread.run(lambda: index.live.embedder == who and index.answers.count(who) < ENOUGH, urgent=False):
        return
    asked = questions_of(await thread.run(partial(index.texts, _CHUNKS), urgent=False))
    if len(asked) < ENOUGH:
        return
    try:
        vectors = await embedder.embed(asked, purpose="query")
    except EmbeddingFailed:
        return
    best = [await thread.run(partial(index.best_cosine, vector), urgent=False) for vector in vectors]  # searches run in between
    await thread.run(partial(index.learn_answers, who, [cosine for cosine in best if cosine is not None]), urgent=False)


def questions_of(texts: Sequence[str]) -> list[str]:
    """Return questions made of lines of these texts: one of each, or two where the texts are few."""
    chosen = random.Random(5)  # noqa: S311 - the same lines every time
    halves: list[tuple[str, str]] = []
    for text in texts:
        lines = [
            words for line in text.split("\n") if len(words := query_terms(line, at_least_any=False).words) >= _FEWEST_WORDS
        ]
        taken = [chosen.choice(lines)] if lines and len(texts) >= ENOUGH else lines
        halves += [(" ".join(words[::2][:_MOST_WORDS]), " ".join(words[1::2][:_MOST_WORDS])) for words in taken]
    halves = halves[:_CHUNKS]
    first = [one for one, _ in halves]
    return first if len(first) >= ENOUGH else [*first, *(other for _, other in halves)]
