"""Errors of MCP servers.

McpError
├── ServerFailed      it cannot be started or reached, broke off, or broke the protocol
├── CallRefused       it answered a request with an error
└── CallTimedOut      it did not answer in time
"""

from __future__ import annotations

from gateway.base.errors import HomebodyError


class McpError(HomebodyError):
    """An MCP server did not do what it was asked."""


class ServerFailed(McpError):
    """The server cannot be started or reached, broke off, or broke the protocol."""


class CallRefused(McpError):
    """The server answered a request with an error. The text is the server's own, and untrusted."""


class CallTimedOut(McpError):
    """The server did not answer a request in time."""
