"""The agents' memories, as `homebody doctor` asks a running gateway for them: the gateway alone opens its index files."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec.structs import asdict

from gateway.agents.running_agent import RunningAgent
from gateway.base.errors import UsageError, unknown_agent


class MemoryHandlers:
    """Shows and rebuilds the indexes of the agents. All answers are JSON values."""

    def __init__(self, agents: Mapping[str, RunningAgent]) -> None:
        self._agents = agents

    def calls(self) -> dict[str, Callable[..., Awaitable[dict[str, Any]]]]:
        """The calls by name, for ``POST /admin/CALL``."""
        return {"memory.status": self.status, "memory.sync": self.sync}

    async def status(self, agent: str, *, deep: bool = False) -> dict[str, Any]:
        """Return the state of an agent's index. ``deep`` asks its embedder for a vector. Raises UsageError: it has none of ours."""
        return asdict(await self._memory(agent).status(deep=deep))

    async def sync(self, agent: str) -> dict[str, Any]:
        """Index what changed, without vectors. Raises UsageError, MemoryTrouble."""
        return asdict(await self._memory(agent).sync(vectors=False))

    def _memory(self, agent: str) -> Any:
        found = self._agents.get(agent)
        if found is None:
            raise unknown_agent(agent, self._agents)
        if not hasattr(found.memory, "sync"):
            raise UsageError(
                f"the agent {agent} has no memory index of Homebody", hint="homebody config get plugins.slots.memory"
            )
        return found.memory
