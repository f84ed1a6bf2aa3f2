from __future__ import annotations

import json
import math
from array import array
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.base.clock import ManualClock
from memory.audience import OWNER
from memory.embedding.engines.bag_of_words import BagOfWords
from memory.settings import CacheSettings, FusedSettings, MemorySettings, QuerySettings, VectorStoreSettings
from memory.store.packed_vectors import packed
from memory.store.sqlite.index_database import AllowedFeatures, Database
from memory.store.sqlite.vector_matrix import Matrix
from memory.store.sqlite.vector_store import VectorStore
from tests.memory.memory_engines import memory_at
from tests.properties import examples

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from memory.workspace_memory import WorkspaceMemory

NOW = datetime(2026, 3, 18, 12, tzinfo=UTC)
WHO = ("fake", "m", "1")
PASSAGES_ALONE = MemorySettings(query=QuerySettings(fused=FusedSettings(line_vector_weight=0)))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database.open(tmp_path / "i.sqlite", VectorStoreSettings(), now=NOW)
    yield made
    made.close()


def memory_of(tmp_path: Path, embedder: BagOfWords, **options: Any) -> WorkspaceMemory:
    clock = ManualClock(NOW)
    chosen = options.pop("settings", MemorySettings())
    return memory_at(tmp_path / "ws", tmp_path / "i.sqlite", chosen, agent="main", clock=clock, embedder=embedder, **options)


def noted(tmp_path: Path, count: int = 6) -> None:
    (tmp_path / "ws/memory").mkdir(parents=True)
    for number in range(count):
        lines = "\n".join(f"- {number}.{line} the boiler of house {line * number} was serviced" for line in range(40))
        (tmp_path / f"ws/memory/{number}.md").write_text(lines)


