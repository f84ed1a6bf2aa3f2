from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests import postgres_server
from tests.cluster.pair import NAMES, Pair

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Two gateways that the tests of a module share; they would use CPU time to the end of all tests, or see their server stopped."""
    found = Pair(tmp_path_factory.mktemp("pair"), postgres_server.server().url())
    found.furnish()
    for name in NAMES:
        found.start(name)
    found.settle()
    yield found
    found.close_pages()
    for name in list(found.running):
        found.end(name)
    import psycopg

    with psycopg.connect(found.url, autocommit=True) as admin:
        admin.execute(
            "DROP SCHEMA IF EXISTS homebody_held CASCADE; DROP SCHEMA IF EXISTS homebody CASCADE; DROP SCHEMA pgmq CASCADE"
        )
