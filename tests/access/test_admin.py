"""The owner's commands over the socket."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import structlog
from starlette.responses import JSONResponse
from starlette.routing import Route

import gateway
from gateway.api.api_client import ask, connection
from gateway.api.routes.admin import admin_routes
from gateway.api.server import serve_unix
from gateway.api.unix_socket import SOCKET
from gateway.base.errors import GatewayNotResponding, HomebodyError, NoModel, OtherVersion, StorageFailed, UsageError
from gateway.base.paths import Paths
from gateway.base.state_lock import Holder, StateLock
from tests import programs
from tests.http.broken_server import broken
from tests.patience import PATIENCE

if TYPE_CHECKING:
    import subprocess
    from collections.abc import AsyncIterator

    from starlette.requests import Request

    from gateway.api.routes.admin import Call


ROOT = Path(gateway.__file__).resolve().parents[1]


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


async def beside_an_older_gateway(person: Path, *command: str, **calls: Call) -> subprocess.CompletedProcess[str]:
    """Run a command where a gateway that knows these calls alone holds the state."""
    paths = Paths(person / ".homebody")
    paths.prepare()
    lock = StateLock.acquire(paths.lock, Holder(pid=os.getpid(), socket=str(paths.state / SOCKET)))
    env = {"PATH": os.environ["PATH"], "HOME": str(person), "PYTHONPATH": str(ROOT)}
    line = [sys.executable, "-m", "gateway", *command]
    async with serving(paths.state, **calls):
        run = await asyncio.to_thread(programs.run, line, env=env, cwd=person, capture_output=True, text=True)
    lock.release()
    return run


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
        assert "another version" not in failed["error"]
        for call, body in (("lookup", b"no json"), ("lookup", b"[]"), ("else", b"{}"), ("lookup", b'{"nobody": 1}')):
            told = await answer_to(tmp_path, call, body)
            assert "the gateway that runs is of another version than this command" in told["error"]
            assert told["mend"] == "Start it again: homebody restart"
            assert "nobody" not in told["error"]


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


OLD = {
    "error": "not a call that this gateway knows: list: got an unexpected keyword argument 'brief'",
    "mend": "Restart the gateway.",
}


@pytest.mark.parametrize("running", ["2026.10.1", None])
async def test_what_an_older_gateway_does_not_know_is_told_without_its_inner_words(tmp_path: Path, running: str | None) -> None:
    async def older(request: Request) -> JSONResponse:
        known = request.url.path == "/admin/status" and running is not None
        return JSONResponse({"result": {"version": running}} if known else OLD, 200 if known else 404)

    log, started = structlog.get_logger("gateway.api"), asyncio.Event()
    routes = [Route("/admin/{call}", older, methods=["POST"])]
    server = asyncio.create_task(serve_unix(routes, tmp_path / SOCKET, log=log, started=started.set))
    await asyncio.wait_for(started.wait(), PATIENCE)
    with pytest.raises(OtherVersion) as caught:
        await ask(tmp_path, "list", brief=True)
    server.cancel()
    await asyncio.gather(server, return_exceptions=True)
    between = f"of version {running}, this command is of {version('homebody')}" if running else "of another version"
    assert f"the gateway that runs is {between}" in caught.value.message
    assert "brief" not in str(caught.value)
    assert caught.value.hint == "Start it again: homebody restart"


async def test_a_key_that_an_older_gateway_does_not_tell_is_no_bug(tmp_path: Path) -> None:
    async def status() -> dict[str, Any]:
        return {"agents": {"main": {}}}

    async with serving(tmp_path, status=status):
        told = await ask(tmp_path, "status")
    assert told == {"agents": {"main": {}}}
    assert (told.get("version"), "version" in told) == (None, False)
    for missing in (lambda: told["version"], lambda: told["agents"]["main"]["sessions"]):
        with pytest.raises(OtherVersion, match="its answer lacks") as caught:
            missing()
        assert caught.value.hint == "Start it again: homebody restart"


@pytest.mark.parametrize("command", [["backup", "create"], ["upgrade"], ["upgrade", "--rehearse"]])
async def test_what_an_older_gateway_cannot_copy_is_to_be_copied_while_none_runs(tmp_path: Path, command: list[str]) -> None:
    run = await beside_an_older_gateway(tmp_path, *command)
    assert run.returncode == 1, run.stdout
    assert "of another version than this command, and does not understand it, so that it cannot copy its ledger" in run.stderr
    for mend in ("homebody stop", "homebody start"):
        assert mend.removeprefix("homebody") in run.stderr
    assert "backup.ledger" not in run.stderr


async def test_the_status_of_an_older_gateway_is_told_as_such_and_not_as_a_bug(tmp_path: Path) -> None:
    async def status() -> dict[str, Any]:
        return {"agents": {}, "channels": []}

    run = await beside_an_older_gateway(tmp_path, "status", status=status)
    assert run.returncode == 1, run.stdout
    assert "of another version than this command, and its answer lacks what is shown here" in run.stderr
    assert "restart" in run.stderr
    assert "bug" not in run.stderr


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
    with pytest.raises(GatewayNotResponding, match="no gateway is running"):
        await ask(tmp_path, "status")
