"""Builds what agents have of MCP servers, and what the owner asks about them; without a server in the settings, when that is used."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from agent.tools.provider import ToolProvider
from gateway.agents.running_agent import RunningAgent
from gateway.api.handlers.late_calls import Calls, on_first_use
from gateway.app.dependencies import Dependencies
from gateway.command_handlers.urgent_commands import FurtherCommand
from gateway.routing.routed_message import RoutedMessage
from gateway.settings.root import Settings, SettingsStore

if TYPE_CHECKING:
    from channels.messages import Button
    from gateway.mcp.filing import Files
    from gateway.mcp.servers import McpServers

log = logging.getLogger(__name__)

_CALLS = tuple(f"mcp.{name}" for name in ("list", "show", "test", "approve", "forget"))


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
        self._deps = deps
        self._tell = tell
        settings.subscribe(self._changed)

    @cached_property
    def servers(self) -> McpServers:
        """The servers."""
        from gateway.mcp.servers import McpServers

        return McpServers(self._settings.current.mcp, self._deps.paths.state, self._deps.clock, self._tell)

    @property
    def _used(self) -> bool:
        return "servers" in self.__dict__ or bool(self._settings.current.mcp.servers)

    def providers(self, agent: str) -> Sequence[ToolProvider]:
        """Return the providers of an agent's tools; it is built anew when they are others."""
        if not self._used:
            return ()
        from gateway.mcp.mcp_provider import AgentServers

        return AgentServers(agent, self.servers, lambda: self._settings.current, lambda: self._files(agent)).providers()

    def calls(self) -> dict[str, Callable[..., Awaitable[Any]]]:
        """Return the calls of the command line, by name."""

        def made() -> Calls:
            from gateway.mcp.requests import McpRequests

            return McpRequests(self.servers, lambda: self._settings.current).calls()

        return on_first_use(_CALLS, made)

    def commands(self) -> dict[str, FurtherCommand]:
        """Return slash commands that do not wait, by name."""
        return {"mcp": self._reply}

    async def _reply(self, argument: str, message: RoutedMessage) -> tuple[str, Sequence[Button]]:
        from gateway.mcp.mcp_command import McpCommand

        return await McpCommand(self.servers).reply(argument, message)

    def facts(self) -> dict[str, Any]:
        """Return what ``homebody status`` says of each server, by name."""
        return {server.name: server.facts() for server in self.servers} if self._used else {}

    def begin(self) -> None:
        """Ask servers of the settings that were never asked what they offer, in the background."""
        if self._serving and self._used and any(server.pin is None for server in self.servers):
            task = asyncio.get_running_loop().create_task(self.servers.pin_new())
            self._pinning.add(task)
            task.add_done_callback(self._pinning.discard)

    async def close(self) -> None:
        """End all servers; takes a few seconds at most."""
        for task in self._pinning:
            task.cancel()
        if self._used:
            await self.servers.close()

    def _changed(self, former: Settings, settings: Settings) -> None:
        from gateway.config.effective import alike

        if not alike(former.mcp, settings.mcp) or former.default_agent != settings.default_agent:
            if self._used:
                self.servers.adopt(settings.mcp)
            self.begin()

    def _files(self, agent: str) -> Files:
        from gateway.mcp.filing import OutputFiles

        workspace = self._agents[agent].workspace
        return OutputFiles(workspace.root, workspace.untrusted)
