"""How the store goes about its work: short transactions, which let every other thread go on while they commit."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from gateway.base.clock import ManualClock
from memory.audience import OWNER
from memory.embedding.engines.bag_of_words import BagOfWords
from memory.settings import MemorySettings, VectorStoreSettings
from memory.store.sqlite.index_database import Database
from memory.workspace_memory import WorkspaceMemory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOW = datetime(2026, 3, 18, 12, tzinfo=UTC)
MOST_ROWS = 2_000
"""Chunks that one transaction may write: a search that comes in the middle waits for no more."""


@pytest.fixture
def opened() -> Iterator[list[apsw.Connection]]:
    """The connections to SQLite that are made during a test."""
    made: list[apsw.Connection] = []
    apsw.connection_hooks.append(made.append)
    yield made
    apsw.connection_hooks.remove(made.append)


async def test_indexing_commits_in_short_transactions_and_never_while_holding_the_interpreter(
    tmp_path: Path, opened: list[apsw.Connection]
) -> None:
    folder = tmp_path / "workspace/memory"
    folder.mkdir(parents=True)
    for number in range(60):
        (folder / f"{number}.md").write_text("".join(f"{number} {line} some words to fill the line\n" for line in range(1_000)))
    (folder / "long.md").write_text("".join(f"{line} some words to fill the line\n" for line in range(60_000)))
    memory = WorkspaceMemory(
        tmp_path / "workspace",
        tmp_path / "i.sqlite",
        MemorySettings(),
        agent="main",
        clock=ManualClock(NOW),
        embedder=BagOfWords(),
    )
    await memory.status()  # opens the file
    [connection] = [one for one in apsw.connections() if one in opened and one.filename]  # not what was in memory for a moment
    statements: list[str] = []
    rows: list[int] = []

    def seen(event: dict[str, Any]) -> None:
        sql = event["sql"].upper()
        statements.append(sql.split()[0])
        if sql.startswith("BEGIN"):
            rows.append(0)
        if sql.startswith(("INSERT INTO CHUNKS ", "INSERT INTO VECTORS ")):
            rows[-1] += 1

    connection.trace_v2(apsw.SQLITE_TRACE_STMT, seen)
    synced = await memory.sync()
    connection.trace_v2(0, None)
    assert synced.chunks > MOST_ROWS
    assert sum(rows) == 2 * synced.chunks
    assert max(rows) <= MOST_ROWS
    assert not {"SAVEPOINT", "RELEASE"} & set(statements)
    await memory.close()


def test_a_transaction_inside_another_is_undone_with_it(tmp_path: Path) -> None:
    database = Database.open(tmp_path / "i.sqlite", VectorStoreSettings(), now=NOW)
    before = database.one("SELECT count(*) FROM meta")

    def gone_wrong_at_last() -> None:
        with database.writing():
            with database.writing():
                database.connection.execute("INSERT INTO meta VALUES ('a', 'b')")
            raise ValueError("after all")

    with pytest.raises(ValueError, match="after all"):
        gone_wrong_at_last()
    assert database.one("SELECT count(*) FROM meta") == before
    assert not database.connection.in_transaction
    database.close()


@pytest.mark.files
@pytest.mark.parametrize(
    "other",
    [
        "CREATE TABLE files (x); CREATE TABLE chunks (a)",
        "CREATE TABLE files (generation, path, x)",
        "CREATE TABLE meta (name, value)",
        "CREATE VIEW vectors AS SELECT 1 AS id",
        "CREATE TABLE chunks_fts (header)",
    ],
)
async def test_an_index_of_another_layout_is_set_aside_and_rebuilt(tmp_path: Path, other: str) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace/MEMORY.md").write_text("The spare key is under the blue pot\n")
    file = tmp_path / "i.sqlite"
    connection = apsw.Connection(str(file))
    connection.execute(other)
    connection.close()
    told: list[str] = []
    memory = WorkspaceMemory(
        tmp_path / "workspace", file, MemorySettings(), agent="main", clock=ManualClock(NOW), tell=told.append
    )
    await memory.sync()
    assert (await memory.search("spare key", audience=OWNER)).hits
    await memory.close()
    assert "of another version" in told[0]
    assert "renamed to i.sqlite.broken-20260318T120000" in told[0]
    reopened = apsw.Connection(str(tmp_path / "i.sqlite.broken-20260318T120000"))
    assert reopened.execute("SELECT sql FROM sqlite_schema LIMIT 1").get.startswith("CREATE")
    reopened.close()


async def test_an_index_that_lost_a_column_is_rebuilt_and_another_of_ours_is_kept(tmp_path: Path) -> None:
    for dropped in (False, True):
        database = Database.open(tmp_path / "i.sqlite", VectorStoreSettings(), now=NOW)
        assert not database.notice
        if dropped:
            database.connection.execute("ALTER TABLE refusals DROP COLUMN reason")
        database.close()
    database = Database.open(tmp_path / "i.sqlite", VectorStoreSettings(), now=NOW)
    assert "other columns in refusals" in database.notice
    database.close()
