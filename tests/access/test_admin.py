"""The owner's commands over the socket."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from gateway.admin import SOCKET, AdminServer, ask
from gateway.errors import HomebodyError, NoModel, StorageFailed, UsageWrong
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("kind", [HomebodyError, UsageWrong, NoModel, StorageFailed])
async def test_an_error_keeps_its_exit_code_over_the_socket(tmp_path: Path, kind: type[HomebodyError]) -> None:
    async def fail() -> None:
        raise kind("it went wrong", where="here", mend="do this")

    server = asyncio.create_task(AdminServer(tmp_path / SOCKET, {"fail": fail}).run())
    async with asyncio.timeout(PATIENCE):
        while not (tmp_path / SOCKET).exists():  # noqa: ASYNC110 (a file tells nobody)
            await asyncio.sleep(0)
    with pytest.raises(HomebodyError) as caught:
        await ask(tmp_path, "fail")
    assert (caught.value.exit_code, caught.value.where, caught.value.mend) == (kind.exit_code, "here", "do this")
    server.cancel()
    await asyncio.gather(server, return_exceptions=True)


async def test_a_defect_in_a_call_is_not_told_as_an_unknown_call(tmp_path: Path) -> None:
    async def lookup(name: str) -> None:
        raise KeyError(name)

    server = AdminServer(tmp_path / SOCKET, {"lookup": lookup})
    failed = await server._answer(b'{"call": "lookup", "with": {"name": "host"}}\n')
    assert "not a call" not in failed["error"]
    for unknown in (b"no json", b"[]", b'{"call": "else"}', b'{"call": "lookup", "with": {"nobody": 1}}'):
        assert "not a call" in (await server._answer(unknown))["error"]
