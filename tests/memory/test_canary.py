"""Facts planted for each agent, group and peer, and everybody trying to get at everybody else's, by every tool."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

from agent.context.session_context import SessionContext
from agent.context.workspace_files import Workspace
from agent.messages import ToolCall
from agent.models.scripted import ScriptedModel
from agent.settings import AgentSettings
from agent.tools.apply_patch import ApplyPatch
from agent.tools.file_tool_context import FileToolContext
from agent.tools.files import file_tools
from agent.tools.memory_tools import MemoryGet, MemorySearch
from agent.tools.toolbox import Toolbox
from agent.transcript.transcript import Transcript
from agent.transcript.transcript_file import TranscriptFile
from gateway.base.clock import ManualClock
from memory.audience import OWNER, Audience
from memory.embedding.engines.bag_of_words import BagOfWords
from memory.settings import MemorySettings
from memory.workspace_memory import WorkspaceMemory
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

AGENTS = ("home", "work")
AUDIENCES = (
    OWNER,
    Audience("group", "family"),
    Audience("group", "club"),
    Audience("peer", "anna"),
    Audience("peer", "family"),
)
DAY = "2026-03-18"


@dataclass(frozen=True)
class Canary:
    """A fact in a daily note. The ``secret`` is in no question, so an answer that has it has the note."""

    agent: str
    audience: Audience
    secret: str

    @property
    def path(self) -> str:
        return f"{self.audience.folder}/{DAY}.md"

    @property
    def listed(self) -> str:
        return f"{self.audience.folder}/cage-{self.secret}.md"

    def open_to(self, agent: str, audience: Audience) -> bool:
        """The owner sees all notes of the agent, everybody else their own."""
        return agent == self.agent and audience in (OWNER, self.audience)


CANARIES = tuple(
    Canary(agent, audience, f"z{50_123 + 7 * n}q") for n, (agent, audience) in enumerate(itertools.product(AGENTS, AUDIENCES))
)


@dataclass
class Agent:
    """One agent, with the tools that a house gives it."""

    name: str
    workspace: Workspace
    memory: WorkspaceMemory
    toolbox: Toolbox
    clock: ManualClock

    async def conversation(self, audience: Audience, folder: Path) -> SessionContext:
        return SessionContext(
            agent=self.name,
            session="s",
            key=f"agent:{self.name}:s",
            audience=audience,
            private=audience == OWNER,
            settings=AgentSettings(),
            model=ScriptedModel(()),
            toolbox=self.toolbox,
            workspace=self.workspace,
            transcript=await Transcript.load(
                TranscriptFile(folder / f"{self.name}-{audience.kind}-{audience.key}.jsonl"), self.clock
            ),
            zone=ZoneInfo("UTC"),
            clock=self.clock,
        )

    async def run(self, conversation: SessionContext, tool: str, **arguments: Any) -> str:
        message = await self.toolbox.run(
            ToolCall(id="c", name=tool, arguments=arguments), conversation.tool_context("t"), max_chars=64_000
        )
        return message.text + str(message.details)


def plant(root: Path, canary: Canary) -> None:
    folder = root / canary.agent / "memory" / canary.audience.folder.relative_to("memory")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{DAY}.md").write_text(f"The canary sings at number {canary.secret} each morning\n")
    (folder / f"cage-{canary.secret}.md").write_text("the cage stands by the window\n")
    if canary.audience == OWNER:
        (root / canary.agent / "MEMORY.md").write_text(f"For good: the canary sings at number {canary.secret}\n")


@pytest.fixture
async def agents(tmp_path: Path) -> AsyncIterator[dict[str, Agent]]:
    for canary in CANARIES:
        plant(tmp_path, canary)
    for agent, audience in itertools.product(AGENTS, AUDIENCES[1:]):  # links that somebody laid to what is not theirs
        own = tmp_path / agent / audience.folder
        (own / "door.md").symlink_to(tmp_path / agent / "MEMORY.md")
        (own / "hatch").symlink_to(tmp_path / agent / "memory")
    clock = ManualClock(datetime(2026, 3, 18, 9, tzinfo=UTC))
    agents = {}
    for name in AGENTS:
        memory = WorkspaceMemory(
            tmp_path / name, tmp_path / "{agentId}.sqlite", MemorySettings(), agent=name, clock=clock, embedder=BagOfWords()
        )
        await memory.sync()
        workspace = Workspace(tmp_path / name)
        desk = FileToolContext(sandbox=workspace.sandbox, memory=memory)
        tools = (*file_tools(desk), ApplyPatch(desk), MemorySearch(memory), MemoryGet(memory))
        agents[name] = Agent(name, workspace, memory, Toolbox(tools), clock)
    yield agents
    for agent in agents.values():
        await agent.memory.close()


def notes_under(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.glob("*/memory/**/*.md")}


def ways(canary: Canary, root: Path, audience: Audience) -> Iterator[str]:
    """Names under which somebody might ask for the note."""
    up = "/".join([".."] * len(audience.folder.parts))
    for path in (canary.path, "MEMORY.md"):
        yield path
        yield path.upper()
        yield f"./{path}"
        yield f"memory/../{path}"
        yield f"{audience.folder}/{up}/{path}"
        yield f"../{canary.agent}/{path}"
        yield str(root / canary.agent / path)
    yield f"{audience.folder}/door.md"
    yield f"{audience.folder}/hatch/{canary.path.removeprefix('memory/')}"


async def attempts(agent: Agent, conversation: SessionContext, canary: Canary, root: Path) -> AsyncIterator[tuple[str, str]]:
    """Try to get at one note, and give what was tried with what came of it."""
    audience = conversation.audience
    for path in ways(canary, root, audience):
        yield f"get {path}", await agent.run(conversation, "memory_get", path=path)
        yield f"read {path}", await agent.run(conversation, "read", path=path)
        yield f"edit {path}", await agent.run(conversation, "edit", path=path, old="The dog", new="The cat")
    for folder in (str(canary.audience.folder), canary.path, f"../{canary.agent}"):
        yield f"grep {folder}", await agent.run(conversation, "grep", pattern="canary|sings|cage", path=folder)
        yield f"list {folder}", await agent.run(conversation, "list", path=folder, depth=8)
    patch = f"*** Begin Patch\n*** Update File: {canary.path}\n@@\n-The dog\n+The cat\n*** End Patch"
    yield "patch", await agent.run(conversation, "apply_patch", patch=patch)


async def sweeps(agent: Agent, conversation: SessionContext) -> AsyncIterator[tuple[str, str]]:
    """Look for everything at once."""
    for query in ("canary sings number", "at which number does the canary sing each morning?", "cage", DAY, "18 March 2026"):
        yield f"search {query}", await agent.run(conversation, "memory_search", query=query, maxResults=50, minScore=0)
    for folder in ("", "memory", f"{conversation.audience.folder}/hatch"):
        yield f"grep {folder}", await agent.run(conversation, "grep", pattern="CANARY|cage", path=folder, ignoreCase=True)
        yield f"list {folder}", await agent.run(conversation, "list", path=folder, depth=8)
    await conversation.prepare()
    yield "prompt", "".join(segment.text for segment in conversation.system())


@parametrize_some(2, "audience", AUDIENCES, ids=lambda a: f"{a.kind}-{a.key}")
@pytest.mark.parametrize("name", AGENTS)
async def test_no_tool_brings_what_belongs_to_another(
    agents: dict[str, Agent], tmp_path: Path, name: str, audience: Audience
) -> None:
    conversation = await agents[name].conversation(audience, tmp_path)
    closed = {canary.secret for canary in CANARIES if not canary.open_to(name, audience)}
    assert len(closed) == len(AGENTS) * len(AUDIENCES) - (len(AUDIENCES) if audience == OWNER else 1)
    async for what, told in sweeps(agents[name], conversation):
        assert not {secret for secret in closed if secret in told}, f"{what}: {told}"
    for canary in CANARIES:
        if canary.secret in closed:
            async for what, told in attempts(agents[name], conversation, canary, tmp_path):
                assert not {secret for secret in closed if secret in told}, f"{what}: {told}"


@parametrize_some(4, "canary", CANARIES, ids=lambda c: f"{c.agent}-{c.audience.kind}-{c.audience.key}")
async def test_everybody_gets_their_own_by_every_tool(agents: dict[str, Agent], tmp_path: Path, canary: Canary) -> None:
    agent = agents[canary.agent]
    conversation = await agent.conversation(canary.audience, tmp_path)
    assert canary.secret in await agent.run(conversation, "memory_search", query="canary sings number", maxResults=50)
    assert canary.secret in await agent.run(conversation, "memory_get", path=canary.path)
    assert canary.secret in await agent.run(conversation, "read", path=canary.path)
    assert canary.secret in await agent.run(conversation, "grep", pattern="canary")
    assert canary.secret in await agent.run(conversation, "list", depth=8)
    await conversation.prepare()
    assert canary.secret in "".join(segment.text for segment in conversation.system())


async def test_nobody_changes_or_learns_of_a_note_by_writing_over_it(agents: dict[str, Agent], tmp_path: Path) -> None:
    before = notes_under(tmp_path)
    for agent, audience in itertools.product(agents.values(), AUDIENCES[1:]):
        conversation = await agent.conversation(audience, tmp_path)
        for canary in CANARIES:
            if canary.audience != audience:
                there = await agent.run(conversation, "write", path=canary.path, content="mine now")
                absent = await agent.run(conversation, "write", path=canary.path.replace(DAY, "2020-01-01"), content="mine now")
                assert there.replace(DAY, "") == absent.replace("2020-01-01", "")
    assert notes_under(tmp_path) == before
