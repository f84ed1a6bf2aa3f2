"""The command line's side of the API: requests to the gateway that runs, over its unix socket."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx

from gateway.api import unix_socket
from gateway.base.errors import AlreadyRunning, GatewayNotResponding, HomebodyError, NoModel, StorageFailed, UsageError

OTHER_VERSION = "the gateway that runs is of another version than this command, and does not understand it"
RESTART = "Stop the gateway and start it again: homebody gateway"
_KINDS = {kind.exit_code: kind for kind in (UsageError, NoModel, AlreadyRunning, StorageFailed)}


async def ask(state: Path, call: str, **arguments: Any) -> Any:
    """Make a call to the gateway that holds ``state`` and return its result. There is no time limit.

    Raises:
        GatewayNotResponding: nobody listens there.
        HomebodyError: the call failed; with the exit code that it had over there.
    """
    async with connection(state / unix_socket.SOCKET) as client:
        try:
            answer = await client.post(f"/admin/{call}", content=json.dumps(arguments).encode())
        except httpx.ConnectError as error:
            hint = "Start it again: homebody gateway"
            raise GatewayNotResponding("the gateway does not answer", where=str(state), hint=hint) from error
        except httpx.TransportError as error:
            if await is_other_version(state / unix_socket.SOCKET):
                raise HomebodyError(OTHER_VERSION, where=str(state), hint=RESTART) from error
            message = "the gateway closed the connection without an answer"
            raise HomebodyError(message, where=str(state), hint="Its log tells more.") from error
    told = answered(answer)
    if "result" in told:
        return told["result"]
    kind = _KINDS.get(told.get("exitCode", 0), HomebodyError)
    raise kind(str(told.get("error", OTHER_VERSION)), where=str(told.get("where", "")), hint=str(told.get("mend", RESTART)))


def connection(path: Path) -> httpx.AsyncClient:
    """Return a client of the unix socket wanted at ``path``. Each request has a connection of its own, so that none is stale."""
    real = str(unix_socket.locate(path))
    limits = httpx.Limits(max_keepalive_connections=0)
    transport = httpx.AsyncHTTPTransport(uds=real, verify=False, limits=limits)  # a unix socket has no certificates
    return httpx.AsyncClient(transport=transport, base_url="http://homebody", timeout=None, trust_env=False)  # noqa: S113 - a call takes what it takes


async def is_other_version(path: Path) -> bool:
    """Tell whether a gateway from before this API answers, which speaks JSON lines and not HTTP. To be asked after a failure."""
    try:
        reader, writer = await asyncio.open_unix_connection(unix_socket.locate(path))
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: homebody\r\nConnection: close\r\n\r\n")
        first = await reader.read(1)
        writer.close()
    except OSError:
        return False
    return first == b"{"


def answered(answer: httpx.Response) -> dict[str, Any]:
    """Return the JSON object of an answer; an empty one when it is something else."""
    try:
        told = answer.json()
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}
