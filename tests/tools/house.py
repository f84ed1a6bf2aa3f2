"""An agent's file tools in a workspace, with something outside it that must never be seen or changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from agent.messages import ToolCall, ToolMessage
from agent.tools.file_tool_context import FileToolContext
from agent.tools.files import file_tools
from agent.tools.memory_tools import MemoryGet, MemorySearch
from agent.tools.protocol import MAX_CHARS, ToolContext
from agent.tools.toolbox import Toolbox
from agent.tools.workspace_sandbox import WorkspaceSandbox
from memory.audience import OWNER, Audience
from memory.errors import MemoryTrouble
from memory.protocol import Excerpt, Hit, SearchAnswer

if TYPE_CHECKING:
    from pathlib import Path

    from memory.protocol import Author

CANARY = "the vault opens with 7731"


@dataclass
class RecordingMemory:
    """A memory that answers what it is given and remembers what it was asked."""

    hits: tuple[Hit, ...] = ()
    nearest: tuple[Hit, ...] = ()
    note: str | None = None
    excerpt: Excerpt | None = None
    trouble: Exception | None = None
    asked: list[tuple[Any, ...]] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    announced: list[str] = field(default_factory=list)

    async def search(
        self, query: str, *, audience: Audience, max_results: int | None = None, min_score: float | None = None
    ) -> SearchAnswer:
        self.asked.append((query, audience, max_results, min_score))
        if self.trouble:
            raise self.trouble
        return SearchAnswer(hits=self.hits, provider="none", model="keyword", note=self.note, nearest=self.nearest)

    async def get(self, path: str, *, audience: Audience, from_line: int = 1, lines: int | None = None) -> Excerpt:
        self.asked.append((path, audience, from_line, lines))
        if self.trouble or self.excerpt is None:
            raise self.trouble or MemoryTrouble("nothing there")
        return self.excerpt

    async def writing(self, path: str) -> None:
        self.announced.append(path)

    async def wrote(self, path: str, *, by: Author | None = None) -> None:
        self.written.append(path)
        if self.trouble:
            raise self.trouble


class House:
    """A workspace, what lies beside it, and the tools of its agent."""

    def __init__(self, folder: Path, *, max_chars: int = MAX_CHARS) -> None:
        self.root = folder / "safe"
        self.outside = folder / "safevil"
        self.root.mkdir()
        self.outside.mkdir()
        (self.outside / "secret.md").write_text(CANARY)
        self.memory = RecordingMemory()
        self.desk = FileToolContext(sandbox=WorkspaceSandbox(self.root), memory=self.memory)
        tools = (*file_tools(self.desk), MemorySearch(self.memory), MemoryGet(self.memory))
        self.box = Toolbox(tools)
        self._max_chars = max_chars

    async def call(
        self, name: str, *, audience: Audience = OWNER, session: str = "s", approved: bool = False, **arguments: Any
    ) -> ToolMessage:
        scene = ToolContext(
            now=datetime(2026, 2, 3, 9, 0, tzinfo=UTC),
            session=session,
            turn="t",
            audience=audience,
            max_chars=self._max_chars,
            approved=approved,
        )
        return await self.box.run(ToolCall(id="c", name=name, arguments=arguments), scene)

    async def ok(self, name: str, **arguments: Any) -> str:
        answer = await self.call(name, **arguments)
        assert not answer.is_error, answer.text
        return answer.text

    async def refused(self, name: str, **arguments: Any) -> str:
        answer = await self.call(name, **arguments)
        assert answer.is_error, answer.text
        return answer.text

    def text(self, path: str) -> str:
        return (self.root / path).read_bytes().decode()

    def beyond(self) -> dict[str, bytes]:
        """Everything outside the workspace, by name."""
        return {str(path): path.read_bytes() for path in self.outside.rglob("*") if path.is_file()}
