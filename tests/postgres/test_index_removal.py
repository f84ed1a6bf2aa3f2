"""The search index of a removed agent leaves PostgreSQL with its conversations, and that of no other one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from gateway.base.clock import ManualClock
from gateway.base.paths import Paths
from gateway.settings.root import Settings
from gateway.storage.index_connections import index_in_postgres
from gateway.storage.index_removal import indexes_of, remove_indexes
from memory.audience import OWNER
from memory.embedding.engines.bag_of_words import BagOfWords
from memory.workspace_memory import WorkspaceMemory

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.postgres
TABLES = "chunk", "word_list", "line_waiting", "file", "vocabulary", "vector", "line_vectors", "generation", "agent"
NOTE = "\n".join(
    f"- {number} The boiler of the summer house was serviced by Otto, who came by bicycle from the village"
    for number in range(9)
)


async def test_the_index_of_a_removed_agent_is_deleted_and_no_other(url: str, tmp_path: Path) -> None:
    import psycopg

    settings = Settings.model_validate(
        {
            "storage": {"url": url},
            "agents": {
                "defaults": {"memorySearch": {"store": {"driver": "postgres"}}},
                "list": [{"id": "main"}, {"id": "work"}],
            },
        }
    )
    after = Settings.model_validate({"storage": {"url": url}, "agents": {"list": [{"id": "main"}]}})
    memories = {}
    for agent in ("main", "work"):
        (tmp_path / agent / "memory").mkdir(parents=True)
        (tmp_path / agent / "memory/house.md").write_text(NOTE)
        profile = settings.agent(agent)
        memories[agent] = WorkspaceMemory(
            *(tmp_path / agent, tmp_path / "i.sqlite", profile.memory),
            agent=agent,
            clock=ManualClock(datetime(2026, 3, 18, 12, tzinfo=UTC)),
            embedder=BagOfWords(),
            engine=index_in_postgres(profile, settings.storage),
        )
        await memories[agent].sync()

    def rows() -> list[int]:
        with psycopg.connect(url, autocommit=True) as db:
            db.execute("SET search_path TO homebody_memory")
            return [(db.execute(f"SELECT count(*) FROM {table}".encode()).fetchone() or (0,))[0] for table in TABLES]  # noqa: S608 - names

    both, paths = rows(), Paths(home=tmp_path)
    try:
        assert len(indexes_of(paths, after, "work")) == 1
        assert remove_indexes(paths, after, "work") == [
            f"postgresql://{url.partition('://')[2].partition('@')[0]}@" + where(url)
        ]
        assert (indexes_of(paths, after, "work"), rows()) == ([], [count // 2 for count in both])
        assert (await memories["main"].search("boiler", audience=OWNER)).hits
        await memories["work"].sync()  # a gateway that has it open makes it anew
        assert (rows(), bool((await memories["work"].search("boiler", audience=OWNER)).hits)) == (both, True)
    finally:
        for memory in memories.values():
            await memory.close()


def where(url: str) -> str:
    from psycopg.conninfo import conninfo_to_dict

    given = conninfo_to_dict(url)
    return f"{given['host']}/{given['dbname']} (schema homebody_memory)"
