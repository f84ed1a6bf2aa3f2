"""The owner's commands over the socket."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from channels.terminal import socket_path
from gateway.api.admin_socket import SOCKET, AdminServer, ask
from gateway.base.errors import HomebodyError, NoModel, StorageFailed, UsageError
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from gateway.api.admin_socket import Call


@asynccontextmanager
async def serving(state: Path, **calls: Call) -> AsyncIterator[None]:
    server = asyncio.create_task(AdminServer(state / SOCKET, calls).run())
    try:
        async with asyncio.timeout(PATIENCE):
            while not (state / SOCKET).exists():  # noqa: ASYNC110 (a file tells nobody)
                await asyncio.sleep(0)
        yield
    finally:
        server.cancel()
        await asyncio.gather(server, return_exceptions=True)


async def answer_to(state: Path, line: bytes) -> dict[str, Any]:
    """Send one line as it is and return what comes back."""
    reader, writer = await asyncio.open_unix_connection(socket_path.locate(state / SOCKET))
    writer.write(line)
    answer = json.loads(await reader.readline())
    writer.close()
    return answer


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
        failed = await answer_to(tmp_path, b'{"call": "lookup", "with": {"name": "host"}}\n')
        assert "not a call" not in failed["error"]
        for unknown in (b"no json", b"[]", b'{"call": "else"}', b'{"call": "lookup", "with": {"nobody": 1}}'):
            assert "not a call" in (await answer_to(tmp_path, unknown + b"\n"))["error"]
