from __future__ import annotations

import math
from array import array
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.base.clock import ManualClock
from memory.embedding.engines.bag_of_words import BagOfWords
from memory.settings import MemorySettings, VectorStoreSettings
from memory.store.chunk_store import EmbeddingCache
from memory.store.database import Database
from memory.workspace_memory import WorkspaceMemory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOW = datetime(2026, 3, 18, 12, tzinfo=UTC)
WHO = ("fake", "m", "1")


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    made = Database.open(tmp_path_factory.mktemp("cache") / "i.sqlite", VectorStoreSettings(), now=NOW)
    yield made
    made.close()


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=40).filter(lambda row: math.hypot(*row) > 0.1))
def test_a_vector_comes_back_as_near_to_itself_as_makes_no_difference(database: Database, numbers: list[float]) -> None:
    unit = array("f", [number / math.hypot(*numbers) for number in numbers])
    cache = EmbeddingCache(database, enabled=True, most=10)
    cache.keep(WHO, [(b"x", unit.tobytes())], now=1)
    back = array("f", cache.find(WHO, [b"x"], now=2)[b"x"])
    assert len(back) == len(unit)
    assert sum(a * b for a, b in zip(unit, back, strict=True)) > 0.999


def test_a_vector_of_an_earlier_version_is_read_as_it_was_kept(database: Database) -> None:
    vector = array("f", [0.6, 0.8]).tobytes()
    database.connection.execute("INSERT OR REPLACE INTO embedding_cache VALUES (?, ?, ?, ?, ?, ?)", (*WHO, b"old", vector, 1))
    assert EmbeddingCache(database, enabled=True, most=10).find(WHO, [b"old"], now=2) == {b"old": vector}


async def test_the_log_of_the_index_is_folded_in_after_a_sync(tmp_path: Path) -> None:
    (tmp_path / "ws/memory").mkdir(parents=True)
    for number in range(200):
        (tmp_path / f"ws/memory/{number}.md").write_text(f"We walked to market {number} and bought bread\n" * 20)
    store, clock = tmp_path / "i.sqlite", ManualClock(NOW)
    memory = WorkspaceMemory(tmp_path / "ws", store, MemorySettings(), agent="main", clock=clock, embedder=BagOfWords())
    await memory.sync()
    assert (tmp_path / "i.sqlite-wal").stat().st_size == 0
    await memory.close()
