"""Answers lines of a client that are no messages, as JSON-RPC wants it. The SDK drops them, and the client waits for ever."""

from __future__ import annotations

import json
from typing import Any

from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError

from gateway.mcp.wrapped_stream import WrappedStream


class AnsweredStream(WrappedStream):
    """Reads messages from ``stream``; what is none is answered on ``write`` and left out."""

    def __init__(self, stream: Any, write: Any) -> None:
        super().__init__(stream)
        self._write = write

    async def receive(self) -> SessionMessage:
        """Return the next message."""
        while True:
            received = await self._stream.receive()
            if isinstance(received, SessionMessage):
                return received
            if (answer := _answer(received)) is not None:
                await self._write.send(SessionMessage(answer))

    async def __anext__(self) -> SessionMessage:
        """Return the next message."""
        from anyio import EndOfStream

        try:
            return await self.receive()
        except EndOfStream:
            raise StopAsyncIteration from None


def _answer(error: Exception) -> JSONRPCError | None:
    """Return the answer to a line that the SDK could not read, None for an empty one."""
    from pydantic import ValidationError

    first: Any = error.errors()[0] if isinstance(error, ValidationError) else {"type": "json_invalid", "input": "?"}
    given = first["input"]
    if first["type"] == "json_invalid":
        if isinstance(given, str) and not given.strip():
            return None
        why = str(first.get("ctx", {}).get("error", "it cannot be read"))
        return _error(None, PARSE_ERROR, f"Parse error: a line must hold one JSON-RPC message: {why}")
    id_ = given.get("id") if isinstance(given, dict) else None
    named = id_ if isinstance(id_, (str, int)) and not isinstance(id_, bool) else None
    return _error(named, INVALID_REQUEST, f"Invalid Request: this is no JSON-RPC 2.0 message: {json.dumps(given)[:200]}")


def _error(id_: str | int | None, code: int, message: str) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=id_, error=ErrorData(code=code, message=message))
