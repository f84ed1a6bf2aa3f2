"""The owner's commands to a running gateway: one JSON line in, one JSON line out, over a socket only the owner can open."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeAlias

from channels.terminal import socket_path
from gateway.base.errors import (
    AlreadyRunning,
    GatewayNotResponding,
    HomebodyError,
    NoModel,
    StorageFailed,
    UsageError,
    as_homebody_error,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

log = logging.getLogger(__name__)

Call: TypeAlias = "Callable[..., Awaitable[Any]]"
"""Takes keyword arguments and returns what JSON can carry."""
SOCKET = "admin.sock"
LONGEST_LINE = 4 * 1024 * 1024
_KINDS = {kind.exit_code: kind for kind in (UsageError, NoModel, AlreadyRunning, StorageFailed)}


class AdminServer:
    """Serves named calls until cancelled."""

    def __init__(self, path: Path, calls: Mapping[str, Call]) -> None:
        self._path = path
        self._calls = calls

    async def run(self) -> None:
        """Listen. Raises ChannelBroken when the socket cannot be made."""
        server = await asyncio.start_unix_server(self._serve, sock=socket_path.bind(self._path), limit=LONGEST_LINE)
        try:
            async with server:
                await server.serve_forever()
        finally:
            socket_path.clear(self._path)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            answer = await self._answer(await reader.readline())
            writer.write(json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
            await writer.drain()
        writer.close()

    async def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            asked = json.loads(line)
            call, given = self._calls[asked["call"]], asked.get("with", {})
            signature(call).bind(**given)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            return HomebodyError(f"not a call that this gateway knows: {error}", hint="Restart the gateway.").as_json()
        try:
            return {"result": await call(**given)}
        except HomebodyError as error:
            return error.as_json()
        except Exception as error:  # a defect must reach the one who asked, and the log, and no further
            known = as_homebody_error(error)
            if known is None:
                log.exception("an admin call failed")
            return (known or HomebodyError("the gateway failed over this", hint="Its log tells more.")).as_json()


async def ask(state: Path, call: str, **arguments: Any) -> Any:
    """Make a call to the gateway that holds ``state`` and return its result.

    Raises:
        GatewayNotResponding: nobody listens there.
        HomebodyError: the call failed; with the exit code that it had over there.
    """
    try:
        reader, writer = await asyncio.open_unix_connection(socket_path.locate(state / SOCKET), limit=LONGEST_LINE)
    except OSError as error:
        raise GatewayNotResponding(
            "the gateway does not answer", where=str(state), hint="Start it again: homebody gateway"
        ) from error
    try:
        writer.write(json.dumps({"call": call, "with": arguments}).encode() + b"\n")
        await writer.drain()
        line = await reader.readline()
    finally:
        writer.close()
    if not line:
        raise HomebodyError("the gateway closed the line without an answer", where=str(state), hint="Its log tells more.")
    answer = json.loads(line)
    if "error" in answer:
        kind = _KINDS.get(answer.get("exitCode"), HomebodyError)
        raise kind(answer["error"], where=answer.get("where", ""), hint=answer.get("mend", ""))
    return answer["result"]
