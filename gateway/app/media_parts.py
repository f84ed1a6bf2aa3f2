"""Builds what makes text of recordings and pictures, and voice messages of answers."""

from __future__ import annotations

from collections.abc import Mapping

from agent.settings import AgentSettings
from gateway.agents.running_agent import RunningAgent
from gateway.app.dependencies import Dependencies
from gateway.budget.budget_guard import BudgetGuard
from gateway.media.outgoing import OutgoingFiles
from gateway.models.model_registry import ModelRegistry
from gateway.pictures.description import PictureDescriptions
from gateway.settings.root import SettingsStore
from gateway.voice.spoken_replies import SpokenReplies
from gateway.voice.transcription import Transcription


class MediaParts:
    """The parts that work on what people send besides text. Nothing is opened or asked until it is needed."""

    def __init__(
        self, deps: Dependencies, settings: SettingsStore, models: ModelRegistry, agents: Mapping[str, RunningAgent]
    ) -> None:
        self._deps = deps
        self._settings = settings
        self._models = models
        self._agents = agents
        self.transcription = Transcription(
            deps.paths.state / "transcripts",
            settings=lambda: settings.current.tools.media.audio,
            fetcher=deps.fetcher,
            clock=deps.clock,
            key=self._openai_key,
            guard=self._guard,
        )

        self.descriptions = PictureDescriptions(
            deps.paths.state / "pictures",
            models=models,
            clock=deps.clock,
            settings=self._agent_settings,
            guard=self._guard,
        )

    def spoken_replies(self, files: OutgoingFiles) -> SpokenReplies:
        """Return what speaks answers, and puts recordings among ``files``."""
        return SpokenReplies(
            files,
            settings=lambda: self._settings.current.messages.tts,
            fetcher=self._deps.fetcher,
            clock=self._deps.clock,
            key=self._openai_key,
            guard=self._guard,
        )

    def _openai_key(self, agent: str) -> str | None:
        return self._models.public_key("openai", agent)

    def _agent_settings(self, agent: str) -> AgentSettings | None:
        found = self._agents.get(agent)
        return None if found is None else found.profile.settings

    def _guard(self, agent: str) -> BudgetGuard | None:
        found = self._agents.get(agent)
        return None if found is None else found.budget_guard
