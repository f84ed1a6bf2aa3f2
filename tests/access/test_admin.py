"""The owner's commands over the socket."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from gateway.api.api_client import ask, connection
from gateway.api.routes.admin import admin_routes
from gateway.api.server import serve_unix
from gateway.api.unix_socket import SOCKET
from gateway.base.errors import GatewayNotResponding, HomebodyError, NoModel, StorageFailed, UsageError
from tests.http.broken_server import broken
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from gateway.api.routes.admin import Call


@asynccontextmanager
async def serving(state: Path, **calls: Call) -> AsyncIterator[None]:
    log, started = structlog.get_logger("gateway.api"), asyncio.Event()
    server = asyncio.create_task(serve_unix(admin_routes(calls, log), state / SOCKET, log=log, started=started.set))
    try:
        async with asyncio.timeout(PATIENCE):
            await started.wait()
        yield
    finally:
        server.cancel()
        await asyncio.gather(server, return_exceptions=True)


async def answer_to(state: Path, call: str, body: bytes) -> dict[str, Any]:
    """Send a body as it is and return what comes back."""
    async with connection(state / SOCKET) as client:
        return (await client.post(f"/admin/{call}", content=body)).json()


@pytest.mark.parametrize("kind", [HomebodyError, UsageError, NoModel, StorageFailed])
async def test_an_error_keeps_its_exit_code_over_the_socket(tmp_path: Path, kind: type[HomebodyError]) -> None:
    async def fail() -> None:
        raise kind("it went wrong", where="here", hint="do this")

    async with serving(tmp_path, fail=fail):
        with pytest.raises(HomebodyError) as caught:
            await ask(tmp_path, "fail")
    assert (caught.value.exit_code, caught.value.where, caught.value.hint) == (kind.exit_code, "here", "do this")


async def test_a_defect_in_a_call_is_not_told_as_an_unknown_call(tmp_path: Path) -> None:
    async def lookup(name: str) -> None:
        raise KeyError(name)

    async with serving(tmp_path, lookup=lookup):
        failed = await answer_to(tmp_path, "lookup", b'{"name": "host"}')
        assert "not a call" not in failed["error"]
        for call, body in (("lookup", b"no json"), ("lookup", b"[]"), ("else", b"{}"), ("lookup", b'{"nobody": 1}')):
            told = await answer_to(tmp_path, call, body)
            assert "not a call" in told["error"]
            assert told["mend"] == "Restart the gateway."


async def test_a_command_from_before_the_api_is_told_what_to_do(tmp_path: Path) -> None:
    async with serving(tmp_path):
        reader, writer = await asyncio.open_unix_connection(tmp_path / SOCKET)
        writer.write(b'{"call": "status", "with": {}}\n')
        told = json.loads(await reader.readline())
        writer.close()
    assert "newer than this command" in told["error"]
    assert told["mend"]


async def test_a_gateway_from_before_the_api_is_told_as_another_version(tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b'{"error": "not a call that this gateway knows", "mend": "Restart the gateway."}\n')
        writer.close()

    async with await asyncio.start_unix_server(answer, tmp_path / SOCKET):
        with pytest.raises(HomebodyError, match="of another version") as caught:
            await ask(tmp_path, "status")
    assert "homebody restart" in caught.value.hint
    assert not isinstance(caught.value, GatewayNotResponding)  # waiting for it would be in vain


async def test_a_gateway_that_breaks_over_a_call_is_not_told_as_another_version(tmp_path: Path) -> None:
    async with await asyncio.start_unix_server(broken, tmp_path / SOCKET):
        with pytest.raises(HomebodyError, match="could not answer this") as caught:
            await ask(tmp_path, "status")
    assert "homebody logs" in caught.value.hint


async def test_a_gateway_that_ends_without_an_answer_is_told_so(tmp_path: Path) -> None:
    async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.close()

    async with await asyncio.start_unix_server(leave, tmp_path / SOCKET):
        with pytest.raises(HomebodyError, match="without an answer"):
            await ask(tmp_path, "status")
    with pytest.raises(GatewayNotResponding, match="does not answer"):
        await ask(tmp_path, "status")
