"""How fast notes are indexed and searched, and how much RAM that takes. Made-up notes, made-up vectors of 384 numbers.

python benchmarks/memory_speed.py [CHUNKS ...]      (default: 10000)
"""

from __future__ import annotations

import asyncio
import random
import resource
import statistics
import sys
import tempfile
import time
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gateway.clock import SystemClock
from memory.audience import OWNER
from memory.settings import MemorySettings
from memory.workspace import WorkspaceMemory

if TYPE_CHECKING:
    from collections.abc import Sequence

_WORDS, _LINES_A_CHUNK, _CHUNKS_A_FILE, _DIMS = 20_000, 8, 20, 384


class Dice:
    """An embedder that takes no time: unit vectors by lot."""

    provider, model, fingerprint = "dice", "dice", "1"
    max_batch_tokens, max_batch_texts = 1_000_000, 256

    async def embed(self, texts: Sequence[str], *, purpose: Literal["query", "passage"]) -> list[list[float]]:
        """Return a vector for each text."""
        del purpose
        import numpy as np

        vectors = np.random.default_rng(len(texts[0])).standard_normal((len(texts), _DIMS))
        return list((vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).tolist())

    async def close(self) -> None:
        """Nothing is held open."""


async def measure(chunks: int, folder: Path) -> None:
    rng = random.Random(7)
    words = [f"{''.join(rng.choices('abcdefghijklmnopqrstuvwxyz', k=rng.randint(3, 9)))}" for _ in range(_WORDS)]
    weights = list(accumulate(1 / (rank + 3) for rank in range(_WORDS)))  # as in natural language
    rarer = list(accumulate(1 / (rank + 3) for rank in range(100, _WORDS)))
    workspace = folder / "workspace"
    (workspace / "memory").mkdir(parents=True)
    for number in range(max(1, chunks // _CHUNKS_A_FILE)):
        lines = [" ".join(rng.choices(words, cum_weights=weights, k=15)) for _ in range(_LINES_A_CHUNK * _CHUNKS_A_FILE)]
        (workspace / "memory" / f"note-{number}.md").write_text("\n".join(lines) + "\n")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    memory = WorkspaceMemory(
        workspace, folder / "index.sqlite", MemorySettings(), agent="main", clock=SystemClock(), embedder=Dice()
    )
    pause = asyncio.create_task(longest_pause())
    begun = time.perf_counter()
    await memory.sync(vectors=False)
    text = time.perf_counter() - begun
    made = (await memory.status()).chunks
    begun = time.perf_counter()
    await memory.sync()
    vectors = time.perf_counter() - begun
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    with (workspace / "memory" / "note-0.md").open("a") as file:
        file.write("one more line\n")
    begun = time.perf_counter()
    await memory.sync()
    edited = time.perf_counter() - begun
    # a question without its function words
    times = await search_times(memory, [" ".join(rng.choices(words[100:], cum_weights=rarer, k=6)) for _ in range(60)])
    print(
        f"{made} chunks: text {made / text:.0f}/s, vectors {made / vectors:.0f}/s, RSS grew {grown:.0f} MB, "
        f"one edited file {edited * 1000:.0f} ms, search p50 {statistics.median(times):.1f} ms "
        f"p95 {statistics.quantiles(times, n=20)[-1]:.1f} ms, loop held up at most {(await stop(pause)) * 1000:.0f} ms"
    )
    await memory.close()


async def search_times(memory: WorkspaceMemory, questions: list[str]) -> list[float]:
    await memory.search("warm up", audience=OWNER)
    await asyncio.sleep(3)  # vectors are brought into RAM meanwhile
    times = []
    for question in questions:
        begun = time.perf_counter()
        await memory.search(question, audience=OWNER)
        times.append((time.perf_counter() - begun) * 1000)
    return times


async def longest_pause() -> float:
    longest = 0.0
    try:
        while True:
            begun = time.perf_counter()
            await asyncio.sleep(0.005)
            longest = max(longest, time.perf_counter() - begun - 0.005)
    except asyncio.CancelledError:
        return longest


async def stop(task: asyncio.Task[float]) -> float:
    task.cancel()
    return await task


if __name__ == "__main__":
    for size in [int(argument) for argument in sys.argv[1:]] or [10_000]:
        with tempfile.TemporaryDirectory() as place:
            asyncio.run(measure(size, Path(place)))
