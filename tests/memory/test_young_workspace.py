"""The first days: templates that nobody has filled in, one or two notes, and questions that are to find those."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from agent.context.workspace_files import workspace_templates
from gateway.agents.memory_stores import template_lines
from gateway.base.clock import ManualClock
from memory.audience import OWNER
from memory.embedding.engines.bag_of_words import BagOfWords
from memory.settings import MemorySettings
from tests.memory.memory_engines import memory_at

if TYPE_CHECKING:
    from pathlib import Path

    from memory.embedding.protocol import Embedder
    from memory.workspace_memory import WorkspaceMemory

NOW = datetime(2026, 3, 18, 12, tzinfo=UTC)
NOTE = "# 2026-03-11\n\nDecided to use REST over GraphQL for the API, because Bob knows it.\n"
QUESTIONS = (
    "last decision about the API",
    "people who work on the API",
    "what are the facts about REST?",
    "REST preferences",
    "what did we decide about the API last week?",
)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    (folder / "memory").mkdir(parents=True)
    (folder / "MEMORY.md").write_text((workspace_templates() / "MEMORY.md").read_text())
    (folder / "memory/2026-03-11.md").write_text(NOTE)
    return folder


def opened(workspace: Path, embedder: Embedder | None = None) -> WorkspaceMemory:
    return memory_at(
        workspace,
        workspace.parent / "i.sqlite",
        MemorySettings(),
        agent="main",
        clock=ManualClock(NOW),
        embedder=embedder,
        template=template_lines(),
    )


@pytest.mark.parametrize("embedder", [None, BagOfWords()])
@pytest.mark.parametrize("filled", [False, True])
@pytest.mark.parametrize("question", QUESTIONS)
async def test_the_template_never_comes_before_what_was_noted(
    workspace: Path, question: str, embedder: Embedder | None, *, filled: bool
) -> None:
    if filled and "people" not in question:  # one fact among the headings of the template
        path = workspace / "MEMORY.md"
        path.write_text(path.read_text().replace("## People\n", "## People\n\n- Mia is our cat\n"))
    memory = opened(workspace, embedder)
    await memory.sync()
    hits = (await memory.search(question, audience=OWNER, min_score=0.35)).hits
    assert hits[0].path == "memory/2026-03-11.md"
    await memory.close()


async def test_a_fact_under_a_heading_of_the_template_is_found_by_both(workspace: Path) -> None:
    path = workspace / "MEMORY.md"
    path.write_text(path.read_text().replace("## People\n", "## People\n\n- Mia is our cat\n"))
    memory = opened(workspace)
    await memory.sync()
    for question in ("who is Mia?", "which people are there?"):
        assert (await memory.search(question, audience=OWNER)).hits[0].path == "MEMORY.md"
    await memory.close()


async def test_headings_alone_come_behind_a_note_that_says_it(workspace: Path) -> None:
    (workspace / "memory/empty.md").write_text("## API\n\n## REST\n")
    (workspace / "memory/plumber.md").write_text("# Call the plumber\n")
    memory = opened(workspace)
    await memory.sync()
    paths = [hit.path for hit in (await memory.search("the REST API", audience=OWNER)).hits]
    assert paths == ["memory/2026-03-11.md", "memory/empty.md"]
    assert [hit.path for hit in (await memory.search("when is the plumber due?", audience=OWNER)).hits] == ["memory/plumber.md"]
    await memory.close()


async def test_of_two_notes_that_answer_alike_neither_is_worth_nothing(workspace: Path) -> None:
    (workspace / "memory/one.md").write_text("The ferry to Texel leaves at nine\n")
    (workspace / "memory/two.md").write_text("The ferry from Texel leaves at ten, from the old harbour\n")
    for embedder in (None, BagOfWords()):
        memory = opened(workspace, embedder)
        await memory.sync()
        hits = (await memory.search("when does the ferry leave?", audience=OWNER, min_score=0.35)).hits
        assert {hit.path for hit in hits} == {"memory/one.md", "memory/two.md"}
        assert max(hit.score for hit in hits) <= 1.15
        await memory.close()
