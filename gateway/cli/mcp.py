"""``homebody mcp``: the Model Context Protocol (MCP)."""

from __future__ import annotations

import click

from gateway.cli.mcp_serve import serve
from gateway.cli.mcp_servers import add, approve, list_, remove, show, test


@click.group()
def mcp() -> None:
    """Exchange tools with other programs by the Model Context Protocol (MCP)."""


for _command in (add, list_, show, test, approve, remove, serve):
    mcp.add_command(_command)
