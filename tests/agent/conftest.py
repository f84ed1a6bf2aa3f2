"""A conversation on a real workspace, a real transcript and a scripted model, with a clock that tests turn."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest

from agent.context.session_context import SessionContext
from agent.context.workspace_files import Workspace
from agent.loop.turn import Turn
from agent.messages import Text, UserMessage
from agent.models.scripted import ScriptedModel
from agent.settings import AgentSettings
from agent.tools.file_tool_context import FileToolContext
from agent.tools.files import file_tools
from agent.tools.toolbox import Toolbox
from agent.transcript.transcript import Transcript
from agent.transcript.transcript_file import TranscriptFile
from gateway.base.clock import TickingClock
from memory.audience import OWNER
from tests.both_engines import engine, on_each

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from agent.events import Event
    from agent.loop.turn import TurnResult

__all__ = ["engine"]
AT_ONCE = {"test_only_what_the_last_summary_keeps_is_held_in_memory"}
"""What `make test` runs on PostgreSQL, too."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests of stored transcripts on both engines."""
    on_each(metafunc, AT_ONCE)


class Room:
    """One agent's surroundings, and a way to talk in them."""

    def __init__(self, root: Path, model: ScriptedModel, settings: AgentSettings) -> None:
        self.clock = TickingClock(datetime(2026, 3, 1, 9, 30, tzinfo=UTC))
        self.root = root
        self.model = model
        self.settings = settings
        self.workspace = Workspace(root / "workspace")
        self.events: list[Event] = []
        self.conversation: SessionContext | None = None

    async def open(self) -> SessionContext:
        """Open the conversation, as a fresh process would."""
        self.conversation = SessionContext(
            agent="main",
            session="s-1",
            key="agent:main:main",
            audience=OWNER,
            private=True,
            settings=self.settings,
            model=self.model,
            toolbox=Toolbox(file_tools(FileToolContext(sandbox=self.workspace.sandbox))),
            workspace=self.workspace,
            transcript=await Transcript.load(TranscriptFile(self.root / "sessions" / "s-1.jsonl"), self.clock),
            zone=ZoneInfo("Europe/Berlin"),
            clock=self.clock,
        )
        return self.conversation

    def message(self, text: str) -> UserMessage:
        return UserMessage(content=(Text(text=text),), at=self.clock.now())

    async def say(self, text: str, turn: str = "t1", **extra: object) -> TurnResult:
        conversation = self.conversation or await self.open()
        return await Turn(context=conversation, id=turn, emit=self.events.append, **extra).run([self.message(text)])

    def note(self, day: str = "2026-03-01") -> str:
        path = self.workspace.root / "memory" / f"{day}.md"
        return path.read_text() if path.exists() else ""


@pytest.fixture
def room(tmp_path: Path) -> Callable[..., Room]:
    def make(*answers: object, window: int = 200_000, settings: dict[str, object] | None = None) -> Room:
        return Room(tmp_path, ScriptedModel(answers, window=window), AgentSettings.model_validate(settings or {}))

    return make
