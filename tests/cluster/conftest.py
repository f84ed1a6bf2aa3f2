from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests import postgres_server
from tests.cluster.pair import Pair

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def gateways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    found = Pair(tmp_path_factory.mktemp("pair"), postgres_server.server().url())
    found.furnish()
    found.start_all()
    yield found
    found.close_pages()
    found.end_all()
    import psycopg

    with psycopg.connect(found.url, autocommit=True) as admin:
        admin.execute(
            "DROP SCHEMA IF EXISTS homebody_held CASCADE; DROP SCHEMA IF EXISTS homebody CASCADE; DROP SCHEMA pgmq CASCADE"
        )


@pytest.fixture
def pair(gateways: Pair) -> Pair:
    """Two gateways that the tests share; they are started anew where the server was, by tests of other folders."""
    if gateways.server_starts != postgres_server.server().starts:
        gateways.end_all()
        gateways.start_all()
    return gateways
