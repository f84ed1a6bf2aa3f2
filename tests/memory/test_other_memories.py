"""A memory of another package in the place of ours: a house that is opened with one, and what is said where there is none."""

from __future__ import annotations

import sys
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from gateway.agents.memory_stores import keep_memory
from gateway.base.clock import SystemClock
from gateway.base.errors import UsageError
from gateway.base.paths import Paths
from gateway.settings.root import Settings
from memory.audience import OWNER
from memory.workspace_memory import WorkspaceMemory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from memory.protocol import KeptMemory

PACKAGE = '''
from memory.protocol import Excerpt, Hit, SearchAnswer


class OneLine:
    """Knows one thing."""

    def __init__(self, agent, workspace, settings):
        self.line = f"{agent} of {workspace.name}: {settings['line']}"
        self.told = []

    async def search(self, query, *, audience, max_results=None, min_score=None):
        hit = Hit(path="MEMORY.md", start_line=1, end_line=1, score=1.0, snippet=self.line)
        return SearchAnswer(hits=(hit,), provider="none", model="one-line")

    async def get(self, path, *, audience, from_line=1, lines=None):
        return Excerpt(path=path, text=self.line, start_line=1, end_line=1)

    async def writing(self, path):
        self.told.append(f"writing {path}")

    async def wrote(self, path, *, by=None):
        self.told.append(f"wrote {path}")

    def start(self):
        self.told.append("start")

    def session_began(self):
        self.told.append("session")

    async def close(self):
        self.told.append("close")


def make(*, agent, workspace, settings, clock, tell):
    return OneLine(agent, workspace, settings)
'''


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[None]:
    """An installed package that brings the memory ``one-line``."""
    site = tmp_path / "site"
    facts = site / "oneline-1.0.dist-info"
    facts.mkdir(parents=True)
    (site / "oneline.py").write_text(PACKAGE)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: oneline\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[homebody.memories]\none-line = oneline:make\n")
    sys.path.insert(0, str(site))
    yield
    sys.path.remove(str(site))
    sys.modules.pop("oneline", None)


def kept(tmp_path: Path, **plugins: Any) -> KeptMemory | None:
    settings = Settings.model_validate({"agents": {"defaults": {"workspace": str(tmp_path / "notes")}}, "plugins": plugins})
    paths = Paths(home=tmp_path / "home")
    return keep_memory(
        settings.agent("main"), settings, paths, env={}, clock=SystemClock(), random=Random(1), tell=lambda _: None
    )


async def test_a_package_fills_the_slot(installed: None, tmp_path: Path) -> None:
    memory = kept(tmp_path, slots={"memory": "one-line"}, memory={"one-line": {"line": "tea at four"}})
    assert memory is not None
    answer = await memory.search("tea", audience=OWNER)
    assert [hit.snippet for hit in answer.hits] == ["main of notes: tea at four"]


def test_a_memory_that_no_package_brings_is_named_with_what_there_is(installed: None, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"'two-lines'.*memory-core, none, one-line"):
        kept(tmp_path, slots={"memory": "two-lines"})


def test_ours_fills_the_slot_unless_it_is_to_stay_empty(tmp_path: Path) -> None:
    assert isinstance(kept(tmp_path), WorkspaceMemory)
    assert kept(tmp_path, slots={"memory": "none"}) is None
