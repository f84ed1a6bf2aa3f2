"""Notes in what the owner opened to everybody (``sharedPaths``): found by groups and guests, as long as it is open, and by nobody after."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from gateway.base.clock import ManualClock
from memory.audience import OWNER, SHARED, Audience
from memory.embedding.engines.bag_of_words import BagOfWords
from memory.errors import MemoryUnreadable
from memory.notes.sources import EVERYBODY, NoteSources
from memory.settings import MemorySettings, QuerySettings
from tests.memory.memory_engines import memory_at

if TYPE_CHECKING:
    from pathlib import Path

    from memory.workspace_memory import WorkspaceMemory

NOW = datetime(2026, 3, 18, 12, tzinfo=UTC)
FAMILY, ANNA = Audience("group", "family"), Audience("peer", "anna")
OTHERS = (FAMILY, ANNA)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    files = {
        "MEMORY.md": "- The password of the bank is rosebud\n",
        "memory/2026-03-17.md": "The password of the shed is begonia\n",
        "memory/peers/anna/2026-03-17.md": "Anna is allergic to walnuts\n",
        "shared/house.md": "# House\n\n- The password of the guest wifi is marigold\n- Bins go out on Tuesday\n",
        "shared/kitchen/2026-03-17.md": "Soup was made in the kitchen\n",
        "shared/.draft.md": "The password of the safe is hyacinth\n",
        "recipes/cake.md": "The cake takes six eggs\n",
        "plan.md": "The party is a surprise\n",
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def opened(workspace: Path, shared: tuple[str, ...] = SHARED, **others: Any) -> WorkspaceMemory:
    """Open the memory of a workspace; its index stays when it is opened again."""
    settings = others.pop("settings", MemorySettings())
    store = workspace.parent / "index.sqlite"
    return memory_at(workspace, store, settings, agent="main", clock=ManualClock(NOW), shared=shared, **others)


async def paths(memory: WorkspaceMemory, query: str, audience: Audience) -> list[str]:
    return [hit.path for hit in (await memory.search(query, audience=audience)).hits]


async def test_everybody_finds_and_reads_shared_notes_and_nobody_finds_more_than_that(workspace: Path) -> None:
    memory = opened(workspace)
    await memory.sync()
    for audience in OTHERS:
        assert await paths(memory, "password", audience) == ["shared/house.md"]
        assert "marigold" in (await memory.get("shared/house.md", audience=audience)).text
        assert await paths(memory, "cake eggs", audience) == []
        for hidden in ("MEMORY.md", "memory/2026-03-17.md", "shared/.draft.md", "recipes/cake.md", "plan.md"):
            with pytest.raises(MemoryUnreadable):
                await memory.get(hidden, audience=audience)
    assert await paths(memory, "walnuts", ANNA) == ["memory/peers/anna/2026-03-17.md"]
    assert await paths(memory, "walnuts", FAMILY) == []
    assert {"shared/house.md", "MEMORY.md"} <= set(await paths(memory, "password", OWNER))
    assert "hyacinth" not in str(await memory.search("password safe hyacinth", audience=OWNER))
    await memory.close()


async def test_shared_notes_are_found_by_meaning_and_by_day(workspace: Path) -> None:
    memory = opened(workspace, embedder=BagOfWords())
    await memory.sync()
    for audience in OTHERS:
        answer = await memory.search("guest wifi password", audience=audience)
        assert [hit.path for hit in answer.hits][:1] == ["shared/house.md"]
        assert answer.provider != "none"
        assert not {"MEMORY.md", "memory/2026-03-17.md"} & {hit.path for hit in answer.hits}
        assert "shared/kitchen/2026-03-17.md" in await paths(memory, "what happened yesterday?", audience)
        assert "shared/kitchen/2026-03-17.md" in await paths(memory, "what happened this month?", audience)
    await memory.close()


@pytest.mark.parametrize("ranking", ["fused", "reference"])
async def test_what_is_closed_again_is_found_by_nobody_else_at_once(workspace: Path, ranking: Any) -> None:
    settings = MemorySettings(extra_paths=("shared",), query=QuerySettings(ranking=ranking))
    memory = opened(workspace, settings=settings)
    await memory.sync()
    assert await paths(memory, "guest wifi", FAMILY) == ["shared/house.md"]
    await memory.close()
    memory = opened(workspace, (), settings=settings)
    assert await paths(memory, "guest wifi", FAMILY) == []
    await memory.sync()
    assert await paths(memory, "guest wifi", FAMILY) == []
    with pytest.raises(MemoryUnreadable):
        await memory.get("shared/house.md", audience=FAMILY)
    assert await paths(memory, "guest wifi", OWNER) == ["shared/house.md"]
    await memory.close()


async def test_notes_that_were_indexed_before_they_were_opened_are_found_after_the_next_sync(workspace: Path) -> None:
    settings = MemorySettings(extra_paths=("recipes",))
    memory = opened(workspace, settings=settings, embedder=BagOfWords())
    await memory.sync()
    assert "recipes/cake.md" not in await paths(memory, "cake eggs", ANNA)
    await memory.close()
    embedder = BagOfWords()
    memory = opened(workspace, ("recipes",), settings=settings, embedder=embedder)
    await memory.sync()
    assert (await paths(memory, "cake eggs", ANNA))[0] == "recipes/cake.md"
    assert embedder.calls["passage"] == 0
    assert "marigold" not in str(await memory.search("guest wifi marigold", audience=OWNER))
    await memory.close()


async def test_single_files_can_be_shared_and_the_whole_workspace_is_read_but_not_searched(workspace: Path) -> None:
    memory = opened(workspace, (".", "plan.md", "recipes", "recipes/cake.md"))
    await memory.sync()
    assert await paths(memory, "party surprise", FAMILY) == ["plan.md"]
    assert await paths(memory, "cake eggs", FAMILY) == ["recipes/cake.md"]
    assert await paths(memory, "guest wifi", FAMILY) == []
    await memory.close()


async def test_a_link_opens_nothing(workspace: Path, tmp_path: Path) -> None:
    secret = tmp_path / "elsewhere"
    secret.mkdir()
    (secret / "diary.md").write_text("The diary is about a walrus\n")
    (workspace / "open").symlink_to(secret)
    (workspace / "mine").symlink_to(workspace / "memory")
    memory = opened(workspace, ("open", "mine", "memory"))
    await memory.sync()
    for audience in OTHERS:
        assert await paths(memory, "walrus diary", audience) == []
        assert await paths(memory, "shed begonia", audience) == []
    await memory.close()


async def test_a_shared_note_is_taken_up_as_the_owner_writes_it_and_its_history_is_the_owners(workspace: Path) -> None:
    memory = opened(workspace)
    await memory.sync()
    await memory.writing("shared/house.md")
    (workspace / "shared/house.md").write_text("The guest wifi is now called nasturtium\n")
    await memory.wrote("shared/house.md")
    assert await paths(memory, "nasturtium", FAMILY) == ["shared/house.md"]
    assert await paths(memory, "marigold", FAMILY) == []
    assert "shared/house.md" in {version.path for version in await memory.history.log(audience=OWNER)}
    assert await memory.history.log(audience=FAMILY) == []
    await memory.close()


def test_folders_outside_of_the_workspace_are_nobodys_whatever_is_shared(tmp_path: Path) -> None:
    sources = NoteSources(tmp_path / "workspace", ("../vault",), shared=(".",))
    assert [sources.audience_of(path) for path in ("@vault/a.md", "notes/a.md", "MEMORY.md", "memory/a.md")] == [
        "",
        EVERYBODY,
        "",
        "",
    ]
    assert not sources.may_see(ANNA, "@vault/a.md")
    assert sources.may_see(OWNER, "@vault/a.md")
