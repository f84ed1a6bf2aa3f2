"""Takes tools that are no valid MCP out of a server's list, so that one broken tool does not cost all the others.

The SDK refuses the whole list otherwise. It stands between the transport and the session, and looks at answers alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse

from gateway.mcp.wrapped_stream import WrappedStream

Received = SessionMessage | Exception


class TolerantStream(WrappedStream):
    """Reads from ``stream`` and notes in ``left_out`` which tools were taken out, each with the reason."""

    def __init__(self, stream: Any, left_out: list[tuple[str, str]]) -> None:
        super().__init__(stream)
        self._left_out = left_out

    async def receive(self) -> Received:
        """Return the next message."""
        return self._cleaned(await self._stream.receive())

    async def __anext__(self) -> Received:
        """Return the next message."""
        return self._cleaned(await self._stream.__anext__())

    def _cleaned(self, received: Received) -> Received:
        message = received.message if isinstance(received, SessionMessage) else None
        tools = message.result.get("tools") if isinstance(message, JSONRPCResponse) else None
        if not isinstance(message, JSONRPCResponse) or not isinstance(tools, list):
            return received
        kept = []
        for tool in tools:
            why = _wrong(tool)
            if why:
                self._left_out.append((str(tool.get("name", "(no name)") if isinstance(tool, Mapping) else "(no name)"), why))
            else:
                kept.append(tool)
        message.result["tools"] = kept
        return received


def _wrong(tool: Any) -> str:
    """Say what is wrong with the form of a tool; "" if nothing."""
    if not isinstance(tool, Mapping):
        return "it is no JSON object"
    if not isinstance(tool.get("name"), str):
        return "it has no name"
    schema = tool.get("inputSchema")
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        return "its arguments are no JSON Schema of an object"
    if not all(isinstance(one, Mapping | bool) for one in (schema.get("properties") or {}).values()):
        return "a property of its arguments is no JSON Schema"
    return "its description is no text" if not isinstance(tool.get("description", ""), str | None) else ""
