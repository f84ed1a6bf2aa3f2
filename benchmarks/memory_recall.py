"""How often memory finds the lines that answer a question: any@6, all@6, MRR, nDCG@6 and tokens, with questions of known evidence.

    python benchmarks/memory_recall.py [CORPUS] [--minilm FOLDER]        (CORPUS: or HOMEBODY_LOCOMO)

CORPUS has a folder for each conversation, with memory/*.md and qa.json: [{"question", "evidence": ["memory/x.md:12"], "now"}].
LoCoMo in that form is not shipped: its licence does not allow it. ``--minilm`` adds vectors (see _minilm.py).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import shutil
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway.base.clock import ManualClock
from memory.audience import OWNER
from memory.settings import ChunkingSettings, FusedSettings, MemorySettings, QuerySettings
from memory.text.tokens import estimate
from memory.workspace_memory import WorkspaceMemory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory.embedding.protocol import Embedder
    from memory.protocol import Hit

_SHOWN = 6
_DOCUMENTED = ChunkingSettings(tokens=400, overlap=80)
_FLOORS = (0.3, 0.33, 0.36, 0.38, 0.4, 0.42)
_SILENCED = 0.05
_YOUNG = (1, 2, 4, 8)
_STRANGE = 150
_KINDS = {
    "fused, 2100 tokens": MemorySettings(),
    "fused, 1450 tokens": MemorySettings(query=QuerySettings(max_tokens=1450)),
    "documented": MemorySettings(chunking=_DOCUMENTED, query=QuerySettings(ranking="reference")),
}


def judge(evidence: Sequence[str], hits: Sequence[Hit]) -> tuple[float, float, float, float]:
    """Return any, all, reciprocal rank and nDCG; the gain of a hit is the evidence lines that no earlier one held."""
    left, first, gain = set(evidence), 0, 0.0
    for rank, hit in enumerate(hits[:_SHOWN], 1):
        found = {place for place in left if _holds(hit, place)}
        first = first or (rank if found else 0)
        gain += len(found) / math.log2(rank + 1)
        left -= found
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(_SHOWN, len(evidence)) + 1))
    return float(first > 0), float(not left), 1 / first if first else 0.0, min(1.0, gain / ideal)


def _holds(hit: Hit, place: str) -> bool:
    path, _, line = place.rpartition(":")
    pieces = hit.pieces or ((hit.start_line, hit.end_line),)
    return path == hit.path and any(first <= int(line) <= last for first, last in pieces)


def load(corpus: Path) -> dict[Path, list[dict[str, Any]]]:
    """Read the questions of every conversation."""
    return {folder: json.loads((folder / "qa.json").read_text()) for folder in sorted(corpus.iterdir()) if folder.is_dir()}


async def measure(corpus: Path, settings: MemorySettings, embedder: Embedder | None) -> str:
    """Index every conversation by itself and ask its questions, and those of the next one, which it cannot answer."""
    conversations = load(corpus)
    foreign = [*list(conversations.values())[1:], *list(conversations.values())[:1]]
    sums, asked, tokens, silent = [0.0] * 4, 0, 0.0, 0
    strange = strange_silent = 0
    for (folder, questions), others in zip(conversations.items(), foreign, strict=True):
        with tempfile.TemporaryDirectory() as place:
            clock = ManualClock(datetime.fromisoformat(questions[0]["now"]).replace(tzinfo=UTC))
            memory = WorkspaceMemory(folder, Path(place) / "i.sqlite", settings, agent="main", clock=clock, embedder=embedder)
            await memory.sync()
            for question in questions:
                hits = (await memory.search(question["question"], audience=OWNER)).hits
                sums = [a + b for a, b in zip(sums, judge(question["evidence"], hits), strict=True)]
                tokens += sum(estimate(hit.snippet) for hit in hits)
                asked, silent = asked + 1, silent + (not hits)
            strange += len(others)
            strange_silent += await _silences(memory, others)
            await memory.close()
    figures = " ".join(f"{name} {value / asked:.3f}" for name, value in zip(("any", "all", "MRR", "nDCG"), sums, strict=True))
    return f"{figures}  tokens {tokens / asked:.0f}  silent {silent / asked:.3f} (on foreign questions {strange_silent / strange:.3f})"


async def floor_check(corpus: Path) -> str:
    """Choose the floor by all conversations but one, by keywords alone, and say what it does on the one left out, for each.

    Chosen is the highest floor that silences at most five in a hundred questions that have an answer.
    """
    conversations = load(corpus)
    names = list(conversations)
    counts: dict[tuple[str, float], tuple[int, int, int, int]] = {}
    for place, (folder, questions) in enumerate(conversations.items()):
        others = conversations[names[(place + 1) % len(names)]]
        for floor in _FLOORS:
            settings = MemorySettings(query=QuerySettings(fused=FusedSettings(floor=floor)))
            counts[folder.name, floor] = await _silent(folder, settings, questions, others)
    told = []
    for left_out in names:
        rest = [name for name in names if name != left_out]
        kept = [floor for floor in _FLOORS if _rate([counts[name.name, floor][:2] for name in rest]) <= _SILENCED]
        floor = max(kept, default=min(_FLOORS))
        own, asked, strange, foreign = counts[left_out.name, floor]
        told.append(
            f"  {left_out.name}: floor {floor:.2f}, silent {own / asked:.3f} (on foreign questions {strange / foreign:.3f})"
        )
    return "\n".join(told)


def _rate(pairs: Sequence[tuple[int, int]]) -> float:
    return sum(silent for silent, _ in pairs) / max(1, sum(asked for _, asked in pairs))


async def _silent(
    folder: Path, settings: MemorySettings, questions: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]]
) -> tuple[int, int, int, int]:
    with tempfile.TemporaryDirectory() as place:
        clock = ManualClock(datetime.fromisoformat(questions[0]["now"]).replace(tzinfo=UTC))
        memory = WorkspaceMemory(folder, Path(place) / "i.sqlite", settings, agent="main", clock=clock)
        await memory.sync()
        silent, strange = await _silences(memory, questions), await _silences(memory, others)
        await memory.close()
    return silent, len(questions), strange, len(others)


async def young(corpus: Path, embedder: Embedder | None) -> str:
    """Say how often memories of the first notes alone are silent, on questions that these answer and on those of other conversations."""
    conversations = load(corpus)
    told = []
    for count in _YOUNG:
        silent = asked = strange_silent = strange = 0
        for folder, questions in conversations.items():
            notes = [f"memory/{note.name}" for note in sorted((folder / "memory").glob("*.md"))[:count]]
            own = [q for q in questions if {place.rpartition(":")[0] for place in q["evidence"]} <= set(notes)]
            others = [q for other, asks in conversations.items() if other != folder for q in asks][:: len(conversations)][
                :_STRANGE
            ]
            with tempfile.TemporaryDirectory() as place:
                workspace = Path(place) / "workspace"
                (workspace / "memory").mkdir(parents=True)
                for note in notes:
                    shutil.copy(folder / note, workspace / note)
                clock = ManualClock(datetime.fromisoformat(questions[0]["now"]).replace(tzinfo=UTC))
                index = Path(place) / "i.sqlite"
                memory = WorkspaceMemory(workspace, index, MemorySettings(), agent="main", clock=clock, embedder=embedder)
                await memory.sync()
                silent, asked = silent + await _silences(memory, own), asked + len(own)
                strange_silent, strange = strange_silent + await _silences(memory, others), strange + len(others)
                await memory.close()
        told.append(
            f"  {count} notes: silent {silent / asked:.3f} of {asked} (on foreign questions {strange_silent / strange:.3f})"
        )
    return "\n".join(told)


async def _silences(memory: WorkspaceMemory, questions: Sequence[dict[str, Any]]) -> int:
    return sum([not (await memory.search(question["question"], audience=OWNER)).hits for question in questions])


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", nargs="?", default=os.environ.get("HOMEBODY_LOCOMO"), type=Path)
    parser.add_argument("--minilm", type=Path)
    options = parser.parse_args()
    if options.corpus is None:
        print("no corpus: give a folder, or set HOMEBODY_LOCOMO")
        return
    print(f"{'keywords alone':36} {await measure(options.corpus, MemorySettings(), None)}", flush=True)
    print(f"{'keywords alone, documented formula':36} {await measure(options.corpus, _KINDS['documented'], None)}", flush=True)
    print(f"keywords alone, the first notes:\n{await young(options.corpus, None)}", flush=True)
    print(f"the floor, chosen without the conversation it is tried on:\n{await floor_check(options.corpus)}", flush=True)
    if options.minilm is not None:
        sys.path.insert(0, str(Path(__file__).parent))
        from _minilm import MiniLM

        model = MiniLM(options.minilm)
        for kind, settings in _KINDS.items():
            print(f"{f'MiniLM, {kind}':36} {await measure(options.corpus, settings, model)}", flush=True)
        print(f"MiniLM, the first notes:\n{await young(options.corpus, model)}", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
