"""How fast notes are indexed and searched, and how much RAM that takes. Made-up notes, made-up vectors of 384 numbers.

python benchmarks/memory_speed.py [--postgres URL] [CHUNKS ...]      (default: 10000)

With the URL of a PostgreSQL on this machine its index is measured, in a schema that is dropped at the end. The time of the server's
processes counts, too.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import resource
import statistics
import tempfile
import time
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gateway.base.clock import SystemClock
from memory.audience import OWNER
from memory.settings import MemorySettings
from memory.workspace_memory import WorkspaceMemory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory.store.index_handle import IndexEngine

_WORDS, _LINES_A_CHUNK, _CHUNKS_A_FILE, _DIMS = 20_000, 8, 20, 384
_SCHEMA = "homebody_memory_speed"


class Dice:
    """An embedder that takes no time: unit vectors by lot."""

    provider, model, fingerprint = "dice", "dice", "1"
    max_batch_tokens, max_batch_texts = 1_000_000, 256

    async def embed(self, texts: Sequence[str], *, purpose: Literal["query", "passage"]) -> list[list[float]]:
        """Return a vector for each text, made on another thread, as those of real embedders are."""
        del purpose
        return await asyncio.to_thread(self._roll, texts)

    @staticmethod
    def _roll(texts: Sequence[str]) -> list[list[float]]:
        vectors = np.random.default_rng(len(texts[0])).standard_normal((len(texts), _DIMS))
        return list((vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).tolist())

    async def close(self) -> None:
        """Nothing is held open."""


class Machine:
    """CPU time of this process, and of those of the server that work for it."""

    def __init__(self, url: str | None) -> None:
        self._url = url
        self._connection: Any = None
        if url is not None:
            import psycopg

            self._connection = psycopg.connect(url, autocommit=True)

    def seconds(self) -> float:
        """Return how much was used so far."""
        used = time.process_time()
        if self._connection is not None:
            pids = self._connection.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'homebody'").fetchall()
            used += sum(self._of(pid) for (pid,) in pids)
        return used

    def engine(self, settings: MemorySettings) -> IndexEngine | None:
        """Return where the index is, if not in a file."""
        if self._url is None:
            return None
        from gateway.storage.index_connections import index_connections
        from memory.store.postgres.index_tables import IndexTables

        self.close()
        return IndexTables(index_connections(self._url, _SCHEMA), "main", settings)

    def size(self, folder: Path) -> int:
        """Return how large the index is."""
        if self._connection is None:
            return _size(folder, "index.sqlite*")
        tables = f"SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND relnamespace = '{_SCHEMA}'::regnamespace"  # noqa: S608
        return int(self._connection.execute(tables).fetchone()[0])

    def close(self) -> None:
        """Leave nothing."""
        if self._connection is not None:
            self._connection.execute(f"SET client_min_messages TO warning; DROP SCHEMA IF EXISTS {_SCHEMA} CASCADE")

    @staticmethod
    def _of(pid: int) -> float:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure(chunks: int, folder: Path, machine: Machine) -> None:
    rng = random.Random(7)
    words = [f"{''.join(rng.choices('abcdefghijklmnopqrstuvwxyz', k=rng.randint(3, 9)))}" for _ in range(_WORDS)]
    weights = list(accumulate(1 / (rank + 3) for rank in range(_WORDS)))  # as in natural language
    rarer = list(accumulate(1 / (rank + 3) for rank in range(100, _WORDS)))
    workspace = folder / "workspace"
    (workspace / "memory").mkdir(parents=True)
    for number in range(max(1, chunks // _CHUNKS_A_FILE)):
        lines = [" ".join(rng.choices(words, cum_weights=weights, k=15)) for _ in range(_LINES_A_CHUNK * _CHUNKS_A_FILE)]
        path = workspace / "memory" / f"note-{number}.md"
        path.write_text("\n".join(lines) + "\n")
        os.utime(path, (1_700_000_000, 1_700_000_000))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    settings = MemorySettings()
    memory = WorkspaceMemory(
        workspace,
        folder / "index.sqlite",
        settings,
        agent="main",
        clock=SystemClock(),
        embedder=Dice(),
        engine=machine.engine(settings),
    )
    pause = asyncio.create_task(longest_pause())
    begun = machine.seconds()
    await memory.sync(vectors=False)
    text = machine.seconds() - begun
    made = (await memory.status()).chunks
    begun = machine.seconds()
    await memory.sync()
    vectors = machine.seconds() - begun
    times_the_notes = machine.size(folder) / _size(workspace, "**/*.md")
    await memory.sync()
    begun = machine.seconds()
    await memory.sync()
    unchanged = machine.seconds() - begun
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    with (workspace / "memory" / "note-0.md").open("a") as file:
        file.write("one more line\n")
    begun = time.perf_counter()
    await memory.sync()
    edited = time.perf_counter() - begun
    # a question without its function words
    questions = [" ".join(rng.choices(words[100:], cum_weights=rarer, k=6)) for _ in range(60)]
    times, begun = await search_times(memory, questions), machine.seconds()
    for question in questions:
        await memory.search(question, audience=OWNER)
    mean = (machine.seconds() - begun) / len(questions)
    held, own = await stop(pause)
    print(
        f"{made} chunks, CPU time: text {made / text:.0f}/s, vectors {made / vectors:.0f}/s, nothing changed {unchanged * 1000:.0f} ms, "
        f"search p50 {statistics.median(times):.1f} ms p95 {statistics.quantiles(times, n=20)[-1]:.1f} ms (on the clock), "
        f"mean {mean * 1000:.1f} ms; "
        f"index {times_the_notes:.1f} times the notes, RSS grew {grown:.0f} MB, one edited file after {edited * 1000:.0f} ms, "
        f"loop held up at most {held * 1000:.0f} ms "
        f"(own work {own * 1000:.0f} ms)"
    )
    await memory.close()


def _size(folder: Path, pattern: str) -> int:
    return sum(path.stat().st_size for path in folder.glob(pattern))


async def search_times(memory: WorkspaceMemory, questions: list[str]) -> list[float]:
    await memory.search("warm up", audience=OWNER)
    while (await memory.retrieve("warm up", audience=OWNER))[0].scan not in {"numpy", "pgvector"}:  # noqa: ASYNC110 - nothing tells when vectors are in RAM
        await asyncio.sleep(0.2)
    times = []
    for question in questions:
        begun = time.perf_counter()
        await memory.search(question, audience=OWNER)
        times.append((time.perf_counter() - begun) * 1000)
    return times


async def longest_pause() -> tuple[float, float]:
    """The longest time the loop did not get on, and the most processor time that this process took within one such time.

    Only the second is its own doing: on a busy machine the first is mostly other programs.
    """
    longest = own = 0.0
    try:
        while True:
            begun, used = time.perf_counter(), time.process_time()
            await asyncio.sleep(0.005)
            longest = max(longest, time.perf_counter() - begun - 0.005)
            own = max(own, time.process_time() - used - 0.005)
    except asyncio.CancelledError:
        return longest, own


async def stop(task: asyncio.Task[tuple[float, float]]) -> tuple[float, float]:
    task.cancel()
    return await task


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chunks", nargs="*", type=int, default=[10_000])
    parser.add_argument("--postgres", metavar="URL")
    options = parser.parse_args()
    for size in options.chunks:
        with tempfile.TemporaryDirectory() as place:
            used = Machine(options.postgres)
            asyncio.run(measure(size, Path(place), used))
            used.close()
