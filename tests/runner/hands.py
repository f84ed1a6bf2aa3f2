"""An agent with the command tools, a real runner, and no confinement."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.messages import ToolCall, ToolMessage
from agent.tool_settings import ExecSettings
from agent.tools.exec import Exec
from agent.tools.process import ProcessTool
from agent.tools.protocol import ToolContext
from agent.tools.toolbox import Toolbox
from gateway.base.clock import SystemClock
from gateway.logs.redaction import Redactor
from gateway.runner.agent_commands import AgentCommands, AgentFacts
from gateway.runner.job_records import JobRecords
from gateway.runner.runner_client import Runner
from gateway.sandbox.protocol import Confined, Request, Standing
from memory.audience import OWNER
from tests.runner.commands import ENV

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from agent.tools.command_runner import JobState
    from agent.tools.command_taint import CommandTaint
    from gateway.sandbox.protocol import Access
    from memory.audience import Audience


class Unconfined:
    """Confines nothing."""

    def __init__(self) -> None:
        self.asked: list[Request] = []

    async def standing(self, agent: str, *, main: bool = True) -> Standing:
        return Standing(rung="off")

    async def confine(self, request: Request) -> Confined:
        self.asked.append(request)
        argv = request.argv if request.argv[0].startswith("/") else ("/usr/bin/env", *request.argv)
        return Confined(rung="off", argv=argv, env={**ENV, **request.env}, cwd=request.cwd)

    async def explain(self, agent: str) -> dict[str, Any]:
        return {}


class Confining(Unconfined):
    """Confines as it is told."""

    def __init__(self, how: Callable[[Request], Confined]) -> None:
        super().__init__()
        self._how = how

    async def confine(self, request: Request) -> Confined:
        self.asked.append(request)
        return self._how(request)


@dataclass
class Hands:
    """The tools, and what they do."""

    commands: AgentCommands
    runner: Runner
    sandbox: Unconfined
    ended: list[tuple[str, JobState]]
    shown: list[str] = field(default_factory=list)

    @property
    def root(self) -> Path:
        return Path(self.commands.workspace)

    @property
    def tools(self) -> tuple[Exec, ProcessTool]:
        return Exec(self.commands), ProcessTool(self.commands)

    def context(
        self, *, audience: Audience = OWNER, key: str = "agent:main:main", max_chars: int = 16_000, taint: tuple[str, ...] = ()
    ) -> ToolContext:
        now = datetime(2026, 2, 3, 9, 0, tzinfo=UTC)
        return ToolContext(
            now=now,
            session="s",
            turn="t",
            key=key,
            audience=audience,
            max_chars=max_chars,
            taint=frozenset(taint),
            progress=self.shown.append,
        )

    async def call(self, name: str, *, context: ToolContext | None = None, **arguments: Any) -> ToolMessage:
        call = ToolCall(id="c", name=name, arguments=arguments)
        return await Toolbox(self.tools).run(call, context or self.context())

    async def exec(self, command: str, **more: Any) -> ToolMessage:
        return await self.call("exec", command=command, **more)

    async def process(self, action: str, **more: Any) -> ToolMessage:
        return await self.call("process", action=action, **more)


@asynccontextmanager
async def hands(
    folder: Path,
    *,
    secrets: tuple[str, ...] = (),
    access: Access = "rw",
    settings: ExecSettings | None = None,
    ended: Callable[[str, JobState], None] | None = None,
    confine: Callable[[Request], Confined] | None = None,
    files: CommandTaint | None = None,
) -> AsyncIterator[Hands]:
    """Give an agent hands: its workspace and records lie in ``folder``, and outlive them."""
    clock, told = SystemClock(), []
    workspace = folder / "workspace"
    workspace.mkdir(exist_ok=True)
    runner, sandbox = Runner(clock), Unconfined() if confine is None else Confining(confine)
    facts = AgentFacts(id="main", workspace=workspace, settings=lambda: settings or ExecSettings(), access=lambda: access)
    commands = AgentCommands(
        facts,
        runner,
        sandbox,
        JobRecords(folder / "records"),
        clock=clock,
        redactor=Redactor(secrets),
        files=files,
        ended=ended or (lambda key, state: told.append((key, state))),
    )
    await commands.load()
    commands.report_lost()
    try:
        yield Hands(commands, runner, sandbox, told)
    finally:
        await runner.close()
        await commands.close()
