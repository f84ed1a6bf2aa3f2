"""One Synapse for all tests here. ``make matrix`` installs it and runs them; `make test` leaves them out."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from tests.matrix import synapse
from tests.matrix.middleman import Middleman

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


collect_ignore_glob = [] if os.environ.get("HOMEBODY_SYNAPSE") else ["test_*.py"]


@pytest.fixture(scope="session")
def homeserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[synapse.Synapse]:
    assert synapse.installed(), "Synapse is not installed: sh tests/matrix/install"
    server = synapse.Synapse(tmp_path_factory.mktemp("synapse"))
    asyncio.run(_opened(server))
    yield server
    asyncio.run(server.stop())


async def _opened(server: synapse.Synapse) -> None:
    await server.__aenter__()


@pytest.fixture
async def middleman(homeserver: synapse.Synapse) -> AsyncIterator[Middleman]:
    async with Middleman(homeserver.root) as made:
        yield made
