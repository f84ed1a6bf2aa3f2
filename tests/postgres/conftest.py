"""A real PostgreSQL, with a database of its own for each test."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from tests import postgres_server

if TYPE_CHECKING:
    from collections.abc import Iterator

NUMBERS = itertools.count()


@pytest.fixture
def server() -> postgres_server.Server:
    return postgres_server.server()


@pytest.fixture
def database(server: postgres_server.Server) -> Iterator[str]:
    """The name of an empty database."""
    import psycopg

    name = f"test{next(NUMBERS)}"
    with psycopg.connect(server.url(), autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
    yield name
    with psycopg.connect(server.url(), autocommit=True) as admin:
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def url(server: postgres_server.Server, database: str) -> str:
    return server.url(database)
