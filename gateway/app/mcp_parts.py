"""Builds what agents have of MCP servers, and what the owner asks about them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from agent.tools.provider import ToolProvider
from gateway.agents.running_agent import RunningAgent
from gateway.app.dependencies import Dependencies
from gateway.command_handlers.urgent_commands import FurtherCommand
from gateway.config.effective import alike
from gateway.mcp.filing import Files, OutputFiles
from gateway.mcp.mcp_command import McpCommand
from gateway.mcp.mcp_provider import AgentServers
from gateway.mcp.requests import McpRequests
from gateway.mcp.servers import McpServers
from gateway.settings.root import Settings, SettingsStore

log = logging.getLogger(__name__)


class McpParts:
    """The MCP servers of one gateway. ``tell`` says a line to the owner."""

    def __init__(
        self,
        deps: Dependencies,
        settings: SettingsStore,
        agents: Mapping[str, RunningAgent],
        tell: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._agents = agents
        self._pinning: set[asyncio.Task[None]] = set()
        self._serving = deps.serving
        self.servers = McpServers(settings.current.mcp, deps.paths.state, deps.clock, tell)
        settings.subscribe(self._changed)

    def providers(self, agent: str) -> Sequence[ToolProvider]:
        """Return the providers of an agent's tools; it is built anew when they are others."""
        return AgentServers(agent, self.servers, lambda: self._settings.current, lambda: self._files(agent)).providers()

    def calls(self) -> dict[str, Callable[..., Awaitable[Any]]]:
        """Return the calls of the command line, by name."""
        return McpRequests(self.servers, lambda: self._settings.current).calls()

    def commands(self) -> dict[str, FurtherCommand]:
        """Return slash commands that do not wait, by name."""
        return {"mcp": McpCommand(self.servers).reply}

    def facts(self) -> dict[str, Any]:
        """Return what ``homebody status`` says of each server, by name."""
        return {server.name: server.facts() for server in self.servers}

    def begin(self) -> None:
        """Ask servers of the settings that were never asked what they offer, in the background."""
        if self._serving and any(server.pin is None for server in self.servers):
            task = asyncio.get_running_loop().create_task(self.servers.pin_new())
            self._pinning.add(task)
            task.add_done_callback(self._pinning.discard)

    async def close(self) -> None:
        """End all servers; takes a few seconds at most."""
        for task in self._pinning:
            task.cancel()
        await self.servers.close()

    def _changed(self, former: Settings, settings: Settings) -> None:
        if not alike(former.mcp, settings.mcp) or former.default_agent != settings.default_agent:
            self.servers.adopt(settings.mcp)
            self.begin()

    def _files(self, agent: str) -> Files:
        workspace = self._agents[agent].workspace
        return OutputFiles(workspace.root, workspace.untrusted)
