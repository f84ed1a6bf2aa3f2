"""Builds what finds the skills of agents, and what owners are asked and told about them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from agent.tools.protocol import Act
from gateway.app.dependencies import Dependencies
from gateway.command_handlers.urgent_commands import FurtherCommand
from gateway.settings.root import SettingsStore
from gateway.skills.agent_skills import AgentSkills
from gateway.skills.catalog import SkillCatalog
from gateway.skills.skill_questions import SkillQuestions
from gateway.skills.trust import SkillTrust


class SkillParts:
    """The skills of all agents. Nothing is read before an agent is built. ``tell`` says a line to the owner."""

    def __init__(self, deps: Dependencies, settings: SettingsStore, tell: Callable[[str], None]) -> None:
        loop = asyncio.get_running_loop()
        self._questions = SkillQuestions(deps.paths.state, lambda text: loop.call_soon_threadsafe(tell, text))
        self._deps = deps
        self._settings = settings
        self._trust = SkillTrust(deps.paths.state)
        self._agents: dict[str, AgentSkills] = {}

    def of(self, agent: str) -> AgentSkills:
        """Return the skills of an agent, the same object each time."""
        if agent not in self._agents:
            catalog = SkillCatalog(agent, self._settings, self._deps.paths, self._trust, self._deps.env)
            self._agents[agent] = AgentSkills(catalog, self._settings, self._questions.tell_of_new)
        return self._agents[agent]

    def why_asked(self, agent: str, act: Act) -> str | None:
        """Return why a command is asked about whatever rules allow, because of a skill that is not approved; None for others."""
        return self.of(agent).why_asked(act)

    def commands(self) -> dict[str, FurtherCommand]:
        """Return slash commands that do not wait, by name."""
        from gateway.skills.skills_command import SkillsCommand

        return {"skills": SkillsCommand(lambda agent: self.of(agent).catalog).reply}
