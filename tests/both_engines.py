"""Runs tests of what is stored on each engine: files, and a schema in a real PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agent.transcript.transcript_file import TranscriptFile
from gateway.sessions.store import SOON, StoredSessions, sessions_in
from tests import postgres_server
from tests.ledger import engines

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from agent.timing import Clock
    from agent.transcript.stored_transcript import StoredTranscript

OPENERS = ("open_at", "transcript_at", "sessions_at")
"""A module that has one of these runs on both."""


def on_each(metafunc: pytest.Metafunc, at_once: Collection[str], *, openers: Collection[str] = OPENERS) -> None:
    """Run a test on both engines where its module opens by them; on PostgreSQL all but those ``at_once`` are long."""
    either = any(hasattr(metafunc.module, name) for name in openers)
    if either and not metafunc.definition.get_closest_marker("files") and "engine" in metafunc.fixturenames:
        marks = [] if metafunc.function.__name__ in at_once else [pytest.mark.long]
        on_postgres = pytest.param(engines.POSTGRES, marks=[pytest.mark.postgres, *marks])
        metafunc.parametrize("engine", [engines.SQLITE, on_postgres], indirect=True)


def storage_at(root: Path) -> dict[str, str]:
    """Return the section ``storage`` of the settings of a gateway whose state is below a folder."""
    if engines.Current.engine == engines.SQLITE:
        return {}
    return {"url": postgres_server.server().url(), "schemaName": engines.schema_of(root)}


def running_on(request: pytest.FixtureRequest, drop_all: Callable[[], None]) -> Iterator[str]:
    """Yield the engine on which a test runs, and have ``drop_all`` delete what it left in PostgreSQL.

    Without PostgreSQL on this machine its tests are skipped, and fail where CI is set.
    """
    engines.Current.engine = getattr(request, "param", engines.SQLITE)
    if engines.Current.engine == engines.POSTGRES:
        postgres_server.server()
    yield engines.Current.engine
    if engines.Current.engine == engines.POSTGRES:
        drop_all()
    engines.Current.engine = engines.SQLITE


@pytest.fixture(autouse=True)
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """The engine on which a test runs."""

    def drop_all() -> None:
        from tests.postgres import tables

        tables.drop_all()

    yield from running_on(request, drop_all)


def transcript_at(path: Path) -> StoredTranscript:
    """Return the transcript of a path, which stands for a session of the agent in its folder's schema."""
    if engines.Current.engine == engines.SQLITE:
        return TranscriptFile(path)
    from tests.postgres.tables import tables_at

    return tables_at(path.parent).transcripts.of(path.name.removesuffix(".jsonl"))


def sessions_at(folder: Path, clock: Clock, *, soon: float = SOON) -> StoredSessions:
    """Return the sessions of a folder, or of the schema that stands for it."""
    if engines.Current.engine == engines.SQLITE:
        return sessions_in(folder, clock, soon=soon)
    from tests.postgres.tables import tables_at

    return tables_at(folder).sessions(clock, soon)
