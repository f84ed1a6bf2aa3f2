"""What the command line asks of MCP servers, as JSON values: of a gateway that runs, or without one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from agent.models.protocol import ToolSpec
from agent.models.token_estimate import Calibration, weight_of_tools
from gateway.mcp.offer import Offer, ToolOffer, texts_of
from gateway.mcp.servers import McpServers, Server
from gateway.mcp.tool_names import tool_name
from gateway.settings.root import Settings


class McpRequests:
    """Lists, shows, tests and approves servers. All answers are JSON values; errors are HomebodyErrors."""

    def __init__(self, servers: McpServers, settings: Callable[[], Settings]) -> None:
        self._servers = servers
        self._settings = settings

    def calls(self) -> dict[str, Callable[..., Awaitable[Any]]]:
        """The calls by name, for ``POST /admin/CALL``."""
        return {
            "mcp.list": self.list,
            "mcp.show": self.show,
            "mcp.test": self.test,
            "mcp.approve": self.approve,
            "mcp.forget": self.forget,
        }

    async def list(self) -> dict[str, Any]:
        """Return all servers of the settings, also those that are off."""
        settings = self._settings().mcp
        there = {server.name: server for server in self._servers}
        rows = [
            self._row(there[name]) if name in there else {"name": name, "enabled": False, "state": "off"}
            for name in sorted(settings.servers)
        ]
        return {"servers": rows, "toolBudgetTokens": settings.tool_budget_tokens}

    async def show(self, name: str) -> dict[str, Any]:
        """Return one server with its tools. Raises UsageError."""
        return self._whole(self._servers.get(name))

    async def test(self, name: str) -> dict[str, Any]:
        """Connect to a server, and return it with what it offers. Raises UsageError, McpError."""
        return self._whole(await self._servers.test(name))

    async def approve(self, name: str, digest: str = "") -> dict[str, Any]:
        """Approve what a server offered last. Raises UsageError."""
        server, text = self._servers.approve(name, digest)
        return {**self._whole(server), "approved": text}

    async def forget(self, name: str) -> dict[str, Any]:
        """Delete the pin of a server that was removed."""
        return {"name": name, "forgotten": self._servers.forget(name)}

    def _row(self, server: Server) -> dict[str, Any]:
        settings, pin = server.settings, server.pin
        return {
            "name": server.name,
            "enabled": True,
            **server.facts(),
            "where": settings.url or " ".join((settings.command or "", *settings.args)),
            "agents": list(settings.agents) or [self._settings().default_agent],
            "tokens": _tokens([(server.name, tool) for tool in server.tools]),
            "pinned": pin.at if pin is not None else None,
            "digest": pin.waiting.digest[:8] if pin is not None and pin.waiting is not None else "",
            "trustReadOnly": settings.trust_read_only,
            "sandbox": None if settings.url is not None else settings.sandbox,
            "network": settings.url is not None or settings.sandbox == "off" or settings.network,
            "readPaths": list(settings.read_paths),
            "writePaths": list(settings.write_paths),
        }

    def _whole(self, server: Server) -> dict[str, Any]:
        pin = server.pin
        offer, waiting = (pin.approved, pin.waiting) if pin is not None else (Offer(), None)
        usable = {tool.name for tool in server.tools}
        changed = pin.changed if pin is not None else frozenset()
        tools = [
            {**_tool_json(server.name, tool), "allowed": tool.name in usable, "changed": tool.name in changed}
            for tool in offer.tools
        ]
        fresh = [] if waiting is None or pin is None else [*pin.difference.added, *pin.difference.changed]
        return {
            **self._row(server),
            "title": (waiting or offer).title,
            "offers": tools,
            "resources": offer.resources,
            "prompts": offer.prompts,
            "leftOut": [{"tool": name, "why": why} for name, why in (waiting or offer).left_out],
            "waiting": [_tool_json(server.name, tool) for tool in (waiting.tools if waiting else ()) if tool.name in fresh],
        }


def _tool_json(server: str, tool: ToolOffer) -> dict[str, Any]:
    return {
        "tool": tool.name,
        "name": tool_name(server, tool.name),
        "description": tool.description,
        "arguments": tool.schema,
        "argumentTexts": list(texts_of(tool.schema)),
        "saysReadOnly": tool.read_only,
        "tokens": _tokens([(server, tool)]),
    }


def _tokens(tools: list[tuple[str, ToolOffer]]) -> int:
    specs = tuple(
        ToolSpec(name=tool_name(server, one.name), description=one.description, parameters=one.schema) for server, one in tools
    )
    return Calibration().apply(weight_of_tools(specs)) if specs else 0
