"""Builds what runs the commands of agents, and announces those that ended in the background."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from agent.context.workspace_files import Workspace
from agent.tools.command_runner import JobState
from agent.tools.command_taint import CommandTaint
from agent.tools.skill_files import SkillCommands
from channels.messages import ChatAddress
from gateway.agents.running_agent import RunningAgent
from gateway.app.dependencies import Dependencies
from gateway.base.errors import StorageFailed
from gateway.ledger.protocol import Ledger
from gateway.ledger.rows import NewOutbound
from gateway.routing.router import agent_of
from gateway.runner.agent_commands import AgentCommands, AgentFacts
from gateway.runner.job_records import JobRecords
from gateway.runner.runner_client import Runner
from gateway.sandbox.command_sandbox import CommandSandbox
from gateway.settings.root import AgentProfile, SettingsStore

log = logging.getLogger(__name__)

RECORDS = "commands"
"""Folder of an agent's records of commands."""


def announcement(state: JobState) -> tuple[str, str]:
    """Return what is said of the end of a background command in its chat, and to the model, which may be in another session by then.

    The model is not told the text of a command that was written while untrusted text was in view.
    """
    from agent.tools.exec import ending, shortened, where_all_is, without_its_words

    head, file = f"The background command {state.id}", where_all_is(state)
    people = f"{head} (`{shortened(state.command, 80)}`) has ended: {ending(state)}{file}"
    return people, people if not state.command_sources else f"{head} has ended: {ending(without_its_words(state))}{file}"


class CommandParts:
    """The runner, and the commands of every agent."""

    def __init__(
        self,
        deps: Dependencies,
        settings: SettingsStore,
        sandbox: CommandSandbox,
        ledger: Ledger,
        agents: Mapping[str, RunningAgent],
        *,
        skills: Callable[[str], SkillCommands] | None = None,
    ) -> None:
        self._skills = skills
        self.runner = Runner(deps.clock)
        self._deps = deps
        self._settings = settings
        self._sandbox = sandbox
        self._ledger = ledger
        self._agents = agents
        self._commands: dict[str, AgentCommands] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def of(
        self,
        profile: AgentProfile,
        workspace: Workspace,
        working: Callable[[str, str | None], None] = lambda _job, _key: None,
    ) -> AgentCommands:
        """Make the commands of an agent that is being built. Those of its predecessor are ended. ``working``: see ``AgentCommands``."""
        agent = profile.id

        def present() -> AgentProfile:
            """Its settings in force; those that it is built with while it is not among the agents yet."""
            current = self._settings.current
            return current.agent(agent) if agent in current.agent_ids else profile

        if (former := self._commands.pop(agent, None)) is not None:
            await former.close()
        made = AgentCommands(
            AgentFacts(
                id=agent,
                workspace=workspace.root,
                settings=lambda: present().exec,
                access=lambda: present().settings.sandbox.workspace_access,
            ),
            self.runner,
            self._sandbox,
            JobRecords(self._deps.paths.agent(agent) / RECORDS),
            clock=self._deps.clock,
            redactor=self._deps.outgoing.exact,
            ended=self._ended,
            files=CommandTaint(workspace.untrusted, workspace.root),
            skills=self._skills(agent) if self._skills is not None else None,
            working=working,
        )
        await made.load()
        self._commands[agent] = made
        return made

    def begin(self) -> None:
        """Announce what earlier processes left, once agents and their sessions are there."""
        for commands in self._commands.values():
            commands.report_lost()

    def stop(self, of: Callable[[str], bool]) -> int:
        """End the background commands of the sessions that ``of`` selects by their keys; return how many."""
        return sum(commands.stop_sessions(of) for commands in self._commands.values())

    async def close(self) -> None:
        """End every command. What is to be said of them is in the ledger afterwards."""
        await self.runner.close()
        for commands in self._commands.values():
            await commands.close()
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _ended(self, key: str, state: JobState) -> None:
        self._do(self._announce(key, state))

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _announce(self, key: str, state: JobState) -> None:
        """Say in the chat that a command ended, and tell the model with the next message; once, however often this is called."""
        from agent.tools.exec import ending

        place = self._place(key)
        if place is None:
            log.warning("no chat is known for the end of the command %s of %s: %s", state.id, key, ending(state))
            return
        what, text = map(self._deps.outgoing.text, announcement(state))
        message = NewOutbound(conversation=place, text=f"⚙️ {what}.", key=f"job-{state.id}-{int(state.started.timestamp()):x}")
        try:
            await self._ledger.context_events.announce(message, f"[{text}.]", agent=agent_of(key))
        except StorageFailed as error:
            log.warning("the end of the command %s could not be announced: %s", state.id, error)

    def _place(self, key: str) -> ChatAddress | None:
        agent = self._agents.get(agent_of(key))
        record = agent.store.get(key) if agent is not None else None
        try:
            return ChatAddress.parse(record.address) if record is not None and record.address else None
        except ValueError:
            return None
