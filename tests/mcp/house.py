"""MCP servers of the settings, and the tools that an agent gets of them, without a gateway around them."""

from __future__ import annotations

import contextlib
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agent.tools.protocol import Outcome, Tool, ToolContext
from agent.tools.untrusted_files import UntrustedFiles
from gateway.base.clock import SystemClock
from gateway.mcp.filing import OutputFiles
from gateway.mcp.mcp_provider import AgentServers
from gateway.mcp.servers import McpServers
from gateway.settings.root import Settings
from tests.peers.aimock import node_path

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / ".cache/peers/node_modules/@modelcontextprotocol"
ODD = Path(__file__).with_name("odd_server.py")
NOW = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)


def odd(mode: str, file: Path | None = None, **more: Any) -> dict[str, Any]:
    """Return the settings of a server that misbehaves so."""
    return {"command": sys.executable, "args": [str(ODD), mode, *([str(file)] if file else [])], **more}


def peer(name: str, *args: str, **more: Any) -> dict[str, Any]:
    """Return the settings of a server from npm. Skips where it is missing; fails instead where CI is set."""
    program, found = PEERS / name / "dist/index.js", node_path()
    if found is None or not program.exists():
        told = f"{name} is not installed: run tests/peers/install"
        pytest.fail(told) if os.environ.get("CI") else pytest.skip(told)
    return {"command": str(found), "args": [str(program), *args], **more}


class Servers:
    """The servers, what the owner was told, and the tools of the agent main."""

    def __init__(self, root: Path, servers: dict[str, dict[str, Any]], **mcp: Any) -> None:
        self.root = root
        self.told: list[str] = []
        self.settings = Settings.model_validate({"mcp": {"servers": servers, **mcp}})
        self.servers = McpServers(self.settings.mcp, root / "state", SystemClock(), self.told.append)
        self.untrusted = UntrustedFiles()
        (root / "workspace").mkdir(exist_ok=True)
        files = OutputFiles(root / "workspace", self.untrusted)
        self.agent = AgentServers("main", self.servers, lambda: self.settings, lambda: files)

    def tools(self) -> dict[str, Tool]:
        return {tool.spec.name: tool for provider in self.agent.providers() for tool in provider.tools()}

    async def call(self, name: str, arguments: dict[str, Any] | None = None, **context: Any) -> Outcome:
        scene = ToolContext(now=NOW, session="s", turn="t", **context)
        return await self.tools()[name].run(arguments or {}, scene)


@contextlib.asynccontextmanager
async def servers(root: Path, given: dict[str, dict[str, Any]], *, pin: bool = True, **mcp: Any) -> AsyncIterator[Servers]:
    """Open servers, ask what they offer where that is not known, and close them."""
    house = Servers(root, given, **mcp)
    try:
        if pin:
            await house.servers.pin_new()
        yield house
    finally:
        await house.servers.close()
