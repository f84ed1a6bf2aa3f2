"""``homebody mcp``: the Model Context Protocol (MCP)."""

from __future__ import annotations

import click

from gateway.cli.mcp_serve import serve


@click.group()
def mcp() -> None:
    """Exchange tools with other programs by the Model Context Protocol (MCP)."""


mcp.add_command(serve)