@given(st.lists(st.floats(-1, 1).map(lambda number: round(number, 9)), min_size=1, max_size=40), st.booleans())
def test_a_vector_is_packed_as_python_rounds_its_numbers(numbers: list[float], narrow: bool) -> None:
    vector = array("f", numbers) if narrow else numbers
    scale = 127 / (max(*vector, -min(vector)) or 1.0)
    assert list(array("b", packed(vector))) == [round(number * scale) for number in vector]


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=40).filter(lambda row: math.hypot(*row) > 0.1))
def test_a_packed_vector_is_as_near_to_itself_as_makes_no_difference(numbers: list[float]) -> None:
    back = array("b", packed([number / math.hypot(*numbers) for number in numbers]))
    cosine = sum(a * b for a, b in zip(numbers, back, strict=True)) / math.hypot(*numbers) / math.hypot(*back)
    assert cosine > 0.999


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_a_matrix_holds_what_was_added_and_not_removed(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    matrix, held = Matrix(8), {}
    for _ in range(data.draw(st.integers(1, 8))):
        ids = data.draw(st.lists(st.integers(0, 30), unique=True, max_size=20))
        if data.draw(st.booleans()):
            new = {id_: packed(rng.standard_normal(8).tolist()) for id_ in ids}
            matrix.add(new.items())
            held |= new
        else:
            matrix.remove(ids)
            held = {id_: vector for id_, vector in held.items() if id_ not in ids}
    assert len(matrix) == len(held)
    query = rng.standard_normal(8)
    query /= np.linalg.norm(query)
    wanted = {
        id_: float(np.dot(row := np.frombuffer(v, np.int8).astype(float), query) / np.linalg.norm(row))
        for id_, v in held.items()
    }
    found = matrix.nearest(query.tolist(), 100, None)
    assert found == pytest.approx(wanted, abs=1e-4)
    assert matrix.nearest(query.tolist(), 100, {3, 5}).keys() == {3, 5} & held.keys()


def test_of_many_vectors_the_nearest_are_found_by_their_signs() -> None:
    rng = np.random.default_rng(4)
    topics = rng.standard_normal((400, 96))
    rows = topics[rng.integers(0, 400, 20_000)] + 0.8 * rng.standard_normal((20_000, 96)) + 0.5
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    matrix = Matrix(96)
    eighths = np.rint(rows * 127 / np.abs(rows).max(axis=1, keepdims=True)).astype(np.int8)
    matrix.add((place, vector.tobytes()) for place, vector in enumerate(eighths))
    for query in rows[:10]:
        nearest = set(np.argsort(-(rows @ query))[:20].tolist())
        assert len(nearest & matrix.nearest(query.tolist(), 60, None).keys()) >= 19


def test_vectors_that_no_chunk_needs_are_deleted_by_their_last_use_beyond_a_number(database: Database) -> None:
    store = VectorStore(database, most_unused=2)
    for number in range(5):
        store.keep(WHO, [(bytes([number]), packed([1.0, number]))], now=number)
    store.find(WHO, [b"\x00"], now=9)
    store.evict([WHO])
    assert store.find(WHO, [bytes([number]) for number in range(5)], now=10).keys() == {b"\x00", b"\x04"}


async def test_a_vector_of_a_note_is_never_deleted_and_one_of_a_text_that_left_is_if_none_may_be_kept(tmp_path: Path) -> None:
    noted(tmp_path)
    embedder = BagOfWords()
    memory = memory_of(tmp_path, embedder, settings=MemorySettings(cache=CacheSettings(enabled=False)))
    await memory.sync()
    before = (await memory.status()).cached_vectors
    (tmp_path / "ws/memory/0.md").unlink()
    await memory.sync()
    after = await memory.status()
    assert after.cached_vectors == after.chunks == after.vectors < before
    await memory.close()


async def test_a_text_that_comes_back_is_not_embedded_again(tmp_path: Path) -> None:
    noted(tmp_path)
    embedder = BagOfWords()
    memory = memory_of(tmp_path, embedder)
    await memory.sync()
    text, calls = (tmp_path / "ws/memory/1.md").read_text(), embedder.calls["passage"]
    (tmp_path / "ws/memory/1.md").unlink()
    await memory.sync()
    (tmp_path / "ws/memory/2b.md").write_text(text)
    await memory.sync()
    status = await memory.status()
    assert (embedder.calls["passage"], status.missing_vectors) == (calls, 0)
    await memory.close()


@pytest.mark.files
@pytest.mark.parametrize("kept_in", ["chunks_vec", "vectors_plain", "the cache alone"])
async def test_an_index_of_format_1_is_converted_and_nothing_is_embedded_again(tmp_path: Path, kept_in: str) -> None:
    noted(tmp_path)
    embedder = BagOfWords()
    memory = memory_of(tmp_path, embedder, settings=PASSAGES_ALONE)
    await memory.sync()
    before = (await memory.search("boiler of house 12", audience=OWNER)).hits
    await memory.close()
    as_format_1(tmp_path / "i.sqlite", embedder, kept_in)
    again, told = BagOfWords(), list[str]()
    memory = memory_of(tmp_path, again, tell=told.append, settings=PASSAGES_ALONE)
    answer = await memory.search("boiler of house 12", audience=OWNER)
    assert (answer.provider, answer.hits, told) == ("fake", before, [])
    await memory.sync()
    status = await memory.status()
    assert (again.calls["passage"], status.missing_vectors, status.generation) == (0, 0, 1)
    await memory.close()
    database = Database.open(tmp_path / "i.sqlite", VectorStoreSettings(), now=NOW)
    names = {name for (name,) in database.rows("SELECT name FROM sqlite_schema")}
    assert not names & {"embedding_cache", "chunks_vec", "vectors_plain"}
    assert database.one("PRAGMA freelist_count") == 0
    database.close()


def as_format_1(path: Path, embedder: BagOfWords, kept_in: str) -> None:
    """Turn an index file back into what version 0.9 wrote: vectors in a table of their own, and once more in the cache."""
    database = Database.open(path, VectorStoreSettings(), now=NOW)
    write = database.connection.execute
    write("CREATE TABLE vectors_plain (id INTEGER PRIMARY KEY, embedding BLOB NOT NULL)")
    write(
        "CREATE TABLE embedding_cache (provider TEXT, model TEXT, fingerprint TEXT, hash BLOB, vector BLOB, used INTEGER,"
        " UNIQUE (provider, model, fingerprint, hash))"
    )
    write(f"CREATE VIRTUAL TABLE chunks_vec USING vec0(id INTEGER PRIMARY KEY, embedding float[{embedder.dims}])")
    who = (embedder.provider, embedder.model, embedder.fingerprint)
    for id_, digest, text in list(database.rows("SELECT id, hash, header || char(10) || text FROM chunks")):
        floats = array("f", embedder.vector_of(text))
        if kept_in == "the cache alone":
            half = b"h" + np.array(floats, dtype="<f2").tobytes()
            write("INSERT OR IGNORE INTO embedding_cache VALUES (?, ?, ?, ?, ?, 1)", (*who, digest, half))
        else:
            write(f"INSERT INTO {kept_in} (id, embedding) VALUES (?, ?)", (id_, floats.tobytes()))  # noqa: S608 - names of ours
    live = json.loads(database.one("SELECT value FROM meta WHERE key = 'live'"))
    table = "chunks_vec" if kept_in == "the cache alone" else kept_in
    write("UPDATE meta SET value = ? WHERE key = 'live'", (json.dumps(live | {"table": table}),))
    write("UPDATE meta SET value = '1' WHERE key = 'format'")
    write("DROP TABLE vectors; DROP TABLE line_vectors; DROP TABLE embedders; DROP INDEX chunks_by_hash")
    database.close()


@pytest.mark.files
@pytest.mark.parametrize("parts", [AllowedFeatures(numpy=False), AllowedFeatures(sqlite_vec=False)])
async def test_both_ways_of_comparing_vectors_find_the_same(tmp_path: Path, parts: AllowedFeatures) -> None:
    noted(tmp_path)
    memory = memory_of(tmp_path, BagOfWords(), parts=parts)
    await memory.sync()
    recalled, _ = await memory.retrieve("boiler of house 12", audience=OWNER)
    memory.embedder = None
    await memory.close()
    other = memory_of(tmp_path, BagOfWords())
    await other.retrieve("boiler", audience=OWNER)
    wanted, _ = await other.retrieve("boiler of house 12", audience=OWNER)
    assert recalled.scan == ("vec0" if not parts.numpy else "numpy")
    assert [(c.id, pytest.approx(c.vector, abs=0.002)) for c in recalled.ranked] == [(c.id, c.vector) for c in wanted.ranked]
    await other.close()


@pytest.mark.files
async def test_the_log_of_the_index_is_folded_in_after_a_sync(tmp_path: Path) -> None:
    (tmp_path / "ws/memory").mkdir(parents=True)
    for number in range(200):
        (tmp_path / f"ws/memory/{number}.md").write_text(f"We walked to market {number} and bought bread\n" * 20)
    memory = memory_of(tmp_path, BagOfWords())
    await memory.sync()
    assert (tmp_path / "i.sqlite-wal").stat().st_size == 0
    await memory.close()
