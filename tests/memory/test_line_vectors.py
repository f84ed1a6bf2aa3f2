from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.base.clock import ManualClock
from memory.audience import OWNER
from memory.embedding.engines.bag_of_words import BagOfWords
from memory.errors import EmbeddingFailed
from memory.settings import CacheSettings, FusedSettings, MemorySettings, QuerySettings, VectorStoreSettings
from memory.store.sqlite.index_database import Database
from memory.text.line_groups import group_texts, line_groups
from tests import postgres_server
from tests.ledger import engines
from tests.memory.memory_engines import memory_at

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from memory.workspace_memory import WorkspaceMemory

NOW = datetime(2026, 3, 18, 12, tzinfo=UTC)
NOTE = """# Household

- The boiler was serviced by Vaillant in March, and the bill came to ninety euros for two hours of work and a new valve.
- Aunt Clara brought plums from her garden, enough for eleven jars of jam and two cakes for the summer fair in the village.
- The bicycle needs a new chain, a bell and better brakes before the trip along the river that was planned for the holidays.
"""


class Fussy(BagOfWords):
    """Refuses texts with "plums", as services refuse single texts."""

    async def embed(self, texts: Sequence[str], *, purpose: Any) -> list[list[float]]:
        if any("plums" in text and "boiler" not in text for text in texts):
            raise EmbeddingFailed("this text is not allowed", about_text=True)
        return await super().embed(texts, purpose=purpose)


def memory_of(tmp_path: Path, embedder: BagOfWords, settings: MemorySettings | None = None) -> WorkspaceMemory:
    chosen = settings or MemorySettings()
    clock = ManualClock(NOW)
    return memory_at(tmp_path / "ws", tmp_path / "i.sqlite", chosen, agent="main", clock=clock, embedder=embedder)


def noted(tmp_path: Path, text: str = NOTE) -> None:
    (tmp_path / "ws/memory").mkdir(parents=True, exist_ok=True)
    (tmp_path / "ws/memory/house.md").write_text(text)


def kept(tmp_path: Path) -> int:
    """Return how many lines have vectors."""
    if engines.Current.engine == engines.POSTGRES:
        return int(in_postgres(tmp_path, "SELECT coalesce(sum(length(vectors)), 0) / 128 FROM line_vectors"))
    database = Database.open(tmp_path / "i.sqlite", VectorStoreSettings(), now=NOW)
    count = int(database.one("SELECT count(*) FROM line_vectors WHERE length(vector) > 0"))
    database.close()
    return count


def as_before_there_were_any(tmp_path: Path) -> None:
    if engines.Current.engine == engines.POSTGRES:
        in_postgres(
            tmp_path,
            "DROP TABLE line_waiting, line_vectors; DROP INDEX word_list_by_hash; UPDATE meta SET value = '1'; SELECT 1",
        )
        return
    database = Database.open(tmp_path / "i.sqlite", VectorStoreSettings(), now=NOW)
    database.connection.execute("DELETE FROM line_vectors")
    database.close()


def in_postgres(tmp_path: Path, query: str) -> Any:
    import psycopg

    with psycopg.connect(postgres_server.server().url(), autocommit=True) as connection:
        connection.execute(f"SET search_path TO {engines.schema_of(tmp_path / 'i.sqlite')}")
        found = connection.execute(query.encode())
        while found.nextset():
            pass
        return (found.fetchone() or (None,))[0]


@given(st.lists(st.sampled_from(["", "# A heading", "- short", "---", "- a line of some length " * 4, "ok"]), max_size=20))
def test_every_line_with_words_is_in_one_group_and_short_ones_stand_together(lines: list[str]) -> None:
    text = "\n".join(lines)
    groups = line_groups(text)
    held = [number for first, last in groups for number in range(first, last + 1)]
    wanted = [number for number, line in enumerate(lines) if line not in ("", "---", "# A heading")]
    assert held == sorted(set(held))
    assert not groups or held == wanted
    assert len(groups) != 1
    beside = [(a, b) for a, b in pairwise(groups) if a[1] + 1 == b[0]]
    assert all(len("\n".join(lines[a[0] : a[1] + 1])) >= 108 for a, _ in beside)  # 28 tokens but for what ends lines


async def test_candidates_have_the_cosines_of_their_nearest_line_and_of_two_in_a_row(tmp_path: Path) -> None:
    noted(tmp_path)
    embedder = BagOfWords()
    memory = memory_of(tmp_path, embedder)
    await memory.sync()
    recalled, _ = await memory.retrieve("which parts does the bicycle need", audience=OWNER)
    await memory.close()
    [found] = recalled.ranked
    asked = embedder.vector_of("which parts does the bicycle need")
    lines = [embedder.vector_of(text) for text in group_texts(found.text)]
    pairs = [[a + b for a, b in zip(one, other, strict=True)] for one, other in pairwise(lines)]
    assert found.lines is not None
    assert found.lines.line == pytest.approx(max(cosine(asked, line) for line in lines), abs=0.01)
    assert found.lines.pair == pytest.approx(max(cosine(asked, both) for both in [*pairs, lines[0]]), abs=0.01)


async def test_an_index_without_vectors_of_lines_gets_them_and_no_passage_is_embedded_again(tmp_path: Path) -> None:
    noted(tmp_path)
    memory = memory_of(tmp_path, BagOfWords())
    await memory.sync()
    await memory.close()
    as_before_there_were_any(tmp_path)
    again = BagOfWords()
    memory = memory_of(tmp_path, again)
    assert (await memory.search("boiler", audience=OWNER)).provider == "fake"
    seen: list[tuple[str, int, int]] = []
    await memory.sync(lambda *step: seen.append(step))
    await memory.sync()
    assert (await memory.status()).line_vectors == 3
    await memory.close()
    assert again.calls["passage"] == kept(tmp_path) == 3
    assert ("lines", 3, 3) in seen


async def test_vectors_of_lines_leave_with_their_passage(tmp_path: Path) -> None:
    noted(tmp_path)
    memory = memory_of(tmp_path, BagOfWords(), MemorySettings(cache=CacheSettings(enabled=False)))
    await memory.sync()
    noted(tmp_path, "One line alone.")
    await memory.sync()
    await memory.close()
    assert kept(tmp_path) == 0


async def test_a_line_that_is_refused_leaves_the_others_their_vectors(tmp_path: Path) -> None:
    noted(tmp_path)
    memory = memory_of(tmp_path, Fussy())
    await memory.sync()
    recalled, _ = await memory.retrieve("bicycle chain", audience=OWNER)
    await memory.sync()
    await memory.close()
    assert kept(tmp_path) == 2
    assert recalled.ranked[0].lines is not None


async def test_a_weight_of_zero_makes_no_vectors_of_lines(tmp_path: Path) -> None:
    noted(tmp_path)
    embedder = BagOfWords()
    settings = MemorySettings(query=QuerySettings(fused=FusedSettings(line_vector_weight=0)))
    memory = memory_of(tmp_path, embedder, settings)
    await memory.sync()
    await memory.close()
    assert (embedder.calls["passage"], kept(tmp_path)) == (1, 0)


def cosine(one: list[float], other: list[float]) -> float:
    lengths = sum(a * a for a in one) * sum(b * b for b in other)
    return float(sum(a * b for a, b in zip(one, other, strict=True)) / (lengths**0.5 or 1.0))
